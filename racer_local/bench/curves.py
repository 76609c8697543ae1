"""Cost curves: the time of one decode of n tokens over the time of one. Measured ones and those built in."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from racer_local.errors import UsageError
from racer_local.settings import MAX_BUDGET
from racer_local.text_file import read_text

SIZES = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64)
TWO_CORES = "2-core x86, llama.cpp of llama-cpp-python 0.3.36, 256 tokens of context, flash attention on"

BUILT_IN: dict[str, tuple[tuple[float, ...], str]] = {
    "qwen-0.5b-q4km": (
        (1, 1.68, 2.08, 2.31, 3.23, 3.38, 3.92, 4.96, 5.79, 8.15, 9.96, 17.3),
        f"Qwen2.5-Coder-0.5B Q4_K_M, {TWO_CORES}",
    ),
    "qwen-0.5b-q4_0": (
        (1, 1.73, 2.32, 2.49, 3.41, 4.08, 4.08, 5.61, 6.24, 9.41, 11.1, 20.4),
        f"Qwen2.5-Coder-0.5B Q4_0, {TWO_CORES}",
    ),
    "qwen-0.5b-q8_0": (
        (1, 1.81, 2.17, 2.30, 3.14, 3.32, 3.26, 4.41, 5.37, 7.31, 9.98, 17.0),
        f"Qwen2.5-Coder-0.5B Q8_0, {TWO_CORES}",
    ),
    "qwen-0.5b-bf16": (
        (1, 1.35, 1.47, 1.66, 1.77, 1.83, 2.11, 2.61, 3.10, 4.03, 4.97, 7.88),
        f"Qwen2.5-Coder-0.5B BF16, {TWO_CORES}",
    ),
    "smollm2-q4_1": (
        (1, 1.65, 2.09, 2.48, 3.09, 3.47, 4.04, 5.60, 7.16, 10.7, 13.8, 24.7),
        f"SmolLM2-135M Q4_1, {TWO_CORES}",
    ),
    "smollm2-bf16": (
        (1, 1.74, 1.97, 2.22, 2.39, 2.65, 3.06, 3.71, 4.45, 6.25, 8.05, 13.1),
        f"SmolLM2-135M made BF16, {TWO_CORES}",
    ),
    "gemma3-270m-q4km": (
        (1, 1.80, 2.15, 2.32, 3.52, 3.86, 3.42, 4.47, 5.24, 7.54, 9.46, 16.7),
        f"Gemma-3-270M Q4_K_M, {TWO_CORES}",
    ),
    "gpu-like": (
        tuple(1 + 0.06 * (n - 1) if n <= 8 else 1.6 + 0.006 * (n - 8) for n in SIZES),
        "made up after reports for large models on GPUs: +6 % a token to 8 tokens, then a jump to 1.6 and almost flat",
    ),
}
"""Ratios at `SIZES`, and where they come from."""


@dataclass(frozen=True, slots=True)
class Curve:
    """T(n) / T(1).

    Attributes:
        name: For reports.
        source: Where it comes from.
        ratio: float64[MAX_BUDGET + 1], by number of tokens; the first cell is unused.
    """

    name: str
    source: str
    ratio: NDArray[np.float64]


def load(name: str) -> Curve:
    """A built-in curve by name, or one from a file of `racer-bench cost` (its first curve) or of the form
    `{"n": [1, 2, ...], "ratio": [1, ...]}`.

    Raises:
        UsageError: There is no such curve, or the file's does not go from 1 to 64 tokens.
    """
    if name in BUILT_IN:
        ratios, source = BUILT_IN[name]
        return Curve(name, source, _interpolated(SIZES, ratios))
    path = Path(name)
    if not path.is_file():
        raise UsageError(f"no cost curve {name!r}; built in: {', '.join(BUILT_IN)}; or name a file")
    text = read_text(path)
    try:
        data = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{name} is no JSON ({error})") from error
    sizes, ratios = _of_file(name, data)
    return Curve(path.stem, name, _interpolated(sizes, ratios))


def _of_file(name: str, data: Any) -> tuple[tuple[int, ...], tuple[float, ...]]:
    if isinstance(data, Mapping) and isinstance(data.get("curves"), list) and data["curves"]:
        data = data["curves"][0]
    if not isinstance(data, Mapping) or not isinstance(data.get("n"), list):
        raise UsageError(f"{name} holds no cost curve; make one with: racer-bench cost MODEL --out FILE")
    values = data.get("ratio")
    try:
        sizes, ratios = tuple(int(n) for n in data["n"]), tuple(float(r) for r in values or [])
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name}: n and ratio must be numbers ({error})") from error
    if len(sizes) != len(ratios) or list(sizes) != sorted(set(sizes)):
        raise UsageError(f"{name}: n must rise, with one ratio for each")
    if not sizes or sizes[0] != 1 or sizes[-1] < MAX_BUDGET or sizes[1:2] != (2,):
        raise UsageError(f"{name}: the curve has gaps; it must hold n = 1, 2 and go up to {MAX_BUDGET}")
    gaps = [b for a, b in pairwise(sizes) if b > 2 * a]
    if gaps or not all(0 < r < float("inf") for r in ratios):
        raise UsageError(f"{name}: the curve has gaps; each n may be at most twice the one before, each ratio above 0")
    return sizes, ratios


def _interpolated(sizes: tuple[int, ...], ratios: tuple[float, ...]) -> NDArray[np.float64]:
    return np.interp(np.arange(MAX_BUDGET + 1), sizes, np.asarray(ratios) / ratios[0])
