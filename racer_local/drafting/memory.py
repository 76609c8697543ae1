"""What drafting remembers of a chat, shared by every policy that draws on it."""

from collections.abc import Sequence

import numpy as np

from racer_local.draft_tree import DraftTree
from racer_local.drafting.automaton import Automaton
from racer_local.drafting.successors import RowScan, Successors
from racer_local.kernels.candidates import DraftSources
from racer_local.sequences import common_prefix
from racer_local.settings import MAX_BUDGET


class Memory:
    """Automaton, successor table and context.

    Attributes:
        automaton: n-grams of the context.
        successors: The model's own earlier guesses.
        context: Tokens that the automaton's window stands at the end of.
        known: The arrays of both, for kernels.
    """

    def __init__(self, max_nodes: int, max_ngram: int, n_vocab: int, breadth: int) -> None:
        """Make an empty memory: of an `Automaton` with its two bounds, and of `Successors`."""
        self.automaton = Automaton(max_nodes, max_ngram)
        self.successors = Successors(n_vocab, breadth)
        self.context: list[int] = []
        a, s = self.automaton, self.successors
        self.known = DraftSources(a.nodes, a.buckets, a.active, s.ids, s.gaps)
        self._tokens = np.zeros(MAX_BUDGET, np.int32)
        self._rows = np.zeros(MAX_BUDGET, np.int32)

    def begin(self, prompt: Sequence[int]) -> None:
        """Learn what of a prompt is new: all that follows its common prefix with the context."""
        known = common_prefix(self.context, prompt)
        tokens = np.asarray(prompt, np.int32)
        if known < len(self.context):
            self.automaton.seek(tokens[:known])
        self.automaton.observe(tokens[known:])
        self.context = list(prompt)

    def learn(self, root: int, tree: DraftTree, scan: RowScan, path: Sequence[int], committed: Sequence[int]) -> None:
        """Learn a verified step: its rows, and the tokens that it has added. Arguments as in `Drafter.learn`."""
        n = len(tree) + 1
        self._tokens[0] = root
        self._tokens[1:n] = tree.token
        self._rows[0] = 0  # rows of the accepted path: the root's and one more than each node's number
        for i, node in enumerate(path):
            self._rows[i + 1] = node + 1
        self.successors.learn(self._tokens[:n], scan, self._rows[: len(path) + 1])
        self.commit(committed)

    def commit(self, tokens: Sequence[int]) -> None:
        """Learn tokens that an answer has added."""
        self.automaton.observe(np.asarray(tokens, np.int32))
        self.context.extend(tokens)
