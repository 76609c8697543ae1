"""How answers end: end tokens, stop strings, bounds, cancelling, failing. Nothing is lost or left inconsistent."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from racer_local.detokenize import TextStream
from racer_local.drafting.cost import StepCost
from racer_local.drafting.off import OffDrafter
from racer_local.drafting.policies import SWITCHED_OFF, DraftConfig
from racer_local.drafting.successors import RowScan
from racer_local.errors import Cancelled, ContextFullError, DecodeError
from racer_local.loop import AnswerParts, Loop
from tests import naive
from tests.fakes import (
    KnowingDrafter,
    RandomPicker,
    Row,
    ScriptedModel,
    counting_rows,
    letter,
    random_rows,
)
from tests.loop_answers import LETTERS, N_VOCAB, PROMPT, answer, every_policy


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
    parts = AnswerParts(
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
