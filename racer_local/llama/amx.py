"""Whether this build's AMX kernels work on this machine.

Some compilers (GCC 12.2 is one) miscompile the set-up of AMX tiles: their `_tile_loadconfig` names 8 bytes of the 64 as
its input, so the stores of the others are dropped. llama.cpp then dies of an illegal instruction on the CPUs that have
AMX (Intel Xeon since 2023). Weights rearranged for AMX are what leads there, so where the check fails, weights are not
rearranged. The check is made by the child process that tries a file (see `load_check`), until one file has failed it.
"""

import contextlib
import hashlib
import platform
import signal
from collections.abc import Callable
from pathlib import Path

import llama_cpp

from racer_local import gguf_file, locations
from racer_local.llama import library, load_check
from racer_local.state_file import StateFile

VERSION = 1


def works(path: Path, on_progress: Callable[[float], bool] | None = None) -> bool:
    """Whether weights may be rearranged: True without AMX, else what a child process found.

    Args:
        path: A file that passes `gguf_file.check_file`.
        on_progress: Called with 0 now and then; returning False gives up.

    Raises:
        ModelError: Loading the file would end this process.
        Cancelled: `on_progress` returned False.
    """
    if "AMX_INT8 = 1" not in library.system_info():
        return True
    memory = StateFile(locations.cache_dir() / "amx.json", VERSION)
    build, known = _key(), _read(memory)
    file = f"{build} {gguf_file.file_id(path)}"
    if known.get(build) is False:
        return False
    if file not in known:
        code = load_check.check(path, on_progress, rearranged=True)
        if code not in (0, -signal.SIGILL):
            return True  # the trial failed for another reason, and loading the model will say which
        # a file may have no weights that go to AMX: that it works says nothing of others
        known[file if code == 0 else build] = code == 0
        with contextlib.suppress(OSError):  # nowhere to remember it: the next start checks again
            memory.write(dict(list(known.items())[-load_check.KEPT :]))
        return code == 0
    return True


def _key() -> str:
    """Identifies the build and the CPU."""
    build = Path(llama_cpp.__file__).parent / "lib"
    parts = [f"{p.name}:{p.stat().st_size}:{p.stat().st_mtime_ns}" for p in sorted(build.glob("*ggml-cpu*"))]
    return hashlib.sha256("|".join([*parts, platform.processor(), platform.release()]).encode()).hexdigest()[:16]


def _read(memory: StateFile) -> dict[str, bool]:
    try:
        known = memory.read() or {}
    except OSError:
        return {}
    except ValueError:
        memory.set_aside()
        return {}
    return {k: v for k, v in known.items() if isinstance(v, bool)}
