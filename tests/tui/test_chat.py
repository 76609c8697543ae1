"""The terminal chat, driven by a scripted engine: what is on the screen, what the keys do, what is never lost."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from racer_local.tui import app as tui_app  # pyright: ignore[reportMissingImports]
from racer_local.tui.app import ChatApp  # pyright: ignore[reportMissingImports]
from racer_local.tui.draw_throttle import CALM_SHARE, PANELS_SHARE, DrawThrottle  # pyright: ignore[reportMissingImports]
from racer_local.tui.events import Ask  # pyright: ignore[reportMissingImports]
from racer_local.tui.session import Session  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets.answer import Answer  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets.status import Status, StatusLine, lay_out  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets.tokens import (  # pyright: ignore[reportMissingImports]
    STEP_MARK,
    TokenLines,
    token_parts,
)
from racer_local.tui.widgets.transcript import Note, Question, Transcript  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets.tree import StepTree, tree_content  # pyright: ignore[reportMissingImports]
from textual import events

from racer_local import locations
from racer_local.draft_tree import ROOT, DraftTree
from racer_local.errors import DecodeError, ModelError
from racer_local.stats import GenerationStats
from racer_local.terminal_text import one_line, readable, token_text
from racer_local.tokens import Source, Token
from tests.tui.chatting import SIZE, STARTED, ask, chat, decoder, is_idle, prompt, ready, screen, send, wait_until
from tests.tui.scripted import Gate, ScriptedRacer, tree_of

BRACKETS = "a[0] = b[/x] [bold]c"


@pytest.fixture(autouse=True)
def _quick_and_clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tests do not wait for a slow tick, and leave no decoding thread behind."""
    monkeypatch.setattr(tui_app, "TICK_S", 0.02)
    yield
    while STARTED:
        assert STARTED.pop().close(timeout=5)


class TestAnswer:
    async def test_text_streams_before_the_answer_is_done(self):
        gate = Gate()
        app = chat(ScriptedRacer(["Hello **wor", "ld**", gate, " and more"]))
        async with app.run_test(size=SIZE) as pilot:
            await send(pilot, "hi")
            await wait_until(pilot, lambda: "Hello world" in screen(pilot))
            assert "and more" not in screen(pilot)
            gate.open()
            await wait_until(pilot, lambda: "Hello world and more" in screen(pilot))
            assert "hi" in screen(pilot)

    async def test_two_turns_send_the_whole_conversation(self):
        racer = ScriptedRacer(["one"], ["two"])
        app = chat(racer, system="Be brief.", max_tokens=5)
        async with app.run_test(size=SIZE) as pilot:
            await ask(pilot, "first")
            await ask(pilot, "second")
        system = {"role": "system", "content": "Be brief."}
        first = [system, {"role": "user", "content": "first"}]
        assert racer.asked[0] == first
        assert racer.asked[1] == [
            *first,
            {"role": "assistant", "content": "one"},
            {"role": "user", "content": "second"},
        ]
        assert racer.options[0]["max_tokens"] == 5

    async def test_empty_answer_does_not_break_the_next_turn(self):
        racer = ScriptedRacer([], ["fine"])
        async with chat(racer).run_test(size=SIZE) as pilot:
            await ask(pilot, "first")
            assert "an empty answer" in screen(pilot)
            await ask(pilot, "second")
            assert "fine" in screen(pilot)
        assert [m["content"] for m in racer.asked[1]] == ["first", "", "second"]

    async def test_bound_is_told(self):
        async with chat(ScriptedRacer(["cut off", "=length"])).run_test(size=SIZE) as pilot:
            await ask(pilot, "go")
            assert "bound of tokens" in screen(pilot)

    async def test_options_of_the_chat_format_are_told_once(self):
        racer = ScriptedRacer(["a"])
        racer.notes.append("no chat template in the file")
        async with chat(racer).run_test(size=SIZE) as pilot:
            await ask(pilot, "go")
            assert screen(pilot).count("no chat template") == 1

    async def test_turns_that_are_left_out_are_told(self):
        racer = ScriptedRacer(["a"], ["b"], ["c"])
        async with chat(racer).run_test(size=SIZE) as pilot:
            await ask(pilot, "one")
            assert "left out" not in screen(pilot)
            racer.n_left_out = 1
            await ask(pilot, "two")
            assert screen(pilot).count("the oldest turn is left out") == 1
            racer.n_left_out = 2
            await ask(pilot, "three")
            assert screen(pilot).count("the oldest 2 turns are left out") == 1

    async def test_reader_who_scrolled_up_stays_there(self):
        gate, more = Gate(), Gate()
        long = "\n\n".join(f"line {i}" for i in range(40))
        racer = ScriptedRacer([long, gate, "\n\nthe end", more])
        async with chat(racer).run_test(size=SIZE) as pilot:
            transcript = pilot.app.query_one(Transcript)
            await send(pilot, "go")
            await wait_until(pilot, lambda: "line 39" in screen(pilot))
            await pilot.press("pageup", "pageup")
            await wait_until(pilot, lambda: "line 39" not in screen(pilot))
            await wait_until(pilot, lambda: transcript.scroll_y == transcript.scroll_target_y)
            place = transcript.scroll_y
            gate.open()
            answer = pilot.app.query_one(Answer)
            await wait_until(pilot, lambda: "the end" in answer.text)
            more.open()
            await ready(pilot)
            await pilot.pause(0.1)
            assert transcript.scroll_y == place


