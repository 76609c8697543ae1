"""What passes between the parts: a draft, a token, a step, an answer. Data only; nothing here decides."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntFlag
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from racer_local.settings import MAX_BUDGET

if TYPE_CHECKING:
    from racer_local.stats import GenerationStats

ROOT = -1
"""Parent of a drafted node that follows the last committed token directly."""


class Source(IntFlag):
    """Where a token came from; a drafted one may have several sources, none means the model alone."""

    MODEL = 0
    RETRIEVAL = 1
    LOGITS = 2
    CORPUS = 4

    @property
    def label(self) -> str:
        """Name for people: `model`, `retrieval`, `logits`, `both`, `corpus`."""
        if self & Source.CORPUS:
            return "corpus"
        if self == Source.RETRIEVAL | Source.LOGITS:
            return "both"
        return (self.name or "model").lower()


@dataclass(frozen=True, slots=True)
class DraftTree:
    """Guessed continuations of the root, the last committed token. Node i is row i of every array.

    Attributes:
        token: int32[n], token ids.
        parent: int32[n], index of the parent, `ROOT` for children of the root; parents stand before children.
        depth: int32[n], 1 for children of the root.
        source: uint8[n], bits of `Source`.
        match_len: int16[n], tokens of context that the retrieved n-gram matched, 0 for pure logits nodes.
        p: float32[n], believed chance that the path to the node is accepted; NaN where the policy believes nothing.
    """

    token: NDArray[np.int32]
    parent: NDArray[np.int32]
    depth: NDArray[np.int32]
    source: NDArray[np.uint8]
    match_len: NDArray[np.int16]
    p: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.token)

    @classmethod
    def empty(cls) -> Self:
        """The tree without nodes: plain decoding. Always the same object, since each plain step asks for it."""
        return _EMPTY  # type: ignore[return-value]

    @classmethod
    def allocate(cls, n: int) -> Self:
        """A tree of `n` nodes to be filled in."""
        return cls(
            token=np.zeros(n, np.int32),
            parent=np.full(n, ROOT, np.int32),
            depth=np.zeros(n, np.int32),
            source=np.zeros(n, np.uint8),
            match_len=np.zeros(n, np.int16),
            p=np.full(n, np.nan, np.float32),
        )

    @classmethod
    def of(cls, rows: NDArray[np.int32], n: int, p: NDArray[np.float32] | None = None) -> Self:
        """Copy of the first `n` nodes of a kernel's draft.

        Args:
            rows: int32[at least 5, at least n], rows in the order of this class's attributes.
            n: Number of nodes.
            p: float32[at least n], chances of their paths where they are known.
        """
        if n == 0:
            return cls.empty()
        token, parent, depth, source, match_len = rows[:5, :n].copy()
        chances = _UNKNOWN[:n] if p is None else p[:n].copy()
        return cls(token, parent, depth, source.astype(np.uint8), match_len.astype(np.int16), chances)

    def head(self, n: int) -> Self:
        """Copy of the first `n` nodes; a prefix of a tree is a tree."""
        return type(self)(
            self.token[:n].copy(),
            self.parent[:n].copy(),
            self.depth[:n].copy(),
            self.source[:n].copy(),
            self.match_len[:n].copy(),
            self.p[:n].copy(),
        )

    def leaves(self) -> NDArray[np.int32]:
        """Indices of the nodes without children, int32[n_leaves], ascending."""
        inner = np.zeros(len(self), np.bool_)
        inner[self.parent[self.parent >= 0]] = True
        return np.flatnonzero(~inner).astype(np.int32)

    @property
    def is_chain(self) -> bool:
        """Whether every node has at most one child."""
        return bool(np.array_equal(self.parent, np.arange(len(self), dtype=np.int32) - 1))


class Token(NamedTuple):
    """One token of an answer as it reached the user.

    Attributes:
        id: Token id.
        text: What it adds to the text; empty while a character is incomplete, cut at a stop string.
        source: Who guessed it; `Source.MODEL` when nobody had.
        match_len: Tokens of context that retrieval matched to guess it.
        depth: Depth in its draft tree, 0 for the token that the model added itself.
        step: Number of the decode that committed it, from 1.
    """

    id: int
    text: str
    source: Source
    match_len: int
    depth: int
    step: int

    @property
    def drafted(self) -> bool:
        """Whether the token had been guessed and was then accepted."""
        return self.depth > 0


_EMPTY = DraftTree.allocate(0)
_UNKNOWN = np.full(MAX_BUDGET, np.nan, np.float32)
_UNKNOWN.flags.writeable = False


@dataclass(frozen=True, slots=True)
class Step:
    """What one decode brought.

    Attributes:
        text: Text released by this step: the texts of `tokens` joined.
        tokens: Tokens released. Those of a possible stop string wait for a later step; half a character is no text yet.
        tree: The draft that was verified.
        path: Accepted nodes of `tree`, from the root down.
        n_committed: Tokens that this decode decided, released or not; at least 1.
        stats: Running totals, a snapshot.
        finish_reason: Set on the last step only: `stop`, `length`, `context`, `cancelled`.
        note: Why drafting is off or paused, empty otherwise.
    """

    text: str
    tokens: tuple[Token, ...]
    tree: DraftTree
    path: tuple[int, ...]
    n_committed: int
    stats: "GenerationStats"
    finish_reason: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished answer. `str()` gives its text.

    Attributes:
        text: The whole answer.
        tokens: Its tokens; their texts joined are `text`.
        finish_reason: `stop` (end token or stop string), `length` (max_tokens), `context` (full), `cancelled`.
        stats: Totals of the answer.
        note: Why drafting was off or paused at its end, empty otherwise.
    """

    text: str
    tokens: tuple[Token, ...]
    finish_reason: str
    stats: "GenerationStats"
    note: str = ""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class DraftMode:
    """What the loaded model can verify.

    Attributes:
        name: `tree`, `chain` or `off`.
        reason: One line for people.
        max_depth: Longest path that can be rolled back; None when there is no such limit.
    """

    name: str
    reason: str
    max_depth: int | None = None


def collect(steps: Iterable[Step]) -> Completion:
    """Put the steps of an answer together."""
    tokens: list[Token] = []
    last: Step | None = None
    for step in steps:
        tokens += step.tokens
        last = step
    assert last is not None
    assert last.finish_reason is not None, "an answer ends with a reason"
    return Completion("".join(t.text for t in tokens), tuple(tokens), last.finish_reason, last.stats, last.note)
