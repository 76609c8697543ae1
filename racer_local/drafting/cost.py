"""What a step without a draft costs on this machine, from real steps."""

from collections import deque
from statistics import median

from racer_local.stats import MIN_PLAIN_STEPS

REMEMBERED = 24
NEAR = 256
"""Contexts this close, in tokens, count as equally long; further on, a quarter of the context does."""


class PlainTime:
    """Time of single-token steps by context length, the yardstick of every speed-up."""

    def __init__(self) -> None:
        self._steps: deque[tuple[int, float]] = deque(maxlen=REMEMBERED)

    def add(self, n_past: int, seconds: float) -> None:
        """Note a step without a draft at a context of `n_past` tokens."""
        self._steps.append((n_past, seconds))

    def at(self, n_past: int) -> float | None:
        """Median time in seconds of plain steps at about this context; None while fewer than three were seen there."""
        reach = max(NEAR, n_past // 4)
        near = [seconds for at, seconds in self._steps if abs(at - n_past) <= reach]
        return median(near) if len(near) >= MIN_PLAIN_STEPS else None
