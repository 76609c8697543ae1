"""Drafting by expected gain: candidates and beliefs against slow twins, and what must hold of the chosen tree."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from racer_local.drafting.acceptance import PRIOR_WEIGHT, Beliefs
from racer_local.drafting.automaton import Automaton
from racer_local.drafting.cost import StepCost
from racer_local.drafting.drafter import GainDrafter, Memory
from racer_local.drafting.successors import RowScan
from racer_local.kernels import draft as kernels
from racer_local.kernels import gain
from racer_local.settings import MAX_BUDGET, MIN_AUTOMATON_NODES, DraftConfig
from tests import naive, naive_gain

QUICK = settings(derandomize=True, deadline=None, max_examples=120)
V = 12
K = 4


class State:
    """An automaton with its twin after a text, and a successor table with gaps that rise."""

    def __init__(self, text: list[int], seed: int, n: int = 4) -> None:
        rng = np.random.default_rng(seed)
        self.text = text
        self.automaton = Automaton(MIN_AUTOMATON_NODES, n)
        self.twin = naive.Automaton(MIN_AUTOMATON_NODES, n)
        self.automaton.observe(np.array(text, np.int32))
        self.twin.observe(text)
        self.ids = np.array([rng.permutation(V)[:K] for _ in range(V)], np.int32)
        self.ids[rng.random((V, K)) < 0.15] = -1
        gaps = rng.exponential(1.5, (V, K)).cumsum(axis=1)
        self.gaps = (gaps - gaps[:, :1]).astype(np.float32)

    def naive_candidates(self, context: list[int], at_end: bool) -> list[naive_gain.Candidate]:
        """Candidates after a context by the slow twin."""
        token = context[-1]
        state = naive_gain.state_after(self.twin, context)
        ids, gaps = self.ids[token].tolist(), self.gaps[token].tolist()
        return naive_gain.candidates(self.twin, state, at_end, ids, gaps, 2)

    def propose(
        self, counts: NDArray[np.float32], cost: NDArray[np.float32], limit: int = MAX_BUDGET - 1, chain: bool = False
    ) -> tuple[int, NDArray[np.int32], NDArray[np.float32]]:
        """The kernel's draft: number of nodes, draft array, path chances."""
        a = self.automaton
        draft = np.full((kernels.DRAFT_HEIGHT, MAX_BUDGET + 1), 7, np.int32)
        p = np.zeros(MAX_BUDGET, np.float32)
        heap = np.zeros(kernels.HEAP_SIZE, np.int64)
        entries = np.zeros((kernels.HEAP_SIZE, gain.CANDIDATE_WIDTH), np.int32)
        prior, weight = Beliefs().prior, np.float32(PRIOR_WEIGHT)
        n = gain.propose_gain(
            a.nodes,
            a.buckets,
            a.active,
            self.ids,
            self.gaps,
            self.text[-1],
            2,
            limit,
            chain,
            counts,
            prior,
            weight,
            cost,
            draft,
            p,
            heap,
            entries,
        )
        return n, draft, p


def random_counts(seed: int) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    tries = rng.integers(0, 200, gain.N_BUCKETS)
    return np.stack([tries * rng.random(gain.N_BUCKETS), tries], axis=1).astype(np.float32)


def curve(kind: str) -> NDArray[np.float32]:
    n = np.arange(MAX_BUDGET + 1, dtype=np.float32)
    curves = {
        "linear": np.maximum(n, 1),
        "flat": np.full(MAX_BUDGET + 1, 1.0) + 0.001 * n,
        "step": np.where(n >= 2, 2.5 + 0.01 * n, 1.0),
        "usual": 1 + 0.4 * np.maximum(n - 1, 0),
    }
    return curves[kind].astype(np.float32)


TEXTS = st.lists(st.integers(0, V - 1), min_size=2, max_size=80)


@QUICK
@given(TEXTS, st.integers(0, 99))
def test_candidates_are_the_twins(text: list[int], seed: int) -> None:
    state = State(text, seed)
    out = np.zeros((gain.MAX_CANDIDATES, gain.CANDIDATE_WIDTH), np.int32)
    a = state.automaton
    for context, at_end in ((text, True), ([*text, text[0]], False), ([*text, V - 1], False)):
        node = np.int32(0)
        for token in context:
            node = gain.next_state(a.nodes, a.buckets, node, token)
        token = context[-1]
        n = gain.candidates(a.nodes, node, at_end, state.ids[token], state.gaps[token], 2, out)
        expected = state.naive_candidates(context, at_end)
        columns = [gain.C_TOKEN, gain.C_SOURCE, gain.C_MATCH, gain.C_BUCKET]
        assert out[:n, columns].tolist() == [[c.token, c.source, c.match, c.bucket] for c in expected]
        for row, candidate in zip(out[:n], expected, strict=True):
            assert (row[gain.C_NODE] == 0) == (candidate.ngram is None)
            if candidate.ngram is not None:
                assert a.nodes[row[gain.C_NODE]][:4].tolist()[0] == candidate.ngram[-1]
            assert 0 <= candidate.bucket < gain.N_BUCKETS


@QUICK
@given(TEXTS, st.lists(st.integers(0, V - 1), min_size=1, max_size=6), st.integers(0, 99))
def test_beliefs_count_every_candidate_of_the_true_path(text: list[int], truth: list[int], seed: int) -> None:
    state = State(text, seed)
    beliefs = Beliefs()

    class Table:
        ids, gaps = state.ids, state.gaps

    beliefs.learn(state.automaton, Table, text[-1], truth, 2)  # type: ignore[arg-type]
    expected = np.zeros((gain.N_BUCKETS, 2))
    for i, token in enumerate(truth):
        for candidate in state.naive_candidates([*text, *truth[:i]], i == 0):
            expected[candidate.bucket] += (candidate.token == token, 1)
    np.testing.assert_array_equal(beliefs.counts, expected)


