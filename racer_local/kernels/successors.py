"""Kernels of the successor table: the best k of logits rows in one pass, and learning from verified nodes."""

import numpy as np
from numba import njit

BLOCK = 64
"""Logits compared at once before any of them is looked at singly; the comparison compiles to vector code."""


@njit(cache=True, nogil=True)
def _take_larger(row, start, stop, floor, top, best):
    """Sort logits above `floor` into the best k; returns the new floor, the k-th best."""
    k = len(top)
    for c in range(start, stop):
        x = row[c]
        if x > floor:
            j = k - 1
            while j > 0 and top[j - 1] < x:
                top[j] = top[j - 1]
                best[j] = best[j - 1]
                j -= 1
            top[j] = x
            best[j] = c
            floor = top[k - 1]
    return floor


@njit(cache=True, nogil=True)
def _floor_of(row, others):
    """A number just below the least of the logits of k distinct tokens: the k best of the row all lie above it.

    The best tokens of a neighbouring row make a high floor, so that few blocks need a closer look.
    """
    least = np.float32(np.inf)
    for token in others:
        if token < 0 or not row[token] < np.inf:
            return np.float32(-np.inf)
        least = min(least, row[token])
    return np.nextafter(least, np.float32(-np.inf))


@njit(cache=True, nogil=True)
def scan_rows(rows, ids, gaps):
    """Find the k largest logits of each row in one pass. Of equal logits the first stands first.

    Args:
        rows: float32[n, V], read only.
        ids: int32[n, k], filled with token ids, best first; -1 where a row has fewer than k numbers above -inf.
        gaps: float32[n, k], filled with the distance to the best logit, 0 for the best itself; inf where ids is -1.
    """
    n, V = rows.shape
    k = ids.shape[1]
    for i in range(n):
        row = rows[i]
        top = gaps[i]
        best = ids[i]
        for j in range(k):
            top[j] = -np.inf
            best[j] = -1
        floor = _floor_of(row, ids[i - 1]) if i > 0 else np.float32(-np.inf)
        whole = V // BLOCK * BLOCK
        for start in range(0, whole, BLOCK):
            block = row[start : start + BLOCK]
            hit = np.int32(0)
            for c in range(BLOCK):
                hit |= np.int32(block[c] > floor)
            if hit != 0:
                floor = _take_larger(row, start, start + BLOCK, floor, top, best)
        _take_larger(row, whole, V, floor, top, best)
        peak = top[0]
        for j in range(k):
            top[j] = peak - top[j] if best[j] >= 0 else np.inf


@njit(cache=True, nogil=True)
def learn_rows(table_ids, table_gaps, tokens, ids, gaps, path):
    """Remember what the model said after each verified token; nodes on the accepted path have the last word.

    A row whose best id is -1 is not known and teaches nothing.

    Args:
        table_ids: int32[V, k], successors by token, changed in place.
        table_gaps: float32[V, k], likewise.
        tokens: int32[n], token of each verified row.
        ids: int32[n, k], from `scan_rows`.
        gaps: float32[n, k], from `scan_rows`.
        path: int32[m], rows on the accepted path.
    """
    for i in range(len(tokens)):
        _learn_row(table_ids[tokens[i]], table_gaps[tokens[i]], ids[i], gaps[i])
    for at in range(len(path)):
        i = path[at]
        _learn_row(table_ids[tokens[i]], table_gaps[tokens[i]], ids[i], gaps[i])


@njit(cache=True, nogil=True)
def _learn_row(known_ids, known_gaps, ids, gaps):
    if ids[0] >= 0:
        for j in range(len(known_ids)):
            known_ids[j] = ids[j]
            known_gaps[j] = gaps[j]
