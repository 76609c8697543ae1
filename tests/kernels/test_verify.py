"""Walking a verified tree, laying a tree out as a batch, and what every kernel of a step must do without: memory."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from numba.core.runtime import nrt
from numpy.typing import NDArray

from racer_local.draft_tree import DraftTree
from racer_local.drafting.automaton import Automaton
from racer_local.kernels import beliefs, candidates, draft_layout, expected_gain, paper_rule
from racer_local.kernels.automaton import observe
from racer_local.kernels.batch import fill_tree
from racer_local.kernels.calibration import learn_calibration
from racer_local.kernels.sampling import CANDIDATE, fill_candidates
from racer_local.kernels.successors import learn_rows, scan_rows
from racer_local.kernels.verify import walk_greedy
from racer_local.settings import MAX_BUDGET
from tests import naive
from tests.fakes import random_tree, tree_from
from tests.kernels.examples import PLAIN, is_on, quick

MEMORY = nrt._nrt  # pyright: ignore[reportPrivateImportUsage]
QUICK = quick(150)


@st.composite
def trees(draw: st.DrawFn) -> tuple[np.random.Generator, int, DraftTree]:
    """A random tree over few tokens."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_vocab = draw(st.sampled_from([1, 2, 3, 6, 100]))
    return rng, n_vocab, random_tree(rng, n_vocab, draw(st.sampled_from([0, 1, 2, 5, 12, MAX_BUDGET - 1])))


# following the arg-max


def walk(best: NDArray[np.int32], tree: DraftTree) -> tuple[list[int], list[int]]:
    """Run the kernel; returns picked tokens and accepted nodes."""
    picks, path = np.full(MAX_BUDGET, -7, np.int32), np.full(MAX_BUDGET, -7, np.int32)
    n = walk_greedy(best, tree.token, tree.parent, picks, path)
    assert (picks[n:] == -7).all()
    assert (path[n - 1 :] == -7).all()
    return picks[:n].tolist(), path[: n - 1].tolist()


@QUICK
@given(trees())
def test_walk_is_the_twins(drawn: tuple[np.random.Generator, int, DraftTree]) -> None:
    rng, n_vocab, tree = drawn
    best = rng.integers(0, n_vocab, (len(tree) + 1, 3)).astype(np.int32)
    assert walk(best, tree) == naive.walk_greedy(best[:, 0].tolist(), tree.token.tolist(), tree.parent.tolist())


def test_walk_reaches_the_end_of_a_chain() -> None:
    n = MAX_BUDGET - 1
    tree = tree_from([(i, i - 1) for i in range(n)])
    picks, path = walk(np.arange(n + 1, dtype=np.int32)[:, None], tree)
    assert picks == list(range(n + 1))
    assert path == list(range(n))


def test_walk_stops_where_the_draft_is_wrong() -> None:
    tree = tree_from([(5, -1), (6, 0), (5, 1), (7, -1)])
    assert walk(np.array([[5], [9], [5], [5], [5]], np.int32), tree) == ([5, 9], [0])
    # the same tokens below another node do not count
    assert walk(np.array([[7], [9], [5], [5], [6]], np.int32), tree) == ([7, 6], [3])
    assert walk(np.array([[6], [9], [5], [5], [5]], np.int32), tree) == ([6], [])


# the batch


def batch_of(root: int, tree: DraftTree, n_past: int) -> tuple[int, dict[str, NDArray[Any]]]:
    """Run the kernel over arrays that hold an earlier batch; returns the number of sequences and the arrays."""
    size = MAX_BUDGET + 3
    arrays: dict[str, NDArray[Any]] = {
        "token": np.full(size, -7, np.int32),
        "pos": np.full(size, -7, np.int32),
        "n_seq": np.full(size, 5, np.int32),
        "seq": np.full((size, MAX_BUDGET), -7, np.int32),
        "output": np.full(size, 0, np.int8),
    }
    scratch = np.full(size, 9, np.int32)
    arguments: list[Any] = [root, tree.token, tree.parent, tree.depth, n_past, *arrays.values(), scratch]
    return cast(Any, fill_tree)(*arguments), arrays


@QUICK
@given(trees(), st.integers(0, 10_000))
def test_batch_of_a_tree(drawn: tuple[np.random.Generator, int, DraftTree], n_past: int) -> None:
    _, _, tree = drawn
    n_seq, b = batch_of(42, tree, n_past)
    rows = len(tree) + 1
    assert b["token"][:rows].tolist() == [42, *tree.token.tolist()]
    assert b["pos"][:rows].tolist() == [n_past, *(n_past + tree.depth).tolist()]
    assert b["output"][:rows].tolist() == [1] * rows
    for name, untouched in (("token", -7), ("pos", -7), ("n_seq", 5), ("output", 0)):
        assert (b[name][rows:] == untouched).all()

    below = naive.leaves_below(tree.parent.tolist())
    leaves = sorted(below[0])
    assert n_seq == len(leaves)
    ids = [b["seq"][row, : b["n_seq"][row]].tolist() for row in range(rows)]
    sequence_of = {}
    for leaf in leaves:
        assert len(ids[leaf]) == 1
        sequence_of[leaf] = ids[leaf][0]
    assert sorted(sequence_of.values()) == list(range(n_seq))
    for row in range(rows):
        assert len(ids[row]) == len(set(ids[row]))
        assert set(ids[row]) == {sequence_of[leaf] for leaf in below[row]}
    assert set(ids[0]) == set(range(n_seq))

    favourite = 0
    while True:  # the path of first children
        assert ids[favourite][0] == 0
        children = np.flatnonzero(tree.parent == favourite - 1)
        if not len(children):
            break
        favourite = int(children[0]) + 1


