"""Calibration: how far believed chances could be relied on lately."""

from collections.abc import Sequence

import numpy as np

from racer_local.draft_tree import DraftTree
from racer_local.kernels.calibration import learn_calibration

WEIGHT = 3.0
"""Nodes that the evidence begins with: believed and come true."""
FADE = 0.2
"""Share of earlier evidence that a verified draft replaces."""
RETURN = 0.02
"""Share of it that every step forgets, so that drafting which was believed in too much is tried again."""


class Calibration:
    """How much of what was believed of drafts came true lately: a factor of at most 1 on every chance.

    The best of many guesses tends to be one that was judged too well, and how much so depends on the text. What was
    lost comes back by itself within some hundred steps, to be tried again.
    """

    def __init__(self) -> None:
        self._seen = np.zeros(2)

    @property
    def factor(self) -> float:
        """What believed chances are multiplied by."""
        true, believed = self._seen.tolist()
        return min(1.0, (true + WEIGHT) / (believed + WEIGHT))

    def learn(self, tree: DraftTree, path: Sequence[int], given: float) -> None:
        """Take note of a step; `given` is the factor that was in the chances of its tree."""
        self._seen *= 1.0 - RETURN
        if len(tree):
            learn_calibration(tree.parent, tree.p, np.asarray(path, np.int32), given, FADE, self._seen)
