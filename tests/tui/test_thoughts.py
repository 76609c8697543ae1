"""Thoughts in the chat: folded however they are marked, while they come, resumed, regenerated and gone on with."""

from collections.abc import Sequence
from random import Random

import pytest
from racer_local.tui.app import ChatApp  # pyright: ignore[reportMissingImports]
from racer_local.tui.conversation import read  # pyright: ignore[reportMissingImports]
from racer_local.tui.session import Session  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets.answer import Answer  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets.prose import Prose  # pyright: ignore[reportMissingImports]
from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.selection import SELECT_ALL
from textual.widget import Widget
from textual.widgets import Static

from racer_local import locations
from racer_local.answers import Step
from racer_local.draft_tree import DraftTree
from racer_local.errors import DecodeError
from racer_local.stats import GenerationStats
from racer_local.thoughts import FORMATS, THINK, ThoughtFormat, ThoughtSplitter
from racer_local.tokens import Source, Token
from tests.tui.chatting import SIZE, ask, chat, kept, screen, wait_until
from tests.tui.scripted import ScriptedRacer


def racer_of(known: ThoughtFormat, *answers: Sequence[str | Exception], opens: bool = False) -> ScriptedRacer:
    """A model that marks its thoughts so; its prompts may begin them."""
    racer = ScriptedRacer(*answers)
    racer.thoughts = known
    racer.prompt_end = f"<assistant>{known.opens}" if opens else ""
    return racer


def again() -> ChatApp:
    """The chat in a new start, with the conversation from before."""
    return chat(ScriptedRacer(), session=Session.resume(locations.sessions_dir(), kept().stem))


def marked(known: ThoughtFormat) -> str:
    """A thought and an answer."""
    said = "<|start|>assistant<|channel|>final<|message|>" if known.has_channels else known.answer_opens
    return f"{known.opens}deep in it{known.closes}{said}forty-two{known.answer_closes}"


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.name)
async def test_every_format_is_folded_now_and_in_a_new_start(known: ThoughtFormat):
    text = marked(known)
    async with chat(racer_of(known, [text[i : i + 3] for i in range(0, len(text), 3)])).run_test(size=SIZE) as pilot:
        await ask(pilot, "what?")
        shown = screen(pilot)
        assert "▸ thought: 3 words" in shown
        assert "forty-two" in shown
        assert not any(mark.strip() in shown for mark in (*known.marks, "deep", "analysis", "final"))
    assert read(kept()).turns[0].answer == text
    assert read(kept()).turns[0].split() == ("deep in it", "forty-two")
    async with again().run_test(size=SIZE) as pilot:
        await wait_until(pilot, lambda: "▸ thought: 3 words" in screen(pilot))
        assert "deep" not in screen(pilot)


async def test_marks_of_other_formats_are_text():
    async with chat(ScriptedRacer(["<reasoning>so</reasoning>"])).run_test(size=SIZE) as pilot:
        await ask(pilot, "what?")
        assert "<reasoning>so</reasoning>" in screen(pilot)


async def test_a_thought_that_the_prompt_has_begun_is_known_in_a_new_start():
    racer = racer_of(THINK, ["deep in it\n</think>\n\nforty-two"], ["cut in middle", "=length"], opens=True)
    async with chat(racer).run_test(size=SIZE) as pilot:
        await ask(pilot, "what?")
        await ask(pilot, "and then?")
        assert screen(pilot).count("3 words") == 2
    async with again().run_test(size=SIZE) as pilot:
        await wait_until(pilot, lambda: screen(pilot).count("3 words") == 2)
        shown = screen(pilot)
        assert "forty-two" in shown
        assert not any(part in shown for part in ("deep", "</think>", "middle"))


async def test_one_of_a_file_that_does_not_say_so_is_known_by_its_end():
    session = Session.begin(locations.sessions_dir(), "m")
    session.say("what?")
    session.answer()
    session.part("deep in it\n</think>\n\nforty-two")
    session.end("stop")
    session.close()
    async with again().run_test(size=SIZE) as pilot:
        await wait_until(pilot, lambda: "▸ thought: 3 words" in screen(pilot))
        assert "</think>" not in screen(pilot)


