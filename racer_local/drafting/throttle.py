"""The throttle: whether drafts have paid lately, and a pause while they have not."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from racer_local.draft_tree import ROOT, DraftTree

FADE = 1 / 48
"""Share of earlier evidence that each draft replaces."""
SEED_TIME = 24.0
"""Time, in plain steps, of the drafts that the throttle begins with, at no gain."""
PAUSE_BELOW = 0.95
RESUME_ABOVE = 1.01
"""Gains that begin and end a pause; apart, so that a change is rare."""


@dataclass(slots=True)
class _Pending:
    """A draft whose outcome is being awaited.

    Attributes:
        tokens, parents: Of its nodes.
        time: Of its decode, in plain steps.
        at: Node reached so far.
        n: Tokens it has brought, or would have.
    """

    tokens: list[int]
    parents: list[int]
    time: float
    at: int = ROOT
    n: int = 1


class Throttle:
    """Weighs the tokens that drafts bring against what their decodes cost.

    While paused, drafts are made and held back: what they would have brought shows in the tokens that follow, so
    drafting resumes when it would pay again, and nothing is spent on trying.

    Attributes:
        paused: Whether drafts are held back.
        gain: Tokens per time with drafts over plain decoding, of the last drafts.
    """

    def __init__(self) -> None:
        self.paused = False
        self._tokens = SEED_TIME
        self._time = SEED_TIME
        self._pending: _Pending | None = None

    @property
    def gain(self) -> float:
        """See the class."""
        return self._tokens / self._time

    @property
    def note(self) -> str:
        """Why nothing is drafted, empty while drafting is on."""
        return f"drafting paused: it would make {self.gain:.2f} of plain speed here" if self.paused else ""

    def pass_on(self, tree: DraftTree, times: NDArray[np.float32]) -> DraftTree:
        """The draft, or none during a pause.

        Args:
            tree: What would be drafted.
            times: float32[MAX_BUDGET + 1], time of a decode of n tokens in plain steps.
        """
        if not len(tree):
            return tree
        if self._pending is None:
            self._pending = _Pending(tree.token.tolist(), tree.parent.tolist(), float(times[len(tree) + 1] / times[1]))
        return DraftTree.empty() if self.paused else tree

    def learn(self, committed: Sequence[int]) -> None:
        """Take note of the tokens of a step."""
        pending = self._pending
        if pending is None:
            return
        for token in committed:
            child = _child(pending, token)
            if child is None:
                self._settle(pending)
                return
            pending.at = child
            pending.n += 1
        if pending.at not in pending.parents:
            self._settle(pending)

    def abandon(self) -> None:
        """Forget the draft in flight: the context has changed."""
        self._pending = None

    def _settle(self, pending: _Pending) -> None:
        self._tokens += pending.n - FADE * self._tokens
        self._time += pending.time - FADE * self._time
        self.paused = self.gain < (RESUME_ABOVE if self.paused else PAUSE_BELOW)
        self._pending = None


def _child(pending: _Pending, token: int) -> int | None:
    for i in range(pending.at + 1, len(pending.tokens)):
        if pending.parents[i] == pending.at and pending.tokens[i] == token:
            return i
    return None
