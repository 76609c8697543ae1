"""Kernels of drafting by expected gain: what is likely after a context, how likely that has proved, and the best tree.

A candidate is a token that may follow a context, known from the n-grams that the context ends with, from the model's
earlier logits after the same last token, or from both. What is known about it puts it into a bucket; a bucket counts
how often its candidates were right. The tree is grown best first by the chance of the whole path, and cut where
expected tokens per time are highest.
"""

import numpy as np
from numba import njit

from racer_local.kernels.draft import (
    D_DEPTH,
    D_MATCH,
    D_PARENT,
    D_SOURCE,
    D_TOKEN,
    LOGITS_BIT,
    RETRIEVAL_BIT,
)
from racer_local.kernels.draft import D_SIBLING as D_STATE  # siblings need no list here, a node's context does
from racer_local.kernels.heap import heap_pop, heap_push
from racer_local.kernels.trie import CHILD, COUNT, DEPTH, LINK, NEXT, TOKEN, find_child

C_TOKEN, C_SOURCE, C_MATCH, C_NODE, C_BUCKET, C_PARENT = range(6)
"""Columns of a candidate row int32[CANDIDATE_WIDTH]. C_NODE is its trie node, 0 for none."""
CANDIDATE_WIDTH = 6

MAX_RETRIEVED = 8
"""Retrieved candidates of one context, from the longest matching n-gram on."""
MAX_CONTEXTS = 3
"""Matching n-grams of one context that are asked for continuations."""
MAX_CANDIDATES = 16
"""Candidates of one context, from both sources."""

MATCH_BINS, COUNT_BINS, SHARE_BINS, GAP_BINS, RANKS = 5, 3, 4, 8, 8
N_RETRIEVED = 2 * MATCH_BINS * COUNT_BINS * SHARE_BINS * 2
N_LOGITS = 2 * RANKS * GAP_BINS
N_BOTH = MATCH_BINS * SHARE_BINS * 3 * 4
N_BUCKETS = N_RETRIEVED + N_LOGITS + N_BOTH
"""Buckets: retrieved only, logits only, both."""

HITS, TRIES = range(2)
"""Columns of a belief row float32[2]."""

P_SCALE = 1 << 30
MIN_P = 0.01
"""Paths less likely than this are not worth a place in the heap."""


@njit(cache=True, nogil=True, inline="always")
def _match_bin(depth):
    if depth <= 3:
        return max(depth - 2, 0)
    if depth <= 5:
        return 2
    return 3 if depth < 10 else 4


@njit(cache=True, nogil=True, inline="always")
def _share_bin(count, total):
    share = count / max(total, 1)
    if share < 0.25:
        return 0
    if share < 0.6:
        return 1
    return 2 if share < 0.95 else 3


@njit(cache=True, nogil=True, inline="always")
def _gap_bin(gap):
    """0..7, about a factor 1.6 a bin."""
    edges = (0.25, 0.6, 1.1, 1.8, 2.8, 4.3, 6.5)
    b = 0
    while b < 7 and gap > edges[b]:
        b += 1
    return b


@njit(cache=True, nogil=True)
def next_state(nodes, buckets, state, token):
    """Node of the longest n-gram that the context ends with after `token`, 0 if even the token is unknown."""
    s = state
    while True:
        v = find_child(nodes, buckets, s, token)
        if v != 0 or s == 0:
            return v
        s = nodes[s, LINK]


@njit(cache=True, nogil=True)
def candidates(nodes, state, at_end, ids, gaps, min_match, out):
    """List what may follow a context.

    Args:
        nodes: int32[capacity, NODE_WIDTH].
        state: Node of the longest n-gram that the context ends with.
        at_end: Whether the context is the end of the text, so that its n-grams count one occurrence without a next
            token.
        ids: int32[k], best tokens that the model gave after the context's last token, -1 for none.
        gaps: float32[k], their distance to the best logit.
        min_match: Shortest n-gram that is trusted.
        out: int32[MAX_CANDIDATES, CANDIDATE_WIDTH], filled.

    Returns:
        Number of candidates.
    """
    n = 0
    s = state
    contexts = 0
    while s != 0 and nodes[s, DEPTH] >= min_match and contexts < MAX_CONTEXTS and n < MAX_RETRIEVED:
        if nodes[s, CHILD] != 0:
            total = nodes[s, COUNT] - (1 if at_end else 0)
            c = nodes[s, CHILD]
            rank = 0
            while c != 0 and n < MAX_RETRIEVED and rank < MAX_RETRIEVED:
                known = False
                for i in range(n):
                    known |= out[i, C_TOKEN] == nodes[c, TOKEN]
                if not known:
                    match, share = _match_bin(nodes[s, DEPTH]), _share_bin(nodes[c, COUNT], total)
                    bucket = 1 if contexts > 0 else 0
                    bucket = bucket * MATCH_BINS + match
                    bucket = bucket * COUNT_BINS + min(nodes[c, COUNT], COUNT_BINS) - 1
                    bucket = bucket * SHARE_BINS + share
                    bucket = bucket * 2 + (1 if rank > 0 else 0)
                    out[n, C_TOKEN] = nodes[c, TOKEN]
                    out[n, C_SOURCE] = RETRIEVAL_BIT
                    out[n, C_MATCH] = nodes[s, DEPTH]
                    out[n, C_NODE] = c
                    out[n, C_BUCKET] = bucket
                    out[n, C_PARENT] = match * SHARE_BINS + share  # until it is known whether logits agree
                    n += 1
                c = nodes[c, NEXT]
                rank += 1
            contexts += 1
        s = nodes[s, LINK]
    retrieved = n
    for r in range(min(len(ids), RANKS)):
        if ids[r] < 0:
            break
        # what tells most of the best guess is its lead over the second
        gap = _gap_bin(gaps[r] if r > 0 else (gaps[1] if len(gaps) > 1 else np.float32(9.0)))
        at = -1
        for i in range(retrieved):
            if out[i, C_TOKEN] == ids[r]:
                at = i
        if at >= 0:
            lead = min(r, 1) if r < 3 else 2
            out[at, C_SOURCE] |= LOGITS_BIT
            out[at, C_BUCKET] = N_RETRIEVED + N_LOGITS + (out[at, C_PARENT] * 3 + lead) * 4 + gap // 2
        elif n < MAX_CANDIDATES:
            out[n, C_TOKEN] = ids[r]
            out[n, C_SOURCE] = LOGITS_BIT
            out[n, C_MATCH] = 0
            out[n, C_NODE] = 0
            out[n, C_BUCKET] = N_RETRIEVED + ((1 if retrieved > 0 else 0) * RANKS + r) * GAP_BINS + gap
            n += 1
    return n


