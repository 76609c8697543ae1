"""Kernel that lays a row of logits out for a llama.cpp sampler chain."""

import numpy as np
from numba import njit

CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
"""Layout of llama.cpp's `llama_token_data`."""


@njit(cache=True, nogil=True)
def fill_candidates(row, candidates):
    """Write token ids and logits into sampler candidates, which the chain has reordered since the last call.

    Args:
        row: float32[V], logits.
        candidates: struct[V] of int32 `id`, float32 `logit`, float32 `p`; filled.
    """
    for i in range(len(row)):
        candidates[i]["id"] = i
        candidates[i]["logit"] = row[i]
        candidates[i]["p"] = 0.0
