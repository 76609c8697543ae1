"""One answer: Markdown that grows while it streams, and the same text token by token."""

from collections.abc import Sequence

from markdown_it import MarkdownIt
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Markdown, Static
from textual.widgets.markdown import MarkdownStream

from racer_local.records import Step, Token

from ..text import readable
from ..thinking import ThoughtSplitter
from .tokens import TokenView


def _parser() -> MarkdownIt:
    # Markdown would swallow HTML and reference definitions; an answer must show all of its text
    return MarkdownIt("gfm-like", {"html": False}).disable("reference")


class Answer(Vertical):
    """An answer in the making, then finished.

    Attributes:
        show_tokens: Whether tokens are shown in place of Markdown.
        show_thought: Whether all of a thought is shown, rather than how long it is.
    """

    DEFAULT_CSS = """
    Answer {
        height: auto;
        & > .thought { padding: 0 2; margin-bottom: 1; color: $text-muted; text-style: italic; display: none; }
        & > .footnote { padding: 0 2; margin-bottom: 1; color: $text-muted; text-style: italic; display: none; }
    }
    """

    show_tokens: reactive[bool] = reactive(False)
    show_thought: reactive[bool] = reactive(False)

    def __init__(self) -> None:
        super().__init__()
        self._splitter = ThoughtSplitter()
        self._thought: list[str] = []
        self._said: list[str] = []
        """The answer's text without the thought."""
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
        """The thought, both views and a line for how the answer ended."""
        yield Static(classes="thought")
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
            self._take(*self._splitter.feed(text))
            await self._write()

    def open_thought(self) -> None:
        """The prompt has begun a thought: the answer starts inside of it."""
        self._splitter = ThoughtSplitter(opened=True)

    async def put(self, text: str, footnote: str = "") -> None:
        """Show a whole answer of an earlier time."""
        self._text.append(text)
        self._take(*self._splitter.feed(text))
        await self.finish(footnote)

    def on_click(self, event: events.Click) -> None:
        """Fold or unfold the thought that is clicked."""
        if event.widget is not None and event.widget.has_class("thought"):
            self.show_thought = not self.show_thought

    async def resume(self, text: str, tokens: Sequence[Token]) -> None:
        """Take up an answer that is gone on with: its text so far, and its tokens as far as they are known."""
        self._text.append(text)
        self._take(*self._splitter.feed(text))
        self._tokens.add(tokens, tokens[-1].step if tokens else 0)
        await self._write()

    def watch_show_thought(self) -> None:
        """Fold or unfold."""
        self._draw_thought()

    def _take(self, thought: str, said: str) -> None:
        if thought:
            self._thought.append(thought)
            self._draw_thought()
        if said:
            self._said.append(said)
            self._unwritten.append(said)

    def _draw_thought(self) -> None:
        thought = "".join(self._thought).strip()
        if not thought or not self.is_attached:
            return
        line = self.query_one(".thought", Static)
        line.display = True
        head = f"{'thinking' if self._splitter.thinking else 'thought'}: {len(thought.split())} words"
        line.update(Content(f"▾ {head}\n{readable(thought)}" if self.show_thought else f"▸ {head}"))

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
        self._take(*self._splitter.finish())
        self._draw_thought()
        self._unwritten.clear()
        if self._said:
            await self._markdown.update(readable("".join(self._said)))
        if footnote:
            self._footnote.update(Content(readable(footnote)))
            self._footnote.display = True
