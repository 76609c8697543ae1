"""Commands that change how answers are made, carry text in and out, and the keys, driven by a scripted engine."""

import json
from pathlib import Path
from typing import Any

import pytest
from racer_local.tui import start  # pyright: ignore[reportMissingImports]
from racer_local.tui.copying import code_blocks  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets.prose import Prose  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets.stats import StatsPanel  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets.tokens import STEP_MARK, TokenLines  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets.tree import StepTree  # pyright: ignore[reportMissingImports]

from racer_local import cli, locations
from racer_local.cli import program
from racer_local.errors import ModelError
from racer_local.tokens import Source
from tests.tui.chatting import SIZE, ask, chat, command, is_idle, prompt, ready, screen, send, wait_until
from tests.tui.scripted import Gate, ScriptedRacer, tree_of


class TestHow:
    async def test_set(self):
        racer = ScriptedRacer(["a"], ["b"])
        async with chat(racer).run_test(size=(80, 50)) as pilot:
            await send(pilot, "/set temperature 0.25")
            await send(pilot, "/set max_tokens 7")
            await ask(pilot, "hi")
            await send(pilot, "/set")
            await wait_until(pilot, lambda: "temperature 0.25" in screen(pilot))
            for wrong in ("/set tempo 1", "/set top_p 7", "/set top_k x", "/set seed", "/set max_tokens 0"):
                await send(pilot, wrong)
                await wait_until(pilot, lambda wrong=wrong: prompt(pilot).text == wrong)
                prompt(pilot).put("")
        assert racer.options[0]["sampling"].temperature == 0.25
        assert racer.options[0]["max_tokens"] == 7

    async def test_draft(self):
        racer = ScriptedRacer(["a"], ["b"], ["c"])
        async with chat(racer).run_test(size=SIZE) as pilot:
            for line, policy, budget in (
                ("/draft off", "off", None),
                ("/draft 12", "racer", 12),
                ("/draft on", "auto", None),
            ):
                await send(pilot, line)
                await ask(pilot, "hi")
                assert (racer.options[-1]["draft"].policy, racer.options[-1]["draft"].budget) == (policy, budget)
            for wrong in ("/draft 65", "/draft best"):
                await send(pilot, wrong)
                await wait_until(pilot, lambda wrong=wrong: prompt(pilot).text == wrong)
                prompt(pilot).put("")

    async def test_drafting_is_switched_in_the_middle_of_an_answer(self):
        gate = Gate()
        racer = ScriptedRacer(["a", gate, "b"])
        async with chat(racer).run_test(size=SIZE) as pilot:
            await send(pilot, "go")
            await wait_until(pilot, lambda: not is_idle(pilot))
            await pilot.press("f5")
            await wait_until(pilot, lambda: "drafting is off" in screen(pilot))
            assert racer.drafts_wanted is False
            await command(pilot, "/draft on")
            await wait_until(pilot, lambda: racer.drafts_wanted)
            gate.open()

    async def test_another_model(self):
        first, second = ScriptedRacer(["a"]), ScriptedRacer(["from the second"])
        second.model.description = "second 1B"
        app = chat(first, open_model=lambda name: lambda _progress: {"two": second}[name])
        async with app.run_test(size=SIZE) as pilot:
            await ask(pilot, "hi")
            await send(pilot, "/model")
            await wait_until(pilot, lambda: "llama 135M" in screen(pilot))
            await send(pilot, "/model two")
            await wait_until(pilot, lambda: "second 1B" in screen(pilot))
            assert first.closed
            await ask(pilot, "you?")
            await wait_until(pilot, lambda: "from the second" in screen(pilot))
        assert [m["content"] for m in second.asked[0]] == ["hi", "a", "you?"]

    async def test_a_recorded_run_is_of_one_model(self):
        async with chat(ScriptedRacer(["a"]), open_model=None).run_test(size=SIZE) as pilot:
            await ask(pilot, "hi")
            await send(pilot, "/model two")
            await wait_until(pilot, lambda: "a recorded run is of one model" in screen(pilot))

    @pytest.mark.parametrize("recorded", [True, False])
    def test_only_without_a_recording_the_model_can_be_changed(self, tmp_path, monkeypatch, recorded):
        model = tmp_path / "m.gguf"
        model.write_bytes(b"GGUF")
        given: dict[str, Any] = {}
        monkeypatch.setattr(start, "start", lambda _opener, **options: given.update(options) or 0)
        monkeypatch.setattr(program, "find_prompt", lambda _args: None)
        assert cli.main([str(model), *(["--record", str(tmp_path / "r.jsonl")] if recorded else [])]) == 0
        assert (given["loading"] is None) == recorded

    async def test_a_model_that_cannot_be_loaded_leaves_the_one_before(self):
        racers = [ScriptedRacer(["a"]), ScriptedRacer(["b"])]

        def broken(_name: str):
            def load(_progress: object) -> ScriptedRacer:
                raise ModelError("no good")

            return load

        app = chat(lambda _progress: racers.pop(0), open_model=broken)
        async with app.run_test(size=SIZE) as pilot:
            await ask(pilot, "hi")
            await send(pilot, "/model two")
            await wait_until(pilot, lambda: "no good" in screen(pilot))
            await ask(pilot, "still there?")
            await wait_until(pilot, lambda: screen(pilot).count("b") > 0)

    async def test_compare(self):
        racer = ScriptedRacer(
            [[("one", Source.LOGITS), (" two", Source.MODEL)]], [[("one", Source.MODEL), (" too", Source.MODEL)]]
        )
        found = lambda _racer, _prompt, a, b: (1, 0.034) if list(a) != list(b) else (0, 0.0)  # noqa: E731
        async with chat(racer, difference=found).run_test(size=SIZE) as pilot:
            await ask(pilot, "hi")
            await send(pilot, "/compare")
            await wait_until(pilot, lambda: "with drafting" in screen(pilot))
            assert "same text" in screen(pilot), "the script's tokens have equal ids"
        assert racer.options[1]["draft"] == "off"
        assert racer.options[1]["sampling"] == racer.options[0]["sampling"], "one seed"
        assert racer.options[1]["max_tokens"] == 2

    async def test_a_comparison_can_be_stopped(self):
        gate = Gate()
        async with chat(ScriptedRacer(["one"], ["o", gate])).run_test(size=SIZE) as pilot:
            await ask(pilot, "hi")
            await send(pilot, "/compare")
            await wait_until(pilot, lambda: not is_idle(pilot))
            await pilot.press("escape")
            await wait_until(pilot, lambda: "was stopped" in screen(pilot))
            await ready(pilot)


