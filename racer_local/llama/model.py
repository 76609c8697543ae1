"""A loaded model file: its vocabulary, its metadata and what kind of memory it has."""

import ctypes
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from racer_local.errors import ModelError, UsageError
from racer_local.llama import devices, library
from racer_local.llama.handle import Handle
from racer_local.llama.open_file import open_file
from racer_local.settings import ModelParams
from racer_local.terminal_text import one_line

NAME_LIMIT = 80
"""Characters of a model's name."""
MROPE_TYPES = (llama_cpp.LLAMA_ROPE_TYPE_MROPE, llama_cpp.LLAMA_ROPE_TYPE_VISION, llama_cpp.LLAMA_ROPE_TYPE_IMROPE)


class Model:
    """Owner of a `llama_model`. What was read when it was loaded stays readable when it is closed.

    Attributes:
        path: The file; of a split model the first part.
        handle: The pointer for llama.cpp calls.
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
            path: A file that passes `gguf_file.check_file`; of a split model the first part.
            params: How to load it.
            on_progress: Called with 0..1 now and then; returning False gives up.
            repack: Let llama.cpp rearrange weights for faster CPU kernels.

        Raises:
            ModelError: The file is damaged or holds no model that can write text.
            Cancelled: `on_progress` returned False.
        """
        self.path = path
        self.repacked = repack
        library.load()
        self.gpu_layers = params.n_gpu_layers if library.supports_gpu() else 0
        mparams = llama_cpp.llama_model_default_params()
        mparams.n_gpu_layers = self.gpu_layers
        mparams.load_mode = llama_cpp.LLAMA_LOAD_MODE_MMAP if params.use_mmap else llama_cpp.LLAMA_LOAD_MODE_NONE
        mparams.use_extra_bufts = repack
        pointer = open_file(path, mparams, on_progress)
        self.handle = Handle(pointer, llama_cpp.llama_model_free)
        try:
            self._vocab: Any = llama_cpp.llama_model_get_vocab(pointer)
            self.n_vocab = llama_cpp.llama_vocab_n_tokens(self._vocab)
            self.n_ctx_train = llama_cpp.llama_model_n_ctx_train(pointer)
            self._pieces: dict[int, bytes] = {}
            self._ends: dict[int, bool] = {}
            self._shown: set[int] = set()
            self._check_writes_text()
        except BaseException:
            self.close()
            raise

    @property
    def vocab(self) -> Any:
        """Vocabulary pointer for llama.cpp calls, good while `handle` is held."""
        with self.handle:
            return self._vocab

    def close(self) -> None:
        """Free the model, as soon as no context needs it. Closing twice is allowed."""
        self.handle.close()
        self._pieces, self._ends = {}, {}

    def _ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What llama.cpp says of the model."""
        with self.handle as model:
            return function(model, *arguments)

    def _ask_vocab(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What llama.cpp says of the vocabulary."""
        with self.handle:
            return function(self._vocab, *arguments)

    def _check_writes_text(self) -> None:
        arch = self.meta("general.architecture") or "?"
        name = self.path.name
        if self.n_vocab <= 0 or self._ask_vocab(llama_cpp.llama_vocab_type) == llama_cpp.LLAMA_VOCAB_TYPE_NONE:
            raise ModelError(f"{name} has no vocabulary, so it cannot read or write text; choose another model")
        if self._ask(llama_cpp.llama_model_has_encoder):
            raise ModelError(f"{name} is an encoder-decoder model ({arch}); choose a text generation model")
        if self._ask(llama_cpp.llama_model_is_diffusion):
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
            n = self._ask(llama_cpp.llama_model_meta_val_str, key.encode(), buffer, size)
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
            file_type = llama_cpp.llama_ftype_name(self._ask(llama_cpp.llama_model_ftype)) or b""
            return f"{name} {file_type.decode('utf-8', 'replace').removeprefix('(guessed) ')}".strip()
        buffer: Any = ctypes.create_string_buffer(256)
        self._ask(llama_cpp.llama_model_desc, buffer, 256)
        return buffer.value.decode("utf-8", "replace")

    def _own_name(self) -> str:
        return one_line(self.meta("general.name") or "", NAME_LIMIT)

    @property
    def file_bytes(self) -> int:
        """Size of all tensors in bytes."""
        return self._ask(llama_cpp.llama_model_size)

    @property
    def n_layers(self) -> int:
        """Number of layers."""
        return self._ask(llama_cpp.llama_model_n_layer)

    @property
    def head_size(self) -> int:
        """Numbers in a key of one attention head."""
        arch = self.meta("general.architecture")
        given = self.meta(f"{arch}.attention.key_length")
        heads = self._ask(llama_cpp.llama_model_n_head)
        return int(given) if given is not None else self._ask(llama_cpp.llama_model_n_embd) // max(heads, 1)

    @property
    def chat_template(self) -> str | None:
        """The file's own chat template."""
        template = self._ask(llama_cpp.llama_model_chat_template, None)
        return template.decode("utf-8", "replace") if template else None

    @property
    def is_recurrent(self) -> bool:
        """Whether part or all of the memory is a running state that forgets single tokens only with snapshots."""
        return bool(self._ask(llama_cpp.llama_model_is_recurrent) or self._ask(llama_cpp.llama_model_is_hybrid))

    @property
    def is_mrope(self) -> bool:
        """Whether positions have several axes."""
        return self._ask(llama_cpp.llama_model_rope_type) in MROPE_TYPES

    @property
    def sliding_window(self) -> int:
        """Length of the attention window in tokens, 0 for none."""
        return self._ask(llama_cpp.llama_model_n_swa)

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
            add_special: Add begin-of-text where the model asks for it and the text has none. What training alone
                wants behind a text is never added.
            parse_special: Read control tokens written out in the text as such.
        """
        data = text.encode("utf-8", "replace")
        room = len(data) + 8
        while True:
            out = np.empty(room, np.int32)
            pointer: Any = out.ctypes.data_as(ctypes.POINTER(ctypes.c_int32))
            n = self._ask_vocab(llama_cpp.llama_tokenize, data, len(data), pointer, room, False, parse_special)
            if n >= 0:
                return np.asarray(self.with_begin(out[:n].tolist()), np.int32) if add_special else out[:n].copy()
            room = -n

    def with_begin(self, tokens: list[int]) -> list[int]:
        """Tokens of a text with begin-of-text in front, if the model asks for it and they do not have it."""
        wanted = self._ask_vocab(llama_cpp.llama_vocab_get_add_bos) and self.bos >= 0 and tokens[:1] != [self.bos]
        return [self.bos, *tokens] if wanted else tokens

    def piece(self, token: int) -> bytes:
        """Bytes that a token adds to the text; empty for control tokens but those shown. May be part of a character."""
        known = self._pieces.get(token)
        if known is None:
            known = self._pieces[token] = self._render(token, special=token in self._shown)
        return known

    def show(self, tokens: Iterable[int]) -> None:
        """Make control tokens part of the text."""
        with self.handle:
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
        check_tokens([token], self.n_vocab)
        size = 64
        while True:
            buffer: Any = ctypes.create_string_buffer(size)
            n = self._ask_vocab(llama_cpp.llama_token_to_piece, token, buffer, size, 0, special)
            if n >= 0:
                return buffer.raw[:n]
            size = -n

    def is_control(self, token: int) -> bool:
        """Whether a token steers the model and is no text."""
        check_tokens([token], self.n_vocab)
        return bool(self._ask_vocab(llama_cpp.llama_vocab_is_control, token))

    def is_end(self, token: int) -> bool:
        """Whether a token ends an answer; a model may have several."""
        known = self._ends.get(token)
        if known is None:
            check_tokens([token], self.n_vocab)
            known = self._ends[token] = bool(self._ask_vocab(llama_cpp.llama_vocab_is_eog, token))
        return known

    @property
    def bos(self) -> int:
        """Begin-of-text token, -1 if there is none."""
        return int(self._ask_vocab(llama_cpp.llama_vocab_bos))  # pyright: ignore[reportArgumentType]

    @property
    def eos(self) -> int:
        """End-of-text token, -1 if there is none."""
        return int(self._ask_vocab(llama_cpp.llama_vocab_eos))  # pyright: ignore[reportArgumentType]


def check_tokens(tokens: Sequence[int], n_vocab: int) -> None:
    """Raise UsageError where a token id is not in the vocabulary; llama.cpp would end the process."""
    if len(tokens) and not (min(tokens) >= 0 and max(tokens) < n_vocab):
        raise UsageError(f"token ids must lie between 0 and {n_vocab - 1}")
