"""Kernel of calibration: what was believed of drafts against what came true."""

import numpy as np
from numba import njit

CAME_TRUE, BELIEVED = range(2)
"""Cells of the evidence float64[2]: of the nodes that could have been right, how many were and how many should be."""


@njit(cache=True, nogil=True)
def learn_calibration(parent, p, path, given, fade, evidence):
    """Weigh what was believed of a verified draft against what came true.

    A node could have been right if its parent was: only those count, each with the chance it had then.

    Args:
        parent: int32[n], parents of the drafted nodes, -1 for the root.
        p: float32[n], believed chance of each path, `given` for each edge included.
        path: int32[m], accepted nodes.
        given: Factor of calibration that was in the chances.
        fade: Share of what was seen before that is forgotten.
        evidence: float64[2], changed.
    """
    evidence *= 1.0 - fade
    for i in range(len(parent)):
        above = parent[i]
        could = above < 0
        right = False
        for node in path:
            could |= node == above
            right |= node == i
        if could:
            evidence[BELIEVED] += p[i] / (p[above] if above >= 0 else np.float32(1.0)) / given
            evidence[CAME_TRUE] += 1.0 if right else 0.0