class TestTokens:
    SAID = (
        [("A", Source.MODEL)],
        [("b", Source.RETRIEVAL), ("c", Source.LOGITS), ("", Source.LOGITS), ("d[/x]\n", Source.MODEL)],
        [("e", Source.RETRIEVAL | Source.LOGITS), ("f", Source.LOGITS), ("g", Source.MODEL)],
    )

    async def test_sums_are_those_of_the_statistics(self):
        app = chat(ScriptedRacer(list(self.SAID)))
        async with app.run_test(size=SIZE) as pilot:
            await ask(pilot, "go")
            view = pilot.app.query_one(Answer).token_view
            stats = pilot.app.query_one(StatusLine).status.stats
            assert stats is not None
            assert (
                view.sums
                == stats.by_source
                == {
                    "model": 3,
                    "retrieval": 1,
                    "logits": 3,
                    "both": 1,
                }
            )
            assert len(view.tokens) == stats.predicted_n
            await pilot.press("f2")
            await wait_until(pilot, lambda: "8 tokens in 3 steps" in screen(pilot))
            assert "model 3 · retrieval 1 · logits 3 · both 1" in screen(pilot)
            assert f"A{STEP_MARK}bcd[/x]↵" in screen(pilot)
            assert f"{STEP_MARK}efg" in screen(pilot)
            await pilot.press("f2")
            await wait_until(pilot, lambda: "↵" not in screen(pilot))

    async def test_view_that_is_on_shows_the_next_answer_as_it_comes(self):
        gate = Gate()
        async with chat(ScriptedRacer(["one", gate, " two"])).run_test(size=SIZE) as pilot:
            await ready(pilot)
            await pilot.press("f2")
            await send(pilot, "go")
            await wait_until(pilot, lambda: "1 tokens in 1 steps" in screen(pilot))
            gate.open()
            await wait_until(pilot, lambda: f"one{STEP_MARK} two" in screen(pilot))

    async def test_markdown_catches_up_when_tokens_are_put_away(self):
        first, second = Gate(), Gate()
        racer = ScriptedRacer(["one", first, " **two**", second, " three"])
        async with chat(racer).run_test(size=SIZE) as pilot:
            await send(pilot, "go")
            await wait_until(pilot, lambda: "one" in screen(pilot))
            await pilot.press("f2")
            first.open()
            await wait_until(pilot, lambda: "**two**" in screen(pilot))
            await pilot.press("f2")
            await wait_until(pilot, lambda: "one two" in screen(pilot))
            await pilot.press("f2")
            second.open()
            await ready(pilot)
            await pilot.press("f2")
            await wait_until(pilot, lambda: "one two three" in screen(pilot))

    async def test_long_answers_are_drawn_whole(self):
        lines = [f"{i}\n" for i in range(320)]
        async with chat(ScriptedRacer(lines)).run_test(size=SIZE) as pilot:
            await ready(pilot)
            await pilot.press("f2")
            await ask(pilot, "go")
            shown = pilot.app.query_one(TokenLines).text.split("\n")
            assert [line.strip(f"{STEP_MARK}↵") for line in shown] == [x.strip() for x in lines]

    @pytest.mark.parametrize("theme", ["textual-dark", "textual-light", "nord"])
    async def test_marks_are_paler_than_tokens(self, theme: str):
        app = chat(ScriptedRacer(["a", "b"]))
        app.theme = theme
        async with app.run_test(size=SIZE) as pilot:
            await ready(pilot)
            await pilot.press("f2")
            await ask(pilot, "go")
            styles = {part.text: part.style for part in pilot.app.query_one(TokenLines).render_line(0)}
            colours = [styles[text].color.triplet for text in ("a", STEP_MARK)]
            ground = styles["a"].bgcolor.triplet
            token, mark = (sum(abs(x - y) for x, y in zip(colour, ground, strict=True)) for colour in colours)
            assert mark < 0.8 * token

    async def test_a_line_that_ends_within_a_token(self):
        async with chat(ScriptedRacer(["a\n  ", "b", "\n\n c"])).run_test(size=SIZE) as pilot:
            await ready(pilot)
            await pilot.press("f2")
            await ask(pilot, "go")
            assert pilot.app.query_one(TokenLines).text.split("\n") == ["a↵", f"  {STEP_MARK}b{STEP_MARK}↵", "↵", " c"]

    def test_sources_differ_without_colour(self):
        sources = (Source.MODEL, Source.RETRIEVAL, Source.LOGITS, Source.RETRIEVAL | Source.LOGITS)
        tokens = [Token(0, "x", source, 0, 0, 1) for source in sources]
        styles = [style for token in tokens for _, style in token_parts(token, 1)]
        attributes = {" ".join(word for word in style.split() if not word.startswith("$")) for style in styles}
        assert len(attributes) == len(sources)


