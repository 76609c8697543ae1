"""Drafters: one per policy family, each keeping in step with the context that the loop commits.

A drafter's life: `begin` with a prompt, then for each step `propose`, and `learn` what the model said.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from racer_local.drafting.acceptance import PRIOR_WEIGHT, Beliefs
from racer_local.drafting.automaton import Automaton
from racer_local.drafting.lookup import NgramIndex
from racer_local.drafting.successors import RowScan, Successors
from racer_local.kernels import draft as kernels
from racer_local.kernels import gain
from racer_local.records import DraftMode, DraftTree, Source
from racer_local.sequences import common_prefix
from racer_local.settings import MAX_BUDGET, DraftConfig

_NO_BELIEF = np.full(MAX_BUDGET, np.nan, np.float32)
_NO_BELIEF.flags.writeable = False
SWITCHED_OFF = "drafting is switched off"


class Drafter(Protocol):
    """What the loop asks of a policy."""

    note: str
    """Why nothing is drafted, empty while drafting is on."""

    def begin(self, prompt: Sequence[int]) -> None:
        """Take up a context that ends with the prompt's last token, the first root."""
        ...

    def propose(self, limit: int) -> DraftTree:
        """Draft at most `limit` nodes after the last committed token."""
        ...

    def learn(self, root: int, tree: DraftTree, scan: RowScan, path: Sequence[int], committed: Sequence[int]) -> None:
        """Take note of a verified step.

        Args:
            root: Token before the draft.
            tree: The draft.
            scan: Rows of the root and of every node.
            path: Accepted nodes.
            committed: Tokens that the step added to the context.
        """
        ...


class Memory:
    """What drafting remembers of a chat, shared by every policy that draws on it: automaton, successors, context.

    Attributes:
        automaton: n-grams of the context.
        successors: The model's own earlier guesses.
        context: Tokens that the automaton's window stands at the end of.
    """

    def __init__(self, config: DraftConfig, n_vocab: int, n_ctx: int) -> None:
        self.automaton = Automaton(config.automaton_nodes(n_ctx), config.max_ngram)
        self.successors = Successors(n_vocab, config.breadth)
        self.context: list[int] = []
        self._tokens = np.zeros(MAX_BUDGET, np.int32)
        self._rows = np.zeros(MAX_BUDGET, np.int32)

    def begin(self, prompt: Sequence[int]) -> None:
        """Learn what of a prompt is new: all that follows its common prefix with the context."""
        known = common_prefix(self.context, prompt)
        tokens = np.asarray(prompt, np.int32)
        if known < len(self.context):
            self.automaton.seek(tokens[:known])
        self.automaton.observe(tokens[known:])
        self.context = list(prompt)

    def learn(self, root: int, tree: DraftTree, scan: RowScan, path: Sequence[int], committed: Sequence[int]) -> None:
        """Learn a verified step: its rows, and the tokens that it has added. Arguments as in `Drafter.learn`."""
        n = len(tree) + 1
        self._tokens[0] = root
        self._tokens[1:n] = tree.token
        self._rows[0] = 0  # rows of the accepted path: the root's and one more than each node's number
        for i, node in enumerate(path):
            self._rows[i + 1] = node + 1
        self.successors.learn(self._tokens[:n], scan, self._rows[: len(path) + 1])
        self.commit(committed)

    def commit(self, tokens: Sequence[int]) -> None:
        """Learn tokens that an answer has added."""
        self.automaton.observe(np.asarray(tokens, np.int32))
        self.context.extend(tokens)


class RacerDrafter:
    """The paper's rule over a fixed budget: retrieved nodes, then the logits tree; either alone; as tree or chain."""

    note = ""

    def __init__(self, config: DraftConfig, memory: Memory) -> None:
        self._memory = memory
        self._chain = config.chain
        self._budget = config.budget - 1
        self._options = np.zeros(kernels.OPTIONS_WIDTH, np.int32)
        self._options[kernels.O_MIN_MATCH] = config.min_match
        self._options[kernels.O_BREADTH] = config.breadth
        self._options[kernels.O_RETRIEVAL] = config.policy in ("racer", "retrieval")
        self._options[kernels.O_LOGITS] = config.policy in ("racer", "logits")
        self._draft = np.zeros((kernels.DRAFT_HEIGHT, MAX_BUDGET + 1), np.int32)
        self._heap = np.zeros(kernels.HEAP_SIZE, np.int64)
        self._entries = np.zeros((kernels.HEAP_SIZE, kernels.ENTRY_WIDTH), np.int32)

    def begin(self, prompt: Sequence[int]) -> None:
        """See `Drafter`."""
        self._memory.begin(prompt)

    def propose(self, limit: int) -> DraftTree:
        """See `Drafter`."""
        memory, draft = self._memory, self._draft
        self._options[kernels.O_BUDGET] = min(self._budget, limit)
        nodes, active, successors = memory.automaton.nodes, memory.automaton.active, memory.successors.ids
        root = memory.context[-1]
        if self._chain:
            n = kernels.propose_chain(nodes, active, successors, root, self._options, draft)
        else:
            n = kernels.propose_tree(nodes, active, successors, root, self._options, draft, self._heap, self._entries)
        return tree_of(draft, n)

    def learn(self, root: int, tree: DraftTree, scan: RowScan, path: Sequence[int], committed: Sequence[int]) -> None:
        """See `Drafter`."""
        self._memory.learn(root, tree, scan, path, committed)


class Cost(Protocol):
    """What a decode costs, as `cost.StepCost` knows it."""

    def times(self, n_past: int) -> NDArray[np.float32]:
        """Time of a decode of n tokens at this context, float32[MAX_BUDGET + 1] by n, in any unit."""
        ...


