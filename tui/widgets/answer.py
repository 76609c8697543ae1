"""One answer: Markdown that grows while it streams, and the same text token by token."""

from collections.abc import Sequence

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

from racer_local.answers import Step
from racer_local.terminal_text import readable
from racer_local.thoughts import ThoughtSplitter
from racer_local.tokens import Token

from .prose import Prose
from .single_layout import SingleLayout
from .steady_text import SteadyText
from .tokens import TokenView


class Answer(Vertical, SingleLayout):
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
        self._prose = Prose()
        """The answer's text without the thought."""
        self._tokens = TokenView()
        self._footnote = Static(classes="footnote")
        self._text: list[str] = []

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
        yield SteadyText(classes="thought")
        yield self._prose
        yield self._tokens
        yield self._footnote

    def watch_show_tokens(self, show_tokens: bool) -> None:
        """Change between the views."""
        self._prose.display = not show_tokens
        self._tokens.shown = show_tokens

    def add(self, steps: Sequence[Step]) -> None:
        """Append what steps have brought; there is at least one."""
        self._tokens.add((token for step in steps for token in step.tokens), steps[-1].stats.steps)
        text = "".join(step.text for step in steps)
        if text:
            self._text.append(text)
            self._take(*self._splitter.feed(text))

    def begin(self, splitter: ThoughtSplitter) -> None:
        """Have thoughts told from what is said as this answer's model marks them; no text has come yet."""
        self._splitter = splitter

    def put(self, text: str, footnote: str = "") -> None:
        """Show a whole answer of an earlier time."""
        self._text.append(text)
        self._take(*self._splitter.feed(text))
        self.finish(footnote)

    def on_click(self, event: events.Click) -> None:
        """Fold or unfold the thought that is clicked."""
        if event.widget is not None and event.widget.has_class("thought"):
            self.show_thought = not self.show_thought

    def resume(self, text: str, tokens: Sequence[Token]) -> None:
        """Take up an answer that is gone on with: its text so far, and its tokens as far as they are known."""
        self._text.append(text)
        self._take(*self._splitter.feed(text))
        self._tokens.add(tokens, tokens[-1].step if tokens else 0)

    def watch_show_thought(self) -> None:
        """Fold or unfold."""
        self._draw_thought(shrink=True)

    def _take(self, thought: str, said: str) -> None:
        if thought:
            self._thought.append(thought)
            self._draw_thought()
        if said:
            self._prose.append(readable(said))

    def _draw_thought(self, *, shrink: bool = False) -> None:
        thought = "".join(self._thought).strip()
        if not thought or not self.is_attached:
            return
        line = self.query_one(".thought", SteadyText)
        line.display = True
        n_words = len(thought.split())
        head = f"{'thinking' if self._splitter.thinking else 'thought'}: {n_words} word{'s' if n_words > 1 else ''}"
        line.set(Content(f"▾ {head}\n{readable(thought)}" if self.show_thought else f"▸ {head}"), shrink=shrink)

    def finish(self, footnote: str = "") -> None:
        """The answer is whole.

        Args:
            footnote: How it ended, where that is not plain to see.
        """
        self._take(*self._splitter.feed("", last=True))
        self._prose.finish()
        self._tokens.finish()
        self._draw_thought()
        if footnote:
            self._footnote.update(Content(readable(footnote)))
            self._footnote.display = True
