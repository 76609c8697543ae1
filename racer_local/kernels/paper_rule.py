"""Kernels that make drafts by the paper's rule: retrieved nodes first, by count, then the logits tree.

Source: RACER, arXiv 2604.14885, section 3. One thing goes further than the paper: a path that reaches the deepest
n-grams goes on through the suffix link, so that a long copy is drafted as long as the limit allows. One departs from
it: a large limit keeps a share for the logits tree, since a long context has rare n-grams enough to spend all of it.
"""

import numpy as np
from numba import njit

from racer_local.kernels.automaton import CHILD, COUNT, DEPTH, LINK, NEXT, TOKEN
from racer_local.kernels.draft_layout import (
    D_CHILD,
    D_DEPTH,
    D_MATCH,
    D_PARENT,
    D_SIBLING,
    D_SOURCE,
    D_TOKEN,
    LOGITS_BIT,
    Q_BREADTH,
    Q_NODE,
    RETRIEVAL_BIT,
)
from racer_local.kernels.heap import heap_pop, heap_push

O_LIMIT, O_MIN_MATCH, O_BREADTH, O_RETRIEVAL, O_LOGITS = range(5)
"""Cells of the options array int32[OPTIONS_WIDTH]. O_LIMIT counts drafted nodes, the root left out."""
OPTIONS_WIDTH = 5

E_NODE, E_PARENT, E_MATCH = range(3)
"""Columns of an entry: a trie node that may become a child of draft node E_PARENT (-1: of the root)."""
ENTRY_WIDTH = 3

UNSHARED = 8
"""Nodes that retrieval may fill alone; of a limit beyond it, a third is kept for the logits tree."""
MAX_CHILDREN = 16
"""Children of one trie node that are looked at, most recent first: bounds the work on common n-grams."""
MAX_COUNT = (1 << 20) - 1


@njit(cache=True, nogil=True)
def _child_of(draft, parent, token):
    """Child of draft node `parent` (-1: the root) with this token, -1 if there is none."""
    c = draft[D_CHILD, parent] - 1  # column -1 is the root's
    while c >= 0 and draft[D_TOKEN, c] != token:
        c = draft[D_SIBLING, c] - 1
    return c


@njit(cache=True, nogil=True)
def _append(draft, n, parent, token, source, match):
    draft[D_TOKEN, n] = token
    draft[D_PARENT, n] = parent
    draft[D_DEPTH, n] = draft[D_DEPTH, parent] + 1 if parent >= 0 else 1
    draft[D_SOURCE, n] = source
    draft[D_MATCH, n] = match
    draft[D_CHILD, n] = 0
    draft[D_SIBLING, n] = draft[D_CHILD, parent]
    draft[D_CHILD, parent] = n + 1


@njit(cache=True, nogil=True)
def _with_children(nodes, v, min_match):
    """`v` or the nearest node along its suffix links that has children, 0 if that one is too shallow."""
    while v != 0 and nodes[v, CHILD] == 0:
        v = nodes[v, LINK]
    return v if nodes[v, DEPTH] >= min_match else np.int32(0)


@njit(cache=True, nogil=True)
def _rank(count, match, depth):
    """Order of retrieved candidates: by count, then longer match, then nearer to the root. Fits 31 bits."""
    return (min(count, MAX_COUNT) << 10) | (match << 5) | (31 - min(depth, 31))


@njit(cache=True, nogil=True)
def _push_children(nodes, v, parent, match, depth, heap, entries, filled, size):
    """Push the recent children of trie node `v` as candidates below draft node `parent`."""
    c = nodes[v, CHILD]
    looked = 0
    while c != 0 and looked < MAX_CHILDREN and filled < len(entries):
        entries[filled, E_NODE] = c
        entries[filled, E_PARENT] = parent
        entries[filled, E_MATCH] = match
        rank = _rank(nodes[c, COUNT], match, depth)
        heap_push(heap, size, (np.int64(rank) << 32) | np.int64(len(entries) - filled))
        filled += 1
        size += 1
        looked += 1
        c = nodes[c, NEXT]
    return filled, size


@njit(cache=True, nogil=True)
def _retrieve(nodes, active, limit, min_match, draft, heap, entries):
    """Fill `draft` with the best-ranked retrieved nodes; returns how many there are."""
    window = active[0]
    n = 0
    filled = 0
    size = 0
    for d in range(len(window) - 1, min_match - 1, -1):
        if window[d] != 0:
            filled, size = _push_children(nodes, window[d], -1, d, 1, heap, entries, filled, size)
    while n < limit and size > 0:
        item = heap_pop(heap, size)
        size -= 1
        e = len(entries) - (item & 0xFFFFFFFF)
        v, parent, match = entries[e, E_NODE], entries[e, E_PARENT], entries[e, E_MATCH]
        at = _child_of(draft, parent, nodes[v, TOKEN])
        if at >= 0:
            draft[D_MATCH, at] = max(draft[D_MATCH, at], match)
            continue
        _append(draft, n, parent, nodes[v, TOKEN], RETRIEVAL_BIT, match)
        cursor = _with_children(nodes, v, min_match)
        if cursor != 0:
            filled, size = _push_children(nodes, cursor, n, match, draft[D_DEPTH, n] + 1, heap, entries, filled, size)
        n += 1
    return n


