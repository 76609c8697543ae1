"""How kernels are tested: in which mode of numba, and on how many made-up examples, fewer where each costs much."""

import os

from hypothesis import settings
from numba import config

PLAIN, CHECKED = "NUMBA_DISABLE_JIT", "NUMBA_BOUNDSCHECK"
"""Modes of numba: kernels as plain Python, and every index checked."""
SHARE = "KERNEL_EXAMPLES"
"""Variable of the environment with the share of the examples to be tried, 1 where it is not set."""


def quick(examples: int) -> settings:
    """Settings of a test over so many examples, the same in every run."""
    few = max(1, round(examples * float(os.environ.get(SHARE, "1"))))
    return settings(derandomize=True, deadline=None, max_examples=few)


def is_on(mode: str) -> bool:
    """Whether numba runs in a mode."""
    return bool(getattr(config, mode.removeprefix("NUMBA_")))
