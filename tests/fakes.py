"""A model without weights and what goes with it: everything that the loop needs, deterministic and quick."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from racer_local.draft_tree import ROOT, DraftTree
from racer_local.drafting.successors import RowScan
from racer_local.errors import ContextFullError, RacerError
from racer_local.settings import MAX_BUDGET
from racer_local.tokens import Source

Row = NDArray[np.float32]


class ScriptedModel:
    """A `loop.Verifier` whose logits are a function of the last tokens.

    Attributes:
        tokens: What the cache holds.
        n_decodes: Decodes so far, prefill's included; failed ones count.
    """

    def __init__(
        self,
        row_of: Callable[[tuple[int, ...]], Row],
        *,
        order: int = 2,
        n_ctx: int = 512,
        fail_at: Mapping[int, RacerError] | None = None,
    ) -> None:
        """Make a model with an empty cache.

        Args:
            row_of: Logits, float32[V], after the last `order` tokens (fewer at the start).
            order: Tokens that matter.
            n_ctx: Tokens that the cache holds.
            fail_at: Errors to raise, by number of the decode, from 1.
        """
        self._row_of = row_of
        self._order = order
        self._n_ctx = n_ctx
        self._fail_at = dict(fail_at or {})
        self._rows: dict[tuple[int, ...], Row] = {}
        self._pending: tuple[int, DraftTree] | None = None
        self.tokens: list[int] = []
        self.n_decodes = 0

    @property
    def room(self) -> int:
        """Tokens that one more decode may hold."""
        return min(self._n_ctx - len(self.tokens), MAX_BUDGET)

    @property
    def n_past(self) -> int:
        """Tokens in the cache."""
        return len(self.tokens)

    def row_after(self, context: Sequence[int]) -> Row:
        """Logits after a context."""
        key = tuple(context[-self._order :])
        if key not in self._rows:
            self._rows[key] = self._row_of(key)
        return self._rows[key]

    def prefill(self, tokens: Sequence[int], on_progress: Callable[[int, int], None] | None = None) -> int:
        """Make the cache hold exactly `tokens`; returns how many it held already."""
        if len(tokens) >= self._n_ctx:
            raise ContextFullError("the prompt does not fit")
        self._pending = None
        reused = 0
        while reused < min(len(tokens), len(self.tokens)) and tokens[reused] == self.tokens[reused]:
            reused += 1
        del self.tokens[reused:]
        if reused < len(tokens):
            self._decode()
            self.tokens.extend(tokens[reused:])
            if on_progress is not None:
                on_progress(len(tokens) - reused, len(tokens) - reused)
        return reused

    def verify(self, root: int, tree: DraftTree) -> Row:
        """Logits after the root and after each node of a well-formed tree."""
        assert self._pending is None, "commit follows verify"
        assert len(tree) + 1 <= self.room, "drafts stay within the room"
        self._decode()
        self._pending = (root, tree)
        contexts = [[*self.tokens[-self._order :], root]]
        seen: set[tuple[int, int]] = set()
        for node in range(len(tree)):
            parent, token = int(tree.parent[node]), int(tree.token[node])
            assert ROOT <= parent < node, "parents stand before children"
            assert (parent, token) not in seen, "siblings differ"
            assert tree.depth[node] == (1 if parent == ROOT else tree.depth[parent] + 1)
            seen.add((parent, token))
            contexts.append([*contexts[parent + 1], token])
        return np.stack([self.row_after(context) for context in contexts])

    def commit(self, root: int, tree: DraftTree, path: Sequence[int]) -> None:
        """Keep the root and the nodes of `path`, drop the rest."""
        assert self._pending is not None, "commit follows verify"
        assert self._pending[0] == root
        assert self._pending[1] is tree
        parent = ROOT
        for node in path:
            assert tree.parent[node] == parent, "a path goes down"
            parent = node
        self.tokens += [root, *tree.token[list(path)].tolist()]
        self._pending = None

    def _decode(self) -> None:
        self.n_decodes += 1
        if self.n_decodes in self._fail_at:
            raise self._fail_at[self.n_decodes]


def random_rows(n_vocab: int, seed: int, spread: float = 3.0) -> Callable[[tuple[int, ...]], Row]:
    """Logits drawn afresh for each key, the same ones whenever the key returns."""

    def row_of(key: tuple[int, ...]) -> Row:
        rng = np.random.default_rng([seed, *key])
        return (rng.standard_normal(n_vocab) * spread).astype(np.float32)

    return row_of


def counting_rows(n_vocab: int) -> Callable[[tuple[int, ...]], Row]:
    """Logits of a model that counts: after token t comes t + 1, after the last one 0."""

    def row_of(key: tuple[int, ...]) -> Row:
        distance = (np.arange(n_vocab) - key[-1] - 1) % n_vocab
        return -distance.astype(np.float32)

    return row_of


class RandomPicker:
    """A sampler at temperature 1 that keeps the rows it was given.

    Attributes:
        rows: Every row so far, in order.
    """

    def __init__(self, seed: int | Sequence[int]) -> None:
        self._rng = np.random.default_rng(seed)
        self.rows: list[Row] = []

    def pick(self, row: Row) -> int:
        """Draw a token."""
        self.rows.append(row)
        total = np.cumsum(softmax(row))
        return min(int(np.searchsorted(total, self._rng.random(), side="right")), len(row) - 1)


def softmax(row: Row) -> NDArray[np.float64]:
    """Chances of the tokens, float64[V]."""
    raised = np.exp(row.astype(np.float64) - row.max())
    return raised / raised.sum()


class _Follower:
    """Keeps the context as the loop reports it and checks each report against it.

    Attributes:
        context: Prompt and committed tokens.
        note: Empty.
    """

    def __init__(self) -> None:
        self.note = ""
        self.context: list[int] = []

    def begin(self, prompt: Sequence[int]) -> None:
        """Take up a prompt."""
        self.context = list(prompt)

    def learn(self, root: int, tree: DraftTree, scan: RowScan, path: Sequence[int], committed: Sequence[int]) -> None:
        """Take note of a step; the accepted nodes must hold the committed tokens."""
        assert root == self.context[-1]
        assert len(scan.ids) == len(tree) + 1
        assert len(path) <= len(committed) <= len(path) + 1
        assert tree.token[list(path)].tolist() == list(committed[: len(path)])
        self.context.extend(committed)


class RandomDrafter(_Follower):
    """Drafts trees of random shape and random tokens."""

    def __init__(self, n_vocab: int, seed: int | Sequence[int], budget: int = 8) -> None:
        super().__init__()
        self._n_vocab = n_vocab
        self._budget = budget
        self._rng = np.random.default_rng(seed)

    def propose(self, limit: int) -> DraftTree:
        """A random tree of at most `limit` nodes."""
        return random_tree(self._rng, self._n_vocab, int(self._rng.integers(0, min(limit, self._budget) + 1)))


class KnowingDrafter(_Follower):
    """Knows the answer: drafts what comes next, with a wrong sibling beside each token."""

    def __init__(self, answer: Sequence[int], n_right: int, wrong: int | None = None) -> None:
        """Draft `n_right` tokens of `answer` a step, and the token `wrong` beside each of them."""
        super().__init__()
        self._answer = list(answer)
        self._n_right = n_right
        self._wrong = wrong
        self._n_prompt = 0

    def begin(self, prompt: Sequence[int]) -> None:
        """Take up a prompt."""
        super().begin(prompt)
        self._n_prompt = len(prompt)

    def propose(self, limit: int) -> DraftTree:
        """Draft what comes next."""
        at = len(self.context) - self._n_prompt
        nodes: list[tuple[int, int]] = []
        parent = ROOT
        for token in self._answer[at : at + self._n_right]:
            if self._wrong is not None and self._wrong != token:
                nodes.append((self._wrong, parent))
            nodes.append((token, parent))
            parent = len(nodes) - 1
        return tree_from(nodes[:limit])


def is_chain(tree: DraftTree) -> bool:
    """Whether every node has at most one child."""
    return tree.parent.tolist() == list(range(-1, len(tree) - 1))


def tree_from(nodes: Sequence[tuple[int, int]], source: Source = Source.RETRIEVAL) -> DraftTree:
    """A tree of (token, parent) pairs."""
    tree = DraftTree.allocate(len(nodes))
    for i, (token, parent) in enumerate(nodes):
        tree.token[i] = token
        tree.parent[i] = parent
        tree.depth[i] = 1 if parent == ROOT else tree.depth[parent] + 1
        tree.source[i] = source
        tree.match_len[i] = 2 if source & Source.RETRIEVAL else 0
    return tree


def random_tree(rng: np.random.Generator, n_vocab: int, n_nodes: int) -> DraftTree:
    """A tree of random shape in which siblings differ; smaller than asked for where no token is left for a sibling."""
    nodes: list[tuple[int, int]] = []
    for _ in range(n_nodes):
        # a late parent half of the time, so that there are deep trees as well as broad ones
        parent = len(nodes) - 1 if rng.random() < 0.5 else int(rng.integers(-1, len(nodes)))
        free = sorted(set(range(n_vocab)) - {t for t, p in nodes if p == parent})
        if free:
            nodes.append((int(rng.choice(free)), parent))
    return tree_from(nodes, Source(int(rng.integers(1, 4))))


PIECES = (b"a", b"b", b"ab", b" ", b"\xe2\x82", b"\xac", b"\xc3", b"\xa9", "日".encode(), b"b a", b"", b"\n")
"""Bytes of tokens; some hold only part of a character."""


def piece(token: int) -> bytes:
    """Bytes that a token adds to the text."""
    return PIECES[token % len(PIECES)]


def letter(token: int) -> bytes:
    """One letter for a token: 0 is `a`."""
    return bytes([ord("a") + token])
