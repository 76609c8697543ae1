"""The loop on a scripted model: the text of plain decoding, exact sampling, clean ends, true counters."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pytest

from racer_local.answers import Step
from racer_local.detokenize import TextStream
from racer_local.draft_tree import DraftMode, DraftTree
from racer_local.drafting.cost import MIN_PLAIN_STEPS, StepCost
from racer_local.drafting.drafter import Drafter
from racer_local.drafting.off import OffDrafter
from racer_local.drafting.policies import POLICIES, SWITCHED_OFF, DraftConfig, make_drafter, make_memory
from racer_local.drafting.successors import RowScan
from racer_local.errors import Cancelled, ContextFullError, DecodeError, RacerError
from racer_local.loop import Loop, Parts
from racer_local.stats import GenerationStats
from racer_local.tokens import Source, Token
from tests import naive
from tests.fakes import (
    KnowingDrafter,
    RandomDrafter,
    RandomPicker,
    Row,
    ScriptedModel,
    counting_rows,
    letter,
    piece,
    random_rows,
    softmax,
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
    parts = Parts(
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


# the same text


@every_policy
@pytest.mark.parametrize("seed", [0, 1])
def test_greedy_text_is_that_of_plain_decoding(config: DraftConfig, seed: int) -> None:
    model = ScriptedModel(random_rows(N_VOCAB, seed), order=1 + seed)
    got = answer(model, config, PROMPT, max_tokens=150)
    expected = naive.decode_plainly(model.row_after, PROMPT, 150)
    assert got.ids == expected
    assert got.text == "".join(LETTERS[t] for t in expected)
    assert got.finish == "length"
    if config.policy in ("racer", "retrieval", "lookup"):
        assert got.stats.steps < 90, "text that repeats is drafted"


@pytest.mark.parametrize("seed", range(20))
def test_greedy_text_with_random_drafts(seed: int) -> None:
    n_vocab = 2 + seed % 4
    model = ScriptedModel(random_rows(n_vocab, seed), order=3)
    got = answer(model, RandomDrafter(n_vocab, seed, budget=4 + 3 * seed), [1, 0, 1], max_tokens=80)
    assert got.ids == naive.decode_plainly(model.row_after, [1, 0, 1], 80)
    assert got.stats.draft_n_accepted > 0


def test_several_turns_on_one_memory() -> None:
    """Each turn adds to the context or goes back in it; cache and memory are those of the turn before."""
    model = ScriptedModel(random_rows(N_VOCAB, 5))
    config = DraftConfig(max_ngram=5)
    drafter = make_drafter(config, TREE, make_memory(config, N_VOCAB, 512), StepCost(CHEAP))
    context = list(PROMPT)
    for turn in range(6):
        got = answer(model, drafter, context, max_tokens=25)
        assert got.ids == naive.decode_plainly(model.row_after, context, 25)
        if turn:
            assert got.stats.cached_n > 0
        context = context[:9] if turn == 3 else [*context, *got.ids, turn, turn + 1]


def test_texts_of_split_characters() -> None:
    model = ScriptedModel(random_rows(12, 8), order=3)
    for n_right in (0, 3, 6):
        tokens = naive.decode_plainly(model.row_after, PROMPT[:3], 60)
        got = answer(model, KnowingDrafter(tokens, n_right, 0), PROMPT[:3], max_tokens=60, piece=piece)
        assert got.ids == tokens
        assert got.text == naive.decode_text(piece(t) for t in tokens)


# exact sampling

N_RUNS = 3000
SMALL_VOCAB = 4
DEEP = 3


def exact_chances(model: ScriptedModel, prompt: Sequence[int]) -> dict[tuple[int, ...], float]:
    """Chance of every beginning of an answer."""
    chances = {}
    for outcome in product(range(SMALL_VOCAB), repeat=DEEP):
        chances[outcome] = math.prod(
            softmax(model.row_after([*prompt, *outcome[:i]]))[token] for i, token in enumerate(outcome)
        )
    return chances


def chi_squared(seen: Counter[tuple[int, ...]], chances: dict[tuple[int, ...], float]) -> tuple[float, int]:
    """The statistic and its degrees of freedom; outcomes expected fewer than five times are taken together."""
    n = seen.total()
    cells = [(seen[o], n * p) for o, p in chances.items() if n * p >= 5]
    rest = [(seen[o], n * p) for o, p in chances.items() if n * p < 5]
    if rest:
        cells.append((sum(s for s, _ in rest), sum(e for _, e in rest)))
    return sum((s - e) ** 2 / e for s, e in cells), len(cells) - 1


def limit_of_chi_squared(df: int) -> float:
    """What the statistic exceeds once in a thousand times (Wilson and Hilferty's approximation)."""
    spread = 2 / (9 * df)
    return df * (1 - spread + 3.09 * math.sqrt(spread)) ** 3


@pytest.mark.parametrize("name", ["off", "random", "racer", "chain", "auto"])
def test_sampled_answers_have_the_models_own_chances(name: str) -> None:
    prompt = [0, 1, 2, 0, 1, 3, 0, 1]
    model = ScriptedModel(random_rows(SMALL_VOCAB, 11, spread=0.8))

    def drafting(**wish: Any) -> Drafter:
        config = DraftConfig(max_ngram=4, **wish)
        return make_drafter(config, TREE, make_memory(config, SMALL_VOCAB, 512), StepCost(CHEAP))

    drafters: dict[str, Callable[[], Drafter]] = {
        "off": OffDrafter,
        "random": lambda: RandomDrafter(SMALL_VOCAB, 1),
        "racer": lambda: drafting(policy="racer"),
        "chain": lambda: drafting(policy="racer", chain=True),
        "auto": drafting,
    }
    drafter, picker, cost, scan = drafters[name](), RandomPicker(5), StepCost(), RowScan(8)
    seen: Counter[tuple[int, ...]] = Counter()
    accepted = 0
    for _ in range(N_RUNS):
        text = TextStream(letter)
        loop = Loop(Parts(model, drafter, text, picker, lambda token: False, scan, cost), DEEP)
        seen[tuple(token.id for step in loop.steps(prompt) for token in step.tokens)] += 1
        accepted += loop.stats.draft_n_accepted
    assert (accepted > N_RUNS / 4) == (name != "off")
    statistic, df = chi_squared(seen, exact_chances(model, prompt))
    assert df > 30
    assert statistic < limit_of_chi_squared(df)


def test_one_pick_for_each_visited_node() -> None:
    """The sampler has state: it must see each position once, in order, and no position that is not reached."""
    model, picker = ScriptedModel(random_rows(5, 3, spread=1.0)), RandomPicker(9)
    got = answer(model, RandomDrafter(5, 4, budget=20), [1, 2], max_tokens=None, picker=picker, end=4)
    assert got.finish == "stop"
    assert got.stats.draft_n_accepted > 0
    context = [1, 2]
    assert len(picker.rows) == len(got.committed) + 1, "the end token was picked as well"
    for row, token in zip(picker.rows, [*got.committed, 4], strict=True):
        np.testing.assert_array_equal(row, model.row_after(context))
        context.append(token)


def test_no_pick_after_the_end_token() -> None:
    """A drafted end token ends the walk; what was drafted below it is not asked for."""
    model, picker = ScriptedModel(counting_rows(N_VOCAB)), RandomPicker(0)
    model.row_after([0])
    certain = ScriptedModel(lambda key: counting_rows(N_VOCAB)(key) * 1000)
    got = answer(certain, KnowingDrafter(range(1, 20), 12), [0], picker=picker, end=5)
    assert got.ids == [1, 2, 3, 4]
    assert len(picker.rows) == 5


def test_sampled_text_of_a_certain_model_is_the_greedy_one() -> None:
    certain = ScriptedModel(lambda key: counting_rows(N_VOCAB)(key) * 1000)
    got = answer(certain, RandomDrafter(N_VOCAB, 0), [0], picker=RandomPicker(0), max_tokens=40)
    assert got.ids == [(i + 1) % N_VOCAB for i in range(40)]


# ends


@pytest.mark.parametrize("n_right", [0, 1, 3, 4, 5, 9])
@pytest.mark.parametrize("wrong", [None, 0])
def test_end_token(n_right: int, wrong: int | None) -> None:
    """Wherever the end token stands in a draft, the text, the cache and the memory end before it."""
    model = ScriptedModel(counting_rows(N_VOCAB))
    drafter = KnowingDrafter(range(1, 26), n_right, wrong)
    got = answer(model, drafter, [0], end=5)
    assert got.text == "bcde"
    assert got.finish == "stop"
    assert drafter.context == [0, 1, 2, 3, 4]
    assert model.tokens == [0, 1, 2, 3, 4], "the step that finds the end has decoded the token before it"


def test_end_token_first() -> None:
    model = ScriptedModel(counting_rows(N_VOCAB))
    for drafter in (OffDrafter(), KnowingDrafter(range(1, 26), 4)):
        got = answer(model, drafter, [0], end=1)
        assert (got.text, got.finish, got.committed) == ("", "stop", [])
        assert model.tokens == [0]
        assert got.stats.steps == 1


@pytest.mark.parametrize("n_right", [0, 1, 2, 3, 4, 9])
@pytest.mark.parametrize(
    ("stop", "text", "last"),
    [
        (["ef"], "bcd", 5),
        (["d"], "bc", 3),
        (["b"], "", 1),
        (["xyz", "efgh", "hi"], "bcd", 7),
        (["efz", "gh"], "bcdef", 7),
        (["bcdefghij"], "", 9),
    ],
)
def test_stop_strings(n_right: int, stop: list[str], text: str, last: int) -> None:
    """The answer ends before the stop string and nothing is committed beyond the token that completes it."""
    model = ScriptedModel(counting_rows(N_VOCAB))
    drafter = KnowingDrafter(range(1, 26), n_right, 0)
    got = answer(model, drafter, [0], stop=stop, max_tokens=25)
    assert got.text == text
    assert got.finish == "stop"
    assert got.committed == list(range(1, last + 1))
    assert drafter.context == list(range(last + 1))
    assert got.stats.predicted_n == len(text)


@pytest.mark.parametrize("n_right", [0, 3, 9])
def test_stop_string_inside_a_token(n_right: int) -> None:
    words = [b"<0>", b"one ", b"two ", b"thr", b"ee f", b"our ", b"five"]
    model = ScriptedModel(counting_rows(7))
    drafter = KnowingDrafter(range(1, 7), n_right)
    got = answer(model, drafter, [0], stop=["ree fo"], piece=lambda t: words[t])
    assert got.text == "one two th"
    assert got.ids == [1, 2, 3]
    assert [t.text for t in got.tokens] == ["one ", "two ", "th"]
    assert got.committed == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("n_right", [0, 2, 5])
def test_what_only_began_like_a_stop_string_is_released(n_right: int) -> None:
    model = ScriptedModel(counting_rows(N_VOCAB))
    got = answer(model, KnowingDrafter(range(1, 26), n_right), [0], stop=["cdx", "hijklmnop"], max_tokens=10)
    assert got.text == "bcdefghijk"
    assert got.finish == "length"
    assert got.ids == list(range(1, 11))


@every_policy
def test_max_tokens_is_exact(config: DraftConfig) -> None:
    model = ScriptedModel(random_rows(6, 2), order=1)  # soon goes round in a circle
    expected = naive.decode_plainly(model.row_after, PROMPT[:1], 64)
    prompt = PROMPT[:1]
    for n in range(1, 65):
        got = answer(model, config, prompt, max_tokens=n)
        assert got.ids == expected[:n]
        assert got.finish == "length"


@pytest.mark.parametrize("n_right", [1, 4, 30])
def test_max_tokens_inside_an_accepted_run(n_right: int) -> None:
    for n in range(1, 12):
        model = ScriptedModel(counting_rows(N_VOCAB))
        drafter = KnowingDrafter(range(1, 26), n_right, 0)
        got = answer(model, drafter, [0], max_tokens=n)
        assert got.ids == list(range(1, n + 1))
        assert drafter.context == list(range(n + 1))
        assert len(got.steps[-1].tree) == 0 or n > 1, "a single token needs no draft"


def test_no_tokens_asked_for() -> None:
    model = ScriptedModel(counting_rows(N_VOCAB))
    got = answer(model, DraftConfig(), [0, 1, 2], max_tokens=0)
    assert (got.text, got.finish, len(got.steps)) == ("", "length", 1)
    assert got.stats.steps == 0
    assert model.tokens == [0, 1]


@every_policy
@pytest.mark.parametrize("n_ctx", [9, 10, 12, 30])
def test_end_of_the_context(config: DraftConfig, n_ctx: int) -> None:
    """The cache is used to its last cell; the token picked from there needs none."""
    model = ScriptedModel(random_rows(6, 2), order=1, n_ctx=n_ctx)
    prompt = [t % 6 for t in PROMPT]
    got = answer(model, config, prompt, max_tokens=None)
    assert got.finish == "context"
    assert got.ids == naive.decode_plainly(model.row_after, prompt, n_ctx - len(prompt) + 1)
    assert model.n_past == n_ctx


def test_other_ends_come_before_the_end_of_the_context() -> None:
    for n_right in (0, 3):
        for max_tokens, end, stop, finish in (
            (8, None, [], "length"),
            (None, 9, [], "stop"),
            (None, None, ["i"], "stop"),
        ):
            model = ScriptedModel(counting_rows(N_VOCAB), n_ctx=8)
            got = answer(model, KnowingDrafter(range(1, 9), n_right), [0], max_tokens=max_tokens, end=end, stop=stop)
            assert got.finish in (finish, "context")
            assert (got.finish == "context") == (end == 9)


def test_prompt_that_just_fits_and_one_that_does_not() -> None:
    model = ScriptedModel(counting_rows(N_VOCAB), n_ctx=8)
    got = answer(model, DraftConfig(), list(range(8)))
    assert (got.text, got.finish) == ("i", "context")
    got = answer(model, DraftConfig(), list(range(9)))
    assert isinstance(got.error, ContextFullError)
    assert got.steps == []


# cancelling and failing


def calls(n: int) -> Callable[[], bool]:
    """A question that is answered with no `n` times."""
    asked: Iterator[bool] = iter([False] * n + [True] * 100)
    return lambda: next(asked)


@pytest.mark.parametrize("n_steps", [0, 1, 3])
def test_cancel_between_steps(n_steps: int) -> None:
    model = ScriptedModel(counting_rows(N_VOCAB))
    drafter = KnowingDrafter(range(1, 26), 2)
    got = answer(model, drafter, [0], stop_asked=calls(n_steps), stop=["jx"])
    assert got.finish == "cancelled"
    assert got.text == LETTERS[1 : 1 + 3 * n_steps], "what a stop string held back is released"
    assert got.stats.steps == n_steps
    assert got.steps[-1].n_committed == 0
    assert drafter.context == list(range(1 + 3 * n_steps))


def test_cancel_during_prefill() -> None:
    model = ScriptedModel(counting_rows(N_VOCAB), fail_at={1: Cancelled("stopped")})
    got = answer(model, DraftConfig(), [0, 1, 2])
    assert (got.text, got.finish, len(got.steps)) == ("", "cancelled", 1)
    assert got.stats.steps == 0
    assert model.tokens == []


def test_cancel_during_a_decode_keeps_the_text_so_far() -> None:
    model = ScriptedModel(counting_rows(N_VOCAB), fail_at={3: Cancelled("stopped")})
    drafter = KnowingDrafter(range(1, 26), 2)
    got = answer(model, drafter, [0], stop=["fgz"])
    assert (got.text, got.finish) == ("bcdefg", "cancelled")
    assert [s.text for s in got.steps] == ["bcd", "e", "fg"]
    assert got.stats.steps == 2
    # the next answer goes on from there
    again = answer(model, drafter, [0, 1, 2, 3, 4, 5, 6], max_tokens=3)
    assert again.text == "hij"
    assert again.stats.cached_n == 6


def test_failure_keeps_the_steps_before_and_what_was_held() -> None:
    model = ScriptedModel(counting_rows(N_VOCAB), fail_at={3: DecodeError("no")})
    got = answer(model, KnowingDrafter(range(1, 26), 2), [0], stop=["fgz"])
    assert isinstance(got.error, DecodeError)
    assert [s.text for s in got.steps] == ["bcd", "e", "fg"]
    assert [s.finish_reason for s in got.steps] == [None] * 3
    assert got.stats.predicted_n == 6
    assert got.stats.steps == 2


def test_failure_with_nothing_held_gives_no_further_step() -> None:
    model = ScriptedModel(counting_rows(N_VOCAB), fail_at={2: DecodeError("no")})
    got = answer(model, OffDrafter(), [0])
    assert isinstance(got.error, DecodeError)
    assert [s.text for s in got.steps] == ["b"]


def test_failure_of_prefill() -> None:
    model = ScriptedModel(counting_rows(N_VOCAB), fail_at={1: DecodeError("no")})
    got = answer(model, OffDrafter(), [0, 1, 2])
    assert isinstance(got.error, DecodeError)
    assert got.steps == []


def broken_from(token: int) -> Callable[[tuple[int, ...]], Row]:
    """A model that counts, but gives no numbers after `token`."""

    def row_of(key: tuple[int, ...]) -> Row:
        row = counting_rows(N_VOCAB)(key)
        return np.full_like(row, np.nan) if key[-1] == token else row

    return row_of


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("n_right", [0, 1, 3, 4, 6])
def test_rows_of_no_numbers_are_a_failure(n_right: int, sampled: bool) -> None:
    """Whether such a row is the root's or that of an accepted node, no token comes out of it."""
    picker = RandomPicker(0) if sampled else None
    row_of = broken_from(4)
    certain = ScriptedModel(lambda key: row_of(key) * 1000)
    got = answer(certain, KnowingDrafter(range(1, 26), n_right), [0], max_tokens=20, picker=picker)
    assert isinstance(got.error, DecodeError)
    assert got.ids == got.committed
    assert got.ids in ([], [1, 2, 3, 4][: len(got.ids)])


def test_rows_of_no_numbers_off_the_path_do_no_harm() -> None:
    """A rejected node may have any row."""
    model = ScriptedModel(broken_from(25))
    got = answer(model, KnowingDrafter(range(1, 20), 3, 25), [0], max_tokens=10)
    assert got.text == LETTERS[1:11]


def test_drafts_can_be_switched_off_and_on_in_the_middle() -> None:
    wanted = [True]
    model = ScriptedModel(counting_rows(N_VOCAB))
    drafter = KnowingDrafter(range(1, 26), 2, 0)
    parts = Parts(
        model,
        drafter,
        TextStream(letter),
        None,
        lambda t: False,
        RowScan(2),
        StepCost(),
        drafts_wanted=lambda: wanted[0],
    )
    steps = []
    for step in Loop(parts, 11).steps([0]):
        steps.append(step)
        wanted[0] = not 1 <= len(steps) < 3
    assert [(len(s.tree) > 0, s.note) for s in steps[:4]] == [
        (True, ""),
        (False, SWITCHED_OFF),
        (False, SWITCHED_OFF),
        (True, ""),
    ]
    assert "".join(s.text for s in steps) == LETTERS[1:12]


# counters


def test_counters_of_a_known_answer() -> None:
    model = ScriptedModel(counting_rows(N_VOCAB))
    got = answer(model, KnowingDrafter(range(1, 26), 3, 0), [0], max_tokens=10)
    # steps of 3 + 1 tokens, then two tokens of a draft of three
    assert [len(s.path) for s in got.steps] == [3, 3, 2]
    assert [s.n_committed for s in got.steps] == [4, 4, 2]
    stats = got.stats
    assert (stats.steps, stats.drafts, stats.draft_n, stats.draft_n_accepted) == (3, 3, 18, 8)
    assert stats.accepted_hist[:5] == [0, 0, 1, 2, 0]
    assert stats.by_source == {"retrieval": 8, "model": 2}
    assert (stats.prompt_tokens, stats.cached_n, stats.prompt_n) == (1, 0, 1)
    assert [t.depth for t in got.tokens] == [1, 2, 3, 0, 1, 2, 3, 0, 1, 2]
    assert [t.step for t in got.tokens] == [1] * 4 + [2] * 4 + [3] * 2
    assert stats.weighed_s == 0
    assert stats.speedup is None


def test_plain_steps_are_timed() -> None:
    cost = StepCost()
    model = ScriptedModel(counting_rows(N_VOCAB))
    got = answer(model, OffDrafter("switched off"), [0], max_tokens=5, cost=cost)
    assert [s.stats.speedup is not None for s in got.steps] == [i >= MIN_PLAIN_STEPS for i in range(1, 6)]
    assert 0 < got.stats.weighed_s < got.stats.predicted_s
    assert {s.note for s in got.steps} == {"switched off"}
    # a model known from before: drafted answers have a yardstick at once
    got = answer(model, KnowingDrafter(range(1, 26), 3), [0], max_tokens=8, cost=cost)
    assert got.stats.weighed_s == got.stats.predicted_s
    assert got.stats.plain_s == pytest.approx(8 * (cost.plain_s(0) or 0), rel=0.5)


def test_a_snapshot_does_not_change() -> None:
    model = ScriptedModel(counting_rows(N_VOCAB))
    got = answer(model, KnowingDrafter(range(1, 26), 1), [0], max_tokens=6)
    assert [s.stats.predicted_n for s in got.steps] == [2, 4, 6]
    assert [s.stats.by_source["retrieval"] for s in got.steps] == [1, 2, 3]
    assert [s.stats.accepted_hist[1] for s in got.steps] == [1, 2, 3]


def test_progress_of_prefill_is_passed_on() -> None:
    model = ScriptedModel(counting_rows(N_VOCAB))
    seen: list[tuple[int, int]] = []
    parts = Parts(model, OffDrafter(), TextStream(letter), None, lambda t: False, RowScan(2), StepCost())
    steps = list(Loop(parts, 2).steps([0, 1, 2, 3], lambda done, todo: seen.append((done, todo))))
    assert seen == [(3, 3)]
    assert steps[-1].finish_reason == "length"
