"""Drafting by the paper's rule: retrieved nodes by count, then the logits tree."""

from collections.abc import Sequence

import numpy as np

from racer_local.draft_tree import DraftTree
from racer_local.drafting.memory import Memory
from racer_local.drafting.successors import RowScan
from racer_local.kernels import paper_rule as kernels
from racer_local.kernels.draft_layout import DRAFT_HEIGHT, HEAP_SIZE
from racer_local.settings import MAX_BUDGET


class PaperRuleDrafter:
    """Retrieved nodes, then the logits tree, up to a fixed number; either alone; as tree or chain."""

    note = ""

    def __init__(
        self, memory: Memory, limit: int, min_match: int, breadth: int, *, chain: bool, retrieval: bool, logits: bool
    ) -> None:
        """Prepare.

        Args:
            memory: What drafts are made from.
            limit: Nodes of a draft at most.
            min_match: Shortest n-gram that is trusted.
            breadth: Guesses after the root.
            chain: Whether to keep to a single path.
            retrieval: Whether to draft from n-grams.
            logits: Whether to draft from the model's earlier guesses.
        """
        self._memory = memory
        self._chain = chain
        self._limit = limit
        self._options = np.zeros(kernels.OPTIONS_WIDTH, np.int32)
        self._options[kernels.O_MIN_MATCH] = min_match
        self._options[kernels.O_BREADTH] = breadth
        self._options[kernels.O_RETRIEVAL] = retrieval
        self._options[kernels.O_LOGITS] = logits
        self._draft = np.zeros((DRAFT_HEIGHT, MAX_BUDGET + 1), np.int32)
        self._heap = np.zeros(HEAP_SIZE, np.int64)
        self._entries = np.zeros((HEAP_SIZE, kernels.ENTRY_WIDTH), np.int32)

    def begin(self, prompt: Sequence[int]) -> None:
        """See `Drafter`."""
        self._memory.begin(prompt)

    def propose(self, limit: int) -> DraftTree:
        """See `Drafter`."""
        memory, draft = self._memory, self._draft
        self._options[kernels.O_LIMIT] = min(self._limit, limit)
        nodes, active, successors = memory.automaton.nodes, memory.automaton.active, memory.successors.ids
        root = memory.context[-1]
        if self._chain:
            n = kernels.propose_chain(nodes, active, successors, root, self._options, draft)
        else:
            n = kernels.propose_tree(nodes, active, successors, root, self._options, draft, self._heap, self._entries)
        return DraftTree.of(draft, n)

    def learn(self, root: int, tree: DraftTree, scan: RowScan, path: Sequence[int], committed: Sequence[int]) -> None:
        """See `Drafter`."""
        self._memory.learn(root, tree, scan, path, committed)
