"""The child process of a load check: opens a file as the program would, and ends if the file makes llama.cpp end it."""

import contextlib
import os
import sys
import threading
from pathlib import Path

import llama_cpp

from racer_local.llama import library
from racer_local.llama.model import MROPE_TYPES
from racer_local.settings import MAX_BUDGET, default_threads

BEGUN, OPENED = "begun", "opened"
"""What the child says: the library works; the file was opened."""
N_CTX = 64
SAMPLE = " The quick brown fox: 12,345 €, naïve, Привет, 日本語, हिन्दी, \U0001f98a!\n\n\tdef f(x):\n<s></s>".encode()
"""Text for the tokenizer, such as people write."""


def main() -> None:
    """Open the file that the arguments name, and a second time with weights rearranged if they say so."""
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    path, *more = sys.argv[1:]
    _stand_back()
    library.load()
    print(BEGUN, flush=True)
    if not open_here(path):
        sys.exit(1)
    print(OPENED, flush=True)
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


if __name__ == "__main__":
    main()
