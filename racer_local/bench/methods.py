"""What is compared: drafting policies over one loop, each with a memory of its own, and the bare loop."""

import re
from collections.abc import Sequence
from dataclasses import replace

from racer_local.api import Racer
from racer_local.bench.harness import answer_greedily, fresh_cost, fresh_drafter
from racer_local.bench.results import Answer
from racer_local.drafting.cost import StepCost
from racer_local.drafting.drafter import Drafter
from racer_local.drafting.policies import DEFAULT_POLICY, FIXED_BUDGET, POLICIES, DraftConfig
from racer_local.drafting.successors import RowScan
from racer_local.errors import UsageError
from racer_local.llama.baseline import Baseline

BARE = "bare"
ORACLE = "bound"
"""Knows the answer, so it can only be simulated: what `auto` would reach if it knew which candidates are right."""


class Method:
    """A named way to answer.

    Attributes:
        label: Unique in a run.
        config: None for the bare loop.
    """

    def __init__(self, label: str, config: DraftConfig | None) -> None:
        self.label = label
        self.config = config
        self._drafter: Drafter | None = None
        self._bare: Baseline | None = None
        self._cost = StepCost()

    def forget(self) -> None:
        """Start over with an empty memory."""
        self._drafter = None

    def close(self) -> None:
        """Free what the method holds."""
        if self._bare is not None:
            self._bare.close()
            self._bare = None

    def answer(self, racer: Racer, prompt: Sequence[int], max_tokens: int) -> Answer:
        """Answer greedily."""
        if self.config is None:
            return self._answer_bare(racer, prompt, max_tokens)
        if self._drafter is None:
            self._cost = fresh_cost(racer, self.config)
            self._drafter = fresh_drafter(racer, self.config, self._cost)
        scan = RowScan(self.config.breadth)
        done = answer_greedily(racer, self._drafter, prompt, max_tokens, scan, self._cost)
        stats = done.stats
        return Answer(
            tokens=tuple(t.id for t in done.tokens),
            text=done.text,
            seconds=stats.predicted_s,
            prompt_s=stats.prompt_s,
            steps=stats.steps,
            drafted=stats.draft_n,
            accepted=stats.draft_n_accepted,
            own_s=stats.own_s,
        )

    def _answer_bare(self, racer: Racer, prompt: Sequence[int], max_tokens: int) -> Answer:
        if self._bare is None:
            self._bare = Baseline(racer.model, racer.engine)
        tokens, steps, prompt_s, seconds = self._bare.answer(prompt, max_tokens)
        text = b"".join(map(racer.model.piece, tokens)).decode("utf-8", "replace")
        return Answer(tuple(tokens), text, seconds, prompt_s, steps, 0, 0, 0.0)


def parse(names: str, budget: int | None = None) -> list[Method]:
    """Methods of a comma-separated list: policies, `policy@budget`, `policy/chain`, `bare`. Repeats get a number.

    Args:
        names: The list.
        budget: For policies that neither choose one nor name one; None is the usual one.

    Raises:
        UsageError: A name is unknown, or no method takes the budget.
    """
    default = DraftConfig(budget=FIXED_BUDGET if budget is None else budget)
    methods: list[Method] = []
    for name in filter(None, (part.strip() for part in names.split(","))):
        times = sum(m.label.split("#")[0] == name for m in methods)
        label = f"{name}#{times + 1}" if times else name
        config = None if name == BARE else _config(DEFAULT_POLICY if name == ORACLE else name, default)
        methods.append(Method(label, config))
    if not methods:
        raise UsageError("name at least one method")
    if budget is not None and not any(map(_takes_budget, methods)):
        raise UsageError(f"--budget has no effect with {names}")
    return methods


def _takes_budget(method: Method) -> bool:
    """Whether a method goes by a budget that its own name does not say."""
    if method.config is None or "@" in method.label:
        return False
    policy = POLICIES[method.config.policy]
    return policy.drafts and not policy.chooses_budget


def _config(name: str, default: DraftConfig) -> DraftConfig:
    parts = re.fullmatch(r"([a-z]+)(?:@(\d{1,3}))?(/chain)?", name, re.ASCII)
    policy, budget, chain = parts.groups() if parts else ("", None, None)
    if policy not in POLICIES:
        raise UsageError(
            f"unknown method {name!r}; known: {BARE}, {', '.join(POLICIES)}, each policy with @BUDGET or /chain"
        )
    return replace(
        default,
        policy=policy,
        budget=int(budget) if budget else None if POLICIES[policy].chooses_budget else default.budget,
        chain=bool(chain) or default.chain,
    )
