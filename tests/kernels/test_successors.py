"""The scan of logits rows against a full sort, and what the successor table remembers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from racer_local.drafting.successors import RowScan, Successors
from racer_local.kernels.successors import BLOCK, learn_rows, scan_rows
from racer_local.settings import MAX_BUDGET
from tests import naive
from tests.kernels.examples import quick

QUICK = quick(100)
SIZES = (1, 2, 5, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 1000)


def scan(rows: NDArray[np.float32], k: int) -> tuple[list[list[int]], list[list[float]]]:
    """Run the kernel into arrays that hold something else before."""
    ids, gaps = np.full((len(rows), k), 77, np.int32), np.full((len(rows), k), 77, np.float32)
    before = rows.copy()
    scan_rows(rows, ids, gaps)
    np.testing.assert_array_equal(rows, before)
    return ids.tolist(), gaps.tolist()


def check_rows(rows: NDArray[np.float32], k: int) -> None:
    """Check the kernel against its twin."""
    ids, gaps = scan(rows, k)
    for row, row_ids, row_gaps in zip(rows.tolist(), ids, gaps, strict=True):
        expected_ids, expected_gaps = naive.scan_row(row, k)
        assert row_ids == expected_ids
        assert row_gaps == expected_gaps


@QUICK
@given(st.sampled_from(SIZES), st.integers(1, 9), st.integers(0, 2**32), st.sampled_from(["ties", "holes", "plain"]))
def test_scan_is_the_twins(n_vocab: int, k: int, seed: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((3, n_vocab)).astype(np.float32)
    if kind == "ties":
        rows = rng.integers(-3, 3, (3, n_vocab)).astype(np.float32)
    if kind == "holes":
        rows[rng.random(rows.shape) < 0.6] = -np.inf
        rows[rng.random(rows.shape) < 0.3] = np.nan
    check_rows(rows, k)


@QUICK
@given(
    st.lists(st.floats(width=32, allow_nan=True, allow_infinity=False) | st.just(-math.inf), min_size=1, max_size=300),
    st.integers(1, 8),
)
def test_scan_of_any_numbers(row: list[float], k: int) -> None:
    # gaps between numbers at both ends of the range overflow in either way of counting
    with np.errstate(over="ignore"):
        check_rows(np.array([row], np.float32), k)


@pytest.mark.parametrize("where", [0, 1, BLOCK - 1, BLOCK, 2 * BLOCK, 2 * BLOCK + 8])
def test_best_is_found_wherever_it_stands(where: int) -> None:
    row = np.zeros((1, 2 * BLOCK + 9), np.float32)
    row[0, where] = 1
    ids, gaps = scan(row, 1)
    assert (ids, gaps) == ([[where]], [[0.0]])


def test_of_equal_logits_the_first_stands_first() -> None:
    ids, gaps = scan(np.full((1, 3 * BLOCK), 2.5, np.float32), 4)
    assert ids == [[0, 1, 2, 3]]
    assert gaps == [[0.0] * 4]


def test_rows_without_numbers() -> None:
    rows = np.full((2, 2 * BLOCK), np.nan, np.float32)
    rows[1] = -np.inf
    ids, gaps = scan(rows, 3)
    assert ids == [[-1] * 3] * 2
    assert gaps == [[math.inf] * 3] * 2


def test_fewer_numbers_than_asked_for() -> None:
    ids, gaps = scan(np.array([[-math.inf, 1.0, math.nan, 3.0]], np.float32), 4)
    assert ids == [[3, 1, -1, -1]]
    assert gaps == [[0.0, 2.0, math.inf, math.inf]]


def test_later_rows_overwrite_earlier_ones_and_the_path_has_the_last_word() -> None:
    table_ids, table_gaps = np.full((6, 2), -1, np.int32), np.full((6, 2), np.inf, np.float32)
    tokens = np.array([1, 2, 1, 3, 1], np.int32)
    ids = np.array([[10, 11], [20, 21], [30, 31], [40, 41], [50, -1]], np.int32)
    gaps = np.array([[0, 1], [0, 2], [0, 3], [0, 4], [0, np.inf]], np.float32)
    learn_rows(table_ids, table_gaps, tokens, ids, gaps, np.zeros(0, np.int32))
    assert table_ids.tolist() == [[-1, -1], [50, -1], [20, 21], [40, 41], [-1, -1], [-1, -1]]
    assert table_gaps[1].tolist() == [0, math.inf]
    learn_rows(table_ids, table_gaps, tokens, ids, gaps, np.array([0, 2], np.int32))
    assert table_ids[1].tolist() == [30, 31]
    assert table_gaps[1].tolist() == [0, 3]
    assert table_ids[2].tolist() == [20, 21]


def test_table_remembers_the_last_scan() -> None:
    n_vocab, k = 50, 4
    rng = np.random.default_rng(0)
    table, row_scan = Successors(n_vocab, k), RowScan(k)
    assert (table.ids == -1).all()
    assert np.isinf(table.gaps).all()
    known: dict[int, list[int]] = {}
    for _ in range(30):
        tokens = rng.integers(0, n_vocab, rng.integers(1, 9)).astype(np.int32)
        rows = rng.standard_normal((len(tokens), n_vocab)).astype(np.float32)
        path = np.flatnonzero(rng.random(len(tokens)) < 0.5).astype(np.int32)
        row_scan.read(rows)
        assert row_scan.ids[:, 0].tolist() == rows.argmax(axis=1).tolist()
        table.learn(tokens, row_scan, path)
        for i in [*range(len(tokens)), *path.tolist()]:
            known[int(tokens[i])] = naive.scan_row(rows[i].tolist(), k)[0]
    for token in range(n_vocab):
        assert table.ids[token].tolist() == known.get(token, [-1] * k)
    assert table.n_bytes == n_vocab * k * 8


def test_scan_shows_only_the_rows_it_read() -> None:
    row_scan = RowScan(2)
    row_scan.read(np.zeros((MAX_BUDGET, 5), np.float32))
    assert row_scan.ids.shape == row_scan.gaps.shape == (MAX_BUDGET, 2)
    row_scan.read(np.zeros((1, 5), np.float32))
    assert row_scan.ids.shape == row_scan.gaps.shape == (1, 2)