@njit(cache=True, nogil=True)
def learn_beliefs(nodes, buckets, active, table_ids, table_gaps, root, truth, min_match, memory, beliefs, out):
    """Count for every candidate along the true path whether it was right. Call before anything else learns the step.

    Args:
        nodes, buckets, active: The automaton, its window before the step.
        table_ids, table_gaps: The successor table before the step.
        root: Token before the step.
        truth: int32[m], tokens that the step committed.
        min_match: Shortest n-gram that is trusted.
        memory: Tries after which older ones fade: counts beyond it are halved.
        beliefs: float32[N_BUCKETS, 2], hits and tries, changed.
        out: int32[MAX_CANDIDATES, CANDIDATE_WIDTH], scratch.
    """
    state = _window_state(active)
    token = root
    for i in range(len(truth)):
        n = candidates(nodes, state, i == 0, table_ids[token], table_gaps[token], min_match, out)
        for c in range(n):
            b = out[c, C_BUCKET]
            if beliefs[b, TRIES] >= memory:
                beliefs[b, TRIES] *= 0.5
                beliefs[b, HITS] *= 0.5
            beliefs[b, TRIES] += 1
            if out[c, C_TOKEN] == truth[i]:
                beliefs[b, HITS] += 1
        token = truth[i]
        state = next_state(nodes, buckets, state, token)


@njit(cache=True, nogil=True)
def _window_state(active):
    for d in range(active.shape[1] - 1, 0, -1):
        if active[0, d] != 0:
            return active[0, d]
    return np.int32(0)


@njit(cache=True, nogil=True)
def propose_gain(
    nodes,
    buckets,
    active,
    table_ids,
    table_gaps,
    root,
    min_match,
    limit,
    chain,
    beliefs,
    prior,
    weight,
    cost,
    draft,
    p,
    heap,
    entries,
):
    """Draft the tree with the highest expected tokens per time.

    Args:
        nodes, buckets, active: The automaton.
        table_ids, table_gaps: The successor table.
        root: Token id of the root.
        min_match: Shortest n-gram that is trusted.
        limit: Nodes at most.
        chain: Whether to keep to a single path.
        beliefs: float32[N_BUCKETS, 2], hits and tries.
        prior: float32[N_BUCKETS], chance of a bucket without evidence.
        weight: Tries that the prior counts as.
        cost: float32[MAX_BUDGET + 1], time of a decode of n tokens.
        draft: int32[DRAFT_HEIGHT, MAX_BUDGET + 1], filled.
        p: float32[MAX_BUDGET], filled with the chance of each path.
        heap: int64[H], scratch.
        entries: int32[H, CANDIDATE_WIDTH], scratch; the last MAX_CANDIDATES rows are kept free.

    Returns:
        Number of drafted nodes; 0 where nothing beats plain decoding.
    """
    size, filled = 0, 0
    root_state = _window_state(active)
    state = root_state
    expected = 1.0
    best, best_n = 1.0 / cost[1], 0
    n = 0
    parent, token, path = -1, root, np.float32(1.0)
    while True:
        room = len(entries) - filled
        if room >= MAX_CANDIDATES:
            fresh = entries[filled : filled + MAX_CANDIDATES]
            m = candidates(nodes, state, parent < 0, table_ids[token], table_gaps[token], min_match, fresh)
            for i in range(m):
                b = fresh[i, C_BUCKET]
                q = path * (beliefs[b, HITS] + weight * prior[b]) / (beliefs[b, TRIES] + weight)
                if q >= MIN_P:
                    fresh[i, C_PARENT] = parent
                    item = (np.int64(q * P_SCALE) << 32) | np.int64(len(entries) - filled - i)
                    heap_push(heap, size, item)
                    size += 1
            filled += m
        if size == 0 or n >= limit:
            break
        item = heap_pop(heap, size)
        size = 0 if chain else size - 1
        e = len(entries) - (item & 0xFFFFFFFF)
        path = np.float32((item >> 32) / P_SCALE)
        # no larger tree can win if even nodes as likely as this one would not
        hope = False
        for more in range(1, limit - n + 1):
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
        state = v if v != 0 else next_state(nodes, buckets, before, token)
        draft[D_STATE, n] = state
        parent = n
        n += 1
        expected += path
        value = expected / cost[1 + n]
        if value > best:
            best, best_n = value, n
    return best_n
