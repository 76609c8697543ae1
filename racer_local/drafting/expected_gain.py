"""Drafting by expected gain: what is expected to bring the most tokens per time, or nothing."""

from collections.abc import Sequence

import numpy as np

from racer_local.draft_tree import DraftTree
from racer_local.drafting.beliefs import Beliefs
from racer_local.drafting.calibration import Calibration
from racer_local.drafting.cost import StepCost
from racer_local.drafting.memory import Memory
from racer_local.drafting.successors import RowScan
from racer_local.drafting.throttle import Throttle
from racer_local.kernels.candidates import CANDIDATE_WIDTH
from racer_local.kernels.draft_layout import DRAFT_HEIGHT, HEAP_SIZE
from racer_local.kernels.expected_gain import DraftLimits, Workspace, propose_gain
from racer_local.settings import MAX_BUDGET

TRIAL_NODES = 3
"""Nodes of a draft that is made only to see what one costs by now."""


class ExpectedGainDrafter:
    """The draft that is expected to bring the most tokens per time, or none.

    Trees are grown best first from both sources by the believed chance of the whole path, and cut where
    (1 + sum of the chances) / time is highest. Chances are weighed by how far they could be trusted lately, costs are
    those of this machine at this context, and a throttle holds drafts back while they do not pay.
    """

    def __init__(
        self,
        memory: Memory,
        cost: StepCost,
        beliefs: Beliefs,
        limit: int,
        min_match: int,
        temperature: float,
        *,
        chain: bool,
    ) -> None:
        """Prepare.

        Args:
            memory: What drafts are made from.
            cost: What decodes cost.
            beliefs: What has been learned of candidates, changed.
            limit: Nodes of a draft at most.
            min_match: Shortest n-gram that is trusted.
            temperature: Divides the gaps between the model's guesses.
            chain: Whether to keep to a single path.
        """
        self._memory = memory
        self._cost = cost
        self._beliefs = beliefs
        self._calibration = Calibration()
        self._throttle = Throttle()
        self._chain = chain
        self._min_match = min_match
        self._limit = limit
        self._temperature = np.float32(temperature)
        self._given = 1.0
        self._workspace = Workspace(
            np.zeros((DRAFT_HEIGHT, MAX_BUDGET + 1), np.int32),
            np.zeros(MAX_BUDGET, np.float32),
            np.zeros(HEAP_SIZE, np.int64),
            np.zeros((HEAP_SIZE, CANDIDATE_WIDTH), np.int32),
        )

    @property
    def note(self) -> str:
        """See `Drafter`."""
        return self._throttle.note

    def begin(self, prompt: Sequence[int]) -> None:
        """See `Drafter`."""
        self._memory.begin(prompt)
        self._throttle.abandon()

    def propose(self, limit: int) -> DraftTree:
        """See `Drafter`."""
        context, cost = self._memory.context, self._cost
        n_past, limit = len(context) - 1, min(limit, self._limit)
        if limit < 1 or cost.plain_is_due(n_past):
            return DraftTree.empty()
        trial = cost.draft_is_due(n_past)
        if trial:
            limit = min(limit, TRIAL_NODES)
        self._given = self._calibration.factor
        times = cost.times(n_past)
        limits = DraftLimits(self._min_match, limit, self._chain, trial, self._given, self._temperature)
        beliefs = self._beliefs
        n = propose_gain(self._memory.known, context[-1], beliefs.counts, beliefs.prior, times, limits, self._workspace)
        tree = DraftTree.of(self._workspace.draft, n, self._workspace.p)
        return tree if trial else self._throttle.pass_on(tree, times)

    def learn(self, root: int, tree: DraftTree, scan: RowScan, path: Sequence[int], committed: Sequence[int]) -> None:
        """See `Drafter`."""
        self._throttle.learn(committed)
        self._calibration.learn(tree, path, self._given)
        self._beliefs.learn(self._memory.known, root, committed, self._min_match)
        self._memory.learn(root, tree, scan, path, committed)
