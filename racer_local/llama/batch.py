"""A llama.cpp batch over NumPy arrays: filled by one kernel, no element ever set through ctypes."""

import ctypes

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from racer_local.draft_tree import DraftTree
from racer_local.kernels.batch import fill_tree


class Batch:
    """Room for `n_tokens` tokens of up to `n_seq` sequences each.

    Attributes:
        struct: The `llama_batch` to hand to llama.cpp; it points into the arrays of this object.
        seq: int32[n_tokens, n_seq], sequence ids of each token.
        n_seq_id: int32[n_tokens], how many of them count.
    """

    def __init__(self, n_tokens: int, n_seq: int) -> None:
        self.token = np.zeros(n_tokens, np.int32)
        self.pos = np.zeros(n_tokens, np.int32)
        self.n_seq_id = np.ones(n_tokens, np.int32)
        self.seq = np.zeros((n_tokens, n_seq), np.int32)
        self.output = np.zeros(n_tokens, np.int8)
        self._first_child = np.zeros(n_tokens, np.int32)
        self._seq_rows = self.seq.ctypes.data + np.arange(n_tokens, dtype=np.uint64) * np.uint64(self.seq.strides[0])
        int32_p = ctypes.POINTER(ctypes.c_int32)
        self.struct = llama_cpp.llama_batch(
            n_tokens=0,
            token=ctypes.cast(self.token.ctypes.data, int32_p),
            embd=None,
            pos=ctypes.cast(self.pos.ctypes.data, int32_p),
            n_seq_id=ctypes.cast(self.n_seq_id.ctypes.data, int32_p),
            seq_id=ctypes.cast(self._seq_rows.ctypes.data, ctypes.POINTER(int32_p)),
            logits=ctypes.cast(self.output.ctypes.data, ctypes.POINTER(ctypes.c_int8)),
        )

    def set_prompt(self, tokens: NDArray[np.int32], n_past: int) -> None:
        """Lay out part of a prompt for sequence 0; no logits are asked for."""
        n = len(tokens)
        self.token[:n] = tokens
        self.pos[:n] = np.arange(n_past, n_past + n, dtype=np.int32)
        self.n_seq_id[:n] = 1
        self.seq[:n, 0] = 0
        self.output[:n] = 0
        self.struct.n_tokens = n

    def set_tree(self, root: int, tree: DraftTree, n_past: int) -> int:
        """Lay out the root and a draft tree, logits for every node; returns the number of sequences used."""
        n_seq = fill_tree(
            root,
            tree.token,
            tree.parent,
            tree.depth,
            n_past,
            self.token,
            self.pos,
            self.n_seq_id,
            self.seq,
            self.output,
            self._first_child,
        )
        self.struct.n_tokens = len(tree) + 1
        return n_seq
