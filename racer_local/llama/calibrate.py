"""A short measurement at load: what a decode of n tokens costs."""

import time
from collections.abc import Sequence
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
        out[n] = median(_decode(engine, n, V) for _ in range(REPEATS + (n == 1)))
        spent = time.perf_counter() - started
        if n >= 2 and spent > min(MAX_S, MAX_PLAIN_STEPS * out[1]):
            break
    engine.clear()
    return out


def _decode(engine: Engine, n: int, V: int) -> float:
    """Time of verifying a path of n tokens, all of which are dropped again but the first."""
    before: Sequence[int] = list(engine.tokens)
    tree = DraftTree.allocate(n - 1)
    tree.token[:] = [(V // 2 + 3 * i) % V for i in range(n - 1)]
    tree.parent[:] = range(-1, n - 2)
    tree.depth[:] = range(1, n)
    started = time.perf_counter()
    engine.verify(V // 4, tree)
    seconds = time.perf_counter() - started
    engine.commit(V // 4, tree, [])
    engine.prefill(before)
    return seconds
