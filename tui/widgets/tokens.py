"""Token view: an answer's tokens, each in the colour of its source, with a mark where a step begins."""

from collections import Counter
from collections.abc import Iterable

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.reactive import reactive
from textual.strip import Strip
from textual.visual import Visual

from racer_local.terminal_text import readable
from racer_local.tokens import Token

from ..sources import MUTED, STYLES
from .single_layout import SingleLayout
from .steady_text import SteadyText
from .streaming_lines import StreamingLines

STEP_MARK = "▏"


class TokenView(Vertical, SingleLayout):
    """The tokens of one answer. Draws only while it is shown.

    Attributes:
        shown: Whether it is on the screen.
        tokens: All tokens so far.
        sums: Number of tokens by label of their source.
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
        self.sums: Counter[str] = Counter()
        self._n_steps = 0
        self._lines = TokenLines()
        self._legend = SteadyText(classes="legend")

    def compose(self) -> ComposeResult:
        """The tokens and the sums."""
        yield self._lines
        yield self._legend

    def add(self, tokens: Iterable[Token], n_steps: int) -> None:
        """Append tokens; `n_steps` is how many steps the answer has taken in all."""
        new = list(tokens)
        self.tokens += new
        self.sums.update(token.source.label for token in new)
        self._n_steps = n_steps
        self._lines.append(new)
        if self.shown:
            self._draw()

    def finish(self) -> None:
        """Nothing will be added."""
        self._lines.finish()

    def watch_shown(self, shown: bool) -> None:
        """Show or hide; tokens that came meanwhile are drawn."""
        self.display = self._lines.display = shown
        if shown:
            self._draw()

    def _draw(self) -> None:
        self._legend.set(sums_content(self.sums, self._n_steps))


Part = tuple[str, str]
"""A text and its style."""


class TokenLines(StreamingLines[list[Part]]):
    """Coloured tokens, line by line."""

    def __init__(self) -> None:
        super().__init__()
        self.display = False
        self._line: list[Part] = []
        """The last line."""
        self._step: int | None = None
        """Step of the last token."""

    def append(self, tokens: Iterable[Token]) -> None:
        """Add tokens."""
        settled: list[list[Part]] = []
        for token in tokens:
            for text, style in token_parts(token, self._step):
                first, *more = text.split("\n")
                self._line.append((first, style))
                for piece in more:
                    settled.append(self._line)
                    self._line = [(piece, style)] if piece else []
            self._step = token.step
        self.grow(settled, [self._line] if self._line else [])

    def draw_block(self, block: list[Part], width: int, *, settled: bool) -> list[Strip]:
        """See `StreamingLines`."""
        content = Content.assemble(*block)
        return Visual.to_strips(self, content, width, None, self.visual_style, apply_selection=False)


def token_parts(token: Token, previous_step: int | None) -> list[Part]:
    """Coloured text of a token, after a mark if it begins a step.

    Args:
        token: The token.
        previous_step: Step of the token before; None at the beginning of an answer.
    """
    parts: list[Part] = []
    if previous_step is not None and token.step != previous_step:
        parts.append((STEP_MARK, MUTED))
    if token.text:
        parts.append((readable(token.text).replace("\n", "↵\n"), STYLES[token.source.label]))
    return parts


def sums_content(sums: Counter[str], n_steps: int) -> Content:
    """The legend: how many tokens came from where, and all of them."""
    parts: list[str | tuple[str, str]] = []
    for label, style in STYLES.items():
        parts += [(label, style), f" {sums[label]} · "]
    return Content.assemble(*parts, f"{sums.total()} tokens in {n_steps} steps")
