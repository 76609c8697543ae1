"""Opening a model file: progress, giving up, and what is wrong with a file that llama.cpp refuses."""

import ctypes
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llama_cpp

from racer_local.errors import Cancelled, ModelError
from racer_local.llama import library
from racer_local.llama.native_call import wait_for
from racer_local.terminal_text import ONE_LINE_LIMIT, one_line, path_text

DAMAGE_MARKS = ("not within the file bounds", "gguf_init", "corrupted", "failed to read", "unexpectedly reached end")
"""Words of llama.cpp's log that mean the file itself is broken."""
NEWER_MARKS = (
    "unknown model architecture",
    "only supports up to version",
    "unknown pre-tokenizer type",
    "unknown tokenizer",
)
"""The same of a file that is whole, but from after this llama.cpp."""
NEWER = "a newer llama.cpp than {}: pip install -U llama-cpp-python"
TYPES_END = 1000
"""A number of a tensor type beyond this one is damage."""
IK_LLAMA_TYPES = (range(97, 100), range(133, 159), range(202, 231), range(335, 346), range(390, 400))
"""Tensor types that only ik_llama.cpp has (its ggml.h)."""
MISNAMED_MARKS = ("invalid split file name", "invalid split file:", "illegal split file idx")
MIXED_MARKS = (
    "invalid split file idx",
    "in GGUF split",
    "tensors expected but",
    "is duplicated",
    "invalid split count",
)
"""The same of a model in several parts: a part is called what it is not; parts of different models."""


def open_file(path: Path, params: Any, on_progress: Callable[[float], bool] | None = None) -> llama_cpp.llama_model_p:
    """Load a file.

    Args:
        path: A file that passes `gguf_file.check_file`.
        params: The `llama_model_params`.
        on_progress: Called in this thread with 0..1; returning False gives up.

    Raises:
        ModelError: llama.cpp refuses the file.
        Cancelled: `on_progress` returned False.
    """
    progress, stopped = 0.0, False

    @llama_cpp.llama_progress_callback
    def report(value: float, _user_data: ctypes.c_void_p) -> bool:
        nonlocal progress
        progress = value
        return not stopped

    def work() -> tuple[llama_cpp.llama_model_p | None, list[str]]:
        library.clear_log()
        handle = llama_cpp.llama_model_load_from_file(os.fsencode(path), params)
        return handle, library.logged_errors()

    def undo(made: tuple[llama_cpp.llama_model_p | None, list[str]]) -> None:
        if made[0]:
            llama_cpp.llama_model_free(made[0])

    def look() -> None:
        if on_progress is not None and not on_progress(progress):
            raise Cancelled("loading was stopped")

    def stop() -> None:
        nonlocal stopped
        stopped = True

    params.progress_callback = report
    handle, said = wait_for(work, undo, look=look, stop=stop)
    if not handle:
        raise ModelError(_explain(path, said))
    return handle


def _explain(path: Path, said: list[str]) -> str:
    """One line from the library's log: what is wrong with the file and what to do."""
    marked = [line.split("error loading model: ", 1)[1] for line in said if "error loading model: " in line]
    detail = one_line((marked or said or ["llama.cpp gave no reason"])[0], ONE_LINE_LIMIT)
    text = " ".join(said)
    name = path_text(path)
    if "not found" in detail and "tensor" in detail:
        return f"{name} lacks weights for text generation, perhaps it is only a vocabulary ({detail})"
    if "GGUFv1 is no longer supported" in text:
        return f"{name} has a form of GGUF that llama.cpp no longer reads; download a newer file of the model"
    if any(mark in text for mark in NEWER_MARKS):
        return f"{name} needs {NEWER.format(library.version())} ({detail})"
    kind = re.search(r"invalid ggml type (\d+)", text)
    if kind and int(kind[1]) < TYPES_END:
        kind = int(kind[1])
        if any(kind in types for types in IK_LLAMA_TYPES):
            return f"{name} has a quantisation (type {kind}) of ik_llama.cpp's own; choose a file made for llama.cpp"
        return f"{name} has a quantisation (type {kind}) that needs {NEWER.format(library.version())}"
    removed = re.search(r"tensor .* of type (\d+) .*(?:REMOVED|removed)", text)
    if removed:
        return (
            f"{name} has a quantisation (type {removed[1]}) that llama.cpp reads no more, or one of bitnet.cpp's own; "
            "choose a newer file made for llama.cpp"
        )
    part = re.search(r"failed to load GGUF split from (.+)", detail)
    if part:
        return f"{part[1]} is truncated or damaged; download this part of the model again"
    if any(mark in detail for mark in MISNAMED_MARKS):
        return f"{name} is a part of a split model under another name; give the parts their own names back ({detail})"
    if any(mark in detail for mark in MIXED_MARKS):
        return f"the parts of {name} do not belong together; download them again ({detail})"
    if any(mark in text for mark in DAMAGE_MARKS):
        detail = one_line(next((line for line in said if line.startswith("gguf_init")), detail), ONE_LINE_LIMIT)
        return f"{name} is truncated or damaged; download it again ({detail})"
    return (
        f"cannot load {name}: it is damaged, or of a kind that llama.cpp {library.version()} does not know ({detail})"
    )
