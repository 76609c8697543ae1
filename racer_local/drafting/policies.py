"""The drafting policies in one table: what each is, what it needs and how it is made; and how drafts are configured.

Light to import: what makes drafts is loaded when a drafter is made. A policy's own module takes plain parameters and
knows nothing of this one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from racer_local.checks import check_choice, check_number, check_switch
from racer_local.settings import MAX_BUDGET

if TYPE_CHECKING:
    from racer_local.draft_tree import DraftMode
    from racer_local.drafting.beliefs import Beliefs
    from racer_local.drafting.cost import StepCost
    from racer_local.drafting.drafter import Drafter
    from racer_local.drafting.memory import Memory

FIXED_BUDGET = 8
"""Budget of the policies that do not choose one themselves."""
MAX_NGRAM = 16
AUTOMATON_NODES_PER_TOKEN = 10
"""Every committed token adds at most one node a depth; at the default depth 10 that keeps the whole context."""
MIN_AUTOMATON_NODES = 1024
SWITCHED_OFF = "drafting is switched off"


@dataclass(frozen=True, slots=True)
class Policy:
    """A way to draft.

    Attributes:
        what: For people.
        make: Gives a drafter for a configuration, with a memory, costs and beliefs where it needs them.
        drafts: Whether it ever drafts.
        has_memory: Whether it draws on the memory of a chat.
        weighs_costs: Whether it needs to know what decodes cost.
        chooses_budget: Whether it chooses the size of each draft itself.
        single_path: Whether its drafts are single paths on every model.
    """

    what: str
    make: Callable[[DraftConfig, Memory | None, StepCost | None, Beliefs | None], Drafter]
    drafts: bool = True
    has_memory: bool = True
    weighs_costs: bool = False
    chooses_budget: bool = False
    single_path: bool = False


def _expected_gain(
    config: DraftConfig, memory: Memory | None, cost: StepCost | None, beliefs: Beliefs | None
) -> Drafter:
    from racer_local.drafting.beliefs import Beliefs
    from racer_local.drafting.expected_gain import ExpectedGainDrafter

    assert memory is not None, f"policy {config.policy} draws on a memory"
    assert cost is not None, f"policy {config.policy} weighs costs"
    return ExpectedGainDrafter(
        memory,
        cost,
        Beliefs() if beliefs is None else beliefs,
        config.node_limit,
        config.min_match,
        config.draft_temperature,
        chain=config.chain,
    )


def _paper_rule(
    *, retrieval: bool = False, logits: bool = False
) -> Callable[[DraftConfig, Memory | None, StepCost | None, Beliefs | None], Drafter]:
    def make(config: DraftConfig, memory: Memory | None, _cost: StepCost | None, _beliefs: Beliefs | None) -> Drafter:
        from racer_local.drafting.paper_rule import PaperRuleDrafter

        assert memory is not None, f"policy {config.policy} draws on a memory"
        return PaperRuleDrafter(
            memory,
            config.node_limit,
            config.min_match,
            config.breadth,
            chain=config.chain,
            retrieval=retrieval,
            logits=logits,
        )

    return make


def _lookup(config: DraftConfig, _memory: Memory | None, _cost: StepCost | None, _beliefs: Beliefs | None) -> Drafter:
    from racer_local.drafting.lookup import LookupDrafter

    return LookupDrafter(config.node_limit, config.lookup_ngram)


def _off(_config: DraftConfig, _memory: Memory | None, _cost: StepCost | None, _beliefs: Beliefs | None) -> Drafter:
    from racer_local.drafting.off import OffDrafter

    return OffDrafter(SWITCHED_OFF)


DEFAULT_POLICY, FIXED_POLICY, OFF_POLICY = "auto", "racer", "off"
"""What drafts by default, what a budget alone stands for, and what never drafts."""
POLICIES = {
    DEFAULT_POLICY: Policy(
        "what is expected to bring the most tokens per time", _expected_gain, weighs_costs=True, chooses_budget=True
    ),
    FIXED_POLICY: Policy("n-grams, then the model's own guesses", _paper_rule(retrieval=True, logits=True)),
    "retrieval": Policy("n-grams alone", _paper_rule(retrieval=True)),
    "logits": Policy("the model's own guesses alone", _paper_rule(logits=True)),
    "lookup": Policy("prompt lookup", _lookup, has_memory=False, single_path=True),
    OFF_POLICY: Policy("nothing", _off, drafts=False, has_memory=False),
}
"""All policies by name, in the order in which they are listed for people."""


@dataclass(frozen=True, slots=True)
class DraftConfig:
    """How drafts are made.

    Attributes:
        policy: One of `POLICIES`.
        budget: Tokens in one verification decode at most, the root included; 1 drafts nothing. None is 8 for the fixed
            policies and no bound for `auto`, which chooses each time.
        chain: Draft a single path instead of a tree.
        max_ngram: Longest n-gram that the automaton keeps (N).
        min_match: Shortest match, in tokens, that retrieval trusts.
        breadth: Guesses tried after the root by the logits tree (k of the successor table).
        max_nodes: Bound of the automaton; None takes ten nodes for each token of the context.
        lookup_ngram: Tokens that prompt lookup matches.
        draft_temperature: Divides the gaps between the model's guesses before `auto` takes chances from them: above 1
            makes wider trees, below 1 deeper ones.
    """

    policy: str = DEFAULT_POLICY
    budget: int | None = None
    chain: bool = False
    max_ngram: int = 10
    min_match: int = 2
    breadth: int = 8
    max_nodes: int | None = None
    lookup_ngram: int = 3
    draft_temperature: float = 1.0

    def __post_init__(self) -> None:
        check_choice("draft policy", self.policy, POLICIES)
        check_number("draft budget", self.budget, int, 1, MAX_BUDGET, optional=True)
        check_switch("chain", self.chain)
        check_number("max_ngram", self.max_ngram, int, 2, MAX_NGRAM)
        check_number("min_match", self.min_match, int, 1, self.max_ngram - 1)
        check_number("breadth", self.breadth, int, 1, 32)
        check_number("max_nodes", self.max_nodes, int, MIN_AUTOMATON_NODES, 2**28, optional=True)
        check_number("lookup_ngram", self.lookup_ngram, int, 1, MAX_NGRAM)
        check_number("draft_temperature", self.draft_temperature, float, 0.1, 10)

    @property
    def node_limit(self) -> int:
        """Nodes that a draft may have: the budget without the root."""
        if self.budget is not None:
            return self.budget - 1
        return (MAX_BUDGET if POLICIES[self.policy].chooses_budget else FIXED_BUDGET) - 1

    def automaton_nodes(self, n_ctx: int) -> int:
        """Bound of the automaton in nodes for a context of `n_ctx` tokens."""
        if self.max_nodes is not None:
            return self.max_nodes
        return max(MIN_AUTOMATON_NODES, AUTOMATON_NODES_PER_TOKEN * n_ctx)


def draft_of(draft: DraftConfig | str | None, default: DraftConfig) -> DraftConfig:
    """The configuration that a call asks for: its own, the default with another policy, or the default."""
    if draft is None:
        return default
    return replace(default, policy=draft) if isinstance(draft, str) else draft


def fit_to_mode(config: DraftConfig, mode: DraftMode) -> DraftConfig:
    """The configuration that a model's mode allows: chains where no tree can be verified."""
    if mode.name == "chain" and not config.chain:
        return replace(config, chain=True)
    return config


