"""The throttle: pauses while drafts do not pay, without trying them, and resumes by itself."""

from itertools import pairwise

import numpy as np
import pytest

from racer_local.draft_tree import DraftTree
from racer_local.drafting.throttle import PAUSE_BELOW, RESUME_ABOVE, Throttle
from racer_local.settings import MAX_BUDGET
from tests.fakes import tree_from

TIMES = (1 + 0.5 * np.maximum(np.arange(MAX_BUDGET + 1) - 1, 0)).astype(np.float32)
PAIR = tree_from([(1, -1), (2, 0)])
"""Takes two plain steps' time; brings up to three tokens."""


def go_on(throttle: Throttle, outcomes: list[int], steps: int) -> list[bool]:
    """Whether drafts were passed on, step by step; `outcomes` in turn say how many nodes of the pair come true."""
    passed, n, waiting = [], 0, [9]
    for _ in range(steps):
        tree = throttle.pass_on(PAIR, TIMES)
        passed.append(len(tree) > 0)
        if len(tree):
            right = outcomes[n % len(outcomes)]
            n += 1
            throttle.learn([*[1, 2][:right], 9])
            continue
        if waiting == [9]:  # a draft held back is followed token by token
            waiting = [*[1, 2][: outcomes[n % len(outcomes)]], 9]
            n += 1
        throttle.learn([waiting[0]])
        waiting = waiting[1:] or [9]
    return passed


def test_drafts_that_pay_pass() -> None:
    throttle = Throttle()
    assert all(go_on(throttle, [2, 1], 400))
    assert throttle.note == ""
    assert throttle.gain == pytest.approx(1.25, rel=0.1)


def test_drafts_that_do_not_pay_are_paused_and_resumed_without_trying() -> None:
    throttle = Throttle()
    passed = go_on(throttle, [0], 300)
    assert passed[0]
    assert not any(passed[60:])
    assert throttle.gain < PAUSE_BELOW
    assert throttle.note.startswith("drafting paused: it would make 0.")
    passed = go_on(throttle, [2], 400)
    assert passed[-1]
    assert throttle.note == ""
    assert throttle.gain > RESUME_ABOVE


def test_changes_are_rare() -> None:
    """Outcomes around the point where drafting neither pays nor costs."""
    rng = np.random.default_rng(0)
    throttle = Throttle()
    passed = go_on(throttle, rng.integers(0, 3, 997).tolist(), 3000)
    assert sum(a != b for a, b in pairwise(passed)) <= 3000 / 150


def test_steps_without_a_draft_and_contexts_that_change() -> None:
    throttle = Throttle()
    assert len(throttle.pass_on(DraftTree.empty(), TIMES)) == 0
    throttle.learn([1])
    assert throttle.gain == 1.0
    throttle.pass_on(PAIR, TIMES)
    throttle.abandon()
    throttle.learn([1, 2, 9])
    assert throttle.gain == 1.0
