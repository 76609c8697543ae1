"""Drafts for a model that can take only so many tokens back."""

from collections.abc import Sequence

from racer_local.draft_tree import DraftTree
from racer_local.drafting.drafter import Drafter
from racer_local.drafting.successors import RowScan


class DepthLimitedDrafter:
    """Another drafter's chains, cut to the number of tokens that the model can take back."""

    def __init__(self, inner: Drafter, max_depth: int) -> None:
        self._inner = inner
        self._max_depth = max_depth

    @property
    def note(self) -> str:
        """See `Drafter`."""
        return self._inner.note

    def begin(self, prompt: Sequence[int]) -> None:
        """See `Drafter`."""
        self._inner.begin(prompt)

    def propose(self, limit: int) -> DraftTree:
        """See `Drafter`."""
        return self._inner.propose(min(limit, self._max_depth))

    def learn(self, root: int, tree: DraftTree, scan: RowScan, path: Sequence[int], committed: Sequence[int]) -> None:
        """See `Drafter`."""
        self._inner.learn(root, tree, scan, path, committed)
