"""A draft, and what drafts a model can verify. Data only; nothing here decides."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from racer_local.settings import MAX_BUDGET

ROOT = -1
"""Parent of a drafted node that follows the last committed token directly."""


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


_EMPTY = DraftTree.allocate(0)
_UNKNOWN = np.full(MAX_BUDGET, np.nan, np.float32)
_UNKNOWN.flags.writeable = False


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
