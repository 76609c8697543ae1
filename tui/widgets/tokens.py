"""Token view: an answer's tokens, each in the colour of its source, with a mark where a step begins."""

from collections import Counter
from collections.abc import Iterable, Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

from racer_local.records import Token

from ..sources import STYLES
from ..text import readable

STEP_MARK = "▏"
BLOCK_TOKENS = 150
"""A block is closed at the next line end after this many tokens, so that drawing a long answer stays cheap."""


class TokenView(Vertical):
    """The tokens of one answer. Draws only while it is shown.

    Attributes:
        shown: Whether it is on the screen.
        tokens: All tokens so far.
    """

    DEFAULT_CSS = """
    TokenView {
        height: auto;
        padding: 0 2;
        margin-bottom: 1;
        display: none;
        & > .legend { color: $text-muted; }
    }
    """

    shown: reactive[bool] = reactive(False)

    def __init__(self) -> None:
        super().__init__()
        self.tokens: list[Token] = []
        self._n_steps = 0
        self._block = Static()
        self._start = 0
        """First token of the last block."""

    def compose(self) -> ComposeResult:
        """An empty block and the sums."""
        yield self._block
        yield Static(classes="legend")

    def add(self, tokens: Iterable[Token], n_steps: int) -> None:
        """Append tokens; `n_steps` is how many steps the answer has taken in all."""
        self.tokens += tokens
        self._n_steps = n_steps
        if self.shown:
            self._draw()

    def watch_shown(self, shown: bool) -> None:
        """Show or hide; tokens that came meanwhile are drawn."""
        self.display = shown
        if shown:
            self._draw()

    def sums(self) -> Counter[str]:
        """Number of tokens by label of their source."""
        return Counter(t.source.label for t in self.tokens)

    def _draw(self) -> None:
        legend = self.query_one(".legend", Static)
        while (cut := self._line_end()) is not None:
            self._block.update(self._content(self._start, cut, closed=True))
            self._start, self._block = cut, Static()
            self.mount(self._block, before=legend)
        self._block.update(self._content(self._start, len(self.tokens), closed=False))
        legend.update(sums_content(self.sums(), self._n_steps))

    def _line_end(self) -> int | None:
        """Where the last block can be closed: after a token that ends a line, once it is long enough."""
        for i in range(self._start + BLOCK_TOKENS, len(self.tokens)):
            if self.tokens[i].text.endswith("\n"):
                return i + 1
        return None

    def _content(self, start: int, end: int, *, closed: bool) -> Content:
        before = self.tokens[start - 1].step if start else None
        content = tokens_content(self.tokens[start:end], before)
        return content.rstrip("\n") if closed else content


def tokens_content(tokens: Sequence[Token], previous_step: int | None = None) -> Content:
    """Coloured text of tokens, a mark before each that begins a step.

    Args:
        tokens: Tokens in order.
        previous_step: Step of the token before; None at the beginning of an answer.
    """
    parts: list[tuple[str, str]] = []
    for token in tokens:
        if previous_step is not None and token.step != previous_step:
            parts.append((STEP_MARK, "$text-muted"))
        previous_step = token.step
        if token.text:
            parts.append((readable(token.text).replace("\n", "↵\n"), STYLES[token.source.label]))
    return Content.assemble(*parts)


def sums_content(sums: Counter[str], n_steps: int) -> Content:
    """The legend: how many tokens came from where, and all of them."""
    parts: list[str | tuple[str, str]] = []
    for label, style in STYLES.items():
        if label != "corpus" or sums[label]:
            parts += [(label, style), f" {sums[label]} · "]
    return Content.assemble(*parts, f"{sums.total()} tokens in {n_steps} steps")
