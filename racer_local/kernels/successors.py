"""Kernels of the successor table: the best k of logits rows in one pass, and learning from verified nodes."""

import numpy as np
from numba import njit

BLOCK = 128
"""Logits compared at once before any of them is looked at singly; the comparison compiles to vector code."""


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
        floor = np.float32(-np.inf)
        for start in range(0, V, BLOCK):
            stop = min(start + BLOCK, V)
            hit = 0
            for c in range(start, stop):
                hit |= row[c] > floor
            if hit == 0:
                continue
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
        peak = top[0]
        for j in range(k):
            top[j] = peak - top[j] if best[j] >= 0 else np.inf


@njit(cache=True, nogil=True)
def learn_rows(table_ids, table_gaps, tokens, ids, gaps, path):
    """Remember what the model said after each verified token; nodes on the accepted path have the last word.

    Args:
        table_ids: int32[V, k], successors by token, changed in place.
        table_gaps: float32[V, k], likewise.
        tokens: int32[n], token of each verified row.
        ids: int32[n, k], from `scan_rows`.
        gaps: float32[n, k], from `scan_rows`.
        path: int32[m], rows on the accepted path.
    """
    k = table_ids.shape[1]
    for i in range(len(tokens)):
        for j in range(k):
            table_ids[tokens[i], j] = ids[i, j]
            table_gaps[tokens[i], j] = gaps[i, j]
    for at in range(len(path)):
        i = path[at]
        for j in range(k):
            table_ids[tokens[i], j] = ids[i, j]
            table_gaps[tokens[i], j] = gaps[i, j]
