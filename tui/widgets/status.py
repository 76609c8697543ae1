"""The status line: what the model is, how it drafts, how fast it answers, how full the context is."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from textual import events
from textual.content import Content
from textual.widgets import Static

from racer_local.stats import GenerationStats
from racer_local.terminal_text import one_line

SEPARATOR = "  "
UNKNOWN = "—"
BAR_CELLS = 20


@dataclass(frozen=True, slots=True)
class Status:
    """What the line says.

    Attributes:
        title: Name of the model file.
        model: Description of the loaded model, empty while it loads.
        device: Where the layers are.
        draft: Policy and mode of drafting.
        reason: Why drafting is as it is.
        limited: Whether drafting is less than the model or the user could wish, so that the reason matters.
        n_ctx: Tokens that the context can hold.
        progress: How much of the file is loaded, 0 to 1.
        prefill: Prompt tokens done and to do, None while no prompt is read.
        reading: Whether a prompt is being read.
        stats: Of the last answer, or of the one in progress.
    """

    title: str
    model: str = ""
    device: str = ""
    draft: str = ""
    reason: str = ""
    limited: bool = False
    n_ctx: int = 0
    progress: float = 0.0
    prefill: tuple[int, int] | None = None
    reading: bool = False
    stats: GenerationStats | None = None

    def parts(self) -> list[str]:
        """Everything but the reason, in order."""
        if not self.model:
            if self.progress >= 1:
                return [f"{self.title} is loaded", "preparing"]
            done = round(self.progress * BAR_CELLS)
            return [f"loading {self.title} {'█' * done}{'░' * (BAR_CELLS - done)} {self.progress:.0%}"]
        return [self.model, self.device, self.draft, *self._rates(), self._context()]

    @property
    def is_slow(self) -> bool:
        """Whether drafting makes the answer slower than plain decoding would be, by what is shown."""
        speedup = self.stats.speedup if self.stats is not None else None
        return speedup is not None and round(speedup, 2) < 1

    def _rates(self) -> list[str]:
        if self.reading:
            if self.prefill is None:
                return ["reading the prompt"]
            done, todo = self.prefill
            return [f"reading the prompt {done}/{todo} {done / max(todo, 1):.0%}"]
        stats = self.stats or GenerationStats()
        return [
            f"{_number(stats.predicted_per_second, 1)} tok/s",
            f"{_number(stats.tokens_per_step, 2)} tok/step",
            f"{_number(stats.speedup, 2)}×",
        ]

    def _context(self) -> str:
        used = self.stats.prompt_tokens + self.stats.predicted_n if self.stats else 0
        return f"{used}/{self.n_ctx}"


class StatusLine(Static):
    """Draws a `Status` in the width there is: parts are never cut, a second line takes what does not fit."""

    DEFAULT_CSS = """
    StatusLine { height: auto; padding: 0 1; color: $text-muted; background: $panel; }
    StatusLine.-slow { color: $text-warning; }
    """

    def __init__(self, status: Status) -> None:
        super().__init__()
        self._status = status

    @property
    def status(self) -> Status:
        """What the line says."""
        return self._status

    def change(self, **changes: object) -> None:
        """Change fields of the status."""
        status = replace(self._status, **changes)
        if status != self._status:
            self._status = status
            self.set_class(status.is_slow, "-slow")
            self._draw()

    def on_resize(self, _event: events.Resize) -> None:
        """Fill the new width."""
        self._draw()

    def _draw(self) -> None:
        width, height = self.content_size
        if width > 0:
            lines = lay_out(self._status, width)
            self.update(Content("\n".join(lines)), layout=len(lines) != height)


def lay_out(status: Status, width: int) -> list[str]:
    """Lines of a status; the reason is left out where it would cost a line and says nothing unexpected."""
    parts = [one_line(part) for part in status.parts()]
    lines = _pack(parts, width)
    if status.reason and status.model:
        longer = _pack([*parts, one_line(status.reason)], width)
        if status.limited or len(longer) == len(lines):
            return longer
    return lines


def _pack(parts: Sequence[str], width: int) -> list[str]:
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(SEPARATOR) + len(part) <= width:
            lines[-1] += SEPARATOR + part
        else:
            lines.append(part)
    return lines


def _number(value: float | None, digits: int) -> str:
    return UNKNOWN if value is None else f"{value:.{digits}f}"
