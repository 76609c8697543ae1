"""Drafting by expected gain: candidates and beliefs against slow twins, and what must hold of the chosen tree."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from racer_local.draft_tree import DraftTree
from racer_local.drafting.automaton import Automaton
from racer_local.drafting.beliefs import Beliefs, flat_prior, prior_from, shipped_prior
from racer_local.drafting.calibration import FADE, RETURN, WEIGHT, Calibration
from racer_local.drafting.cost import DRAFT_EVERY, StepCost
from racer_local.drafting.expected_gain import ExpectedGainDrafter
from racer_local.drafting.policies import MIN_AUTOMATON_NODES, DraftConfig, make_memory
from racer_local.drafting.successors import RowScan
from racer_local.kernels import candidates, draft_layout, expected_gain
from racer_local.kernels.beliefs import PRIOR_WEIGHT, TRIES
from racer_local.settings import MAX_BUDGET
from tests import naive, naive_gain
from tests.fakes import tree_from
from tests.kernels.examples import quick

QUICK = quick(120)
GUESSES = slice(candidates.N_RETRIEVED, candidates.N_RETRIEVED + candidates.N_LOGITS)
"""Classes of candidates from logits alone."""
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

        a = self.automaton
        self.known = candidates.DraftSources(a.nodes, a.buckets, a.active, self.ids, self.gaps)

    def naive_candidates(
        self, context: list[int], at_end: bool, temperature: float = 1.0
    ) -> list[naive_gain.Candidate]:
        """Candidates after a context by the slow twin."""
        token = context[-1]
        state = naive_gain.state_after(self.twin, context)
        ids, gaps = self.ids[token].tolist(), self.gaps[token].tolist()
        return naive_gain.candidates(self.twin, state, at_end, ids, gaps, 2, temperature)

    def propose(
        self,
        counts: NDArray[np.float32],
        cost: NDArray[np.float32],
        limit: int = MAX_BUDGET - 1,
        *,
        chain: bool = False,
        anyway: bool = False,
        factor: float = 1.0,
        temperature: float = 1.0,
    ) -> tuple[int, NDArray[np.int32], NDArray[np.float32]]:
        """The kernel's draft: number of nodes, draft array, path chances."""
        workspace = expected_gain.Workspace(
            np.full((draft_layout.DRAFT_HEIGHT, MAX_BUDGET + 1), 7, np.int32),
            np.zeros(MAX_BUDGET, np.float32),
            np.zeros(draft_layout.HEAP_SIZE, np.int64),
            np.zeros((draft_layout.HEAP_SIZE, candidates.CANDIDATE_WIDTH), np.int32),
        )
        limits = expected_gain.DraftLimits(2, limit, chain, anyway, factor, np.float32(temperature))
        n = expected_gain.propose_gain(self.known, self.text[-1], counts, flat_prior(), cost, limits, workspace)
        return n, workspace.draft, workspace.p


def random_counts(seed: int) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    tries = rng.integers(0, 200, candidates.N_CLASSES)
    return np.stack([tries * rng.random(candidates.N_CLASSES), tries], axis=1).astype(np.float32)


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
    state, temperature = State(text, seed), np.float32((0.5, 1.0, 2.0)[seed % 3])
    out = np.zeros((candidates.MAX_CANDIDATES, candidates.CANDIDATE_WIDTH), np.int32)
    a = state.automaton
    for context, at_end in ((text, True), ([*text, text[0]], False), ([*text, V - 1], False)):
        node = np.int32(0)
        for token in context:
            node = candidates.next_state(a.nodes, a.buckets, node, token)
        token = context[-1]
        n = candidates.list_candidates(a.nodes, node, at_end, state.ids[token], state.gaps[token], temperature, 2, out)
        expected = state.naive_candidates(context, at_end, float(temperature))
        columns = [candidates.C_TOKEN, candidates.C_SOURCE, candidates.C_MATCH, candidates.C_CLASS]
        assert out[:n, columns].tolist() == [[c.token, c.source, c.match, c.kind] for c in expected]
        for row, candidate in zip(out[:n], expected, strict=True):
            assert (row[candidates.C_NODE] == 0) == (candidate.ngram is None)
            if candidate.ngram is not None:
                assert a.nodes[row[candidates.C_NODE]][:4].tolist()[0] == candidate.ngram[-1]
            assert 0 <= candidate.kind < candidates.N_CLASSES


