"""Tables for people, made from measured rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from racer_local.bench.results import Result

OVERALL = "overall"


@dataclass(frozen=True, slots=True)
class Cell:
    """One method on one kind.

    Attributes:
        tokens_per_second: All tokens over all seconds.
        ratio: Median over questions of the method's speed over the baseline's; None without a baseline.
        low: First quartile of those ratios.
        high: Third quartile.
        total_ratio: Ratio of the speeds over all questions together.
        tokens_per_step: All tokens over all decodes.
        drafted_per_step: Nodes drafted a decode.
        own_share: Our own work as a share of the time.
        n: Questions.
    """

    tokens_per_second: float
    ratio: float | None
    low: float | None
    high: float | None
    total_ratio: float | None
    tokens_per_step: float
    drafted_per_step: float
    own_share: float
    n: int


def summarise(rows: Sequence[Result], baseline: str) -> dict[str, dict[str, Cell]]:
    """Cells by kind (in order of appearance, `overall` last) and method.

    Args:
        rows: Result questions.
        baseline: Label of the method that ratios refer to.
    """
    kinds = [*dict.fromkeys(row.kind for row in rows), OVERALL]
    methods = list(dict.fromkeys(row.method for row in rows))
    out: dict[str, dict[str, Cell]] = {}
    for kind in kinds:
        of_kind = [row for row in rows if kind in (OVERALL, row.kind)]
        base = {(r.kind, r.question): r for r in of_kind if r.method == baseline}
        out[kind] = {m: _cell([r for r in of_kind if r.method == m], base) for m in methods}
    return out


def _speed(rows: Sequence[Result]) -> float:
    seconds = sum(row.total("seconds") for row in rows)
    return sum(row.n_tokens for row in rows) / seconds if seconds > 0 else 0.0


def _cell(rows: Sequence[Result], base: dict[tuple[str, str], Result]) -> Cell:
    pairs = [(row, base[row.kind, row.question]) for row in rows if (row.kind, row.question) in base]
    ratios = [_speed([row]) / _speed([plain]) for row, plain in pairs if _speed([plain]) > 0]
    quartiles = quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    steps = sum(row.total("steps") for row in rows)
    seconds = sum(row.total("seconds") for row in rows)
    return Cell(
        tokens_per_second=_speed(rows),
        ratio=median(ratios) if ratios else None,
        low=quartiles[0] if ratios else None,
        high=quartiles[2] if ratios else None,
        total_ratio=_speed([r for r, _ in pairs]) / _speed([p for _, p in pairs]) if ratios else None,
        tokens_per_step=sum(row.n_tokens for row in rows) / steps if steps else 0.0,
        drafted_per_step=sum(row.total("drafted") for row in rows) / steps if steps else 0.0,
        own_share=sum(row.total("own_s") for row in rows) / seconds if seconds else 0.0,
        n=len(rows),
    )


COLUMNS: tuple[tuple[str, int, Callable[[Cell], str]], ...] = (
    ("tok/s", 8, lambda c: f"{c.tokens_per_second:.1f}"),
    ("× median", 9, lambda c: _ratio(c.ratio)),
    ("quartiles", 12, lambda c: "" if c.low is None or c.high is None else f"{c.low:.2f}-{c.high:.2f}"),
    ("× total", 8, lambda c: _ratio(c.total_ratio)),
    ("tok/step", 9, lambda c: f"{c.tokens_per_step:.2f}"),
    ("drafted", 8, lambda c: f"{c.drafted_per_step:.1f}"),
    ("own work", 9, lambda c: f"{c.own_share:.1%}"),
)


def table(cells: dict[str, dict[str, Cell]]) -> str:
    """The cells as text: a block a kind, a line a method."""
    methods = [m for by_method in cells.values() for m in by_method]
    width = max((len(m) for m in methods), default=0)
    kind_width = max((len(k) for k in cells), default=0)
    lines = [" ".join([" " * kind_width, " " * width, *(name.rjust(w) for name, w, _ in COLUMNS)])]
    for kind, by_method in cells.items():
        for i, (method, cell) in enumerate(by_method.items()):
            name = (kind if i == 0 else "").ljust(kind_width)
            lines.append(" ".join([name, method.ljust(width), *(show(cell).rjust(w) for _, w, show in COLUMNS)]))
    return "\n".join(lines)


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
