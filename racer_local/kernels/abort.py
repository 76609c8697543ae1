"""The native switch that stops a decode. Apart from the kernels, since it cannot do without the compiler."""

import numpy as np
from numba import (
    carray,  # pyright: ignore[reportPrivateImportUsage]
    cfunc,
    types,
)


@cfunc(types.boolean(types.voidptr), cache=True)
def abort_requested(flag):
    """Callback for llama.cpp: whether the byte at `flag` is set. Native, so that it costs no Python call per node."""
    return carray(flag, (1,), dtype=np.uint8)[0] != 0