def weighs_costs(config: DraftConfig, mode: DraftMode) -> bool:
    """Whether a configuration needs to know what decodes cost on a model of this mode."""
    return POLICIES[config.policy].weighs_costs and mode.name != "off"


def make_memory(config: DraftConfig, n_vocab: int, n_ctx: int) -> Memory:
    """An empty memory for a configuration."""
    from racer_local.drafting.memory import Memory

    return Memory(config.automaton_nodes(n_ctx), config.max_ngram, n_vocab, config.breadth)


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
        memory: For policies that have one; they may share it.
        cost: What decodes cost; for policies that weigh it.
        beliefs: What such policies have learned; None begins with the shipped priors.
    """
    from racer_local.drafting.depth_limit import DepthLimitedDrafter
    from racer_local.drafting.off import OffDrafter

    if mode.name == "off" and POLICIES[config.policy].drafts:
        return OffDrafter(mode.reason)
    config = fit_to_mode(config, mode)
    drafter = POLICIES[config.policy].make(config, memory, cost, beliefs)
    return DepthLimitedDrafter(drafter, mode.max_depth) if mode.max_depth is not None else drafter


def describe(config: DraftConfig, mode: DraftMode) -> dict[str, Any]:
    """How a configuration drafts on a model of this mode: `policy`, `mode` (tree, chain or off), `reason`, `budget`."""
    name, reason = mode.name, mode.reason
    policy = POLICIES[config.policy]
    if not policy.drafts:
        name, reason = "off", SWITCHED_OFF
    elif name == "tree" and (config.chain or policy.single_path):
        name, reason = "chain", "a single path is drafted as configured"
    return {"policy": config.policy, "mode": name, "reason": reason, "budget": config.node_limit + 1}
