"""A short measurement at load: what a decode of n tokens costs."""

import time
from statistics import median

from racer_local.llama.engine import Engine
from racer_local.records import DraftTree

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
REPEATS = 2
MAX_S = 2.0
MAX_PLAIN_STEPS = 40
"""Bounds of the whole measurement: so many seconds, or so many times a plain step's time where that is shorter."""
CONTEXT = 32


def measure(engine: Engine) -> dict[int, float]:
    """Time decodes of growing size until the bounds are reached; the engine's cache is empty afterwards.

    Returns:
        Seconds by number of tokens; at least for 1 and 2.
    """
    engine.clear()
    V = engine.model.n_vocab
    engine.prefill([(V // 3 + 5 * i) % V for i in range(min(CONTEXT, engine.n_ctx // 2))])
    limit = engine.mode.max_depth
    started, out = time.perf_counter(), {}
    for n in SIZES:
        if n > engine.room or (limit is not None and n > limit + 1):
            break
        out[n] = median(time_decode(engine, _path(n - 1, V)) for _ in range(REPEATS + (n == 1)))
        spent = time.perf_counter() - started
        if n >= 2 and spent > min(MAX_S, MAX_PLAIN_STEPS * out[1]):
            break
    engine.clear()
    return out


def time_decode(engine: Engine, tree: DraftTree) -> float:
    """Seconds of verifying a tree after some root; the cache is as before afterwards."""
    before, root = list(engine.tokens), engine.model.n_vocab // 4
    started = time.perf_counter()
    engine.verify(root, tree)
    seconds = time.perf_counter() - started
    engine.commit(root, tree, [])
    engine.prefill(before)
    return seconds


def _path(n: int, V: int) -> DraftTree:
    """A single path of n nodes, which every model that drafts can verify."""
    tree = DraftTree.allocate(n)
    tree.token[:] = [(V // 2 + 3 * i) % V for i in range(n)]
    tree.parent[:] = range(-1, n - 1)
    tree.depth[:] = range(1, n + 1)
    return tree
