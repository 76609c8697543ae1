"""Drafters: one per policy family, each keeping in step with the context that the loop commits.

A drafter's life: `begin` with a prompt, then for each step `propose`, and `learn` what the model said.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from racer_local.draft_tree import DraftMode, DraftTree
from racer_local.drafting.beliefs import Beliefs
from racer_local.drafting.cost import StepCost
from racer_local.drafting.expected_gain import GainDrafter
from racer_local.drafting.lookup import NgramIndex
from racer_local.drafting.memory import Memory
from racer_local.drafting.successors import RowScan
from racer_local.kernels import draft_layout, paper_rule
from racer_local.settings import MAX_BUDGET, DraftConfig
from racer_local.tokens import Source

SWITCHED_OFF = "drafting is switched off"


class Drafter(Protocol):
    """What the loop asks of a policy."""

    @property
    def note(self) -> str:
        """Why nothing is drafted, empty while drafting is on."""
        ...

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


class RacerDrafter:
    """The paper's rule over a fixed budget: retrieved nodes, then the logits tree; either alone; as tree or chain."""

    note = ""

    def __init__(self, config: DraftConfig, memory: Memory) -> None:
        self._memory = memory
        self._chain = config.chain
        self._budget = config.most_nodes
        self._options = np.zeros(paper_rule.OPTIONS_WIDTH, np.int32)
        self._options[paper_rule.O_MIN_MATCH] = config.min_match
        self._options[paper_rule.O_BREADTH] = config.breadth
        self._options[paper_rule.O_RETRIEVAL] = config.policy in ("racer", "retrieval")
        self._options[paper_rule.O_LOGITS] = config.policy in ("racer", "logits")
        self._draft = np.zeros((draft_layout.DRAFT_HEIGHT, MAX_BUDGET + 1), np.int32)
        self._heap = np.zeros(draft_layout.HEAP_SIZE, np.int64)
        self._entries = np.zeros((draft_layout.HEAP_SIZE, paper_rule.ENTRY_WIDTH), np.int32)

    def begin(self, prompt: Sequence[int]) -> None:
        """See `Drafter`."""
        self._memory.begin(prompt)

    def propose(self, limit: int) -> DraftTree:
        """See `Drafter`."""
        memory, draft = self._memory, self._draft
        self._options[paper_rule.O_LIMIT] = min(self._budget, limit)
        nodes, active, successors = memory.automaton.nodes, memory.automaton.active, memory.successors.ids
        root = memory.context[-1]
        if self._chain:
            n = paper_rule.propose_chain(nodes, active, successors, root, self._options, draft)
        else:
            n = paper_rule.propose_tree(
                nodes, active, successors, root, self._options, draft, self._heap, self._entries
            )
        return DraftTree.of(draft, n)

    def learn(self, root: int, tree: DraftTree, scan: RowScan, path: Sequence[int], committed: Sequence[int]) -> None:
        """See `Drafter`."""
        self._memory.learn(root, tree, scan, path, committed)


class LookupDrafter:
    """Prompt lookup: a single path copied from the context."""

    note = ""

    def __init__(self, config: DraftConfig) -> None:
        self._n = config.lookup_ngram
        self._budget = config.most_nodes
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


def fit_to_mode(config: DraftConfig, mode: DraftMode) -> DraftConfig:
    """The configuration that a model's mode allows: chains where no tree can be verified."""
    if mode.name == "chain" and not config.chain:
        return replace(config, chain=True)
    return config


def weighs_costs(config: DraftConfig, mode: DraftMode) -> bool:
    """Whether a configuration needs to know what decodes cost on a model of this mode."""
    return config.policy == "auto" and mode.name != "off"


def make_drafter(
    config: DraftConfig,
    mode: DraftMode,
    memory: Memory | None,
    cost: StepCost | None = None,
    beliefs: Beliefs | None = None,
) -> Drafter:
    """The drafter for a configuration on a model of this mode.

    Args:
        config: The user's wish.
        mode: What the model can verify.
        memory: Shared by all policies that retrieve or extrapolate; the others need none.
        cost: What decodes cost; policy `auto` needs it.
        beliefs: What policy `auto` has learned; None begins with the shipped priors.
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
            drafter = GainDrafter(config, memory, cost, Beliefs() if beliefs is None else beliefs)
        else:
            drafter = RacerDrafter(config, memory)
    return ShortDrafter(drafter, mode.max_depth) if mode.max_depth is not None else drafter


def describe(config: DraftConfig, mode: DraftMode) -> dict[str, Any]:
    """How a configuration drafts on a model of this mode: `policy`, `mode` (tree, chain or off), `reason`, `budget`."""
    name, reason = mode.name, mode.reason
    if config.policy == "off":
        name, reason = "off", SWITCHED_OFF
    elif name == "tree" and (config.chain or config.policy == "lookup"):
        name, reason = "chain", "a single path is drafted as configured"
    return {"policy": config.policy, "mode": name, "reason": reason, "budget": config.most_nodes + 1}