class TestTree:
    TREE = tree_of(
        (0, ROOT, Source.LOGITS, 0),
        (1, ROOT, Source.RETRIEVAL, 4),
        (2, 1, Source.RETRIEVAL | Source.LOGITS, 5),
        (3, 1, Source.LOGITS, 0),
    )
    PIECES: dict[int, bytes] = {0: b" x[/b]", 1: b"\n\x1b[31m", 2: "é".encode()[:1], 3: b""}  # noqa: RUF012

    def test_accepted_bold_rejected_dim(self):
        self.TREE.p[1] = 0.5
        content = tree_content(self.TREE, (1, 2), self.PIECES.__getitem__)
        lines = content.split("\n")
        assert [line.plain for line in lines] == [
            "✓ ├ ↵␛[31m retrieval match 4 50%",
            "✓ │ ├ � both match 5",
            "  │ └ (no text) logits",
            "  └ ␣x[/b] logits",
        ]
        styles = [{str(span.style) for span in line.spans} & {"bold", "dim"} for line in lines]
        assert styles == [{"bold"}, {"bold"}, {"dim"}, {"dim"}]

    def test_a_long_path_is_not_indented(self):
        tree = tree_of(*((i, i - 1, Source.RETRIEVAL, 3) for i in range(40)))
        lines = tree_content(tree, (), lambda _: b"x").plain.split("\n")
        assert len(lines) == 40
        assert {len(line) - len(line.lstrip()) for line in lines} == {2}

    async def test_panel_shows_the_last_draft(self):
        racer = ScriptedRacer(["hello"], pieces=self.PIECES)
        racer.tree, racer.path = self.TREE, (1, 2)
        async with chat(racer).run_test(size=SIZE) as pilot:
            await ready(pilot)
            assert not pilot.app.query_one(StepTree).display
            await pilot.press("f3")
            await wait_until(pilot, lambda: "no draft yet · tree: ordinary attention" in screen(pilot))
            await ask(pilot, "go")
            await wait_until(pilot, lambda: "4 drafted, 2 accepted" in screen(pilot))
            assert "␣x[/b] logits" in screen(pilot)
            await pilot.press("f3")
            await wait_until(pilot, lambda: "drafted" not in screen(pilot))

    def test_empty_draft(self):
        assert tree_content(DraftTree.empty(), (), lambda _: b"").plain == ""


class TestStop:
    async def test_escape_keeps_the_text_for_the_next_turn(self):
        racer = ScriptedRacer(["Half an", " answer", Gate(), " never"], ["again"])
        async with chat(racer).run_test(size=SIZE) as pilot:
            await send(pilot, "go")
            await wait_until(pilot, lambda: "Half an answer" in screen(pilot))
            await pilot.press("escape")
            await ready(pilot)
            assert "Half an answer" in screen(pilot)
            assert "stopped" in screen(pilot)
            await ask(pilot, "on")
            assert "again" in screen(pilot)
        assert racer.asked[1][1] == {"role": "assistant", "content": "Half an answer"}

    async def test_stopped_before_any_text_gives_the_prompt_back(self):
        racer = ScriptedRacer([("prefill", 512, 2048), Gate()], ["fine"])
        async with chat(racer).run_test(size=SIZE) as pilot:
            await send(pilot, "a long one")
            await wait_until(pilot, lambda: "512/2048 25%" in screen(pilot))
            prompt(pilot).insert("typed meanwhile")
            await pilot.press("escape")
            await ready(pilot)
            assert prompt(pilot).text == "a long one\ntyped meanwhile"
            assert not pilot.app.query(Question)
            await pilot.press("enter")
            await wait_until(pilot, lambda: "fine" in screen(pilot))
        assert racer.asked[1] == [{"role": "user", "content": "a long one\ntyped meanwhile"}]

    async def test_first_ctrl_c_stops_second_leaves(self):
        racer = ScriptedRacer(["Half", Gate()])
        app = chat(racer)
        async with app.run_test(size=SIZE) as pilot:
            await send(pilot, "go")
            await wait_until(pilot, lambda: "Half" in screen(pilot))
            await pilot.press("ctrl+c")
            await ready(pilot)
            assert "Ctrl+C again leaves" in screen(pilot)
            assert app.controller.chat.turns[-1].answer == "Half"
            await pilot.press("ctrl+c")
        assert app.return_code == 130

    async def test_second_ctrl_c_leaves_after_a_prompt_came_back(self):
        app = chat(ScriptedRacer([Gate()]))
        async with app.run_test(size=SIZE) as pilot:
            await send(pilot, "go")
            await wait_until(pilot, lambda: not is_idle(pilot))
            await pilot.pause()
            await pilot.press("ctrl+c")
            await ready(pilot)
            await pilot.press("ctrl+c")
        assert app.return_code == 130

    async def test_typing_takes_ctrl_c_back(self):
        app = chat(ScriptedRacer())
        async with app.run_test(size=SIZE) as pilot:
            await ready(pilot)
            await pilot.press("ctrl+c", "x")
            await wait_until(pilot, lambda: "again leaves" not in screen(pilot))
            await pilot.press("ctrl+c")
            assert app.is_running
            await pilot.press("ctrl+c")
        assert app.return_code == 130

    async def test_ctrl_q_leaves_in_the_middle_of_an_answer(self):
        racer = ScriptedRacer(["Half", Gate()])
        app = chat(racer)
        async with app.run_test(size=SIZE) as pilot:
            await send(pilot, "go")
            await wait_until(pilot, lambda: "Half" in screen(pilot))
            await pilot.press("ctrl+q")
        assert app.return_code == 0
        assert STARTED[0].close(timeout=5)
        assert racer.closed


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