class TestText:
    CODE = "Do\n\n```python\na[0] = b\n```\n\nor\n\n```\nc\n```\n"

    def test_code_blocks(self):
        assert code_blocks(self.CODE) == ["a[0] = b\n", "c\n"]
        assert code_blocks("none") == []

    async def test_copy(self):
        async with chat(ScriptedRacer([self.CODE])).run_test(size=SIZE) as pilot:
            await ask(pilot, "how?")
            await send(pilot, "/copy 1")
            await wait_until(pilot, lambda: pilot.app.clipboard == "a[0] = b\n")
            assert (locations.cache_dir() / "copied.txt").read_text() == "a[0] = b\n"
            await send(pilot, "/copy")
            await wait_until(pilot, lambda: pilot.app.clipboard == self.CODE)
            await send(pilot, "/copy 3")
            await wait_until(pilot, lambda: "2 code blocks" in screen(pilot))

    async def test_read(self, tmp_path: Path):
        (tmp_path / "notes.txt").write_text("line [b]one\nline ```two\n")
        (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
        racer = ScriptedRacer(["ok"])
        async with chat(racer).run_test(size=SIZE) as pilot:
            await send(pilot, f"/read {tmp_path}/notes.txt")
            await wait_until(pilot, lambda: "notes.txt" in prompt(pilot).text)
            await pilot.press(*"sum", "enter")
            await wait_until(pilot, lambda: "ok" in screen(pilot))
            for wrong in ("/read", f"/read {tmp_path}", f"/read {tmp_path}/none", f"/read {tmp_path}/binary"):
                await send(pilot, wrong)
                await wait_until(pilot, lambda wrong=wrong: prompt(pilot).text == wrong)
                prompt(pilot).put("")
        assert racer.asked[0][0]["content"] == "~~~~ notes.txt\nline [b]one\nline ```two\n~~~~\nsum"

    async def test_export(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.chdir(tmp_path)
        async with chat(ScriptedRacer(["*it* is"]), system="Be.").run_test(size=SIZE) as pilot:
            await ask(pilot, "what?")
            await send(pilot, "/export md")
            await wait_until(pilot, lambda: list(tmp_path.glob("*.md")))
            await send(pilot, f"/export json {tmp_path}/talk.json")
            await wait_until(pilot, lambda: (tmp_path / "talk.json").exists())
            await send(pilot, "/export md")
            await wait_until(pilot, lambda: "there already" in screen(pilot))
            prompt(pilot).put("")
            await send(pilot, "/export pdf")
            await wait_until(pilot, lambda: "say how" in screen(pilot))
        (markdown,) = tmp_path.glob("*.md")
        assert "## You\n\nwhat?\n\n## Answer\n\n*it* is" in markdown.read_text()
        assert [m["role"] for m in json.loads((tmp_path / "talk.json").read_text())["messages"]] == [
            "system",
            "user",
            "assistant",
        ]

    async def test_a_message_that_begins_with_a_slash(self):
        racer = ScriptedRacer(["ok"], ["ok"])
        async with chat(racer).run_test(size=SIZE) as pilot:
            await ask(pilot, "//help is what?")
            await ask(pilot, "/usr/bin is what?")
        assert [m[-1]["content"] for m in racer.asked] == ["/help is what?", "/usr/bin is what?"]

    async def test_thoughts_are_folded(self):
        racer = ScriptedRacer(["<think>let me", " see</th", "ink>\n\nforty-two"], ["more thought</think>so"])
        async with chat(racer).run_test(size=SIZE) as pilot:
            await ask(pilot, "what?")
            assert "thought: 3 words" in screen(pilot)
            assert "let me" not in screen(pilot)
            assert "forty-two" in screen(pilot)
            await pilot.press("ctrl+t")
            await wait_until(pilot, lambda: "let me see" in screen(pilot))
            racer.prompt_end = "<assistant><think>\n"
            await ask(pilot, "and?")
            await wait_until(pilot, lambda: "more thought" in screen(pilot))
            assert "</think>" not in screen(pilot)


class TestKeys:
    async def test_history(self):
        async with chat(ScriptedRacer(["a"], ["b"])).run_test(size=SIZE) as pilot:
            await ask(pilot, "first")
            await ask(pilot, "second")
            await pilot.press("up")
            assert prompt(pilot).text == "second"
            await pilot.press("up")
            assert prompt(pilot).text == "first"
            await pilot.press("down", "down")
            assert prompt(pilot).text == ""
            await pilot.press(*"typed", "up")
            assert prompt(pilot).text == "typed", "what is being typed is left alone"

    async def test_completion_by_tab(self):
        async with chat(ScriptedRacer()).run_test(size=SIZE) as pilot:
            await ready(pilot)
            await pilot.press(*"/exp", "tab")
            await wait_until(pilot, lambda: prompt(pilot).text == "/export ")
            await pilot.press("m", "tab")
            await wait_until(pilot, lambda: prompt(pilot).text == "/export md")
            prompt(pilot).put("/s")
            await pilot.press("tab")
            await wait_until(pilot, lambda: "/system" in screen(pilot))

    async def test_panels_by_key_and_command(self):
        racer = ScriptedRacer(["a"])
        racer.tree, racer.path = tree_of((1, -1, Source.RETRIEVAL, 3)), (0,)
        async with chat(racer).run_test(size=(130, 40)) as pilot:
            await ask(pilot, "hi")
            for key, line, panel in (("f3", "/tree", StepTree), ("f4", "/stats", StatsPanel)):
                await pilot.press(key)
                await wait_until(pilot, lambda panel=panel: pilot.app.query_one(panel).display)
                await command(pilot, line)
                await wait_until(pilot, lambda panel=panel: not pilot.app.query_one(panel).display)

    async def test_on_a_narrow_screen_one_panel_makes_room_for_the_other(self):
        for width, both in ((100, False), (160, True)):
            async with chat(ScriptedRacer()).run_test(size=(width, 40)) as pilot:
                await ready(pilot)
                await pilot.press("f3", "f4")
                await wait_until(pilot, lambda: pilot.app.query_one(StatsPanel).display)
                assert pilot.app.query_one(StepTree).display is both

    @pytest.mark.parametrize(
        ("keys", "shown"), [((), "one two three"), (("f2",), f"one{STEP_MARK} two{STEP_MARK} three")]
    )
    async def test_text_is_selected_with_the_mouse_and_copied(self, keys: tuple[str, ...], shown: str):
        async with chat(ScriptedRacer(["one", " two", " three"])).run_test(size=SIZE) as pilot:
            await ask(pilot, "what?")
            await pilot.press(*keys)
            await wait_until(pilot, lambda: shown in screen(pilot))
            place = TokenLines if keys else Prose
            left = 0 if keys else 2
            await pilot.mouse_down(place, offset=(left, 0))
            await pilot.hover(place, offset=(left + 4, 0))
            await pilot.hover(place, offset=(left + 7, 0))
            await pilot.mouse_up(place, offset=(left + 7, 0))
            await pilot.press("ctrl+c")
            assert pilot.app.clipboard == shown[:8]
            await wait_until(pilot, lambda: "copied" in screen(pilot))

    async def test_a_thought_is_unfolded_by_the_mouse(self):
        async with chat(ScriptedRacer(["<think>deep</think>so"])).run_test(size=SIZE) as pilot:
            await ask(pilot, "what?")
            await pilot.click(".thought")
            await wait_until(pilot, lambda: "deep" in screen(pilot))
            await pilot.click(".thought")
            await wait_until(pilot, lambda: "deep" not in screen(pilot))
            await wait_until(pilot, lambda: pilot.app.query(".thought").first().size.height == 1)

    async def test_keys_of_the_users_own(self):
        app = chat(ScriptedRacer(["a"]))
        app.set_keymap({"stats": "f9"})
        async with app.run_test(size=SIZE) as pilot:
            await ready(pilot)
            await pilot.press("f9")
            await wait_until(pilot, lambda: pilot.app.query_one(StatsPanel).display)

    async def test_quit(self):
        app = chat(ScriptedRacer())
        async with app.run_test(size=SIZE) as pilot:
            await ready(pilot)
            await command(pilot, "/quit")
        assert app.return_code == 0
