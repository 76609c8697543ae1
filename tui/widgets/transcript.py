"""The conversation on the screen. Stays at its end unless the reader has scrolled away from it."""

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from racer_local.terminal_text import readable

from .answer import Answer
from .single_layout import SingleLayout


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

    def compose(self) -> ComposeResult:
        """Nothing yet."""
        yield from ()

    def on_mount(self) -> None:
        """Follow the end."""
        self.anchor()

    async def begin(self, question: str) -> Answer:
        """Add a question and the place for its answer."""
        answer = Answer()
        await self.mount_all([Question(Content(readable(question))), answer])
        return self._shown_as_others(answer)

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

    async def empty(self) -> None:
        """Remove everything."""
        await self.remove_children()

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
