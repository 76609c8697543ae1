"""What a decode of n tokens costs on this machine, by context length, with and without flash attention."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

import numpy as np

from racer_local.draft_tree import DraftTree
from racer_local.llama.decode_timing import possible, time_decode
from racer_local.llama.engine import Engine
from racer_local.settings import MAX_BUDGET

REPEATS = 5
CONTEXTS = (256, 1500, 3500)


@dataclass(frozen=True, slots=True)
class CostCurve:
    """Measured times of one decode.

    Attributes:
        flash_attn: Whether flash attention was on.
        context: Tokens in the cache.
        n: Tokens in the decode.
        ms: Median time of each, milliseconds.
        ratio: Over the time of one token.
    """

    flash_attn: bool
    context: int
    n: tuple[int, ...]
    ms: tuple[float, ...]
    ratio: tuple[float, ...]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def measure(engine: Engine, context: int, sizes: Sequence[int], on_progress: Callable[[str], None]) -> CostCurve:
    """Time decodes of each size, all sizes in turn and `REPEATS` times over, so that drift hits all alike.

    Args:
        engine: A context of more than `context + max(sizes)` tokens; what its cache holds is lost.
        context: Tokens in the cache.
        sizes: Numbers of tokens, from 1 up; those that the model cannot decode at once are left out.
        on_progress: Told in words what is being measured.
    """
    rng, n_vocab = np.random.default_rng(0), engine.model.n_vocab
    engine.prefill(rng.integers(0, n_vocab, context).tolist())
    shape, sizes = _comb if engine.mode.name == "tree" else _path, possible(engine, sizes)
    times: dict[int, list[float]] = {n: [] for n in sizes}
    for repeat in range(REPEATS + 1):
        on_progress(f"context {context}, flash attention {'on' if engine.flash_attn else 'off'}, {repeat}/{REPEATS}")
        for n in sizes:
            tree = shape(rng.integers(0, n_vocab, n - 1).astype(np.int32))
            seconds = time_decode(engine, tree)
            if repeat:  # the first round warms up
                times[n].append(seconds)
    ms = tuple(median(times[n]) * 1e3 for n in sizes)
    return CostCurve(engine.flash_attn, context, tuple(sizes), ms, tuple(t / ms[0] for t in ms))


def default_sizes() -> tuple[int, ...]:
    """Every size from 1 to the largest draft."""
    return tuple(range(1, MAX_BUDGET + 1))


def table(curves: Sequence[CostCurve]) -> str:
    """The curves as text: a line a size, two columns a curve."""
    head = [f"{'flash' if c.flash_attn else 'no flash'}, {c.context}" for c in curves]
    lines = ["   n " + " ".join(h.rjust(18) for h in head)]
    for i, n in enumerate(curves[0].n):
        lines.append(f"{n:4d} " + " ".join(f"{c.ms[i]:9.1f} ms {c.ratio[i]:5.2f}×" for c in curves))
    return "\n".join(lines)


def _path(tokens: np.ndarray) -> DraftTree:
    """A single path, for models that can verify no other."""
    tree = DraftTree.allocate(len(tokens))
    tree.token[:] = tokens
    tree.parent[:] = range(-1, len(tokens) - 1)
    tree.depth[:] = range(1, len(tokens) + 1)
    return tree


def _comb(tokens: np.ndarray) -> DraftTree:
    """A path with a second leaf at every other node: about the shape of a draft."""
    tree = DraftTree.allocate(len(tokens))
    tree.token[:] = tokens
    for i in range(len(tokens)):
        parent = i - 1 if i % 2 == 0 or i < 2 else i - 2
        tree.parent[i] = parent
        tree.depth[i] = 1 if parent < 0 else tree.depth[parent] + 1
    return tree