class TestPace:
    @pytest.mark.parametrize("share", [CALM_SHARE, PANELS_SHARE])
    def test_dear_draws_are_rare_and_never_more_than_two_seconds_apart(self, share):
        now, cpu = 0.0, 0.0
        pace = DrawThrottle(lambda: now, lambda: cpu)
        drawn: list[int] = []
        for cost, ticks in ((0.001, 1), (0.8 * share, 10), (9.0, 24)):
            drawn.clear()
            for tick in range(60):
                now += 0.084
                if pace.due(share):
                    drawn.append(tick)
                    cpu += cost
            assert {b - a for a, b in pairwise(drawn)} == {ticks}


class TestStatus:
    STATS = GenerationStats(prompt_tokens=1000, predicted_n=234, predicted_s=10, steps=100, plain_s=11.7, weighed_s=10)
    STATUS = Status(
        "t", "llama 256M Q4_1", "CPU", "racer tree", "ordinary attention", n_ctx=8192, progress=1.0, stats=STATS
    )

    def test_slower_than_plain_decoding_is_told_apart(self):
        def status(plain_s: float) -> Status:
            return replace(self.STATUS, stats=GenerationStats(weighed_s=10, plain_s=plain_s))

        assert status(9.9).is_slow
        assert not status(9.96).is_slow, "it reads 1.00"
        assert not replace(self.STATUS, stats=None).is_slow

    def test_one_line_of_eighty_columns(self):
        assert lay_out(self.STATUS, 78) == [
            "llama 256M Q4_1  CPU  racer tree  23.4 tok/s  2.34 tok/step  1.17×  1234/8192"
        ]

    def test_narrow_screens_take_a_second_line(self):
        lines = lay_out(self.STATUS, 58)
        assert len(lines) == 2
        assert all(len(line) <= 58 for line in lines)

    def test_a_limiting_reason_is_never_left_out(self):
        status = Status("t", "llama", "CPU", "racer chain", "one path only", limited=True, n_ctx=64, progress=1.0)
        assert any("one path only" in line for line in lay_out(status, 40))
        assert "—×" in lay_out(status, 200)[0]

    @pytest.mark.parametrize("size", [(60, 15), (20, 8), (120, 30)])
    async def test_sizes(self, size: tuple[int, int]):
        racer = ScriptedRacer(["Hello there"])
        racer.tree, racer.path = tree_of((0, ROOT, Source.LOGITS, 0)), (0,)
        async with chat(racer).run_test(size=size) as pilot:
            await ask(pilot, "hi")
            if size[0] >= 60:
                await pilot.press("f3")
                await wait_until(pilot, lambda: "t0 logits" in screen(pilot))
                assert "Hello there" in screen(pilot)
                assert "llama 135M Q4_1" in screen(pilot)
                assert "10/2048" in screen(pilot) or "11/2048" in screen(pilot)
                assert "F2 token" in screen(pilot)

    async def test_note_of_a_load_is_shown(self):
        racer = ScriptedRacer()
        racer.notes.append("no chat template")
        async with chat(racer).run_test(size=SIZE) as pilot:
            await wait_until(pilot, lambda: pilot.app.query(Note))
