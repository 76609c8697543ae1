"""What drafts a loaded model can verify: found by asking and by a small self-test, never by a model's name."""

import numpy as np
from numpy.typing import NDArray

from racer_local.draft_tree import DraftMode, DraftTree
from racer_local.errors import DecodeError
from racer_local.llama.engine import Engine

TOLERANCE = 0.1
"""Largest difference between a drafted and a plain row, as a share of the row's spread, that rounding explains."""


def find_mode(engine: Engine) -> DraftMode:
    """Ask and test a fresh engine; its cache is empty afterwards.

    Returns:
        `tree`, `chain` with the longest path that can be taken back, or `off`; each with its reason.
    """
    model = engine.model
    if model.is_recurrent:
        if engine.n_rollback == 0:
            return DraftMode("off", "recurrent memory without rollback cannot take rejected tokens back")
        if _survives(engine, _chain(engine)):
            return DraftMode(
                "chain", f"recurrent memory rolls back up to {engine.n_rollback} tokens", engine.n_rollback
            )
        return DraftMode("off", "recurrent memory did not roll back correctly in the self-test")
    if model.is_mrope:
        if _survives(engine, _chain(engine)):
            return DraftMode("chain", "positions with several axes (M-RoPE) allow one path only")
        return DraftMode("off", "rejected tokens could not be taken back in the self-test")
    if _survives(engine, _fork(engine)):
        kind = "sliding-window attention with the full cache" if model.sliding_window else "ordinary attention"
        return DraftMode("tree", kind)
    if _survives(engine, _chain(engine)):
        return DraftMode("chain", "the tree self-test gave other logits than plain decoding, a single path did not")
    return DraftMode("off", "drafted tokens gave other logits than plain decoding in the self-test")


def _tokens(engine: Engine) -> list[int]:
    """Six distinct ordinary tokens."""
    V = engine.model.n_vocab
    start = V // 3
    return [(start + 7 * i) % V for i in range(6)]


def _fork(engine: Engine) -> tuple[DraftTree, list[int]]:
    """Root with two children, and the path to the second: its cells lie after those of a rejected branch."""
    t = _tokens(engine)
    tree = DraftTree.allocate(2)
    tree.token[:] = t[3:5]
    tree.depth[:] = 1
    return tree, [1]


def _chain(engine: Engine) -> tuple[DraftTree, list[int]]:
    """Two tokens in a row, of which the first is kept."""
    t = _tokens(engine)
    tree = DraftTree.allocate(2)
    tree.token[:] = t[3:5]
    tree.parent[:] = (-1, 0)
    tree.depth[:] = (1, 2)
    return tree, [0]


def _survives(engine: Engine, draft: tuple[DraftTree, list[int]]) -> bool:
    """Whether verifying a draft and keeping part of it leaves the model where plain decoding would have."""
    tree, path = draft
    t = _tokens(engine)
    try:
        engine.clear()
        engine.prefill(t[:2])
        drafted = engine.verify(t[2], tree)[path[0] + 1].copy()
        engine.commit(t[2], tree, path)
        after_draft = _plain_row(engine, t[5])
        engine.clear()
        engine.prefill([*t[:2], t[2]])
        plain = _plain_row(engine, int(tree.token[path[0]]))
        after_plain = _plain_row(engine, t[5])
    except DecodeError:
        return False
    finally:
        engine.clear()
    return _close(drafted, plain) and _close(after_draft, after_plain)


def _plain_row(engine: Engine, token: int) -> NDArray[np.float32]:
    empty = DraftTree.empty()
    row = engine.verify(token, empty)[0].copy()
    engine.commit(token, empty, [])
    return row


def _close(a: NDArray[np.float32], b: NDArray[np.float32]) -> bool:
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return False
    return float(np.abs(a - b).mean()) <= TOLERANCE * max(float(b.std()), 1e-6)
