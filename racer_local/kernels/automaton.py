"""Kernels of the n-gram automaton: insertion with exact suffix links, least-recently-used bound, look-up.

The automaton is a trie of all n-grams up to depth N. Its nodes are rows of one int32 array; row 0 is the root, and 0
also means "none" in every field that holds a node, since the root is nobody's child, link target of interest or leaf.

Two orders keep the bound safe. In the use order (OLDER/NEWER) every node is older than its parent and than its
suffix-link target, because a window is touched from its longest n-grams to its shortest. So the oldest node is always
a leaf that no link points to, and evicting it takes constant time and leaves nothing dangling. Among siblings
(NEXT/PREV) the one that followed last stands first, so that reading the first few children reads the recent ones.

Method: Aho-Corasick links for n-grams of one text need no rebuild, since the link of an n-gram is the n-gram without
its first token and both end at the same position (RACER, arXiv 2604.14885, section 3, builds them by breadth-first
passes).
"""

import numpy as np
from numba import njit

TOKEN, PARENT, DEPTH, COUNT, LINK, CHILD, NEXT, PREV, OLDER, NEWER, CHAIN, STAMP = range(12)
"""Columns of a node row. CHILD is the first child, CHAIN the next node in the same hash bucket, STAMP the window
that a node was last part of."""
NODE_WIDTH = 12

USED, NEWEST, OLDEST, EVICTED, STAMPS, BORDER = range(6)
"""Cells of the state array. USED counts rows in use, the root included; BORDER is the newest node older than all of
the window and of the one before."""
STATE_WIDTH = 6


@njit(cache=True, nogil=True, inline="always")
def bucket_of(parent, token, n_buckets):
    """Hash bucket of the child `token` of node `parent`; `n_buckets` is a power of two."""
    h = np.uint64(parent) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(token) * np.uint64(0xC2B2AE3D27D4EB4F)
    h ^= h >> np.uint64(31)
    h *= np.uint64(0xD6E8FEB86659FD93)
    return np.int64((h >> np.uint64(32)) & np.uint64(n_buckets - 1))


@njit(cache=True, nogil=True)
def find_child(nodes, buckets, parent, token):
    """Node of the n-gram `parent` + `token`, 0 if there is none."""
    v = buckets[bucket_of(parent, token, len(buckets))]
    while v != 0 and (nodes[v, PARENT] != parent or nodes[v, TOKEN] != token):
        v = nodes[v, CHAIN]
    return v


@njit(cache=True, nogil=True)
def _use_unlink(nodes, state, v):
    older, newer = nodes[v, OLDER], nodes[v, NEWER]
    if older != 0:
        nodes[older, NEWER] = newer
    else:
        state[OLDEST] = newer
    if newer != 0:
        nodes[newer, OLDER] = older
    else:
        state[NEWEST] = older


@njit(cache=True, nogil=True)
def _use_push(nodes, state, v):
    newest = state[NEWEST]
    nodes[v, OLDER] = newest
    nodes[v, NEWER] = 0
    if newest != 0:
        nodes[newest, NEWER] = v
    else:
        state[OLDEST] = v
    state[NEWEST] = v


@njit(cache=True, nogil=True)
def _use_touch(nodes, state, v):
    """Make `v` the newest. It joins the window, so the border moves on if it was that."""
    if v == state[BORDER]:
        state[BORDER] = nodes[v, OLDER]
    if nodes[v, NEWER] != 0:
        _use_unlink(nodes, state, v)
        _use_push(nodes, state, v)


@njit(cache=True, nogil=True)
def _touch_window(nodes, state, active, dropped):
    """Make the n-grams of the window the newest, long ones first: both orders named above follow from it.

    All of them are among the newest nodes already, together with those of the window before. So the newest part of the
    use order is written anew as a whole, which costs a few stores a node, instead of moving node by node.

    Args:
        nodes: As in `observe`.
        state: As in `observe`.
        active: As in `observe`.
        dropped: Longest n-gram of the window before, of which all beginnings leave the window; 0 if none does.
    """
    n = active.shape[1] - 1
    for d in range(1, n + 1):
        v = active[0, d]
        for length in range(d, 0, -1):
            active[length, d] = v
            v = nodes[v, PARENT]
    state[STAMPS] += 1
    stamp = state[STAMPS]
    newer = np.int32(0)
    for length in range(1, n + 1):
        for d in range(n, length - 1, -1):
            newer = _put_next(nodes, state, active[length, d], newer, stamp)
    border = state[BORDER]
    last = newer
    while dropped != 0 and nodes[dropped, DEPTH] > 0:
        active[nodes[dropped, DEPTH], 0] = dropped
        dropped = nodes[dropped, PARENT]
        if dropped == 0:
            for length in range(1, n + 1):
                newer = _put_next(nodes, state, active[length, 0], newer, stamp)
    if newer != 0:
        nodes[newer, OLDER] = border
        if border != 0:
            nodes[border, NEWER] = newer
        else:
            state[OLDEST] = newer
        state[BORDER] = nodes[last, OLDER]


