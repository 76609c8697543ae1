"""Numba kernels: arrays in, arrays out. They know nothing of objects, settings or llama.cpp.

Compiled code is kept beside the modules or in the user's cache. Where neither can be written, all kernels are compiled
for this process alone, in a folder that is removed at its end.
"""

import atexit
import shutil
import tempfile

from numba import config, njit  # pyright: ignore[reportPrivateImportUsage]


def _kept() -> None:
    """A function to try the cache on."""


def _find_cache() -> None:
    try:
        njit(cache=True)(_kept)
    except RuntimeError:  # numba's "no locator available", which every kernel would raise when it is imported
        folder = tempfile.mkdtemp(prefix="racer-local-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        config.CACHE_DIR = folder  # pyright: ignore[reportAttributeAccessIssue]


_find_cache()
