"""What a decode costs on this machine: of one token, and of n tokens over one."""

import math
from collections import deque
from collections.abc import Mapping
from statistics import median

import numpy as np
from numpy.typing import NDArray

from racer_local.settings import MAX_BUDGET
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


PLAIN_GAIN = 0.2
"""Share of a surprise that a plain step's time is believed by: the level follows other programs' load in seconds."""
RATIO_GAIN = 0.1
"""Share of a surprise that the ratio of a draft's size is believed by."""
SURPRISE = 0.4
"""Largest surprise that is believed, in natural log: one step that was held up teaches little."""


class StepCost:
    """Time of a decode of n tokens: a curve of ratios, from a calibration, kept current by real steps.

    Times are kept as logarithms: those of one token, and those of n tokens over one. A plain step corrects the former,
    a step with a draft the latter at its size and, the less the further away, at neighbouring sizes.
    """

    def __init__(self, seconds: Mapping[int, float]) -> None:
        """Start from measured times.

        Args:
            seconds: Time of a decode by its number of tokens, at least of 1 and 2; others lie on straight lines between
                those measured, and beyond the last on the line through the last two.
        """
        sizes = sorted(seconds)
        assert sizes[:2] == [1, 2], "a curve begins with 1 and 2 tokens"
        known = np.array([seconds[n] for n in sizes])
        n = np.arange(MAX_BUDGET + 1, dtype=np.float64)
        times = np.interp(n, sizes, known)
        slope = max(0.0, (known[-1] - known[-2]) / (sizes[-1] - sizes[-2]))
        beyond = n > sizes[-1]
        times[beyond] = known[-1] + slope * (n[beyond] - sizes[-1])
        self._plain = math.log(times[1])
        self._ratio = np.log(times / times[1])
        self._n = n
        self._times = np.exp(self._ratio).astype(np.float32)

    def observe(self, n: int, seconds: float) -> None:
        """Take note of a real step of `n` tokens."""
        surprise = math.log(max(seconds, 1e-6)) - self._plain - self._ratio[n]
        surprise = min(max(surprise, -SURPRISE), SURPRISE)
        if n == 1:
            self._plain += PLAIN_GAIN * surprise
            return
        near = np.exp(-np.abs(self._n - n))
        near[:2] = 0.0
        self._ratio += RATIO_GAIN * surprise * near
        np.exp(self._ratio, out=self._times, casting="same_kind")

    def times(self, n_past: int) -> NDArray[np.float32]:
        """Time of a decode of n tokens over that of one, float32[MAX_BUDGET + 1] by n; the first cell is unused."""
        return self._times
