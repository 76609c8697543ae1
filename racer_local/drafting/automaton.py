"""The n-gram automaton: every n-gram of the context up to depth N, exactly counted, bounded by least recent use."""

import numpy as np
from numpy.typing import NDArray

from racer_local.kernels import automaton


class Automaton:
    """Aho-Corasick automaton over the context's n-grams, extended online.

    Its kernels and their invariants are described in `kernels.automaton`.

    Attributes:
        max_ngram: Longest n-gram, N.
        nodes: int32[max_nodes, NODE_WIDTH].
        buckets: int32[power of two].
        state: int32[STATE_WIDTH].
        active: int32[N + 1, N + 1], row 0 the nodes of the last 1..N tokens.
    """

    def __init__(self, max_nodes: int, max_ngram: int) -> None:
        """Make an empty automaton of at most `max_nodes` nodes, enough for the n-grams of two windows."""
        assert max_nodes > max_ngram * (max_ngram + 3), "too few nodes for the n-grams of the window"
        self.max_ngram = max_ngram
        self.nodes = np.zeros((max_nodes, automaton.NODE_WIDTH), np.int32)
        self.buckets = np.zeros(1 << (max_nodes - 1).bit_length(), np.int32)
        self.state = np.zeros(automaton.STATE_WIDTH, np.int32)
        self.state[automaton.USED] = 1
        self.active = np.zeros((max_ngram + 1, max_ngram + 1), np.int32)

    def observe(self, tokens: NDArray[np.int32]) -> None:
        """Learn tokens that follow the current window, int32[m]."""
        automaton.observe(self.nodes, self.buckets, self.state, self.active, tokens)

    def seek(self, context: NDArray[np.int32]) -> None:
        """Put the window at the end of a context, int32[m], without learning it."""
        automaton.seek(self.nodes, self.buckets, self.state, self.active, context[-self.max_ngram :])

    @property
    def n_nodes(self) -> int:
        """Nodes in use, the root included."""
        return int(self.state[automaton.USED])

    @property
    def n_evicted(self) -> int:
        """Nodes that made room for others so far."""
        return int(self.state[automaton.EVICTED])

    @property
    def n_bytes(self) -> int:
        """Memory of the automaton in bytes."""
        return self.nodes.nbytes + self.buckets.nbytes