@QUICK
@given(TEXTS, st.lists(st.integers(0, V - 1), min_size=1, max_size=6), st.integers(0, 99))
def test_beliefs_count_every_candidate_of_the_true_path(text: list[int], truth: list[int], seed: int) -> None:
    state = State(text, seed)
    beliefs = Beliefs()
    beliefs.learn(state.known, text[-1], truth, 2)
    expected = np.zeros((candidates.N_CLASSES, 2))
    for i, token in enumerate(truth):
        for candidate in state.naive_candidates([*text, *truth[:i]], i == 0):
            expected[candidate.kind] += (candidate.token == token, 1)
    np.testing.assert_array_equal(beliefs.counts, expected)


def test_old_evidence_fades() -> None:
    state = State([1, 2, 3, 1, 2], 0)
    beliefs = Beliefs(memory=50.0)
    for truth, low, high in ((3, 0.9, 1.0), (4, 0.0, 0.2)):
        for _ in range(400):
            state.ids[:] = -1
            beliefs.learn(state.known, 2, [truth], 2)
        hits, tries = beliefs.counts[beliefs.counts[:, TRIES] > 0].T
        assert (tries <= 51).all()
        assert ((low <= hits / tries) & (hits / tries <= high)).all()


@QUICK
@given(TEXTS, st.integers(0, 99), st.sampled_from(["flat", "usual", "step"]), st.integers(0, 63), st.booleans())
def test_chosen_tree(text: list[int], seed: int, kind: str, limit: int, chain: bool) -> None:
    state, cost, counts = State(text, seed), curve(kind), random_counts(seed)
    factor, temperature = (1.0, 0.7)[seed % 2], (1.0, 1.5)[seed % 3 // 2]
    n, draft, p = state.propose(counts, cost, limit, chain=chain, factor=factor, temperature=temperature)
    assert 0 <= n <= limit
    token, parent, depth = (
        draft[row, :n].tolist() for row in (draft_layout.D_TOKEN, draft_layout.D_PARENT, draft_layout.D_DEPTH)
    )
    assert len(set(zip(parent, token, strict=True))) == n, "siblings differ"
    assert all(-1 <= parent[i] < i for i in range(n))
    assert all(depth[i] == (depth[parent[i]] + 1 if parent[i] >= 0 else 1) for i in range(n))
    if chain:
        assert parent == list(range(-1, n - 1))
    else:
        assert (np.diff(p[:n]) <= 1e-6).all(), "best first"
    prior = flat_prior()
    contexts: list[list[int]] = []
    for i in range(n):
        above = text if parent[i] < 0 else contexts[parent[i]]
        contexts.append([*above, token[i]])
        match = next(c for c in state.naive_candidates(above, parent[i] < 0, temperature) if c.token == token[i])
        hits, tries = counts[match.kind]
        chance = (hits + PRIOR_WEIGHT * prior[match.kind]) / (tries + PRIOR_WEIGHT)
        believed = min(factor * chance, expected_gain.MAX_P) * (p[parent[i]] if parent[i] >= 0 else 1.0)
        assert p[i] == pytest.approx(believed, rel=1e-4)
        assert draft[draft_layout.D_SOURCE, i] == match.source
        assert draft[draft_layout.D_MATCH, i] == match.match
    values = [(1 + p[:k].sum()) / cost[1 + k] for k in range(n + 1)]
    assert values[n] >= max(values) * (1 - 1e-5), "a smaller draft would be better"


@pytest.mark.parametrize("seed", range(20))
def test_made_up_curves(seed: int) -> None:
    rng = np.random.default_rng(seed)
    phrase = rng.integers(0, V, 9).tolist()
    state, sure = State(phrase * 6, seed), np.zeros((candidates.N_CLASSES, 2), np.float32)
    sure[:] = (90, 100)
    assert state.propose(sure, curve("linear"))[0] == 0
    n = state.propose(sure, curve("step"))[0]
    assert n == 0 or n >= 3
    assert state.propose(sure, curve("flat"))[0] > 40
    unsure = np.zeros_like(sure)
    unsure[:] = (0, 100)
    for kind in ("linear", "step", "usual"):
        assert state.propose(unsure, curve(kind))[0] == 0


@pytest.mark.parametrize("seed", range(20))
def test_a_trial_drafts_though_nothing_pays(seed: int) -> None:
    phrase = np.random.default_rng(seed).integers(0, V, 9).tolist()
    state, counts = State(phrase * 6, seed), np.zeros((candidates.N_CLASSES, 2), np.float32)
    counts[:] = (30, 100)
    assert state.propose(counts, curve("linear"), 3)[0] == 0
    assert 1 <= state.propose(counts, curve("linear"), 3, anyway=True)[0] <= 3


def test_temperature_makes_wider_or_deeper_trees() -> None:
    """A best guess far ahead of the second: the hotter, the nearer they seem."""
    state = State(list(range(V)), 0)
    state.ids[:] = (np.arange(V)[:, None] + 1 + np.arange(K)) % V
    state.gaps[:] = (0.0, 2.5, 4.0, 6.0)
    counts = np.zeros((candidates.N_CLASSES, 2), np.float32)
    logits = counts[GUESSES].reshape(2, candidates.RANKS, candidates.GAP_BINS, 2)
    lead = np.linspace(0.2, 0.9, candidates.GAP_BINS)
    logits[:, 0] = np.stack([1e4 * lead, np.full(candidates.GAP_BINS, 1e4)], axis=1)
    logits[:, 1:] = np.stack([1e4 * (1 - lead) / 2, np.full(candidates.GAP_BINS, 1e4)], axis=1)
    depth, width = {}, {}
    for temperature in (0.5, 1.0, 3.0):
        n, draft, _ = state.propose(counts, curve("flat"), 12, temperature=temperature)
        depth[temperature] = draft[draft_layout.D_DEPTH, :n].max()
        width[temperature] = (draft[draft_layout.D_DEPTH, :n] == 1).sum()
    assert depth[0.5] > depth[1.0] > depth[3.0]
    assert width[0.5] <= width[1.0] <= width[3.0]
    assert width[0.5] < width[3.0]


# calibration


def naive_calibration(tree: DraftTree, path: list[int], given: float) -> tuple[float, float]:
    """Nodes that came true, and how many should have, of those whose parent was accepted."""
    true = believed = 0.0
    for i, parent in enumerate(tree.parent.tolist()):
        if parent == -1 or parent in path:
            believed += tree.p[i] / (tree.p[parent] if parent >= 0 else 1.0) / given
            true += i in path
    return true, believed


@QUICK
@given(st.integers(0, 10_000))
def test_calibration_weighs_what_could_have_been_right(seed: int) -> None:
    rng = np.random.default_rng(seed)
    calibration, expected = Calibration(), np.zeros(2)
    for _ in range(5):
        n = int(rng.integers(0, 12))
        tree = tree_from([(int(rng.integers(0, 9)), int(rng.integers(-1, i))) for i in range(n)])
        for i, parent in enumerate(tree.parent.tolist()):
            tree.p[i] = rng.uniform(0.1, 0.99) * (tree.p[parent] if parent >= 0 else 1.0)
        path = list(range(n))[: int(rng.integers(0, n + 1))]
        path = [i for i in path if all(a in (*path[: path.index(i)], -1) for a in (tree.parent[i],))]
        given = calibration.factor
        calibration.learn(tree, path, given)
        expected *= 1 - RETURN
        if n:
            expected = expected * (1 - FADE) + naive_calibration(tree, path, given)
        assert calibration.factor == pytest.approx(min(1, (expected[0] + WEIGHT) / (expected[1] + WEIGHT)), rel=1e-5)


def test_calibration_falls_with_bad_drafts_and_comes_back() -> None:
    calibration, tree = Calibration(), tree_from([(1, -1)])
    tree.p[:] = 0.9
    for _ in range(10):
        calibration.learn(tree, [], 1.0)
    assert calibration.factor < 0.5
    for _ in range(300):
        calibration.learn(DraftTree.empty(), [], 1.0)
    assert calibration.factor > 0.99


# priors


def test_shipped_priors_are_chances_of_todays_classes() -> None:
    prior = shipped_prior()
    assert prior.shape == (candidates.N_CLASSES,)
    assert prior.dtype == np.float32
    assert ((prior > 0) & (prior < 1)).all()
    # a long match that the model's last guess agrees with is surer than a guess far ahead, that than a close one
    both, guesses = (
        prior[GUESSES.stop :].reshape(candidates.MATCH_BINS, -1),
        prior[GUESSES].reshape(2, candidates.RANKS, -1),
    )
    assert both[-1].max() > guesses[0, 0, -1] > guesses[0, 0, 0]


def test_priors_from_evidence_are_shrunk() -> None:
    counts = np.zeros((candidates.N_CLASSES, 2))
    np.testing.assert_allclose(prior_from(counts), flat_prior(), rtol=1e-6)
    counts[:] = (900, 1000)
    np.testing.assert_allclose(prior_from(counts), 0.9, atol=0.01)


@pytest.mark.parametrize(
    "damage",
    [
        {"counts": None},
        {"counts": [[1, 2]]},
        {"counts": "x"},
        {"counts": [[-1.0, 2.0]] * candidates.N_CLASSES},
        {"counts": [[3.0, 2.0]] * candidates.N_CLASSES},
        {"counts": [[float("nan"), 2.0]] * candidates.N_CLASSES},
    ],
)
def test_beliefs_are_kept_and_checked(damage: dict[str, object]) -> None:
    beliefs = Beliefs()
    beliefs.counts[:] = random_counts(1).round(2)
    data = json.loads(json.dumps(beliefs.as_dict()))
    again = Beliefs()
    again.take(data)
    np.testing.assert_allclose(again.counts, beliefs.counts, atol=0.01)
    again.take({**data, "layout": [1, 2, 3], "counts": []})
    np.testing.assert_allclose(again.counts, beliefs.counts, atol=0.01)
    with pytest.raises(ValueError, match=r"count|float|convert"):
        again.take({**data, **damage})


def test_text_without_pattern_ends_drafting_within_64_steps() -> None:
    """Tokens at random, from a vocabulary small enough that everything has been seen before."""
    rng = np.random.default_rng(0)
    cost = StepCost({1: 1.0, 2: 1.65, 3: 2.09, 4: 2.48, 8: 4.04, 16: 7.16, 64: 24.7})
    curve = cost.times(0).tolist()
    memory = make_memory(DraftConfig(), 50, 4096)
    drafter = ExpectedGainDrafter(memory, cost, Beliefs(), MAX_BUDGET - 1, 2, 1.0, chain=False)
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
        spent += curve[len(tree) + 1]
        cost.observe(len(tree) + 1, len(memory.context) - 1, curve[len(tree) + 1])
        drafter.learn(memory.context[-1], tree, scan, [], [int(rng.integers(0, 50))])
    later = [n for n in drafted[64:] if n]
    assert later == [1] * ((400 - 64) // DRAFT_EVERY), "but for a trial now and then"
    assert 400 / spent >= 0.98
