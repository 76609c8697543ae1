"""Whether this build's AMX kernels work on this machine.

Some compilers (GCC 12.2 is one) miscompile the set-up of AMX tiles: their `_tile_loadconfig` names 8 bytes of the 64 as
its input, so the stores of the others are dropped. llama.cpp then dies of an illegal instruction on the CPUs that have
AMX (Intel Xeon since 2023). Weights rearranged for AMX are what leads there, so where
the check fails, weights are not rearranged. The check runs a model in a child process, once for each build and CPU.
"""

import hashlib
import json
import platform
import signal
import subprocess
import sys
from pathlib import Path

import llama_cpp

from racer_local import locations
from racer_local.llama import library

TIMEOUT_S = 600


def works(model_path: Path) -> bool:
    """Whether weights may be rearranged: True without AMX, else what a child process found with this model."""
    if "AMX_INT8 = 1" not in library.system_info():
        return True
    store = locations.cache_dir() / "amx.json"
    key = _key()
    known = _read(store)
    if key not in known:
        code = _try_in_child(model_path)
        if code not in (0, -signal.SIGILL):
            return True  # the trial failed for another reason, and loading the model will say which
        known[key] = code == 0
        _write(store, known)
    return known[key]


def _key() -> str:
    """Identifies the build and the CPU."""
    build = Path(llama_cpp.__file__).parent / "lib"
    parts = [f"{p.name}:{p.stat().st_size}:{p.stat().st_mtime_ns}" for p in sorted(build.glob("*ggml-cpu*"))]
    return hashlib.sha256("|".join([*parts, platform.processor(), platform.release()]).encode()).hexdigest()[:16]


def _read(store: Path) -> dict[str, bool]:
    try:
        known = json.loads(store.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return {k: v for k, v in known.items() if isinstance(v, bool)} if isinstance(known, dict) else {}


def _write(store: Path, known: dict[str, bool]) -> None:
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
        draft = store.with_suffix(".tmp")
        draft.write_text(json.dumps(known), "utf-8")
        draft.replace(store)
    except OSError:
        return  # nowhere to remember it: the next start checks again


def _try_in_child(model_path: Path) -> int | None:
    """Exit code of the trial, negative for the signal that ended it; None if it could not be run."""
    command = [sys.executable, "-m", "racer_local.llama.amx", str(model_path)]
    try:
        # a session of its own, so that Ctrl+C ends the waiting and not the trial
        return subprocess.run(
            command, capture_output=True, timeout=TIMEOUT_S, check=False, start_new_session=True
        ).returncode
    except (OSError, subprocess.TimeoutExpired):
        return None


def _decode_a_little(model_path: Path) -> None:
    """What the child does: a small context, one decode of one token and one of several."""
    library.load()
    model = llama_cpp.llama_model_load_from_file(str(model_path).encode(), llama_cpp.llama_model_default_params())
    assert model
    cparams = llama_cpp.llama_context_default_params()
    cparams.n_ctx, cparams.n_batch = 64, 64
    ctx = llama_cpp.llama_init_from_model(model, cparams)
    assert ctx
    for n in (1, 33):
        tokens = (llama_cpp.llama_token * n)(*range(1, n + 1))
        assert llama_cpp.llama_decode(ctx, llama_cpp.llama_batch_get_one(tokens, n)) == 0


if __name__ == "__main__":
    _decode_a_little(Path(sys.argv[1]))
