"""What is typed, pasted and shown as it stands, and what goes wrong, driven by a scripted engine."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from racer_local.tui import app as tui_app  # pyright: ignore[reportMissingImports]
from racer_local.tui.app import ChatApp  # pyright: ignore[reportMissingImports]
from racer_local.tui.events import Ask  # pyright: ignore[reportMissingImports]
from racer_local.tui.session import Session  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets.answer import Answer  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets.transcript import Question  # pyright: ignore[reportMissingImports]
from textual import events

from racer_local import locations
from racer_local.draft_tree import ROOT
from racer_local.errors import DecodeError, ModelError
from racer_local.terminal_text import one_line, readable, token_text
from racer_local.tokens import Source
from tests.tui.chatting import SIZE, ask, chat, decoder, is_idle, prompt, ready, screen, send, wait_until
from tests.tui.scripted import Gate, ScriptedRacer, tree_of

BRACKETS = "a[0] = b[/x] [bold]c"


class TestTyping:
    async def test_keys_that_break_the_line(self):
        racer = ScriptedRacer(["fine"])
        async with chat(racer).run_test(size=SIZE) as pilot:
            await ready(pilot)
            await pilot.press("a", "ctrl+j", "b", "alt+enter", "c", "shift+enter", "d")
            assert prompt(pilot).text == "a\nb\nc\nd"
            await pilot.press("enter")
            await wait_until(pilot, lambda: racer.asked)
            assert prompt(pilot).text == ""
        assert racer.asked[0][0]["content"] == "a\nb\nc\nd"

    def test_escape_and_return_is_alt_enter(self):
        from textual._xterm_parser import XTermParser

        parser = XTermParser()
        assert [e.key for e in parser.feed("\x1b\r") if isinstance(e, events.Key)] == ["ctrl+j"]

    @pytest.mark.parametrize("line", ["a line of text\n", "word "])
    async def test_a_megabyte_is_pasted_and_sent(self, line: str):
        text = line * (1_000_000 // len(line))
        racer = ScriptedRacer(["fine"])
        async with chat(racer).run_test(size=SIZE) as pilot:
            await ready(pilot)
            prompt(pilot).post_message(events.Paste(text))
            await wait_until(pilot, lambda: len(prompt(pilot).text) == len(text), 30)
            await pilot.press("x")
            await pilot.resize_terminal(60, 15)
            await pilot.press("enter")
            await wait_until(pilot, lambda: racer.asked, 30)
            await wait_until(pilot, lambda: is_idle(pilot) and "fine" in screen(pilot), 60)
            await pilot.resize_terminal(*SIZE)
            await wait_until(pilot, lambda: "fine" in screen(pilot), 30)
        assert racer.asked[0][0]["content"] == f"{text}x"

    async def test_the_terminal_may_change_its_size_all_the_time(self):
        words = [f"word{i} " for i in range(400)]
        racer = ScriptedRacer(words)
        async with chat(racer).run_test(size=SIZE) as pilot:
            await send(pilot, "go")
            for width, height in ((60, 15), (20, 5), (200, 60), (1, 1), (110, 19), SIZE):
                await pilot.resize_terminal(width, height)
            await ready(pilot)
            await pilot.press("f2", "f3", "f4")
            for width, height in ((60, 15), (20, 5), (200, 60), (1, 1), (110, 19), SIZE):
                await pilot.resize_terminal(width, height)
            await pilot.press("f3", "f4", "f2")
            await wait_until(pilot, lambda: "word399" in screen(pilot))
            assert pilot.app.query_one(Answer).text == "".join(words)

    async def test_paste_never_sends(self):
        racer = ScriptedRacer()
        async with chat(racer).run_test(size=SIZE) as pilot:
            await ready(pilot)
            prompt(pilot).post_message(events.Paste("one\r\ntwo\rthree\x1b[31m\n"))
            await wait_until(pilot, lambda: prompt(pilot).text)
            assert prompt(pilot).text == "one\ntwo\nthree␛[31m\n"
            assert prompt(pilot).cursor_location == (3, 0)
            await pilot.press("backspace", "ctrl+z")
            assert prompt(pilot).text == "one\ntwo\nthree␛[31m\n"
        assert not racer.asked

    async def test_blank_text_is_not_sent(self):
        racer = ScriptedRacer()
        async with chat(racer).run_test(size=SIZE) as pilot:
            await ready(pilot)
            await pilot.press("space", "enter", "enter")
            assert is_idle(pilot)
        assert not racer.asked

    async def test_text_sent_while_an_answer_runs_stays(self):
        gate = Gate()
        racer = ScriptedRacer(["Half", gate], ["fine"])
        async with chat(racer).run_test(size=SIZE) as pilot:
            await send(pilot, "go")
            await pilot.press(*"next", "enter")
            await wait_until(pilot, lambda: "your text stays" in screen(pilot))
            assert prompt(pilot).text == "next"
            gate.open()
            await ready(pilot)
            assert prompt(pilot).text == "next"
            await pilot.press("enter")
            await wait_until(pilot, lambda: "fine" in screen(pilot))


class TestNothingIsMarkup:
    TABLE = f"\n\n| {BRACKETS} | b |\n|---|---|\n| [/q] | {BRACKETS} |\n\n<div>[/z]</div>\n\n[ref]: there\n"

    async def test_brackets_everywhere(self):
        racer = ScriptedRacer([BRACKETS, self.TABLE], pieces={0: b"[/p]"})
        racer.tree, racer.path = tree_of((0, ROOT, Source.LOGITS, 0)), ()
        racer.model.description, racer.mode["reason"] = "llama [/m]", "because [/r]"
        async with chat(racer).run_test(size=(120, 50)) as pilot:
            await ask(pilot, f"{BRACKETS} ?")
            for part in (f"{BRACKETS} ?", "[/q]", "<div>[/z]</div>", "[ref]: there", "llama [/m]", "because [/r]"):
                assert part in screen(pilot)
            assert screen(pilot).count(BRACKETS) == 4
            await pilot.press("f3", "f2")
            await wait_until(pilot, lambda: "[/p] logits" in screen(pilot))
            assert BRACKETS in screen(pilot)

    async def test_brackets_in_an_error(self):
        async with chat(ScriptedRacer([DecodeError("no [/e] room")])).run_test(size=SIZE) as pilot:
            await ask(pilot, "go")
            assert "no [/e] room" in screen(pilot)

    async def test_control_characters_are_drawn_not_obeyed(self):
        evil = "x\x1b[2Jy\x07z\x9b31m\u202ew\r\n\x0bv\u2028u\x85t"
        racer = ScriptedRacer([evil, "\n\nafter it"], pieces={0: evil.encode()})
        racer.tree, racer.path = tree_of((0, ROOT, Source.LOGITS, 0)), ()
        racer.model.description = f"llama{evil}"
        async with chat(racer).run_test(size=SIZE) as pilot:
            await ask(pilot, evil)
            shown = [screen(pilot)]
            await pilot.press("f2", "f3")
            await wait_until(pilot, lambda: "drafted" in screen(pilot))
            shown.append(screen(pilot))
        for text in shown:
            assert "x␛[2Jy␇z" in text
            assert "after it" in text
            assert not [c for c in text if c != "\n" and (ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c in "\u202e\u2028")]

    def test_text_helpers(self):
        assert readable("a\r\nb\u2029c\td") == "a\nb\nc\td"
        assert one_line("a\n  b\x1b") == "a b␛"
        assert token_text(b" \n\t\xff") == "␣↵⇥�"
        assert token_text(b"") == "(no text)"


class TestErrors:
    async def test_failure_without_an_answer_gives_the_prompt_back(self):
        racer = ScriptedRacer([DecodeError("it broke")], ["fine"])
        async with chat(racer).run_test(size=SIZE) as pilot:
            await send(pilot, "go")
            await wait_until(pilot, lambda: "it broke" in screen(pilot))
            await ready(pilot)
            assert prompt(pilot).text == "go"
            assert not pilot.app.query(Question)
            await pilot.press("enter")
            await wait_until(pilot, lambda: "fine" in screen(pilot))
            assert "it broke" in screen(pilot)
        assert racer.asked[1] == [{"role": "user", "content": "go"}]

    async def test_failure_in_an_answer_keeps_its_text(self):
        racer = ScriptedRacer(["Half an answer", ValueError("a fault")], ["fine"])
        async with chat(racer).run_test(size=SIZE) as pilot:
            await ask(pilot, "go")
            assert "Half an answer" in screen(pilot)
            assert "unexpected ValueError: a fault" in screen(pilot)
            assert prompt(pilot).text == ""
            await ask(pilot, "on")
        assert racer.asked[1][1]["content"] == "Half an answer"

    @pytest.mark.parametrize(("error", "code"), [(ModelError("no such file: x"), 3), (OSError("disk"), 1)])
    async def test_load_failure_leaves_with_its_code(self, error: Exception, code: int):
        gate = Gate()

        def fail(_progress: object) -> ScriptedRacer:
            gate.wait()
            raise error

        app = chat(fail)
        async with app.run_test(size=SIZE) as pilot:
            await pilot.press(*"typed")
            gate.open()
            await wait_until(pilot, lambda: app.last_words)
        assert app.return_code == code
        first, second = app.last_words.splitlines()
        assert first.startswith("racer-chat: ")
        assert str(error) in first
        assert second == "not sent: typed"

    def test_run_says_why_on_stderr(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
        def fail(_progress: object) -> Any:
            raise ModelError("no such file: x")

        headless = ChatApp.run
        monkeypatch.setattr(ChatApp, "run", lambda app: headless(app, headless=True))
        assert tui_app.run(fail, session=Session.begin(locations.sessions_dir(), "x"), options={}, title="x") == 3
        assert "racer-chat: no such file: x" in capsys.readouterr().err


class TestLoading:
    async def test_prompt_can_be_typed_while_the_model_loads(self):
        half, rest = Gate(), Gate()
        racer = ScriptedRacer(["fine"])

        def load(progress: Callable[[float], bool]) -> ScriptedRacer:
            assert progress(0.43)
            half.wait()
            assert progress(1.0)
            rest.wait()
            return racer

        app = chat(load)
        async with app.run_test(size=SIZE) as pilot:
            await wait_until(pilot, lambda: "loading scripted" in screen(pilot) and "43%" in screen(pilot))
            await pilot.press(*"early", "enter")
            await wait_until(pilot, lambda: "the model is loading; your text stays" in screen(pilot))
            half.open()
            await wait_until(pilot, lambda: "preparing" in screen(pilot))
            rest.open()
            await wait_until(pilot, lambda: "llama 135M Q4_1" in screen(pilot))
            assert prompt(pilot).text == "early"
            await pilot.press("enter")
            await wait_until(pilot, lambda: "fine" in screen(pilot))

    def test_leaving_gives_up_loading(self):
        begun, told = threading.Event(), []

        def load(progress: Callable[[float], bool]) -> ScriptedRacer:
            begun.set()
            while progress(0.5):
                time.sleep(0.01)
            told.append(True)
            raise ModelError("given up")

        engine = decoder(load)
        engine.start()
        begun.wait(5)
        assert engine.close(timeout=5)
        assert told

    def test_stop_before_the_answer_began_is_not_forgotten(self):
        begun = Gate()

        class Late(ScriptedRacer):
            def stream(self, prompt: Any, **options: Any) -> Any:
                begun.wait()
                return super().stream(prompt, **options)

        engine = decoder(lambda _progress: Late(["a", "b", "c"]))
        engine.start()
        engine.ask(Ask([{"role": "user", "content": "x"}], {}))
        engine.stop()
        begun.open()
        steps: list[Any] = []
        while not (steps and getattr(steps[-1], "finish_reason", None)):
            steps += engine.poll()
            time.sleep(0.01)
        assert steps[-1].finish_reason == "cancelled"
        assert engine.close(timeout=5)
