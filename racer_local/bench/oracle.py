"""A drafter that knows which of its candidates are right: how far drafting by expected gain could go at most."""

from collections.abc import Sequence

import numpy as np

from racer_local.draft_tree import DraftTree
from racer_local.drafting.cost import StepCost
from racer_local.drafting.memory import Memory
from racer_local.drafting.policies import DraftConfig
from racer_local.drafting.successors import RowScan
from racer_local.kernels import candidates
from racer_local.settings import MAX_BUDGET
from racer_local.tokens import Source


class OracleDrafter:
    """Drafts the true continuation as far as the candidates hold it, cut where tokens per time are highest.

    Attributes:
        truth: Tokens of the answer that `begin` starts, to be set before.
    """

    note = ""

    def __init__(self, config: DraftConfig, memory: Memory, cost: StepCost) -> None:
        self._memory = memory
        self._cost = cost
        self._min_match = config.min_match
        self._at = 0
        self._scratch = np.zeros((candidates.MAX_CANDIDATES, candidates.CANDIDATE_WIDTH), np.int32)
        self.truth: list[int] = []

    def begin(self, prompt: Sequence[int]) -> None:
        """See `Drafter`."""
        self._memory.begin(prompt)
        self._at = 0

    def propose(self, limit: int) -> DraftTree:
        """See `Drafter`."""
        reach = self._reach(min(limit, MAX_BUDGET - 1))
        times = self._cost.times(len(self._memory.context) - 1)
        n = max(range(reach + 1), key=lambda n: (1 + n) / times[1 + n])
        tree = DraftTree.allocate(n)
        tree.token[:] = self.truth[self._at : self._at + n]
        tree.parent[:] = np.arange(n) - 1
        tree.depth[:] = np.arange(n) + 1
        tree.source[:] = Source.RETRIEVAL
        return tree

    def learn(self, root: int, tree: DraftTree, scan: RowScan, path: Sequence[int], committed: Sequence[int]) -> None:
        """See `Drafter`."""
        self._memory.learn(root, tree, scan, path, committed)
        self._at += len(committed)

    def _reach(self, limit: int) -> int:
        """True tokens from here on that are among the candidates, each after the ones before it."""
        known, token = self._memory.known, self._memory.context[-1]
        state = candidates.window_state(known.active)
        for n, true in enumerate(self.truth[self._at : self._at + limit]):
            ids, gaps = known.ids[token], known.gaps[token]
            found = candidates.list_candidates(
                known.nodes, state, n == 0, ids, gaps, np.float32(1.0), self._min_match, self._scratch
            )
            if true not in self._scratch[:found, candidates.C_TOKEN]:
                return n
            token, state = true, candidates.next_state(known.nodes, known.buckets, state, true)
        return min(limit, len(self.truth) - self._at)
