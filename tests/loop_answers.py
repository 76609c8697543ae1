"""Answers of the loop on a scripted model, and what must be true of each."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from racer_local.answers import Step
from racer_local.detokenize import TextStream
from racer_local.draft_tree import DraftMode, DraftTree
from racer_local.drafting.cost import StepCost
from racer_local.drafting.drafter import Drafter
from racer_local.drafting.policies import POLICIES, DraftConfig, make_drafter, make_memory
from racer_local.drafting.successors import RowScan
from racer_local.errors import RacerError
from racer_local.loop import AnswerParts, Loop
from racer_local.stats import GenerationStats
from racer_local.tokens import Source, Token
from tests.fakes import (
    RandomPicker,
    ScriptedModel,
    letter,
)

N_VOCAB = 26
TREE = DraftMode("tree", "trees can be verified")
CHEAP = {1: 1.0, 2: 1.05, 64: 2.0}
"""Costs of a machine on which drafting pays."""
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
LETTERS = "abcdefghijklmnopqrstuvwxyz"

Setup = DraftConfig | Drafter
EVERY_POLICY: list[DraftConfig] = [
    DraftConfig(policy=policy, chain=chain, budget=budget, max_ngram=5)
    for policy in POLICIES
    for chain in ((False, True) if policy in ("auto", "racer", "retrieval", "logits") else (False,))
    for budget in ((4, 64) if policy != "off" else (8,))
]
CONFIG_NAMES = [f"{c.policy}-{c.budget}{'-chain' if c.chain else ''}" for c in EVERY_POLICY]
every_policy = pytest.mark.parametrize("config", EVERY_POLICY, ids=CONFIG_NAMES)


@dataclass
class Answer:
    """An answer as it came out of the loop.

    Attributes:
        steps: All steps.
        committed: Tokens that the steps decided, in order.
        error: What ended it, if not a finish reason.
    """

    steps: list[Step] = field(default_factory=list)
    committed: list[int] = field(default_factory=list)
    error: RacerError | None = None

    @property
    def text(self) -> str:
        """Text of all steps."""
        return "".join(step.text for step in self.steps)

    @property
    def tokens(self) -> list[Token]:
        """Tokens of all steps."""
        return [token for step in self.steps for token in step.tokens]

    @property
    def ids(self) -> list[int]:
        """Ids of all tokens."""
        return [token.id for token in self.tokens]

    @property
    def finish(self) -> str | None:
        """Finish reason of the last step."""
        return self.steps[-1].finish_reason

    @property
    def stats(self) -> GenerationStats:
        """Totals after the last step."""
        return self.steps[-1].stats


class _Watch:
    """A drafter that notes what was committed, around another one."""

    def __init__(self, inner: Drafter, answer: Answer) -> None:
        self._inner = inner
        self._answer = answer
        self.note = inner.note
        self.begin = inner.begin
        self.propose = inner.propose

    def learn(self, root: int, tree: DraftTree, scan: RowScan, path: Sequence[int], committed: Sequence[int]) -> None:
        self._answer.committed.extend(committed)
        self._inner.learn(root, tree, scan, path, committed)


def answer(
    model: ScriptedModel,
    setup: Setup,
    prompt: Sequence[int],
    *,
    max_tokens: int | None = None,
    stop: Sequence[str] = (),
    end: int | None = None,
    picker: RandomPicker | None = None,
    piece: Callable[[int], bytes] = letter,
    stop_asked: Callable[[], bool] = lambda: False,
    cost: StepCost | None = None,
) -> Answer:
    """Answer a prompt and check what must hold of every answer after every step."""
    n_vocab = len(model.row_after(prompt))
    if isinstance(setup, DraftConfig):
        breadth = setup.breadth
        drafter = make_drafter(setup, TREE, make_memory(setup, n_vocab, 512), StepCost(CHEAP))
    else:
        breadth, drafter = 8, setup
    got = Answer()
    parts = AnswerParts(
        model=model,
        drafter=_Watch(drafter, got),
        text=TextStream(piece, stop),
        picker=picker,
        is_end=lambda token: token == end,
        scan=RowScan(breadth),
        cost=cost or StepCost(),
        stop_asked=stop_asked,
    )
    steps = Loop(parts, max_tokens).steps(prompt)
    try:
        for step in steps:
            got.steps.append(step)
            check_step(got, model, prompt)
    except RacerError as error:
        got.error = error
    if got.error is None:
        check_answer(got)
    return got


def check_step(got: Answer, model: ScriptedModel, prompt: Sequence[int]) -> None:
    """Check a step against the cache and the totals."""
    step = got.steps[-1]
    context = [*prompt, *got.committed]
    assert context[: model.n_past] == model.tokens, "the cache holds committed tokens only"
    if step.n_committed or len(step.tree):
        assert model.n_past == len(prompt) - 1 + sum(1 + len(s.path) for s in got.steps if s.stats.steps)
    assert len(got.committed) == sum(s.n_committed for s in got.steps)
    assert step.text == "".join(t.text for t in step.tokens)
    assert step.stats.predicted_n == len(got.tokens)
    assert all(s.finish_reason is None for s in got.steps[:-1])
    for token in step.tokens:
        if token.drafted:
            made = got.steps[token.step - 1]
            node = made.path[token.depth - 1]
            assert (token.id, token.source) == (made.tree.token[node], made.tree.source[node])
            assert token.match_len == made.tree.match_len[node]
        else:
            assert (token.source, token.match_len) == (Source.MODEL, 0)


def check_answer(got: Answer) -> None:
    """Check the totals of a finished answer."""
    stats, steps = got.stats, [s for s in got.steps if s.n_committed or len(s.tree) or s.finish_reason == "stop"]
    assert got.finish is not None
    assert stats.predicted_n == len(got.tokens) == sum(stats.by_source.values())
    assert stats.by_source == Counter(t.source.label for t in got.tokens)
    assert stats.draft_n_accepted == sum(t.drafted for t in got.tokens)
    assert stats.drafts == sum(stats.accepted_hist) == sum(len(s.tree) > 0 for s in got.steps)
    assert stats.draft_n == sum(len(s.tree) for s in got.steps)
    seen = Counter(len(s.path) for s in steps if len(s.tree))
    assert {n: times for n, times in enumerate(stats.accepted_hist) if times} == seen
    assert stats.draft_n_accepted <= sum(n * times for n, times in enumerate(stats.accepted_hist))
    parts = stats.propose_s + stats.decode_s + stats.verify_s + stats.commit_s
    assert math.isclose(parts, stats.predicted_s, rel_tol=1e-6, abs_tol=1e-9)