async def test_regenerated_it_is_folded_and_stays_so_when_that_fails():
    racer = racer_of(
        THINK, ["one</think>first"], ["two words</think>second"], *[[DecodeError("broken")]] * 2, opens=True
    )
    async with chat(racer).run_test(size=SIZE) as pilot:
        await ask(pilot, "what?")
        await ask(pilot, "/regen")
        for _ in range(2):
            await wait_until(pilot, lambda: "thought: 2 words" in screen(pilot))
            assert "second" in screen(pilot)
            assert "two" not in screen(pilot)
            await ask(pilot, "/regen")
            await wait_until(pilot, lambda: "broken" in screen(pilot))
    assert read(kept()).turns[0].split() == ("two words", "second")


async def test_regenerated_by_a_prompt_that_begins_none_it_is_an_answer():
    racer = racer_of(THINK, ["one</think>first"], ["no thought"], opens=True)
    async with chat(racer).run_test(size=SIZE) as pilot:
        await ask(pilot, "what?")
        racer.prompt_end = ""
        await ask(pilot, "/regen")
        assert "no thought" in screen(pilot)
    assert read(kept()).turns[0].split() == ("", "no thought")


async def test_gone_on_with_it_goes_on_as_a_thought():
    racer = racer_of(THINK, ["deep", "=length"], [" in it</think>forty-two"], opens=True)
    async with chat(racer).run_test(size=SIZE) as pilot:
        await ask(pilot, "what?")
        assert "thinking: 1 word" in screen(pilot)
        await ask(pilot, "/continue")
        await wait_until(pilot, lambda: "thought: 3 words" in screen(pilot))
        assert "forty-two" in screen(pilot)
        assert "deep" not in screen(pilot)


class Stage(App[None]):
    """Answers on a screen."""

    def compose(self) -> ComposeResult:
        yield VerticalScroll()

    async def show(self, text: str, known: ThoughtFormat, sizes: Sequence[int], *, opened: bool) -> Answer:
        """An answer that comes in pieces of these sizes, at once where there are none."""
        answer = Answer()
        await self.query_one(VerticalScroll).mount(answer)
        answer.begin(ThoughtSplitter(known, opened=opened))
        if not sizes:
            answer.put(text)
            return answer
        stats, n, at = GenerationStats(), 0, 0
        while at < len(text):
            piece = text[at : at + sizes[n % len(sizes)]]
            at, n = at + len(piece), n + 1
            token = Token(n, piece, Source.MODEL, 0, 0, n)
            answer.add([Step(piece, (token,), DraftTree.empty(), (), 1, stats)])
        answer.finish()
        return answer


def looks(answer: Answer) -> tuple[str, str]:
    """The line of the thought, with the thought where it is unfolded, and the answer as it is drawn."""
    thought = answer.query_one(".thought", Static)
    return str(thought.visual) if thought.display else "", answer.query_one(Prose).text


WORDS = (
    "deep",
    " ",
    "\n",
    "\n\n",
    "# head",
    "- a",
    "1. b",
    "```",
    "`c`",
    "| a | b |\n|--|--|\n",
    "\\(",
    "&lt;",
    "日本",
    "*",
    "<",
)


async def test_what_comes_in_pieces_looks_as_if_it_came_at_once():
    random = Random(3)
    app = Stage()
    async with app.run_test(size=(70, 24)) as pilot:
        for round in range(3 * len(FORMATS)):
            known = FORMATS[round % len(FORMATS)]
            marks = (*known.marks, known.opens, known.closes, marked(known))
            text = "".join(
                random.choice(marks if random.random() < 0.3 else WORDS) for _ in range(random.randrange(25))
            )
            opened = random.random() < 0.3
            sizes = [[1], [2, 7], [random.randrange(1, 30), 3]][round % 3]
            shown = [await app.show(text, known, some, opened=opened) for some in (sizes, ())]
            for answer in shown:
                answer.show_thought = True
            await pilot.pause()
            assert looks(shown[0]) == looks(shown[1]), (text, known.name, sizes)
            await app.query_one(VerticalScroll).remove_children()


async def test_a_folded_thought_is_not_copied():
    app = Stage()
    async with app.run_test(size=(70, 24)) as pilot:
        for known in FORMATS:
            answer = await app.show(marked(known), known, [4], opened=False)
            await pilot.pause()
            for is_unfolded in (False, True):
                answer.show_thought = is_unfolded
                await pilot.pause()
                app.screen.selections = {part: SELECT_ALL for part in answer.query(Widget) if part.display}
                copied = app.screen.get_selected_text() or ""
                assert "forty-two" in copied
                assert ("deep in it" in copied) is is_unfolded
            await answer.remove()
