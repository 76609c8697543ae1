"""Prompt lookup, the usual baseline: find the last n tokens earlier in the context and copy what followed."""

from collections.abc import Sequence

import numpy as np

from racer_local.draft_tree import DraftTree
from racer_local.drafting.successors import RowScan
from racer_local.tokens import Source


class NgramIndex:
    """Where each n-gram of the context ended last, so that a look-up takes constant time."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._context: list[int] = []
        self._ends: dict[tuple[int, ...], int] = {}
        self._match = -1

    def reset(self, context: Sequence[int]) -> None:
        """Start over with a context."""
        self._context.clear()
        self._ends.clear()
        self._match = -1
        self.observe(context)

    def observe(self, tokens: Sequence[int]) -> None:
        """Add tokens to the context."""
        for token in tokens:
            self._context.append(token)
            end = len(self._context)
            if end >= self._n:
                key = tuple(self._context[end - self._n :])
                self._match = self._ends.get(key, -1)
                self._ends[key] = end

    def continuation(self, limit: int) -> list[int]:
        """What followed the last earlier occurrence of the last n tokens: at most `limit` tokens, perhaps none."""
        if self._match < 0:
            return []
        return self._context[self._match : self._match + limit]


class LookupDrafter:
    """Prompt lookup: a single path copied from the context."""

    note = ""

    def __init__(self, limit: int, n: int) -> None:
        """Prepare drafts of at most `limit` nodes, copied from where the last `n` tokens stood before."""
        self._n = n
        self._limit = limit
        self._index = NgramIndex(n)

    def begin(self, prompt: Sequence[int]) -> None:
        """See `Drafter`."""
        self._index.reset(prompt)

    def propose(self, limit: int) -> DraftTree:
        """See `Drafter`."""
        copied = self._index.continuation(min(self._limit, limit))
        tree = DraftTree.allocate(len(copied))
        tree.token[:] = copied
        tree.parent[:] = np.arange(len(copied)) - 1
        tree.depth[:] = np.arange(len(copied)) + 1
        tree.source[:] = Source.RETRIEVAL
        tree.match_len[:] = self._n
        return tree

    def learn(self, root: int, tree: DraftTree, scan: RowScan, path: Sequence[int], committed: Sequence[int]) -> None:
        """See `Drafter`."""
        self._index.observe(committed)