@njit(cache=True, nogil=True)
def _put_next(nodes, state, v, newer, stamp):
    """Put `v` next to `newer` on its older side, unless it is none or in place already; returns the last one put."""
    if v == 0 or nodes[v, STAMP] == stamp:
        return newer
    nodes[v, STAMP] = stamp
    nodes[v, NEWER] = newer
    if newer != 0:
        nodes[newer, OLDER] = v
    else:
        state[NEWEST] = v
    return v


@njit(cache=True, nogil=True)
def _sibling_unlink(nodes, v):
    before, after = nodes[v, PREV], nodes[v, NEXT]
    if before != 0:
        nodes[before, NEXT] = after
    else:
        nodes[nodes[v, PARENT], CHILD] = after
    if after != 0:
        nodes[after, PREV] = before


@njit(cache=True, nogil=True)
def _sibling_push(nodes, v):
    parent = nodes[v, PARENT]
    first = nodes[parent, CHILD]
    nodes[v, PREV] = 0
    nodes[v, NEXT] = first
    if first != 0:
        nodes[first, PREV] = v
    nodes[parent, CHILD] = v


@njit(cache=True, nogil=True)
def _evict_oldest(nodes, buckets, state):
    """Take the oldest node out of every list and return its row for reuse."""
    v = state[OLDEST]
    _use_unlink(nodes, state, v)
    _sibling_unlink(nodes, v)
    b = bucket_of(nodes[v, PARENT], nodes[v, TOKEN], len(buckets))
    if buckets[b] == v:
        buckets[b] = nodes[v, CHAIN]
    else:
        u = buckets[b]
        while nodes[u, CHAIN] != v:
            u = nodes[u, CHAIN]
        nodes[u, CHAIN] = nodes[v, CHAIN]
    state[EVICTED] += 1
    return v


@njit(cache=True, nogil=True)
def _add_child(nodes, buckets, state, parent, token, link):
    if state[USED] < len(nodes):
        v = state[USED]
        state[USED] += 1
    else:
        v = _evict_oldest(nodes, buckets, state)
    nodes[v, TOKEN] = token
    nodes[v, PARENT] = parent
    nodes[v, DEPTH] = nodes[parent, DEPTH] + 1
    nodes[v, COUNT] = 0
    nodes[v, LINK] = link
    nodes[v, CHILD] = 0
    nodes[v, STAMP] = 0
    b = bucket_of(parent, token, len(buckets))
    nodes[v, CHAIN] = buckets[b]
    buckets[b] = v
    _sibling_push(nodes, v)
    _use_push(nodes, state, v)
    return v


@njit(cache=True, nogil=True)
def observe(nodes, buckets, state, active, tokens):
    """Insert every n-gram that ends at each of `tokens` and make the window end there.

    Args:
        nodes: int32[capacity, NODE_WIDTH]; the capacity holds at least all n-grams of two windows.
        buckets: int32[power of two], hash heads.
        state: int32[STATE_WIDTH].
        active: int32[N + 1, N + 1]; row 0 holds the node of the last d tokens at column d (0: not in the trie, and
            then no deeper one is either), the other rows are scratch.
        tokens: int32[m], tokens that follow the window.
    """
    n = active.shape[1] - 1
    window = active[0]
    for t in range(len(tokens)):
        token = tokens[t]
        parent = window[0]
        link = np.int32(0)
        dropped = window[n]
        for d in range(1, n + 1):
            was = window[d]
            v = np.int32(0)
            if d == 1 or parent != 0:
                v = find_child(nodes, buckets, parent, token)
                if v == 0:
                    v = _add_child(nodes, buckets, state, parent, token, link)
                else:
                    # at once, so that no eviction of this very token can take it
                    _use_touch(nodes, state, v)
                    if nodes[v, PREV] != 0:
                        _sibling_unlink(nodes, v)
                        _sibling_push(nodes, v)
                nodes[v, COUNT] += 1
            window[d] = v
            link = v
            parent = was
        _touch_window(nodes, state, active, dropped)


@njit(cache=True, nogil=True)
def seek(nodes, buckets, state, active, tokens):
    """Make the window end after `tokens` (int32[m], the last N of a context) without inserting anything."""
    n = active.shape[1] - 1
    window = active[0]
    window[:] = 0
    for t in range(len(tokens)):
        parent = window[0]
        for d in range(1, n + 1):
            was = window[d]
            v = np.int32(0)
            if d == 1 or parent != 0:
                v = find_child(nodes, buckets, parent, tokens[t])
            window[d] = v
            parent = was
    # going on from here must evict nothing of the window: bring it to the newest, then in order
    state[BORDER] = state[NEWEST]
    for d in range(n, 0, -1):
        v = window[d]
        while v != 0:
            _use_touch(nodes, state, v)
            v = nodes[v, PARENT]
    _touch_window(nodes, state, active, np.int32(0))
