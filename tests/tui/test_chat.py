"""The chat driven by a scripted engine: answers, their tokens and drafts, stopping, the status line."""

from dataclasses import replace
from itertools import pairwise

import pytest
from racer_local.tui.draw_throttle import CALM_SHARE, PANELS_SHARE, DrawThrottle  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets.answer import Answer  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets.status import Status, StatusLine, lay_out  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets.tokens import (  # pyright: ignore[reportMissingImports]
    STEP_MARK,
    TokenLines,
    token_parts,
)
from racer_local.tui.widgets.transcript import Note, Question, Transcript  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets.tree import StepTree, tree_content  # pyright: ignore[reportMissingImports]

from racer_local.draft_tree import ROOT, DraftTree
from racer_local.stats import GenerationStats
from racer_local.tokens import Source, Token
from tests.tui.chatting import SIZE, STARTED, ask, chat, is_idle, prompt, ready, screen, send, wait_until
from tests.tui.scripted import Gate, ScriptedRacer, tree_of

BRACKETS = "a[0] = b[/x] [bold]c"


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