class GainDrafter:
    """Drafting by expected gain: what is expected to bring the most tokens per time, or nothing.

    Trees are grown best first from both sources by the believed chance of the whole path, and cut where
    (1 + sum of the chances) / time is highest.
    """

    note = ""

    def __init__(self, config: DraftConfig, memory: Memory, cost: Cost) -> None:
        self._memory = memory
        self._cost = cost
        self._min_match = config.min_match
        self._chain = config.chain
        self._beliefs = Beliefs()
        self._draft = np.zeros((kernels.DRAFT_HEIGHT, MAX_BUDGET + 1), np.int32)
        self._p = np.zeros(MAX_BUDGET, np.float32)
        self._heap = np.zeros(kernels.HEAP_SIZE, np.int64)
        self._entries = np.zeros((kernels.HEAP_SIZE, gain.CANDIDATE_WIDTH), np.int32)

    def begin(self, prompt: Sequence[int]) -> None:
        """See `Drafter`."""
        self._memory.begin(prompt)

    def propose(self, limit: int) -> DraftTree:
        """See `Drafter`."""
        automaton, successors, context = self._memory.automaton, self._memory.successors, self._memory.context
        n = gain.propose_gain(
            automaton.nodes,
            automaton.buckets,
            automaton.active,
            successors.ids,
            successors.gaps,
            context[-1],
            self._min_match,
            limit,
            self._chain,
            self._beliefs.counts,
            self._beliefs.prior,
            np.float32(PRIOR_WEIGHT),
            self._cost.times(len(context) - 1),
            self._draft,
            self._p,
            self._heap,
            self._entries,
        )
        return tree_of(self._draft, n, self._p)

    def learn(self, root: int, tree: DraftTree, scan: RowScan, path: Sequence[int], committed: Sequence[int]) -> None:
        """See `Drafter`."""
        memory = self._memory
        self._beliefs.learn(memory.automaton, memory.successors, root, committed, self._min_match)
        memory.learn(root, tree, scan, path, committed)


class LookupDrafter:
    """Prompt lookup: a single path copied from the context."""

    note = ""

    def __init__(self, config: DraftConfig) -> None:
        self._n = config.lookup_ngram
        self._budget = config.budget - 1
        self._index = NgramIndex(config.lookup_ngram)

    def begin(self, prompt: Sequence[int]) -> None:
        """See `Drafter`."""
        self._index.reset(prompt)

    def propose(self, limit: int) -> DraftTree:
        """See `Drafter`."""
        copied = self._index.continuation(min(self._budget, limit))
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


class OffDrafter:
    """Plain decoding in the same loop."""

    def __init__(self, note: str = "") -> None:
        self.note = note

    def begin(self, prompt: Sequence[int]) -> None:
        """See `Drafter`."""

    def propose(self, limit: int) -> DraftTree:
        """See `Drafter`."""
        return DraftTree.empty()

    def learn(self, root: int, tree: DraftTree, scan: RowScan, path: Sequence[int], committed: Sequence[int]) -> None:
        """See `Drafter`."""


class ShortDrafter:
    """Another drafter's chains, cut to the number of tokens that the model can take back."""

    def __init__(self, inner: Drafter, max_depth: int) -> None:
        self._inner = inner
        self._max_depth = max_depth
        self.note = inner.note

    def begin(self, prompt: Sequence[int]) -> None:
        """See `Drafter`."""
        self._inner.begin(prompt)

    def propose(self, limit: int) -> DraftTree:
        """See `Drafter`."""
        return self._inner.propose(min(limit, self._max_depth))

    def learn(self, root: int, tree: DraftTree, scan: RowScan, path: Sequence[int], committed: Sequence[int]) -> None:
        """See `Drafter`."""
        self._inner.learn(root, tree, scan, path, committed)


def tree_of(draft: NDArray[np.int32], n: int, p: NDArray[np.float32] | None = None) -> DraftTree:
    """Copy of the first `n` nodes of a kernel's draft array, with the chances of their paths where they are known."""
    token, parent, depth, source, match_len = draft[: kernels.D_MATCH + 1, :n].copy()
    return DraftTree(
        token,
        parent,
        depth,
        source.astype(np.uint8),
        match_len.astype(np.int16),
        _NO_BELIEF[:n] if p is None else p[:n].copy(),
    )


def fit_to_mode(config: DraftConfig, mode: DraftMode) -> DraftConfig:
    """The configuration that a model's mode allows: chains where no tree can be verified."""
    if mode.name == "chain" and not config.chain:
        return replace(config, chain=True)
    return config


def make_drafter(config: DraftConfig, mode: DraftMode, memory: Memory | None, cost: Cost | None = None) -> Drafter:
    """The drafter for a configuration on a model of this mode.

    Args:
        config: The user's wish.
        mode: What the model can verify.
        memory: Shared by all policies that retrieve or extrapolate; the others need none.
        cost: What decodes cost; policy `auto` needs it.
    """
    if config.policy == "off":
        return OffDrafter(SWITCHED_OFF)
    if mode.name == "off":
        return OffDrafter(mode.reason)
    config = fit_to_mode(config, mode)
    drafter: Drafter
    if config.policy == "lookup":
        drafter = LookupDrafter(config)
    else:
        assert memory is not None, f"policy {config.policy} draws on a memory"
        if config.policy == "auto":
            assert cost is not None, "policy auto weighs costs"
            drafter = GainDrafter(config, memory, cost)
        else:
            drafter = RacerDrafter(config, memory)
    return ShortDrafter(drafter, mode.max_depth) if mode.max_depth is not None else drafter