def test_batch_without_a_draft() -> None:
    n_seq, b = batch_of(7, DraftTree.empty(), 3)
    assert n_seq == 1
    assert (b["token"][0], b["pos"][0], b["n_seq"][0], b["seq"][0, 0], b["output"][0]) == (7, 3, 1, 0, 1)


# candidates for a sampler


def test_candidates_hold_the_row() -> None:
    row = np.random.default_rng(0).standard_normal(100).astype(np.float32)
    candidates = np.zeros(100, CANDIDATE)
    candidates["id"] = np.arange(100)[::-1]
    candidates["p"] = 0.5
    fill_candidates(row, candidates)
    np.testing.assert_array_equal(candidates["id"], np.arange(100))
    np.testing.assert_array_equal(candidates["logit"], row)
    assert not candidates["p"].any()


def test_layout_of_a_candidate() -> None:
    assert CANDIDATE.itemsize == 12
    assert CANDIDATE.fields is not None
    assert [CANDIDATE.fields[name][1] for name in ("id", "logit", "p")] == [0, 4, 8]


# memory


@pytest.fixture
def _counted_allocations() -> Any:
    was_on = MEMORY.memsys_stats_enabled()
    MEMORY.memsys_enable_stats()
    yield
    if not was_on:
        MEMORY.memsys_disable_stats()


@njit
def _idle(array):
    return len(array)


@njit
def _wasteful(array):
    return len(array.copy())


def _allocations(kernel: Callable[..., Any], *arguments: Any) -> int:
    """Allocations of one call, those left out that handing over an array costs by itself."""

    def calls(f: Callable[..., Any], *args: Any) -> int:
        f(*args)
        before = nrt.rtsys.get_allocation_stats().alloc
        f(*args)
        return nrt.rtsys.get_allocation_stats().alloc - before

    by_array = calls(_idle, np.zeros(3, np.int32))
    handed_over = [b for a in arguments for b in (a if isinstance(a, tuple) else (a,))]
    n_arrays = sum(isinstance(a, np.ndarray) for a in handed_over)
    return calls(kernel, *arguments) - by_array * n_arrays


@pytest.mark.skipif(is_on(PLAIN), reason="plain Python allocates at every line")
@pytest.mark.usefixtures("_counted_allocations")
def test_no_kernel_of_a_step_allocates() -> None:
    assert _allocations(_wasteful, np.zeros(3, np.int32)) == 1, "the measure sees an allocation"
    rng = np.random.default_rng(0)
    n_vocab, k, n = 300, 8, 15
    a = Automaton(70, 6)
    text = np.tile(rng.integers(0, n_vocab, 20), 4).astype(np.int32)
    a.observe(text)
    table_ids, table_gaps = np.full((n_vocab, k), -1, np.int32), np.full((n_vocab, k), np.inf, np.float32)
    rows = rng.standard_normal((n + 1, n_vocab)).astype(np.float32)
    ids, gaps = np.zeros((n + 1, k), np.int32), np.zeros((n + 1, k), np.float32)
    tree = random_tree(rng, n_vocab, n)
    tokens = np.concatenate([text[-1:], tree.token])
    options = np.array([MAX_BUDGET - 1, 2, 8, 1, 1], np.int32)
    drafted = np.zeros((draft_layout.DRAFT_HEIGHT, MAX_BUDGET + 1), np.int32)
    heap, entries = (
        np.zeros(draft_layout.HEAP_SIZE, np.int64),
        np.zeros((draft_layout.HEAP_SIZE, paper_rule.ENTRY_WIDTH), np.int32),
    )
    picks, path = np.zeros(MAX_BUDGET, np.int32), np.zeros(MAX_BUDGET, np.int32)
    _, b = batch_of(1, tree, 0)
    root = int(text[-1])
    f32, counts = np.float32, np.ones((candidates.N_CLASSES, 2), np.float32)
    known = candidates.DraftSources(a.nodes, a.buckets, a.active, table_ids, table_gaps)
    cost, p = np.linspace(0.9, 2, MAX_BUDGET + 1, dtype=np.float32), np.zeros(MAX_BUDGET, np.float32)
    more = np.zeros((draft_layout.HEAP_SIZE, candidates.CANDIDATE_WIDTH), np.int32)
    prior, workspace = counts[:, 0].copy(), expected_gain.Workspace(drafted, p, heap, more)
    steps: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (observe, (a.nodes, a.buckets, a.state, a.active, text)),
        (scan_rows, (rows, ids, gaps)),
        (learn_rows, (table_ids, table_gaps, tokens, ids, gaps, np.arange(3, dtype=np.int32))),
        (paper_rule.propose_tree, (a.nodes, a.active, table_ids, root, options, drafted, heap, entries)),
        (paper_rule.propose_chain, (a.nodes, a.active, table_ids, root, options, drafted)),
        (
            expected_gain.propose_gain,
            (known, root, counts, prior, cost, expected_gain.DraftLimits(2, 60, False, False, 1.0, f32(1)), workspace),
        ),
        (beliefs.learn_beliefs, (known, root, text[:4], 2, f32(99), counts, more[: candidates.MAX_CANDIDATES])),
        (
            learn_calibration,
            (tree.parent, np.ones(n, f32), np.arange(2, dtype=np.int32), 1.0, 0.1, np.zeros(2)),
        ),
        (walk_greedy, (ids, tree.token, tree.parent, picks, path)),
        (fill_tree, (1, tree.token, tree.parent, tree.depth, 0, *b.values(), np.zeros(MAX_BUDGET + 3, np.int32))),
        (fill_candidates, (rows[0], np.zeros(n_vocab, CANDIDATE))),
    ]
    for kernel, arguments in steps:
        assert _allocations(kernel, *arguments) == 0, kernel.__name__
    assert a.n_evicted > 0, "evictions are part of what was measured"
