"""The kernels' tests once more: as plain Python, which coverage and a debugger see, and with every index checked.

Compiled code reads and writes beyond the end of an array without a word.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import njit

from tests.kernels.examples import CHECKED, PLAIN, SHARE, is_on

HERE = Path(__file__).resolve()
ROOT = HERE.parents[2]
EXAMPLES = {PLAIN: "0.1", CHECKED: "0.3"}


@njit
def _beyond(array):
    return array[len(array)]


@pytest.mark.slow
@pytest.mark.skipif(is_on(PLAIN) or is_on(CHECKED), reason="this is the run that the test starts")
@pytest.mark.parametrize("mode", EXAMPLES)
def test_kernels_in_another_mode(mode: str, pytestconfig: pytest.Config) -> None:
    """Checked code has a cache of its own, since numba takes it and unchecked code for the same."""
    cache = pytestconfig.cache
    assert cache is not None
    home = cache.mkdir(mode.lower())
    env = {**os.environ, mode: "1", SHARE: EXAMPLES[mode], "NUMBA_CACHE_DIR": str(home)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE.parent)],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]


@pytest.mark.skipif(not (is_on(PLAIN) or is_on(CHECKED)), reason="compiled code does not look")
def test_an_index_beyond_the_end_is_found() -> None:
    with pytest.raises(IndexError):
        _beyond(np.zeros(3, np.int32))
