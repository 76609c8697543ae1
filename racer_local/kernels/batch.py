"""Kernel that lays a draft tree out as a llama.cpp batch."""

from numba import njit

OUTSIDE, MALFORMED, BRANCHES = 1, 2, 3
"""What can be wrong with a draft, see `tree_fault`."""


@njit(cache=True, nogil=True)
def tree_fault(root, tokens, parents, depths, n_vocab, n_seq):
    """What of a draft would lead llama.cpp, or `fill_tree`, out of its bounds.

    Args:
        root: Token id of the root.
        tokens: int32[n], tokens of the nodes.
        parents: int32[n], -1 for the root.
        depths: int32[n].
        n_vocab: Number of tokens in the vocabulary.
        n_seq: Sequences of the context; where there is one alone, each node must follow the one before it.

    Returns:
        0 for nothing, else the first fault: a token is outside the vocabulary, the tree is malformed, or it branches.
    """
    if not 0 <= root < n_vocab:
        return OUTSIDE
    for i in range(len(tokens)):
        if not 0 <= tokens[i] < n_vocab:
            return OUTSIDE
        parent = parents[i]
        if not -1 <= parent < i:
            return MALFORMED
        if depths[i] != (1 if parent < 0 else depths[parent] + 1):
            return MALFORMED
        if n_seq == 1 and parent != i - 1:
            return BRANCHES
    return 0


@njit(cache=True, nogil=True)
def fill_tree(root, tokens, parents, depths, n_past, b_token, b_pos, b_n_seq, b_seq, b_output, first_child):
    """Write the root and the nodes of a tree into batch arrays, one sequence id for each leaf.

    A node carries the ids of all leaves below it and the root all ids, so that each node sees exactly its ancestors.
    Sequence 0 goes to the path of first children, which the draft believes in most; it stands first in each list.

    Args:
        root: Token id of the root.
        tokens: int32[n], tokens of the nodes.
        parents: int32[n], -1 for the root.
        depths: int32[n].
        n_past: Tokens in the cache, position of the root.
        b_token: int32[B], b_pos: int32[B], b_n_seq: int32[B], b_seq: int32[B, S], b_output: int8[B]; filled.
        first_child: int32[B], scratch.

    Returns:
        Number of sequences used, at least 1.
    """
    n = len(tokens)
    b_token[0] = root
    b_pos[0] = n_past
    for i in range(n + 1):
        b_n_seq[i] = 0
        b_output[i] = 1
        first_child[i] = 0
    for i in range(n, 0, -1):
        b_token[i] = tokens[i - 1]
        b_pos[i] = n_past + depths[i - 1]
        first_child[parents[i - 1] + 1] = i
    favourite = 0
    while first_child[favourite] != 0:
        favourite = first_child[favourite]
    _give_sequence(favourite, 0, parents, b_n_seq, b_seq)
    n_seq = 1
    for i in range(n + 1):
        if first_child[i] == 0 and i != favourite:
            _give_sequence(i, n_seq, parents, b_n_seq, b_seq)
            n_seq += 1
    return n_seq


@njit(cache=True, nogil=True)
def _give_sequence(leaf, seq, parents, b_n_seq, b_seq):
    """Add a sequence id to a leaf and to everything above it."""
    at = leaf
    while True:
        b_seq[at, b_n_seq[at]] = seq
        b_n_seq[at] += 1
        if at == 0:
            return
        at = parents[at - 1] + 1
