"""Kernel of drafting by expected gain: the tree that is expected to bring the most tokens per time.

It is grown best first by the believed chance of the whole path, and cut where expected tokens per time are highest.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from racer_local.kernels.beliefs import believed_chance
from racer_local.kernels.candidates import (
    C_CLASS,
    C_MATCH,
    C_NODE,
    C_PARENT,
    C_SOURCE,
    C_TOKEN,
    MAX_CANDIDATES,
    list_candidates,
    next_state,
    window_state,
)
from racer_local.kernels.draft_layout import D_DEPTH, D_MATCH, D_PARENT, D_SOURCE, D_STATE, D_TOKEN
from racer_local.kernels.heap import heap_pop, heap_push

MAX_P = 0.99
MIN_P = 0.01
"""Paths less likely than this are not worth a place in the heap."""
P_SCALE = 1 << 30


class DraftLimits(NamedTuple):
    """What a draft should be.

    Attributes:
        min_match: Shortest n-gram that is trusted.
        limit: Nodes at most, the root left out.
        chain: Whether to keep to a single path.
        anyway: Draft even if nothing is expected to pay.
        calibration: Factor on every chance.
        temperature: Divides the gaps of guesses.
    """

    min_match: int
    limit: int
    chain: bool
    anyway: bool
    calibration: float
    temperature: np.float32


class Workspace(NamedTuple):
    """Where a draft is made.

    Attributes:
        draft: int32[DRAFT_HEIGHT, MAX_BUDGET + 1], filled.
        p: float32[MAX_BUDGET], filled with the chance of each path.
        heap: int64[H], scratch.
        entries: int32[H, CANDIDATE_WIDTH], scratch; the last MAX_CANDIDATES rows are kept free.
    """

    draft: np.ndarray
    p: np.ndarray
    heap: np.ndarray
    entries: np.ndarray


@njit(cache=True, nogil=True)
def propose_gain(known, root, counts, prior, cost, limits, workspace):
    """Draft the tree with the highest expected tokens per time.

    Args:
        known: Automaton and successor table.
        root: Token id of the root.
        counts: float32[N_CLASSES, 2], hits and tries.
        prior: float32[N_CLASSES], chance of a class without evidence.
        cost: float32[MAX_BUDGET + 1], time of a decode of n tokens.
        limits: What the draft should be.
        workspace: Where it is made.

    Returns:
        Number of drafted nodes; 0 where nothing beats plain decoding.
    """
    draft, p, heap, entries = workspace
    size, filled = 0, 0
    root_state = window_state(known.active)
    state = root_state
    expected = 1.0
    best, best_n = 0.0 if limits.anyway else 1.0 / cost[1], 0
    n = 0
    parent, token, path = -1, root, np.float32(1.0)
    while True:
        if len(entries) - filled >= MAX_CANDIDATES:
            fresh = entries[filled : filled + MAX_CANDIDATES]
            ids, gaps = known.ids[token], known.gaps[token]
            m = list_candidates(known.nodes, state, parent < 0, ids, gaps, limits.temperature, limits.min_match, fresh)
            for i in range(m):
                chance = believed_chance(counts, prior, fresh[i, C_CLASS])
                q = path * min(limits.calibration * chance, MAX_P)
                if q >= MIN_P:
                    fresh[i, C_PARENT] = parent
                    item = (np.int64(q * P_SCALE) << 32) | np.int64(len(entries) - filled - i)
                    heap_push(heap, size, item)
                    size += 1
            filled += m
        if size == 0 or n >= limits.limit:
            break
        item = heap_pop(heap, size)
        size = 0 if limits.chain else size - 1
        e = len(entries) - (item & 0xFFFFFFFF)
        path = np.float32((item >> 32) / P_SCALE)
        # no larger tree can win if even nodes as likely as this one would not
        hope = False
        for more in range(1, limits.limit - n + 1):
            if (expected + more * path) / cost[1 + n + more] > best:
                hope = True
                break
        if not hope:
            break
        above = entries[e, C_PARENT]
        token = entries[e, C_TOKEN]
        draft[D_TOKEN, n] = token
        draft[D_PARENT, n] = above
        draft[D_DEPTH, n] = draft[D_DEPTH, above] + 1 if above >= 0 else 1
        draft[D_SOURCE, n] = entries[e, C_SOURCE]
        draft[D_MATCH, n] = entries[e, C_MATCH]
        p[n] = path
        before = draft[D_STATE, above] if above >= 0 else root_state
        v = entries[e, C_NODE]
        state = v if v != 0 else next_state(known.nodes, known.buckets, before, token)
        draft[D_STATE, n] = state
        parent = n
        n += 1
        expected += path
        value = expected / cost[1 + n]
        if value > best:
            best, best_n = value, n
    return best_n
