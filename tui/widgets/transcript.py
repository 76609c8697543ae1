"""The conversation on the screen. Stays at its end unless the reader has scrolled away from it."""

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from racer_local.terminal_text import readable

from .answer import Answer
from .single_layout import SingleLayout

SHOWN_TURNS = 40
"""Turns of a long conversation that are drawn; the model reads all that fit."""
MOST_TURNS = 60
"""Turns that may be drawn before the oldest of them go."""


class Question(Static):
    """What the user sent."""

    DEFAULT_CSS = """
    Question {
        height: auto;
        padding: 0 1;
        margin: 0 0 1 0;
        border-left: outer $primary;
        text-style: bold;
    }
    """


class Note(Static):
    """A remark of the program: an error, or how the model is used."""

    DEFAULT_CSS = """
    Note { height: auto; padding: 0 2; margin-bottom: 1; color: $text-warning; }
    """


class Info(Static):
    """What the user asked to see."""

    DEFAULT_CSS = """
    Info { height: auto; padding: 0 2; margin-bottom: 1; color: $text-muted; }
    """


class Transcript(VerticalScroll, SingleLayout, can_focus=False):
    """Questions, answers and notes in order.

    Attributes:
        shows_tokens: Whether answers are shown token by token.
    """

    DEFAULT_CSS = """
    Transcript { height: 1fr; width: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.shows_tokens = False
        self._show_thought = False
        self._n_left_out = 0
        """Turns that were said and are not drawn."""

    def compose(self) -> ComposeResult:
        """Nothing yet."""
        yield from ()

    def on_mount(self) -> None:
        """Follow the end."""
        self.anchor()

    async def begin(self, question: str) -> Answer:
        """Add a question and the place for its answer; of very many turns the oldest are no longer drawn."""
        drawn = self.query_children(Question)
        if len(drawn) >= MOST_TURNS:
            await self._leave_out(list(drawn)[len(drawn) - SHOWN_TURNS])
        (answer,) = await self._add([question])
        return self._shown_as_others(answer)

    async def show(self, questions: Sequence[str]) -> list[Answer]:
        """Draw a whole conversation anew; returns the places for the answers of the last turns, which are drawn."""
        await self.remove_children()
        self._n_left_out = max(0, len(questions) - SHOWN_TURNS)
        if self._n_left_out:
            await self.mount(Info(Content(self._left_out()), id="left_out"))
        answers = await self._add(questions[self._n_left_out :])
        for answer in answers:
            self._shown_as_others(answer)
        return answers

    async def _add(self, questions: Sequence[str]) -> list[Answer]:
        pairs = [(Question(Content(readable(question))), Answer()) for question in questions]
        await self.mount_all([widget for pair in pairs for widget in pair])
        return [answer for _, answer in pairs]

    async def _leave_out(self, first: Question) -> None:
        """Draw nothing any more that stands above a question: each widget makes every change of layout dearer."""
        above = self.children[: self.children.index(first)]
        self._n_left_out += sum(isinstance(widget, Question) for widget in above)
        with self.app.batch_update():
            await self.remove_children(above)
            await self.mount(Info(Content(self._left_out()), id="left_out"), before=0)

    def _left_out(self) -> str:
        return f"{self._n_left_out} earlier turns are not shown; the model reads them"

    async def replace_last(self) -> Answer:
        """Put an empty answer in the place of the last one."""
        old, answer = self.query_children(Answer).last(), Answer()
        await self.mount(answer, after=old)
        await old.remove()
        return self._shown_as_others(answer)

    def _shown_as_others(self, answer: Answer) -> Answer:
        answer.show_tokens, answer.show_thought = self.shows_tokens, self._show_thought
        self.scroll_end(animate=False)
        return answer

    def last(self) -> Answer | None:
        """The last answer, if there is one."""
        answers = self.query_children(Answer)
        return answers.last() if answers else None

    async def take_back(self) -> bool:
        """Remove the last question and its answer; returns whether they were drawn."""
        questions, answers = self.query_children(Question), self.query_children(Answer)
        if not questions:
            return False
        await questions.last().remove()
        await answers.last().remove()
        return True

    async def note(self, text: str) -> None:
        """Add a remark."""
        await self.mount(Note(Content(readable(text))))

    async def info(self, text: str) -> None:
        """Add what the user asked to see."""
        await self.mount(Info(Content(readable(text))))
        self.scroll_end(animate=False)

    def toggle_thoughts(self) -> None:
        """Fold or unfold the thoughts of all answers."""
        self._show_thought = not self._show_thought
        for answer in self.query_children(Answer):
            answer.show_thought = self._show_thought

    def toggle_tokens(self) -> None:
        """Change all answers between Markdown and tokens."""
        self.shows_tokens = not self.shows_tokens
        for answer in self.query_children(Answer):
            answer.show_tokens = self.shows_tokens
