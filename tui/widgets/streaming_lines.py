"""Lines that grow at their end: what is settled is drawn once, and the screen is laid out anew only now and then.

A line more makes Textual lay out the whole screen, which takes ten times as long as drawing the line, and decoding pays
for it. So there is always some room for lines to come.
"""

from collections.abc import Sequence
from typing import ClassVar, Generic, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.selection import Selection
from textual.strip import Strip

from .single_layout import SingleLayout

STEPS = 5
"""In how many steps lines fill the screen."""
Block = TypeVar("Block")


class StreamingLines(SingleLayout, Generic[Block]):
    """Blocks of lines, selectable. A subclass draws a block."""

    DEFAULT_CSS = """
    StreamingLines { height: auto; }
    """
    GAP: ClassVar = 0
    """Empty lines between blocks."""

    def __init__(self) -> None:
        super().__init__()
        self._settled: list[Block] = []
        self._rest: Sequence[Block] = ()
        """Blocks that can still change."""
        self._lines: list[Strip] = []
        self._n_settled = 0
        """How many of the lines are of settled blocks."""
        self._height = 0
        """Lines that there is room for."""
        self._is_growing = True
        self._look: tuple[int, str, Style] | None = None
        """Width, theme and style below all that the lines are drawn for; None while nobody sees them."""

    @property
    def text(self) -> str:
        """The lines as they are drawn, without the blanks that fill them."""
        return "\n".join(strip.text.rstrip() for strip in self._lines)

    def draw_block(self, block: Block, width: int, *, settled: bool) -> list[Strip]:
        """Lines of a block.

        Args:
            block: What to draw.
            width: Cells of a line; what is longer is cut off.
            settled: Whether it stays as it is, so that it pays to draw it with care.
        """
        raise NotImplementedError

    def grow(self, settled: Sequence[Block], rest: Sequence[Block]) -> None:
        """Go on.

        Args:
            settled: Blocks that come after those that are settled and will not change any more.
            rest: Blocks that come after them and can change.
        """
        self._settled += settled
        self._rest = rest
        self._draw_on(settled)

    def finish(self) -> None:
        """Nothing will be added: give back the room for more."""
        self._is_growing = False
        self._draw_on(())

    def _draw_on(self, settled: Sequence[Block]) -> None:
        """Draw what has come, where anybody sees it; a widget that was taken from the screen has no styles any more."""
        if not self.display:
            self._look = None
        elif self._look is not None:
            start = self._n_settled
            self._draw(settled)
            self._show(start)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Lines at a width; while they grow, some more."""
        self._lay_out(width)
        height = len(self._lines)
        if self._is_growing:
            step = max(1, viewport.height // STEPS)
            height = -(-height // step) * step
        self._height = height
        return height

    def render_line(self, y: int) -> Strip:
        """A line, with what is selected of it."""
        if y >= len(self._lines):
            return Strip.blank(self.content_size.width, self.rich_style)
        strip = self._lines[y]
        selection = self.text_selection
        span = selection.get_span(y) if selection is not None else None
        if span is not None:
            strip = _marked(strip, span, self.screen.get_component_rich_style("screen--selection"))
        return strip.apply_offsets(0, y)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """The selected text as it is drawn, without the blanks that fill lines."""
        room = self._height - len(self._lines)
        text = selection.extract(self.text + "\n" * (room + 1)).rstrip("\n")
        return (text, "\n") if text else None

    def selection_updated(self, selection: Selection | None) -> None:
        """Show what is selected."""
        self.refresh()

    def notify_style_update(self) -> None:
        """Draw anew where colours have changed."""
        super().notify_style_update()
        if self._look is not None:
            self._lay_out(self._look[0])
            self._show(0)

    def _lay_out(self, width: int) -> None:
        look = (width, self.app.theme, self.rich_style)
        if look != self._look:
            self._look = look
            self._lines, self._n_settled = [], 0
            self._draw(self._settled)

    def _draw(self, settled: Sequence[Block]) -> None:
        """Draw blocks that have just been settled, and the rest anew."""
        del self._lines[self._n_settled :]
        for block in settled:
            self._add(block, settled=True)
        self._n_settled = len(self._lines)
        for block in self._rest:
            self._add(block, settled=not self._is_growing)

    def _add(self, block: Block, *, settled: bool) -> None:
        assert self._look is not None, "lines are drawn for a width"
        width, _, style = self._look
        lines = self.draw_block(block, width, settled=settled)
        if lines and self._lines:
            self._lines += [Strip.blank(width, style)] * self.GAP
        self._lines += [line.apply_style(style).crop_extend(0, width, style) for line in lines]

    def _show(self, start: int) -> None:
        """Have the lines from `start` on drawn on the screen."""
        n_lines = len(self._lines)
        if n_lines > self._height or (n_lines < self._height and not self._is_growing):
            self.refresh(layout=True)
        else:
            self.refresh(Region(0, start, self.size.width, self._height - start))


def _marked(strip: Strip, span: tuple[int, int], style: Style) -> Strip:
    """A line with the characters of a span in another style."""
    start, end = span
    text = strip.text
    cells = [Strip([Segment(text[:n])]).cell_length for n in (start, len(text) if end == -1 else end, len(text))]
    before, inside, after = (list(part) for part in strip.divide(cells))
    return Strip([*before, *Segment.apply_style(inside, post_style=style), *after])
