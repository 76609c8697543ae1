"""Kernels of believed chances: how often candidates of each class have proved right."""

import numpy as np
from numba import njit

from racer_local.kernels.candidates import C_CLASS, C_TOKEN, list_candidates, next_state, window_state

HITS, TRIES = range(2)
"""Columns of the counts float32[N_CLASSES, 2]."""
PRIOR_WEIGHT = 20.0
"""Tries that the prior of a class counts as."""


@njit(cache=True, nogil=True, inline="always")
def believed_chance(counts, prior, c):
    """Chance of a candidate of class `c`: the prior, moved by the evidence."""
    return (counts[c, HITS] + PRIOR_WEIGHT * prior[c]) / (counts[c, TRIES] + PRIOR_WEIGHT)


@njit(cache=True, nogil=True)
def learn_beliefs(known, root, truth, min_match, memory, counts, out):
    """Count for every candidate along the true path whether it was right. Call before anything else learns the step.

    Args:
        known: Automaton and successor table before the step.
        root: Token before the step.
        truth: int32[m], tokens that the step committed.
        min_match: Shortest n-gram that is trusted.
        memory: Tries after which older ones fade: counts beyond it are halved.
        counts: float32[N_CLASSES, 2], hits and tries, changed.
        out: int32[MAX_CANDIDATES, CANDIDATE_WIDTH], scratch.
    """
    state = window_state(known.active)
    token = root
    for i in range(len(truth)):
        ids, gaps = known.ids[token], known.gaps[token]
        n = list_candidates(known.nodes, state, i == 0, ids, gaps, np.float32(1.0), min_match, out)
        for at in range(n):
            c = out[at, C_CLASS]
            if counts[c, TRIES] >= memory:
                counts[c, TRIES] *= 0.5
                counts[c, HITS] *= 0.5
            counts[c, TRIES] += 1
            if out[at, C_TOKEN] == truth[i]:
                counts[c, HITS] += 1
        token = truth[i]
        state = next_state(known.nodes, known.buckets, state, token)
