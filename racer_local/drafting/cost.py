"""What a decode costs on this machine: of one token, and of n tokens over one, by context length."""

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from racer_local.settings import MAX_BUDGET

MIN_PLAIN_STEPS = 3
"""Plain steps that must have been timed at about a context before anything is said about it."""
SHORTEST = 256
"""Contexts below this many tokens are one group; each further group reaches twice as far."""
GROUPS = 16
PLAIN_GAIN = 0.2
"""Share of a surprise that a plain step's time is believed by: the level follows other programs' load in seconds."""
RATIO_GAIN = 0.1
"""Share of a surprise that the ratio of a draft's size is believed by, half for all contexts and half for its group."""
SWITCH_GAIN = 0.05
"""Share of a surprise that the price of going back to plain steps is believed by."""
MAX_SWITCH = 0.3
SURPRISE = 0.4
"""Largest surprise that is believed, in natural log: one step that was held up teaches little."""
PLAIN_EVERY = 200
"""Steps without a yardstick, a plain step after a plain step, after which one is due."""
FIRST_PLAIN_EVERY = 16
"""The same while too few plain steps were timed at about this context."""
DRAFT_EVERY = 300
"""Plain steps after which a draft is due, so that costs which have fallen are noticed."""


class StepCost:
    """Time of a decode of n tokens at a context, from a measurement, kept current by real steps.

    Times are kept as logarithms: a level that all share, and for each group of contexts what a plain step takes above
    it and the ratios of larger steps. A plain step corrects the level, a step with a draft the ratio at its size and,
    the less the further away, at neighbouring sizes. A plain step after one with a draft takes a little longer, since
    llama.cpp sets up its graph anew: that is part of what the draft costs.
    """

    def __init__(self, seconds: Mapping[int, float] | None = None) -> None:
        """Start from measured times.

        Args:
            seconds: Time of a decode by its number of tokens, at least of 1 and 2; others lie on straight lines between
                those measured, and beyond the last on the line through the last two. Without it nothing is known, and
                no draft is believed to pay.
        """
        self._n = np.arange(MAX_BUDGET + 1, dtype=np.float64)
        self._level = math.nan
        self._offset = [0.0] * GROUPS
        self._ratio = np.tile(np.log(np.maximum(self._n, 1.0)), (GROUPS, 1))
        self._visited = [False] * GROUPS
        self._n_plain = [0] * GROUPS
        self._switch = 0.0
        self._after_draft = False
        self._since_plain = 0
        self._since_draft = 0
        self._times = np.zeros(MAX_BUDGET + 1, np.float32)
        self._times_of: tuple[int, bool] | None = None
        """What `_times` holds: group, and whether a draft came before; None if they have to be made anew."""
        self.is_measured = False
        if seconds is not None:
            self.set_curve(seconds)

    def set_curve(self, seconds: Mapping[int, float], n_past: int = 0) -> None:
        """Start over from measured times.

        Args:
            seconds: As when built.
            n_past: Tokens of context that they were measured at.
        """
        sizes = sorted(seconds)
        assert sizes[:2] == [1, 2], "a curve begins with 1 and 2 tokens"
        known = np.array([seconds[n] for n in sizes])
        times = np.interp(self._n, sizes, known)
        slope = max(0.0, (known[-1] - known[-2]) / (sizes[-1] - sizes[-2]))
        beyond = self._n > sizes[-1]
        times[beyond] = known[-1] + slope * (self._n[beyond] - sizes[-1])
        self._level = math.log(times[1])
        self._offset = [0.0] * GROUPS
        self._ratio[:] = np.log(times / times[1])
        self._visited = [False] * GROUPS
        self._visited[_group(n_past)] = True
        self._times_of = None
        self._n_plain[_group(n_past)] = MIN_PLAIN_STEPS
        self.is_measured = True

    def observe(self, n: int, n_past: int, seconds: float) -> None:
        """Take note of a real step of `n` tokens at a context of `n_past`."""
        group = _group(n_past)
        self._visit(group)
        log = math.log(max(seconds, 1e-6))
        if n == 1:
            self._since_draft += 1
            if self._after_draft:
                self._after_draft = False
                self._since_plain += 1
                self._observe_return(group, log)
            else:
                self._since_plain = 0
                self._observe_plain(group, log)
            return
        self._after_draft = True
        self._since_plain += 1
        self._since_draft = 0
        if math.isnan(self._level):
            return
        surprise = _bounded(log - self._level - self._offset[group] - self._ratio[group, n])
        near = np.exp(-np.abs(self._n - n))
        near[:2] = 0.0
        change = 0.5 * RATIO_GAIN * surprise * near
        self._ratio += change
        self._ratio[group] += change
        self._times_of = None

    def _observe_plain(self, group: int, log: float) -> None:
        """A plain step after a plain step: the yardstick."""
        self._n_plain[group] += 1
        seen = sum(self._n_plain)
        if seen == 1 or math.isnan(self._level):
            self._level = log - self._offset[group]
            return
        change = max(PLAIN_GAIN, 1 / seen) * _bounded(log - self._level - self._offset[group])
        self._level += 0.5 * change
        self._offset[group] += 0.5 * change

    def _observe_return(self, group: int, log: float) -> None:
        """A plain step after a draft."""
        if not math.isnan(self._level):
            above = math.expm1(_bounded(log - self._level - self._offset[group]))
            self._switch = min(max(self._switch + SWITCH_GAIN * (above - self._switch), 0.0), MAX_SWITCH)
            self._times_of = None

    def times(self, n_past: int) -> NDArray[np.float32]:
        """Time of the next decode by its number of tokens, float32[MAX_BUDGET + 1] in plain steps; the first cell is
        unused. It includes going back to plain steps after a draft.
        """
        group = _group(n_past)
        if self._times_of != (group, self._after_draft):
            self._visit(group)
            np.exp(self._ratio[group], out=self._times, casting="same_kind")
            if self._after_draft:
                self._times[1] += self._switch
            else:
                self._times[2:] += self._switch
            self._times_of = (group, self._after_draft)
        return self._times

    def plain_s(self, n_past: int) -> float | None:
        """Time in seconds of a plain step at this context; None while fewer than three were timed at about it."""
        group = _group(n_past)
        if sum(self._n_plain[max(0, group - 1) : group + 2]) < MIN_PLAIN_STEPS:
            return None
        self._visit(group)
        return math.exp(self._level + self._offset[group])

    def plain_is_due(self, n_past: int) -> bool:
        """Whether it is time for a plain step, whatever drafting promises."""
        if self._since_plain < FIRST_PLAIN_EVERY:
            return False
        return self._since_plain >= PLAIN_EVERY or self.plain_s(n_past) is None

    def draft_is_due(self, n_past: int) -> bool:
        """Whether it is time for a draft, though none is expected to pay: only where one could if it were right."""
        if self._since_draft < DRAFT_EVERY:
            return False
        return bool((self._n[2:] > 1.02 * self.times(n_past)[2:]).any())

    def _visit(self, group: int) -> None:
        """A group that is new begins with what is known of the nearest."""
        if not self._visited[group]:
            known = [g for g in range(GROUPS) if self._visited[g]]
            if known:
                nearest = min(known, key=lambda g: abs(g - group))
                self._offset[group] = self._offset[nearest]
                self._ratio[group] = self._ratio[nearest]
            self._visited[group] = True

    # kept between starts

    def as_dict(self) -> dict[str, Any]:
        """For a file."""
        groups = [g for g in range(GROUPS) if self._visited[g]]
        return {
            "level": round(self._level, 4),
            "switch": round(self._switch, 4),
            "groups": groups,
            "offset": [round(self._offset[g], 4) for g in groups],
            "ratio": self._ratio[groups].round(4).tolist(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Costs of an earlier start; how long a plain step takes today is yet to be seen.

        Raises:
            ValueError: The data is not what `as_dict` gives, or no costs that a machine could have.
        """
        cost = cls()
        try:
            level, switch, groups = float(data["level"]), float(data["switch"]), [int(g) for g in data["groups"]]
            offset, ratio = np.array(data["offset"], np.float64), np.array(data["ratio"], np.float64)
        except (KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"costs lack {error}") from error
        if not groups or sorted(set(groups)) != groups or not 0 <= groups[0] <= groups[-1] < GROUPS:
            raise ValueError("groups of contexts are wrong")
        if offset.shape != (len(groups),) or ratio.shape != (len(groups), MAX_BUDGET + 1):
            raise ValueError("the number of costs is wrong")
        if not (
            abs(level) < 20 and 0 <= switch <= MAX_SWITCH and (np.abs(offset) < 20).all() and (np.abs(ratio) < 20).all()
        ):
            raise ValueError("costs are out of bounds")
        cost._level, cost._switch = level, switch
        cost._ratio[groups] = ratio
        for group, above in zip(groups, offset.tolist(), strict=True):
            cost._offset[group], cost._visited[group] = above, True
        cost.is_measured = True
        return cost


def _bounded(surprise: float) -> float:
    return min(max(surprise, -SURPRISE), SURPRISE)


def _group(n_past: int) -> int:
    """Group of a context: below 256 tokens, 512, 1024 and so on."""
    return min((n_past // SHORTEST).bit_length(), GROUPS - 1)
