"""A loaded model file: its vocabulary, its metadata and what kind of memory it has."""

import ctypes
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from racer_local.errors import Cancelled, ModelError, UsageError
from racer_local.gguf_file import check_file
from racer_local.llama import devices, library
from racer_local.settings import ModelParams
from racer_local.terminal_text import ONE_LINE_LIMIT, one_line, path_text

DAMAGE_MARKS = ("not within the file bounds", "gguf_init", "corrupted", "failed to read", "unexpectedly reached end")
"""Words of llama.cpp's log that mean the file itself is broken."""
MISNAMED_MARKS = ("invalid split file name", "invalid split file:", "illegal split file idx")
MIXED_MARKS = (
    "invalid split file idx",
    "in GGUF split",
    "tensors expected but",
    "is duplicated",
    "invalid split count",
)
"""The same of a model in several parts: a part is called what it is not; parts of different models."""
NAME_LIMIT = 80
"""Characters of a model's name."""
MROPE_TYPES = (llama_cpp.LLAMA_ROPE_TYPE_MROPE, llama_cpp.LLAMA_ROPE_TYPE_VISION, llama_cpp.LLAMA_ROPE_TYPE_IMROPE)


class Model:
    """Owner of a `llama_model`. Close it after every context made from it.

    Attributes:
        path: The file; of a split model the first part.
        n_vocab: Number of tokens.
        n_ctx_train: Context length that the model was trained for.
        gpu_layers: Layers asked to be offloaded: 0 when the build has no GPU support.
        repacked: Whether llama.cpp may rearrange weights for faster CPU kernels.
    """

    def __init__(
        self,
        path: Path,
        params: ModelParams,
        on_progress: Callable[[float], bool] | None = None,
        *,
        repack: bool = True,
    ) -> None:
        """Load a file.

        Args:
            path: A GGUF file; of a split model any part.
            params: How to load it.
            on_progress: Called with 0..1; returning False gives up.
            repack: Let llama.cpp rearrange weights for faster CPU kernels.

        Raises:
            ModelError: The file is missing, damaged or holds no model that can write text.
            Cancelled: `on_progress` returned False.
        """
        self.path = path = check_file(path)
        self.repacked = repack
        self._handle: llama_cpp.llama_model_p | None = None
        library.load()
        self.gpu_layers = params.n_gpu_layers if library.supports_gpu() else 0
        stopped = False

        @llama_cpp.llama_progress_callback
        def report(progress: float, _user_data: ctypes.c_void_p) -> bool:
            nonlocal stopped
            if on_progress is not None and not on_progress(progress):
                stopped = True
            return not stopped

        mparams = llama_cpp.llama_model_default_params()
        mparams.n_gpu_layers = self.gpu_layers
        mparams.load_mode = llama_cpp.LLAMA_LOAD_MODE_MMAP if params.use_mmap else llama_cpp.LLAMA_LOAD_MODE_NONE
        mparams.use_extra_bufts = repack
        mparams.progress_callback = report
        library.clear_log()
        handle = llama_cpp.llama_model_load_from_file(os.fsencode(path), mparams)
        if stopped:
            if handle:
                llama_cpp.llama_model_free(handle)
            raise Cancelled("loading was stopped")
        if not handle:
            raise ModelError(_explain_load_failure(path))
        self._handle = handle
        vocab = llama_cpp.llama_model_get_vocab(handle)
        assert vocab is not None
        self._vocab = vocab
        self.n_vocab = llama_cpp.llama_vocab_n_tokens(vocab)
        self.n_ctx_train = llama_cpp.llama_model_n_ctx_train(handle)
        self._pieces: dict[int, bytes] = {}
        self._shown: set[int] = set()
        self._ends: dict[int, bool] = {}
        try:
            self._check_writes_text()
        except ModelError:
            self.close()
            raise

    @property
    def handle(self) -> llama_cpp.llama_model_p:
        """Pointer for llama.cpp calls."""
        if self._handle is None:
            raise UsageError("the model is closed")
        return self._handle

    @property
    def vocab(self) -> llama_cpp.llama_vocab_p:
        """Vocabulary pointer for llama.cpp calls."""
        return self._vocab

    def close(self) -> None:
        """Free the model. Closing twice is allowed."""
        if self._handle is not None:
            llama_cpp.llama_model_free(self._handle)
            self._handle = None

    def _check_writes_text(self) -> None:
        arch = self.meta("general.architecture") or "?"
        name = self.path.name
        if self.n_vocab <= 0 or llama_cpp.llama_vocab_type(self._vocab) == llama_cpp.LLAMA_VOCAB_TYPE_NONE:
            raise ModelError(f"{name} has no vocabulary, so it cannot read or write text; choose another model")
        if llama_cpp.llama_model_has_encoder(self.handle):
            raise ModelError(f"{name} is an encoder-decoder model ({arch}); choose a text generation model")
        if llama_cpp.llama_model_is_diffusion(self.handle):
            raise ModelError(f"{name} is a diffusion model ({arch}), which does not write token by token")
        causal = self.meta(f"{arch}.attention.causal")
        pooling = self.meta(f"{arch}.pooling_type")
        if causal == "false" or pooling not in (None, "0"):
            raise ModelError(f"{name} is an embedding model ({arch}); choose a text generation model")

    # metadata

    def meta(self, key: str) -> str | None:
        """Value of a metadata key as text, None if the file has none; arrays cannot be asked for."""
        size = 1024
        while True:
            buffer: Any = ctypes.create_string_buffer(size)
            n = llama_cpp.llama_model_meta_val_str(self.handle, key.encode(), buffer, size)
            if n < 0:
                return None
            if n < size:
                return buffer.value.decode("utf-8", "replace")
            size = n + 1

    @property
    def name(self) -> str:
        """What the file calls itself, on one line; else the name of the file without its ending."""
        return self._own_name() or one_line(self.path.stem, NAME_LIMIT)

    @property
    def description(self) -> str:
        """Name and file type in a few words; architecture and size as llama.cpp guesses them where it has no name."""
        name = self._own_name()
        if name:
            file_type = llama_cpp.llama_ftype_name(llama_cpp.llama_model_ftype(self.handle)) or b""
            return f"{name} {file_type.decode('utf-8', 'replace').removeprefix('(guessed) ')}".strip()
        buffer: Any = ctypes.create_string_buffer(256)
        llama_cpp.llama_model_desc(self.handle, buffer, 256)
        return buffer.value.decode("utf-8", "replace")

    def _own_name(self) -> str:
        return one_line(self.meta("general.name") or "", NAME_LIMIT)

    @property
    def file_bytes(self) -> int:
        """Size of all tensors in bytes."""
        return llama_cpp.llama_model_size(self.handle)

    @property
    def n_layers(self) -> int:
        """Number of layers."""
        return llama_cpp.llama_model_n_layer(self.handle)

    @property
    def head_size(self) -> int:
        """Numbers in a key of one attention head."""
        arch = self.meta("general.architecture")
        given = self.meta(f"{arch}.attention.key_length")
        heads = llama_cpp.llama_model_n_head(self.handle)
        return int(given) if given is not None else llama_cpp.llama_model_n_embd(self.handle) // max(heads, 1)

    @property
    def chat_template(self) -> str | None:
        """The file's own chat template."""
        template = llama_cpp.llama_model_chat_template(self.handle, None)
        return template.decode("utf-8", "replace") if template else None

    @property
    def is_recurrent(self) -> bool:
        """Whether part or all of the memory is a running state that forgets single tokens only with snapshots."""
        return bool(llama_cpp.llama_model_is_recurrent(self.handle) or llama_cpp.llama_model_is_hybrid(self.handle))

    @property
    def is_mrope(self) -> bool:
        """Whether positions have several axes."""
        return llama_cpp.llama_model_rope_type(self.handle) in MROPE_TYPES

    @property
    def sliding_window(self) -> int:
        """Length of the attention window in tokens, 0 for none."""
        return llama_cpp.llama_model_n_swa(self.handle)

    @property
    def device(self) -> str:
        """Where the layers are, for people."""
        if self.gpu_layers == 0:
            return "CPU"
        names = devices.gpu_names()
        layers = self.n_layers + 1 if self.gpu_layers < 0 else min(self.gpu_layers, self.n_layers + 1)
        return f"{', '.join(names) or 'GPU'}: {layers}/{self.n_layers + 1} layers"

    # vocabulary

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool = True) -> NDArray[np.int32]:
        """Token ids of a text, int32[n].

        Args:
            text: Any text.
            add_special: Add begin-of-text where the model asks for it.
            parse_special: Read control tokens written out in the text as such.
        """
        data = text.encode("utf-8", "replace")
        room = len(data) + 8
        while True:
            out = np.empty(room, np.int32)
            pointer: Any = out.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
            n = llama_cpp.llama_tokenize(self._vocab, data, len(data), pointer, room, add_special, parse_special)
            if n >= 0:
                return out[:n].copy()
            room = -n

    def piece(self, token: int) -> bytes:
        """Bytes that a token adds to the text; empty for control tokens but those shown. May be part of a character."""
        known = self._pieces.get(token)
        if known is None:
            known = self._pieces[token] = self._render(token, special=token in self._shown)
        return known

    def show(self, tokens: Iterable[int]) -> None:
        """Make control tokens part of the text."""
        self._shown = set(tokens)
        self._pieces.clear()

    def token_of(self, text: str) -> int | None:
        """The one token that a text is, a control token perhaps; None if it is several."""
        tokens = self.tokenize(text, add_special=False)
        return int(tokens[0]) if len(tokens) == 1 and self.written(int(tokens[0])) == text else None

    def written(self, token: int) -> str:
        """A token as it is written out, control tokens included."""
        return self._render(token, special=True).decode("utf-8", "replace") if token >= 0 else ""

    def _render(self, token: int, *, special: bool) -> bytes:
        size = 64
        while True:
            buffer: Any = ctypes.create_string_buffer(size)
            n = llama_cpp.llama_token_to_piece(self._vocab, token, buffer, size, 0, special)
            if n >= 0:
                return buffer.raw[:n]
            size = -n

    def is_control(self, token: int) -> bool:
        """Whether a token steers the model and is no text."""
        return bool(llama_cpp.llama_vocab_is_control(self.vocab, token))

    def is_end(self, token: int) -> bool:
        """Whether a token ends an answer; a model may have several."""
        known = self._ends.get(token)
        if known is None:
            known = self._ends[token] = bool(llama_cpp.llama_vocab_is_eog(self._vocab, token))
        return known

    @property
    def bos(self) -> int:
        """Begin-of-text token, -1 if there is none."""
        return int(llama_cpp.llama_vocab_bos(self._vocab))  # pyright: ignore[reportArgumentType]

    @property
    def eos(self) -> int:
        """End-of-text token, -1 if there is none."""
        return int(llama_cpp.llama_vocab_eos(self._vocab))  # pyright: ignore[reportArgumentType]


def _explain_load_failure(path: Path) -> str:
    """One line from the library's log: what is wrong with the file and what to do."""
    said = library.logged_errors()
    marked = [line.split("error loading model: ", 1)[1] for line in said if "error loading model: " in line]
    detail = one_line((marked or said or ["llama.cpp gave no reason"])[0], ONE_LINE_LIMIT)
    text = " ".join(said)
    name = path_text(path)
    if "not found" in detail and "tensor" in detail:
        return f"{name} lacks weights for text generation, perhaps it is only a vocabulary ({detail})"
    if "GGUFv1 is no longer supported" in text:
        return f"{name} has a form of GGUF that llama.cpp no longer reads; download a newer file of the model"
    if "unknown model architecture" in text or "only supports up to version" in text:
        return f"{name} needs a newer llama.cpp than {library.version()}: pip install -U llama-cpp-python ({detail})"
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
