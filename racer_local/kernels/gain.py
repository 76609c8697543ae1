"""Kernels of drafting by expected gain: how likely candidates have proved, and the tree that brings the most.

A bucket of candidates counts how often they were right. The tree is grown best first by the chance of the whole path,
and cut where expected tokens per time are highest.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from racer_local.kernels.candidates import (
    C_BUCKET,
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
from racer_local.kernels.draft import D_DEPTH, D_MATCH, D_PARENT, D_SOURCE, D_TOKEN
from racer_local.kernels.draft import D_SIBLING as D_STATE  # siblings need no list here, a node's context does
from racer_local.kernels.heap import heap_pop, heap_push

HITS, TRIES = range(2)
"""Columns of a belief row float32[2]."""

PRIOR_WEIGHT = 20.0
"""Tries that the prior of a bucket counts as."""
MAX_P = 0.99
MIN_P = 0.01
"""Paths less likely than this are not worth a place in the heap."""
P_SCALE = 1 << 30
TRUSTED, BELIEVED = range(2)
"""Cells of a trust array float64[2]: of the nodes that could have been right, how many were and how many should be."""


class DraftLimits(NamedTuple):
    """What a draft should be.

    Attributes:
        min_match: Shortest n-gram that is trusted.
        limit: Nodes at most.
        chain: Whether to keep to a single path.
        anyway: Draft even if nothing is expected to pay.
        trust: Factor on every chance.
        temperature: Divides the gaps of guesses.
    """

    min_match: int
    limit: int
    chain: bool
    anyway: bool
    trust: float
    temperature: np.float32


class Room(NamedTuple):
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
def learn_beliefs(known, root, truth, min_match, memory, counts, out):
    """Count for every candidate along the true path whether it was right. Call before anything else learns the step.

    Args:
        known: Automaton and successor table before the step.
        root: Token before the step.
        truth: int32[m], tokens that the step committed.
        min_match: Shortest n-gram that is trusted.
        memory: Tries after which older ones fade: counts beyond it are halved.
        counts: float32[N_BUCKETS, 2], hits and tries, changed.
        out: int32[MAX_CANDIDATES, CANDIDATE_WIDTH], scratch.
    """
    state = window_state(known.active)
    token = root
    for i in range(len(truth)):
        ids, gaps = known.ids[token], known.gaps[token]
        n = list_candidates(known.nodes, state, i == 0, ids, gaps, np.float32(1.0), min_match, out)
        for c in range(n):
            b = out[c, C_BUCKET]
            if counts[b, TRIES] >= memory:
                counts[b, TRIES] *= 0.5
                counts[b, HITS] *= 0.5
            counts[b, TRIES] += 1
            if out[c, C_TOKEN] == truth[i]:
                counts[b, HITS] += 1
        token = truth[i]
        state = next_state(known.nodes, known.buckets, state, token)


@njit(cache=True, nogil=True)
def learn_trust(parent, p, path, given, fade, trust):
    """Weigh what was believed of a verified draft against what came true.

    A node could have been right if its parent was: only those count, each with the chance it had then.

    Args:
        parent: int32[n], parents of the drafted nodes, -1 for the root.
        p: float32[n], believed chance of each path, `given` for each edge included.
        path: int32[m], accepted nodes.
        given: Factor of trust that was in the chances.
        fade: Share of what was seen before that is forgotten.
        trust: float64[2], changed.
    """
    trust *= 1.0 - fade
    for i in range(len(parent)):
        above = parent[i]
        could = above < 0
        right = False
        for node in path:
            could |= node == above
            right |= node == i
        if could:
            trust[BELIEVED] += p[i] / (p[above] if above >= 0 else np.float32(1.0)) / given
            trust[TRUSTED] += 1.0 if right else 0.0


@njit(cache=True, nogil=True)
def propose_gain(known, root, counts, prior, cost, wish, room):
    """Draft the tree with the highest expected tokens per time.

    Args:
        known: Automaton and successor table.
        root: Token id of the root.
        counts: float32[N_BUCKETS, 2], hits and tries.
        prior: float32[N_BUCKETS], chance of a bucket without evidence.
        cost: float32[MAX_BUDGET + 1], time of a decode of n tokens.
        wish: What the draft should be.
        room: Where it is made.

    Returns:
        Number of drafted nodes; 0 where nothing beats plain decoding.
    """
    draft, p, heap, entries = room
    size, filled = 0, 0
    root_state = window_state(known.active)
    state = root_state
    expected = 1.0
    best, best_n = 0.0 if wish.anyway else 1.0 / cost[1], 0
    n = 0
    parent, token, path = -1, root, np.float32(1.0)
    while True:
        if len(entries) - filled >= MAX_CANDIDATES:
            fresh = entries[filled : filled + MAX_CANDIDATES]
            ids, gaps = known.ids[token], known.gaps[token]
            m = list_candidates(known.nodes, state, parent < 0, ids, gaps, wish.temperature, wish.min_match, fresh)
            for i in range(m):
                b = fresh[i, C_BUCKET]
                chance = (counts[b, HITS] + PRIOR_WEIGHT * prior[b]) / (counts[b, TRIES] + PRIOR_WEIGHT)
                q = path * min(wish.trust * chance, MAX_P)
                if q >= MIN_P:
                    fresh[i, C_PARENT] = parent
                    item = (np.int64(q * P_SCALE) << 32) | np.int64(len(entries) - filled - i)
                    heap_push(heap, size, item)
                    size += 1
            filled += m
        if size == 0 or n >= wish.limit:
            break
        item = heap_pop(heap, size)
        size = 0 if wish.chain else size - 1
        e = len(entries) - (item & 0xFFFFFFFF)
        path = np.float32((item >> 32) / P_SCALE)
        # no larger tree can win if even nodes as likely as this one would not
        hope = False
        for more in range(1, wish.limit - n + 1):
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