@njit(cache=True, nogil=True)
def _extrapolate(successors, root_token, limit, breadth, draft, n):
    """Spend what is left of the limit on the logits tree, level by level; returns the number of nodes.

    The root gets `breadth` children; the first child of a node gets half of its breadth (at the second level all of
    it), each further sibling half of the one before, never under 1. A guess that retrieval had made already is marked
    with both sources.
    """
    draft[Q_NODE, 0] = -1
    draft[Q_BREADTH, 0] = breadth
    head, tail = 0, 1
    while head < tail:
        u = draft[Q_NODE, head]
        wide = draft[Q_BREADTH, head]
        head += 1
        token = draft[D_TOKEN, u] if u >= 0 else root_token
        level = draft[D_DEPTH, u] if u >= 0 else 0
        child_wide = wide if level == 1 else wide >> 1
        for i in range(min(wide, successors.shape[1])):
            guess = successors[token, i]
            if guess < 0:
                break
            at = _child_of(draft, u, guess)
            if at >= 0:
                draft[D_SOURCE, at] |= LOGITS_BIT
            elif n < limit:
                _append(draft, n, u, guess, LOGITS_BIT, 0)
                at = n
                n += 1
            if at >= 0:
                draft[Q_NODE, tail] = at
                draft[Q_BREADTH, tail] = max(child_wide, 1)
                tail += 1
            child_wide >>= 1
    return n


@njit(cache=True, nogil=True)
def propose_tree(nodes, active, successors, root_token, options, draft, heap, entries):
    """Draft a tree for the window of `active`, whose last token is `root_token`.

    Args:
        nodes: int32[capacity, NODE_WIDTH], the automaton.
        active: int32[N + 1, N + 1], its window in row 0.
        successors: int32[V, k], guesses by token, best first, -1 for none.
        root_token: Token id of the root.
        options: int32[OPTIONS_WIDTH].
        draft: int32[DRAFT_HEIGHT, MAX_BUDGET + 1], filled.
        heap: int64[H], scratch.
        entries: int32[H, ENTRY_WIDTH], scratch.

    Returns:
        Number of drafted nodes.
    """
    draft[D_CHILD, -1] = 0
    n = 0
    limit = options[O_LIMIT]
    if options[O_RETRIEVAL]:
        kept = max(0, limit - UNSHARED) // 3 if options[O_LOGITS] else 0
        n = _retrieve(nodes, active, limit - kept, options[O_MIN_MATCH], draft, heap, entries)
    if options[O_LOGITS]:
        n = _extrapolate(successors, root_token, limit, options[O_BREADTH], draft, n)
    return n


@njit(cache=True, nogil=True)
def propose_chain(nodes, active, successors, root_token, options, draft):
    """Draft a single path: the most frequent continuation of the longest match, then best guesses.

    Arguments and result are those of `propose_tree`, without its scratch.
    """
    draft[D_CHILD, -1] = 0
    n = 0
    limit = options[O_LIMIT]
    if options[O_RETRIEVAL]:
        window = active[0]
        match = len(window) - 1
        cursor = np.int32(0)
        while match >= options[O_MIN_MATCH] and cursor == 0:
            if window[match] != 0 and nodes[window[match], CHILD] != 0:
                cursor = window[match]
            else:
                match -= 1
        while n < limit and cursor != 0:
            best = nodes[cursor, CHILD]
            c = nodes[best, NEXT]
            looked = 1
            while c != 0 and looked < MAX_CHILDREN:
                if nodes[c, COUNT] > nodes[best, COUNT]:
                    best = c
                c = nodes[c, NEXT]
                looked += 1
            _append(draft, n, n - 1, nodes[best, TOKEN], RETRIEVAL_BIT, match)
            n += 1
            cursor = _with_children(nodes, best, options[O_MIN_MATCH])
    if options[O_LOGITS]:
        token = root_token
        for i in range(n):
            if successors[token, 0] == draft[D_TOKEN, i]:
                draft[D_SOURCE, i] |= LOGITS_BIT
            token = draft[D_TOKEN, i]
        while n < limit and successors[token, 0] >= 0:
            token = successors[token, 0]
            _append(draft, n, n - 1, token, LOGITS_BIT, 0)
            n += 1
    return n
