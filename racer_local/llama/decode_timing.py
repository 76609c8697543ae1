"""A short measurement at load: what a decode of n tokens costs."""

import math
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from racer_local.draft_tree import DraftTree
from racer_local.llama import library
from racer_local.llama.engine import Engine
from racer_local.settings import ModelParams

SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
REPEATS = 2
MAX_S = 2.0
MAX_PLAIN_STEPS = 40
"""Bounds of the whole measurement: so many seconds, or so many times a plain step's time where that is shorter."""
CONTEXT = 32
"""Tokens of context that the measurement is made at."""
CHECKED = (2, 4)
"""Sizes by which costs of an earlier start are checked."""
OFF = 0.25
"""Difference, in natural log, from which on they are measured anew."""
POINTLESS = 0.9
"""Plain steps for each further token from which on larger decodes are of no use: hardly a guess is that sure."""


def measure(engine: Engine) -> dict[int, float]:
    """Time decodes of growing size until larger ones are pointless or the bounds are reached; the engine's cache is
    empty afterwards.

    Returns:
        Seconds by number of tokens; at least for 1 and 2.
    """
    _fill(engine)
    started, out = time.perf_counter(), {}
    for n in possible(engine, SIZES):
        out[n] = _time(engine, n)
        spent = time.perf_counter() - started
        if n >= 2 and (spent > min(MAX_S, MAX_PLAIN_STEPS * out[1]) or _is_pointless(out)):
            break
    engine.clear()
    return out


def still_holds(engine: Engine, times: NDArray[np.float32]) -> bool:
    """Whether costs of an earlier start fit what a few decodes take now; the engine's cache is empty afterwards.

    Args:
        engine: The engine.
        times: float32[MAX_BUDGET + 1], time of a decode of n tokens over that of one, as `StepCost.times` gives it.
    """
    _fill(engine)
    plain = _time(engine, 1)
    off = [abs(math.log(_time(engine, n) / plain / float(times[n]))) for n in possible(engine, CHECKED)]
    engine.clear()
    return all(distance < OFF for distance in off)


def _fill(engine: Engine) -> None:
    """Put the context of the measurement into the cache."""
    engine.clear()
    V = engine.model.n_vocab
    engine.prefill([(V // 3 + 5 * i) % V for i in range(min(CONTEXT, engine.n_ctx // 2))])


def possible(engine: Engine, sizes: Sequence[int]) -> list[int]:
    """Those sizes of a decode that context and model allow."""
    return [n for n in sizes if n <= min(engine.room, engine.max_nodes + 1)]


def _time(engine: Engine, n: int) -> float:
    """Seconds of a decode of n tokens: the least of some, since other programs only ever add to it."""
    tree = path(n - 1, engine.model.n_vocab)
    return min(time_decode(engine, tree) for _ in range(REPEATS + (n == 1)))


def machine(engine: Engine, params: ModelParams) -> dict[str, Any]:
    """All that the cost of a decode depends on besides the model file, for JSON."""
    return {
        "device": engine.model.device,
        "threads": engine.n_threads,
        "llama.cpp": library.version(),
        "system": library.system_info(),
        "flash_attn": engine.flash_attn,
        "cache": [params.type_k, params.type_v],
        "repack": engine.model.repacked,
    }


def _is_pointless(seconds: dict[int, float]) -> bool:
    """Whether the last two growths both cost too much for each token more."""
    sizes = list(seconds)[-3:]
    slopes = [(seconds[b] - seconds[a]) / (b - a) for a, b in pairwise(sizes)]
    return len(slopes) == 2 and min(slopes) > POINTLESS * seconds[1]


def time_decode(engine: Engine, tree: DraftTree) -> float:
    """Seconds of verifying a tree after some root; the cache is as before afterwards."""
    before, root = list(engine.tokens), engine.model.n_vocab // 4
    started = time.perf_counter()
    engine.verify(root, tree)
    seconds = time.perf_counter() - started
    engine.commit(root, tree, [])
    engine.prefill(before)
    return seconds


def path(n: int, V: int) -> DraftTree:
    """A single path of n nodes, which every model that drafts can verify."""
    tree = DraftTree.allocate(n)
    tree.token[:] = [(V // 2 + 3 * i) % V for i in range(n)]
    tree.parent[:] = range(-1, n - 1)
    tree.depth[:] = range(1, n + 1)
    return tree
