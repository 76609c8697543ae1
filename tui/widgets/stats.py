"""Statistics panel: speed against plain decoding, where tokens came from, what drafts brought."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from textual import events
from textual.app import ComposeResult
from textual.content import Content

from racer_local.answers import Step
from racer_local.settings import MAX_BUDGET
from racer_local.stats import GenerationStats
from racer_local.terminal_text import one_line

from ..sources import FILLS, MUTED, STYLES
from .panel import Panel, PanelScroll
from .steady_text import SteadyText

BAR, LEVELS = "▇", "▁▂▃▄▅▆▇█"
MAX_ROWS = 12
"""Rows of the histogram for one number each; larger numbers share a last one."""
WARNING = "$text-warning"
SEPARATOR = " · "
SPACED_HEIGHT = 20
"""Rows from which on there is room for empty lines."""


@dataclass(slots=True)
class Sums:
    """What the panel knows of an answer. Its size does not depend on the answer's length.

    Attributes:
        stats: Totals after the last step.
        note: Why drafting was off or paused at the last step.
        deepest: Drafts by the depth of their deepest node.
        reached: Drafts by the length of their accepted path.
    """

    stats: GenerationStats = field(default_factory=GenerationStats)
    note: str = ""
    deepest: list[int] = field(default_factory=lambda: [0] * MAX_BUDGET)
    reached: list[int] = field(default_factory=lambda: [0] * MAX_BUDGET)

    def take(self, steps: Iterable[Step]) -> None:
        """Count steps."""
        for step in steps:
            self.stats, self.note = step.stats, step.note
            if len(step.tree):
                self.deepest[int(step.tree.depth.max())] += 1
                self.reached[len(step.path)] += 1


class StatsPanel(Panel):
    """Statistics of the answer in progress, or of the last one. Draws only while it is shown."""

    DEFAULT_CSS = """
    StatsPanel > PanelScroll { height: 1fr; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._sums = Sums()
        self._figures = SteadyText()
        self._scroll = PanelScroll(self._figures)

    def compose(self) -> ComposeResult:
        """All of it is one text that scrolls."""
        yield self._scroll

    def begin(self) -> None:
        """A new answer begins."""
        self._sums = Sums()
        self.draw()

    def add(self, steps: Iterable[Step]) -> None:
        """Count steps of the answer in progress."""
        self._sums.take(steps)
        self.draw()

    def on_resize(self, _event: events.Resize) -> None:
        """Fill the new width."""
        self.draw()

    def draw(self) -> None:
        """See `Panel`."""
        room = self._scroll.scrollable_content_region
        if self.display and room.width > 0:
            content = figures(self._sums, room.width, spaced=room.height >= SPACED_HEIGHT)
            self._figures.set(content, shrink=not self._sums.stats.steps)


def figures(sums: Sums, width: int, *, spaced: bool = True) -> Content:
    """All statistics as lines for a width. Only sentences may have to be wrapped.

    Args:
        sums: What is known of the answer.
        width: Cells of a line.
        spaced: Whether empty lines stand between the parts.
    """
    stats = sums.stats
    gap = [Content("")] if spaced else []
    lines = [_headline(stats), _against_plain(stats)]
    if sums.note:
        lines.append(Content.styled(one_line(sums.note), WARNING))
    if stats.predicted_n:
        lines += [*gap, *_sources(stats, width)]
    if stats.drafts:
        lines += [*gap, *_drafts(stats, width)]
        lines += [*gap, *_depths(share_by_depth(sums.deepest, sums.reached), width)]
        lines += [*gap, *_histogram(stats.accepted_hist, width)]
    return Content("\n").join(lines)


def share_by_depth(deepest: Sequence[int], reached: Sequence[int]) -> list[float]:
    """For each depth from 1: of the drafts that were so deep, the share whose accepted path was as long.

    Args:
        deepest: Drafts by the depth of their deepest node.
        reached: Drafts by the length of their accepted path.
    """
    n_deep, n_reached = (list(accumulate(reversed(counts)))[::-1] for counts in (deepest, reached))
    return [hits / n for n, hits in zip(n_deep[1:], n_reached[1:], strict=True) if n]


def histogram_rows(hist: Sequence[int]) -> list[tuple[str, int]]:
    """Label and count for each number up to the largest that occurs; numbers from `MAX_ROWS` on share a row."""
    last = max((i for i, n in enumerate(hist) if n), default=-1)
    rows = [(str(i), n) for i, n in enumerate(hist[: min(last + 1, MAX_ROWS)])]
    if last >= MAX_ROWS:
        rows.append((f"{MAX_ROWS}+", sum(hist[MAX_ROWS:])))
    return rows


def shared_out(counts: Sequence[int], cells: int) -> list[int]:
    """Divide cells in proportion to counts; what occurs at all gets one, as long as there are any."""
    out = [0] * len(counts)
    total = sum(counts)
    for _ in range(cells if total else 0):
        missing = [(n > 0 and not has, n * cells - has * total) for n, has in zip(counts, out, strict=True)]
        out[missing.index(max(missing))] += 1
    return out


def _headline(stats: GenerationStats) -> Content:
    if stats.tokens_per_step is None:
        return Content.styled("no step yet", MUTED)
    return Content.assemble(
        (f"{stats.tokens_per_step:.2f} tokens/step", "bold"),
        (f"  {stats.predicted_n} tokens in {stats.steps} steps", MUTED),
    )


def _against_plain(stats: GenerationStats) -> Content:
    if stats.speedup is None:
        return Content.styled("— ×: too few plain steps timed yet", MUTED)
    times = f"{stats.speedup:.2f}"
    if f"{stats.weighed_s:.2f}" == f"{stats.predicted_s:.2f}":
        rests_on = f"{stats.predicted_n} tokens in {stats.weighed_s:.2f} s"
    else:
        rests_on = f"{stats.weighed_s:.2f} s of {stats.predicted_s:.2f} s could be compared"
    return Content.assemble(
        (f"{times}× plain decoding", f"bold {WARNING}" if float(times) < 1 else "bold"),
        f": {rests_on}, plain decoding would have taken {stats.plain_s:.2f} s (from timed plain steps)",
    )


def _sources(stats: GenerationStats, width: int) -> list[Content]:
    counts = {label: stats.by_source.get(label, 0) for label in STYLES}
    bar: list[tuple[str, str]] = []
    parts: list[Content] = []
    for (label, n), cells in zip(counts.items(), shared_out(list(counts.values()), width), strict=True):
        if not n:
            continue
        colour = STYLES[label].split()[0]
        bar.append((FILLS[label] * cells, colour))
        parts.append(Content.assemble((FILLS[label], colour), " ", (label, STYLES[label]), f" {n}"))
    return [Content.assemble(*bar), *_packed([*parts, Content(f"{sum(counts.values())} tokens")], width)]


def _drafts(stats: GenerationStats, width: int) -> list[Content]:
    parts = [f"{stats.draft_n} nodes drafted, {stats.draft_n_accepted} accepted"]
    if stats.mean_acceptance_length is not None:
        parts.append(f"mean_acceptance_length {stats.mean_acceptance_length:.2f}")
    if stats.predicted_s > 0:
        parts.append(f"own work {_percent(stats.own_s / stats.predicted_s, 1)} of the time")
    return _packed([Content(part) for part in parts], width)


def _depths(shares: Sequence[float], width: int) -> list[Content]:
    if not shares:
        return []
    levels = "".join(LEVELS[round(share * (len(LEVELS) - 1))] for share in shares)
    room = max(width // 2, 1)
    line = levels if len(levels) <= room else f"{levels[: room - 1]}…"
    for depth, share in enumerate(shares, 1):
        number = f" {depth}: {_percent(share)}"
        if len(line) + len(number) > width:
            break
        line += number
    return [Content.styled("accepted by depth", MUTED), Content(line)]


def _histogram(hist: Sequence[int], width: int) -> list[Content]:
    rows = histogram_rows(hist)
    most = max((n for _, n in rows), default=1)
    label_width = max((len(label) for label, _ in rows), default=0)
    cells = max(width - label_width - len(str(most)) - 2, 1)
    lines = [Content.styled("drafts by number of accepted nodes", MUTED)]
    for label, n in rows:
        bar = BAR * max(round(n * cells / most), 1) + " " if n else ""
        lines.append(Content.assemble(f"{label:>{label_width}} ", (bar, "$primary"), str(n)))
    return lines


def _packed(parts: Sequence[Content], width: int) -> list[Content]:
    """Parts in order, as many on a line as fit."""
    lines: list[Content] = []
    for part in parts:
        if lines and lines[-1].cell_length + len(SEPARATOR) + part.cell_length <= width:
            lines[-1] = Content.assemble(lines[-1], (SEPARATOR, MUTED), part)
        else:
            lines.append(part)
    return lines


def _percent(share: float, digits: int = 0) -> str:
    return f"{share * 100:.{digits}f} %"
