"""Markdown that can grow at its end."""

from collections import Counter
from collections.abc import Iterable
from typing import ClassVar

from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, ListElement, ListItem, Markdown, TableElement
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text
from rich.theme import Theme
from textual.strip import Strip

from ..blocks import LINK, TARGET, GrowingBlocks, is_too_deep, parse
from .streaming_lines import StreamingLines

MIN_WIDTH = 8
"""Cells that a block is laid out for at least; narrower it is cut off."""
TAB_CELLS = 4
PLAIN = "plain"
"""Key in a token's `meta`: its code has no colours."""
RICH_STYLES = {
    "prose--heading": tuple(f"markdown.h{level}" for level in range(1, 7)),
    "prose--code": ("markdown.code", "markdown.code_block"),
    "prose--quote": ("markdown.block_quote",),
    "prose--marker": ("markdown.item.bullet", "markdown.item.number", "markdown.table.border", "markdown.hr"),
    "prose--strong": ("markdown.strong", "markdown.table.header"),
    "prose--link": ("markdown.link", "markdown.link_url"),
}
"""Styles of the stylesheet and what they are for in Rich's Markdown."""
MARKS = "*_~`#>|-+=:"
"""Characters that make Markdown's constructs; nothing else may vanish when one is drawn."""
_WITHOUT_MARKS = dict.fromkeys(map(ord, MARKS))


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar = {}


class _Code(CodeBlock):
    """Code on its own ground, above it what was said of it, its language mostly.

    Rich's own block takes four times as long, for line numbers and the like.
    """

    label = ""
    is_coloured = True

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> CodeBlock:
        block = super().create(markdown, token)
        assert isinstance(block, _Code)
        block.label, block.is_coloured = token.info.strip(), PLAIN not in token.meta
        return block

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        syntax = Syntax("", self.lexer_name if self.is_coloured else "text", theme=self.theme)
        ground = Syntax.get_theme(self.theme).get_background_style()
        room = max(options.max_width - 2, 1)
        code = syntax.highlight(str(self.text))
        code.rstrip()
        lines = code.wrap(console, room, justify="default", overflow="fold", tab_size=TAB_CELLS, no_wrap=False)
        label = Text.assemble((self.label, ground + Style(dim=True))).wrap(console, room, overflow="fold")
        for line in (*(label or [Text()]), *lines, Text()):
            yield Segment(" ", ground)
            yield from line.render(console)
            yield Segment(" " * (room - line.cell_len + 1), ground)
            yield Segment.line()


class _List(ListElement):
    """A list whose numbers are those that were written."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        numbers = [item.number for item in self.items if isinstance(item, _Item)]
        if self.list_type == "bullet_list_open":
            yield from super().__rich_console__(console, options)
            return
        width = max(map(len, numbers)) + 2
        style = console.get_style("markdown.item.number", default="none")
        for item, number in zip(self.items, numbers, strict=True):
            head = Segment(f"{number.rjust(width - 1)} ", style)
            for line in console.render_lines(item.elements, options.update(width=options.max_width - width)):
                yield head
                yield from line
                yield Segment.line()
                head = Segment(" " * width, style)


class _Item(ListItem):
    number = ""

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> ListItem:
        item = cls()
        item.number = token.info + token.markup
        return item


class _Table(TableElement):
    """A table whose words are broken rather than cut off where it is narrow."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            assert isinstance(table, Table)
            for column in table.columns:
                column.overflow = "fold"
            yield table


class ParsedMarkdown(Markdown):
    """Markdown that is parsed already; Rich would make a parser first, which takes as long as drawing a paragraph."""

    inlines: ClassVar = {*Markdown.inlines, LINK, TARGET}
    elements: ClassVar = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
        "bullet_list_open": _List,
        "ordered_list_open": _List,
        "list_item_open": _Item,
        "table_open": _Table,
    }

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
        self._blocks = GrowingBlocks()

    def append(self, text: str) -> None:
        """Add to the text."""
        self.grow(*self._blocks.append(text))

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

    A block that cannot be drawn as Markdown without losing something is drawn as it stands.

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
            token.meta[PLAIN] = True
    options = console.options.update(width=width, height=None)
    lines: list[Strip] = []
    if not is_too_deep(tokens):
        lines = _rendered(ParsedMarkdown(tokens, code_theme), console, options)
    if loses(block, lines):
        lines = _rendered(Text(block), console, options)
    while lines and _is_empty(lines[0]):
        del lines[0]
    while lines and _is_empty(lines[-1]):
        del lines[-1]
    return lines


def loses(source: str, lines: Iterable[Strip]) -> bool:
    """Whether lines lack a visible character of what they were drawn from, marks aside."""
    there = Counter("".join(line.text for line in lines))
    needed = Counter("".join(source.translate(_WITHOUT_MARKS).split()))
    return not needed <= there


def _rendered(renderable: Markdown | Text, console: Console, options: ConsoleOptions) -> list[Strip]:
    return [Strip(Segment.simplify(line)) for line in console.render_lines(renderable, options, pad=False)]


def _is_empty(line: Strip) -> bool:
    return not line.text.strip() and all(style is None or style.bgcolor is None for _, style, _ in line)
