"""Kernels that list what may follow a context, each in the class of what is known about it.

A candidate is a token that may come next, known from the n-grams that the context ends with, from the model's earlier
logits after the same last token, or from both.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from racer_local.kernels.automaton import CHILD, COUNT, DEPTH, LINK, NEXT, TOKEN, find_child
from racer_local.kernels.draft_layout import LOGITS_BIT, RETRIEVAL_BIT

C_TOKEN, C_SOURCE, C_MATCH, C_NODE, C_CLASS, C_MATCH_SHARE, C_PARENT = range(7)
"""Columns of a candidate int32[CANDIDATE_WIDTH].

C_NODE is its trie node, 0 for none; C_CLASS the class that its chance is that of; C_MATCH_SHARE the bins of match and
share of a retrieved candidate, from which its class is made where the logits agree; C_PARENT the drafted node that it
would follow, for whoever makes a tree of candidates.
"""
CANDIDATE_WIDTH = 7

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
N_CLASSES = N_RETRIEVED + N_LOGITS + N_BOTH
"""Classes, numbered in this order: retrieved only, logits only, both."""


class DraftSources(NamedTuple):
    """What drafting draws on.

    Attributes:
        nodes: int32[capacity, NODE_WIDTH], the automaton.
        buckets: int32[power of two], its hash table.
        active: int32[N + 1, N + 1], its window in row 0; the last token is the root.
        ids: int32[V, k], the successor table: guesses by token, best first, -1 for none.
        gaps: float32[V, k], distance of each guess to the best logit.
    """

    nodes: np.ndarray
    buckets: np.ndarray
    active: np.ndarray
    ids: np.ndarray
    gaps: np.ndarray


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
def list_candidates(nodes, state, at_end, ids, gaps, temperature, min_match, out):
    """List what may follow a context.

    Args:
        nodes: int32[capacity, NODE_WIDTH].
        state: Node of the longest n-gram that the context ends with.
        at_end: Whether the context is the end of the text, so that its n-grams count one occurrence without a next
            token.
        ids: int32[k], best tokens that the model gave after the context's last token, -1 for none.
        gaps: float32[k], their distance to the best logit.
        temperature: Divides the gaps.
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
                    kind = 1 if contexts > 0 else 0
                    kind = kind * MATCH_BINS + match
                    kind = kind * COUNT_BINS + min(nodes[c, COUNT], COUNT_BINS) - 1
                    kind = kind * SHARE_BINS + share
                    kind = kind * 2 + (1 if rank > 0 else 0)
                    out[n, C_TOKEN] = nodes[c, TOKEN]
                    out[n, C_SOURCE] = RETRIEVAL_BIT
                    out[n, C_MATCH] = nodes[s, DEPTH]
                    out[n, C_NODE] = c
                    out[n, C_CLASS] = kind
                    out[n, C_MATCH_SHARE] = match * SHARE_BINS + share
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
        gap = _gap_bin((gaps[r] if r > 0 else (gaps[1] if len(gaps) > 1 else np.float32(9.0))) / temperature)
        at = -1
        for i in range(retrieved):
            if out[i, C_TOKEN] == ids[r]:
                at = i
        if at >= 0:
            lead = min(r, 1) if r < 3 else 2
            out[at, C_SOURCE] |= LOGITS_BIT
            out[at, C_CLASS] = N_RETRIEVED + N_LOGITS + (out[at, C_MATCH_SHARE] * 3 + lead) * 4 + gap // 2
        elif n < MAX_CANDIDATES:
            out[n, C_TOKEN] = ids[r]
            out[n, C_SOURCE] = LOGITS_BIT
            out[n, C_MATCH] = 0
            out[n, C_NODE] = 0
            out[n, C_CLASS] = N_RETRIEVED + ((1 if retrieved > 0 else 0) * RANKS + r) * GAP_BINS + gap
            n += 1
    return n


@njit(cache=True, nogil=True)
def window_state(active):
    """Node of the longest n-gram that the window of `active` ends with, 0 if it is empty."""
    for d in range(active.shape[1] - 1, 0, -1):
        if active[0, d] != 0:
            return active[0, d]
    return np.int32(0)
