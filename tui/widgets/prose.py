"""Markdown that can grow at its end."""

from typing import ClassVar

from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.segment import Segment
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme
from textual.strip import Strip

from ..blocks import is_too_deep, parse, split
from .streaming_lines import StreamingLines

MIN_WIDTH = 8
"""Cells that a block is laid out for at least; narrower it is cut off."""
TAB_CELLS = 4
RICH_STYLES = {
    "prose--heading": tuple(f"markdown.h{level}" for level in range(1, 7)),
    "prose--code": ("markdown.code", "markdown.code_block"),
    "prose--quote": ("markdown.block_quote",),
    "prose--marker": ("markdown.item.bullet", "markdown.item.number", "markdown.table.border", "markdown.hr"),
    "prose--strong": ("markdown.strong", "markdown.table.header"),
    "prose--link": ("markdown.link", "markdown.link_url"),
}
"""Styles of the stylesheet and what they are for in Rich's Markdown."""


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar = {}


class _Code(CodeBlock):
    """Code on its own ground. Rich's own block takes four times as long, for line numbers and the like."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        syntax = Syntax("", self.lexer_name, theme=self.theme)
        ground = Syntax.get_theme(self.theme).get_background_style()
        room = max(options.max_width - 2, 1)
        code = syntax.highlight(str(self.text))
        code.rstrip()
        lines = code.wrap(console, room, justify="default", overflow="fold", tab_size=TAB_CELLS, no_wrap=False)
        for line in (Text(), *lines, Text()):
            yield Segment(" ", ground)
            yield from line.render(console)
            yield Segment(" " * (room - line.cell_len + 1), ground)
            yield Segment.line()


class _Markdown(Markdown):
    """Markdown that is parsed already; Rich would make a parser first, which takes as long as drawing a paragraph."""

    elements: ClassVar = {**Markdown.elements, "heading_open": _Heading, "fence": _Code, "code_block": _Code}

    def __init__(self, tokens: list[Token], code_theme: str) -> None:  # pyright: ignore[reportMissingSuperCall]
        self.markup, self.parsed = "", tokens
        self.code_theme = self.inline_code_theme = code_theme
        self.justify, self.style = None, "none"
        self.hyperlinks = False
        self.inline_code_lexer = None


class Prose(StreamingLines[str]):
    """A Markdown text, drawn block by block."""

    COMPONENT_CLASSES: ClassVar[set[str]] = set(RICH_STYLES)
    DEFAULT_CSS = """
    Prose {
        padding: 0 2;
        margin-bottom: 1;
        & > .prose--heading { color: $primary; text-style: bold; }
        & > .prose--code { color: $accent; }
        & > .prose--quote { color: $text-muted; text-style: italic; }
        & > .prose--marker { color: $secondary; }
        & > .prose--strong { text-style: bold; }
        & > .prose--link { color: $primary; text-style: underline; }
    }
    """
    GAP = 1

    def __init__(self) -> None:
        super().__init__()
        self._growing = ""
        """The block that grows, and whatever of the next has begun."""

    def append(self, text: str) -> None:
        """Add to the text."""
        self._growing += text
        end = self._growing.rfind("\n") + 1
        *settled, last = split(self._growing[:end])
        self._growing = last + self._growing[end:]
        self.grow(settled, split(self._growing))

    def draw_block(self, block: str, width: int, *, settled: bool) -> list[Strip]:
        """See `StreamingLines`. Code gets its colours once complete: they are found from its beginning each time."""
        console = self.app.console
        by_name = ((self.get_component_rich_style(own, partial=True), names) for own, names in RICH_STYLES.items())
        theme = Theme({name: style for style, names in by_name for name in names})
        with console.use_theme(theme):
            code_theme = "monokai" if self.app.current_theme.dark else "friendly"
            return draw(block, console, max(width, MIN_WIDTH), code_theme, coloured=settled)


def prepare() -> None:
    """Load what the first block of code needs, so that it does not have to be loaded while a model answers."""
    Syntax("", "python").highlight("x = 1\n")


def draw(block: str, console: Console, width: int, code_theme: str, *, coloured: bool = True) -> list[Strip]:
    """Lines of a Markdown block, without empty ones around it.

    Args:
        block: The block's source.
        console: Has the styles.
        width: Cells of a line.
        code_theme: Name of a Pygments style.
        coloured: Whether code has colours.
    """
    tokens = parse(block)
    if not coloured:
        for token in tokens:
            token.info = ""
    if is_too_deep(tokens):
        renderable: Text | Markdown = Text(block)
    else:
        renderable = _Markdown(tokens, code_theme)
    options = console.options.update(width=width, height=None)
    lines = [Strip(Segment.simplify(line)) for line in console.render_lines(renderable, options, pad=False)]
    while lines and _is_empty(lines[0]):
        del lines[0]
    while lines and _is_empty(lines[-1]):
        del lines[-1]
    return lines


def _is_empty(line: Strip) -> bool:
    return not line.text.strip() and all(style is None or style.bgcolor is None for _, style, _ in line)
