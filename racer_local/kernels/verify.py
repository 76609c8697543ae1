"""Kernel that follows the arg-max through a verified tree."""

from numba import njit


@njit(cache=True, nogil=True)
def walk_greedy(best, tokens, parents, picks, path):
    """Follow the best token of each row from the root down the tree.

    Args:
        best: int32[1 + n, k], best tokens of the root's row and of every node's, best first.
        tokens: int32[n], tokens of the nodes.
        parents: int32[n], -1 for the root; parents stand before children.
        picks: int32[1 + n], filled with the picked tokens.
        path: int32[n], filled with the accepted nodes.

    Returns:
        Number of picked tokens; one less nodes were accepted.
    """
    node = -1
    n_picks = 0
    for _ in range(len(tokens) + 1):
        pick = best[node + 1, 0]
        picks[n_picks] = pick
        n_picks += 1
        child = -1
        for c in range(node + 1, len(tokens)):
            if parents[c] == node and tokens[c] == pick:
                child = c
                break
        if child < 0:
            break
        path[n_picks - 1] = child
        node = child
    return n_picks
