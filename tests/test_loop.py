"""The loop on a scripted model: the text of plain decoding, exact sampling, true counters."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from racer_local.detokenize import TextStream
from racer_local.drafting.cost import MIN_PLAIN_STEPS, StepCost
from racer_local.drafting.drafter import Drafter
from racer_local.drafting.off import OffDrafter
from racer_local.drafting.policies import DraftConfig, make_drafter, make_memory
from racer_local.drafting.successors import RowScan
from racer_local.loop import AnswerParts, Loop
from tests import naive
from tests.fakes import (
    KnowingDrafter,
    RandomDrafter,
    RandomPicker,
    ScriptedModel,
    counting_rows,
    letter,
    piece,
    random_rows,
    softmax,
)
from tests.loop_answers import (
    CHEAP,
    LETTERS,
    N_VOCAB,
    PROMPT,
    TREE,
    answer,
    every_policy,
)


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
        loop = Loop(AnswerParts(model, drafter, text, picker, lambda token: False, scan, cost), DEEP)
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
    parts = AnswerParts(model, OffDrafter(), TextStream(letter), None, lambda t: False, RowScan(2), StepCost())
    steps = list(Loop(parts, 2).steps([0, 1, 2, 3], lambda done, todo: seen.append((done, todo))))
    assert seen == [(3, 3)]
    assert steps[-1].finish_reason == "length"
