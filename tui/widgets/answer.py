"""One answer: Markdown that grows while it streams, and the same text token by token."""

from collections.abc import Sequence

from markdown_it import MarkdownIt
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Markdown, Static
from textual.widgets.markdown import MarkdownStream

from racer_local.records import Step

from ..text import readable
from .tokens import TokenView


def _parser() -> MarkdownIt:
    # Markdown would swallow HTML and reference definitions; an answer must show all of its text
    return MarkdownIt("gfm-like", {"html": False}).disable("reference")


class Answer(Vertical):
    """An answer in the making, then finished.

    Attributes:
        show_tokens: Whether tokens are shown in place of Markdown.
    """

    DEFAULT_CSS = """
    Answer {
        height: auto;
        & > .footnote { padding: 0 2; margin-bottom: 1; color: $text-muted; text-style: italic; display: none; }
    }
    """

    show_tokens: reactive[bool] = reactive(False)

    def __init__(self) -> None:
        super().__init__()
        self._markdown = Markdown(parser_factory=_parser, open_links=False)
        self._tokens = TokenView()
        self._footnote = Static(classes="footnote")
        self._stream: MarkdownStream | None = None
        self._text: list[str] = []
        self._unwritten: list[str] = []
        """Text that Markdown has not drawn, because tokens are shown."""

    @property
    def text(self) -> str:
        """The answer so far, as the model wrote it."""
        return "".join(self._text)

    @property
    def token_view(self) -> TokenView:
        """The answer token by token."""
        return self._tokens

    def compose(self) -> ComposeResult:
        """Both views and a line for how the answer ended."""
        yield self._markdown
        yield self._tokens
        yield self._footnote

    async def watch_show_tokens(self, show_tokens: bool) -> None:
        """Change between the views."""
        self._markdown.display = not show_tokens
        self._tokens.shown = show_tokens
        await self._write()

    async def add(self, steps: Sequence[Step]) -> None:
        """Append what steps have brought; there is at least one."""
        self._tokens.add((token for step in steps for token in step.tokens), steps[-1].stats.steps)
        text = "".join(step.text for step in steps)
        if text:
            self._text.append(text)
            self._unwritten.append(text)
            await self._write()

    async def _write(self) -> None:
        if self.show_tokens or not self._unwritten:
            return
        self._stream = self._stream or Markdown.get_stream(self._markdown)
        text = readable("".join(self._unwritten))
        self._unwritten.clear()
        await self._stream.write(text)

    async def finish(self, footnote: str = "") -> None:
        """Draw the whole answer once more, since what streams is parsed piece by piece.

        Args:
            footnote: How the answer ended, where that is not plain to see.
        """
        if self._stream is not None:
            await self._stream.stop()
            self._stream = None
        self._unwritten.clear()
        if self._text:
            await self._markdown.update(readable(self.text))
        if footnote:
            self._footnote.update(Content(readable(footnote)))
            self._footnote.display = True
