"""Costs of decodes: what is taken from a measurement, what from real steps, and what is kept."""

import json
import math

import numpy as np
import pytest

from racer_local.drafting.cost import (
    DRAFT_EVERY,
    FIRST_PLAIN_EVERY,
    GROUPS,
    MAX_SWITCH,
    MIN_PLAIN_STEPS,
    PLAIN_EVERY,
    StepCost,
)
from racer_local.settings import MAX_BUDGET

CURVE = {1: 0.01, 2: 0.015, 4: 0.025, 8: 0.045}


def test_sizes_not_measured_lie_on_lines() -> None:
    times = StepCost({1: 2.0, 2: 3.0, 4: 5.0, 8: 9.0}).times(0)
    np.testing.assert_allclose(times[[1, 2, 3, 4, 6, 8, 16, 64]], [1, 1.5, 2, 2.5, 3.5, 4.5, 8.5, 32.5], rtol=1e-6)


def test_of_an_unknown_machine_no_draft_is_expected_to_pay() -> None:
    times = StepCost().times(0)
    np.testing.assert_allclose(times[1:], np.arange(1, MAX_BUDGET + 1), rtol=1e-6)
    assert not StepCost().is_measured
    assert StepCost().plain_s(0) is None


def test_real_steps_correct_and_single_ones_that_were_held_up_do_not() -> None:
    cost = StepCost(CURVE)
    cost.observe(8, 0, 10.0)
    assert cost.times(0)[8] < 4.5 * 1.06
    for _ in range(200):
        for n, seconds in ((1, 0.02), (1, 0.02), (8, 0.04)):
            cost.observe(n, 0, seconds)
    assert cost.times(0)[8] / cost.times(0)[1] == pytest.approx(2.0, rel=0.03)
    assert cost.times(0)[64] > 20, "sizes far away are left alone"


def test_plain_time_needs_evidence_and_follows_the_machine() -> None:
    cost = StepCost()
    for i in range(1, MIN_PLAIN_STEPS + 1):
        assert cost.plain_s(100) is None
        cost.observe(1, 100, 0.01 if i < 3 else 0.012)
    assert cost.plain_s(100) == pytest.approx(0.0106, rel=0.02)
    assert cost.plain_s(400) is not None, "the next group of contexts is near enough"
    assert cost.plain_s(5000) is None
    for _ in range(30):
        cost.observe(1, 100, 0.03)
    assert cost.plain_s(100) == pytest.approx(0.03, rel=0.05)


def test_longer_contexts_have_costs_of_their_own() -> None:
    cost = StepCost(CURVE)
    for _ in range(30):
        for n_past, plain, four in ((100, 0.01, 0.025), (5000, 0.02, 0.08)):
            for _ in range(10):
                for n, seconds in ((1, plain), (1, plain), (4, four)):
                    cost.observe(n, n_past, seconds)
    assert cost.times(100)[4] / cost.times(100)[1] == pytest.approx(2.5, rel=0.05)
    assert cost.times(5000)[4] / cost.times(5000)[1] == pytest.approx(4.0, rel=0.05)
    assert cost.plain_s(100) == pytest.approx(0.01, rel=0.1)
    assert cost.plain_s(5000) == pytest.approx(0.02, rel=0.1)
    assert cost.times(4000)[4] == cost.times(5000)[4]
    assert cost.times(9000)[4] == cost.times(5000)[4], "a new group begins with the nearest"


def test_going_back_to_plain_steps_is_part_of_a_drafts_price() -> None:
    cost = StepCost(CURVE)
    for _ in range(100):
        for _ in range(4):
            cost.observe(1, 0, 0.01)
        cost.observe(2, 0, 0.015)
        cost.observe(1, 0, 0.0108)
    after_plain = cost.times(0).copy()
    assert after_plain[1] == 1.0
    assert after_plain[2] == pytest.approx(1.58, abs=0.02)
    assert cost.plain_s(0) == pytest.approx(0.01, rel=0.02), "the yardstick is plain decoding without drafts"
    cost.observe(2, 0, 0.015)
    after_draft = cost.times(0)
    assert after_draft[1] == pytest.approx(1.08, abs=0.02)
    assert after_draft[2] == pytest.approx(1.5, abs=0.02)


def test_when_plain_steps_and_drafts_are_due() -> None:
    cost = StepCost({1: 1.0, 2: 1.1, 64: 2.0})
    for _ in range(PLAIN_EVERY):
        assert not cost.plain_is_due(0)
        cost.observe(4, 0, 1.3)
    for _ in range(2):
        assert cost.plain_is_due(0), "the first one comes after a draft and is no yardstick"
        cost.observe(1, 0, 1.0)
    for _ in range(FIRST_PLAIN_EVERY):
        assert not cost.plain_is_due(9000)
        cost.observe(4, 9000, 1.3)
    assert cost.plain_is_due(9000), "sooner where nothing is known yet"
    for _ in range(DRAFT_EVERY):
        assert not cost.draft_is_due(0)
        cost.observe(1, 0, 1.0)
    assert cost.draft_is_due(0)
    cost.observe(2, 0, 1.1)
    assert not cost.draft_is_due(0)


def test_where_no_draft_could_pay_none_is_due() -> None:
    cost = StepCost({1: 1.0, 2: 2.0})
    for _ in range(2 * DRAFT_EVERY):
        cost.observe(1, 0, 1.0)
    assert not cost.draft_is_due(0)


def test_costs_are_kept() -> None:
    cost = StepCost(CURVE)
    for _ in range(50):
        for n, seconds in ((1, 0.02), (1, 0.02), (8, 0.08)):
            cost.observe(n, 3000, seconds)
    again = StepCost.from_dict(json.loads(json.dumps(cost.as_dict())))
    assert again.is_measured
    for n_past in (0, 3000, 100_000):
        np.testing.assert_allclose(again.times(n_past)[2:], cost.times(n_past)[2:], rtol=0.1)
    assert again.plain_s(3000) is None, "how fast the machine is today is to be seen"
    again.observe(1, 3000, 0.04)
    for _ in range(2):
        again.observe(1, 3000, 0.04)
    assert again.plain_s(3000) == pytest.approx(0.04, rel=0.02)


GOOD = StepCost(CURVE).as_dict()


@pytest.mark.parametrize(
    "damage",
    [
        {"level": None},
        {"level": "x"},
        {"level": math.nan},
        {"switch": -1},
        {"switch": MAX_SWITCH + 1},
        {"groups": []},
        {"groups": [0, 0]},
        {"groups": [GROUPS]},
        {"groups": 3},
        {"offset": [0, 0]},
        {"offset": ["x"]},
        {"ratio": [[0.0] * MAX_BUDGET]},
        {"ratio": [[1e9] * (MAX_BUDGET + 1)]},
        {"ratio": [[math.nan] * (MAX_BUDGET + 1)]},
        {"ratio": [[1], [2, 3]]},
    ],
)
def test_damaged_costs_are_refused(damage: dict[str, object]) -> None:
    StepCost.from_dict(GOOD)
    with pytest.raises(ValueError, match=r"cost|group|float|lack|homogen|NoneType|object|convert|iterable"):
        StepCost.from_dict({**GOOD, **damage})
    with pytest.raises(ValueError, match=r"cost|group|float|lack|homogen|NoneType|object|convert|iterable"):
        StepCost.from_dict({k: v for k, v in GOOD.items() if k not in damage})
