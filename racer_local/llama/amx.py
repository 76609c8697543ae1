"""Whether this build's AMX kernels work on this machine; and what a child process does to find out about a file.

Some compilers (GCC 12.2 is one) miscompile the set-up of AMX tiles: their `_tile_loadconfig` names 8 bytes of the 64 as
its input, so the stores of the others are dropped. llama.cpp then dies of an illegal instruction on the CPUs that have
AMX (Intel Xeon since 2023). Weights rearranged for AMX are what leads there, so where the check fails, weights are not
rearranged. The check is made by the child process that tries a file (see `trial`), until one file has failed it.
"""

import contextlib
import hashlib
import os
import platform
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import llama_cpp

from racer_local import locations, registry
from racer_local.llama import library, trial
from racer_local.llama.model import MROPE_TYPES
from racer_local.settings import MAX_BUDGET, default_threads
from racer_local.statefile import StateFile

VERSION = 1
N_CTX = 64
SAMPLE = " The quick brown fox: 12,345 €, naïve, Привет, 日本語, हिन्दी, \U0001f98a!\n\n\tdef f(x):\n<s></s>".encode()
"""Text for the tokenizer, such as people write."""


def works(path: Path, on_progress: Callable[[float], bool] | None = None) -> bool:
    """Whether weights may be rearranged: True without AMX, else what a child process found.

    Args:
        path: A file that passes `trial.check_file`.
        on_progress: Called with 0 now and then; returning False gives up.

    Raises:
        ModelError: Loading the file would end this process.
        Cancelled: `on_progress` returned False.
    """
    if "AMX_INT8 = 1" not in library.system_info():
        return True
    memory = StateFile(locations.cache_dir() / "amx.json", VERSION)
    build, known = _key(), _read(memory)
    file = f"{build} {registry.file_id(path)}"
    if known.get(build) is False:
        return False
    if file not in known:
        code = trial.check(path, on_progress, rearranged=True)
        if code not in (0, -signal.SIGILL):
            return True  # the trial failed for another reason, and loading the model will say which
        # a file may have no weights that go to AMX: that it works says nothing of others
        known[file if code == 0 else build] = code == 0
        with contextlib.suppress(OSError):  # nowhere to remember it: the next start checks again
            memory.write(dict(list(known.items())[-trial.KEPT :]))
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


# what the child does


def main() -> None:
    """Open the file that the arguments name, and a second time with weights rearranged if they say so."""
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    path, *more = sys.argv[1:]
    _stand_back()
    library.load()
    print(trial.BEGUN, flush=True)
    if not open_here(path):
        sys.exit(1)
    print(trial.OPENED, flush=True)
    if more and not open_here(path, rearranged=True):
        sys.exit(1)


def open_here(path: str, *, rearranged: bool = False) -> bool:
    """Load a file for the CPU, create a small context and use both a little, in this process.

    Args:
        path: The file.
        rearranged: Let llama.cpp rearrange weights, and decode as many tokens as its kernels for them take.

    Returns:
        Whether llama.cpp could and the model is of a kind that writes text; a damaged file may end the process instead.
    """
    mparams = llama_cpp.llama_model_default_params()
    mparams.n_gpu_layers = 0
    mparams.load_mode = llama_cpp.LLAMA_LOAD_MODE_MMAP
    mparams.use_extra_bufts = rearranged
    model = llama_cpp.llama_model_load_from_file(os.fsencode(path), mparams)
    if not model:
        return False
    try:
        vocab = llama_cpp.llama_model_get_vocab(model)
        if not vocab or llama_cpp.llama_vocab_type(vocab) == llama_cpp.LLAMA_VOCAB_TYPE_NONE:
            return False
        if llama_cpp.llama_model_has_encoder(model) or llama_cpp.llama_model_is_diffusion(model):
            return False  # the program will refuse it, and nothing was found out about AMX
        return _tokenize(vocab) and _decode(model, vocab, (1, 33) if rearranged else (2,))
    finally:
        llama_cpp.llama_model_free(model)


def _tokenize(vocab: llama_cpp.llama_vocab_p) -> bool:
    room = 4 * len(SAMPLE)
    tokens = (llama_cpp.llama_token * room)()
    return llama_cpp.llama_tokenize(vocab, SAMPLE, len(SAMPLE), tokens, room, True, True) >= 0


def _decode(model: llama_cpp.llama_model_p, vocab: llama_cpp.llama_vocab_p, sizes: tuple[int, ...]) -> bool:
    recurrent = llama_cpp.llama_model_is_recurrent(model) or llama_cpp.llama_model_is_hybrid(model)
    one_path = recurrent or llama_cpp.llama_model_rope_type(model) in MROPE_TYPES
    cparams = llama_cpp.llama_context_default_params()
    cparams.n_ctx = cparams.n_batch = cparams.n_ubatch = N_CTX
    cparams.n_seq_max = 1 if one_path else MAX_BUDGET
    cparams.n_outputs_max = MAX_BUDGET
    cparams.n_threads = cparams.n_threads_batch = default_threads()
    cparams.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    cparams.kv_unified = True
    cparams.swa_full = True
    ctx = llama_cpp.llama_init_from_model(model, cparams)
    if not ctx:
        return False
    n_vocab = llama_cpp.llama_vocab_n_tokens(vocab)
    done = True
    for n in sizes:
        # the last token of the vocabulary, then the first ones
        tokens = (llama_cpp.llama_token * n)(*((n_vocab - 1 + i) % n_vocab for i in range(n)))
        done = done and llama_cpp.llama_decode(ctx, llama_cpp.llama_batch_get_one(tokens, n)) == 0
    llama_cpp.llama_free(ctx)
    return done


def _leave_with_parent() -> None:
    """End this process when the other end of stdin closes: who waits for it is gone."""
    while os.read(0, 1):
        pass
    os._exit(1)


def _stand_back() -> None:
    """Leave no core file; and where memory runs out, be what the system ends first: a damaged file can claim any."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", "ascii")