def test_old_evidence_fades(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("racer_local.drafting.acceptance.MEMORY_TRIES", 50.0)
    state = State([1, 2, 3, 1, 2], 0)
    beliefs = Beliefs()
    for truth, low, high in ((3, 0.9, 1.0), (4, 0.0, 0.2)):
        for _ in range(400):
            state.ids[:] = -1
            beliefs.learn(state.automaton, state, 2, [truth], 2)  # type: ignore[arg-type]
        hits, tries = beliefs.counts[beliefs.counts[:, gain.TRIES] > 0].T
        assert (tries <= 51).all()
        assert ((low <= hits / tries) & (hits / tries <= high)).all()


@QUICK
@given(TEXTS, st.integers(0, 99), st.sampled_from(["flat", "usual", "step"]), st.integers(0, 63), st.booleans())
def test_chosen_tree(text: list[int], seed: int, kind: str, limit: int, chain: bool) -> None:
    state, cost, counts = State(text, seed), curve(kind), random_counts(seed)
    n, draft, p = state.propose(counts, cost, limit, chain)
    assert 0 <= n <= limit
    token, parent, depth = (draft[row, :n].tolist() for row in (kernels.D_TOKEN, kernels.D_PARENT, kernels.D_DEPTH))
    assert len(set(zip(parent, token, strict=True))) == n, "siblings differ"
    assert all(-1 <= parent[i] < i for i in range(n))
    assert all(depth[i] == (depth[parent[i]] + 1 if parent[i] >= 0 else 1) for i in range(n))
    if chain:
        assert parent == list(range(-1, n - 1))
    else:
        assert (np.diff(p[:n]) <= 1e-6).all(), "best first"
    prior = Beliefs().prior
    contexts: list[list[int]] = []
    for i in range(n):
        above = text if parent[i] < 0 else contexts[parent[i]]
        contexts.append([*above, token[i]])
        match = next(c for c in state.naive_candidates(above, parent[i] < 0) if c.token == token[i])
        hits, tries = counts[match.bucket]
        chance = (hits + PRIOR_WEIGHT * prior[match.bucket]) / (tries + PRIOR_WEIGHT)
        believed = chance * (p[parent[i]] if parent[i] >= 0 else 1.0)
        assert p[i] == pytest.approx(believed, rel=1e-4)
        assert draft[kernels.D_SOURCE, i] == match.source
        assert draft[kernels.D_MATCH, i] == match.match
    values = [(1 + p[:k].sum()) / cost[1 + k] for k in range(n + 1)]
    assert values[n] >= max(values) * (1 - 1e-5), "a smaller draft would be better"


@pytest.mark.parametrize("seed", range(20))
def test_made_up_curves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    phrase = rng.integers(0, V, 9).tolist()
    state, sure = State(phrase * 6, seed), np.zeros((gain.N_BUCKETS, 2), np.float32)
    sure[:] = (90, 100)
    assert state.propose(sure, curve("linear"))[0] == 0
    n = state.propose(sure, curve("step"))[0]
    assert n == 0 or n >= 3
    assert state.propose(sure, curve("flat"))[0] > 40
    unsure = np.zeros_like(sure)
    unsure[:] = (0, 100)
    for kind in ("linear", "step", "usual"):
        assert state.propose(unsure, curve(kind))[0] == 0


def test_text_without_pattern_ends_drafting_within_64_steps() -> None:
    """Tokens at random, from a vocabulary small enough that everything has been seen before."""
    rng = np.random.default_rng(0)
    cost = StepCost({1: 1.0, 2: 1.65, 3: 2.09, 4: 2.48, 8: 4.04, 16: 7.16, 64: 24.7})
    memory = Memory(DraftConfig(), 50, 4096)
    drafter = GainDrafter(DraftConfig(policy="auto"), memory, cost)
    scan = RowScan(8)
    drafter.begin(rng.integers(0, 50, 400).tolist())
    drafted, spent = [], 0.0
    for _ in range(400):
        tree = drafter.propose(MAX_BUDGET - 1)
        scan.fill(
            np.array([rng.permutation(50)[:8] for _ in range(len(tree) + 1)], np.int32),
            np.tile(np.arange(8, dtype=np.float32), (len(tree) + 1, 1)),
        )
        drafted.append(len(tree))
        spent += cost.times(0)[len(tree) + 1]
        drafter.learn(memory.context[-1], tree, scan, [], [int(rng.integers(0, 50))])
    assert sum(drafted[64:]) == 0
    assert 400 / spent >= 0.98


# cost


def test_cost_lies_on_lines_between_what_was_measured() -> None:
    times = StepCost({1: 2.0, 2: 3.0, 4: 5.0, 8: 9.0}).times(0)
    np.testing.assert_allclose(times[[1, 2, 3, 4, 6, 8, 16, 64]], [1, 1.5, 2, 2.5, 3.5, 4.5, 8.5, 32.5], rtol=1e-6)


def test_cost_follows_real_steps_and_ignores_single_ones_that_were_held_up() -> None:
    cost = StepCost({1: 0.01, 2: 0.015, 4: 0.025, 8: 0.045})
    cost.observe(8, 10.0)
    assert cost.times(0)[8] < 4.5 * 1.06
    for _ in range(200):
        cost.observe(1, 0.02)
        cost.observe(8, 0.04)
    assert cost.times(0)[8] == pytest.approx(2.0, rel=0.02)
    assert cost.times(0)[1] == 1.0
    assert cost.times(0)[64] > 20, "sizes far away are left alone"
