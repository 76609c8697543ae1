"""The least that plain decoding takes: decode one token, take the arg-max. The yardstick for our own overhead."""

import ctypes
import time
from collections.abc import Sequence
from typing import Any

import llama_cpp
import numpy as np

from racer_local.errors import DecodeError
from racer_local.llama.engine import Engine
from racer_local.llama.handle import Handle
from racer_local.llama.model import Model, check_tokens
from racer_local.settings import ModelParams


class Baseline:
    """A context with llama.cpp's own defaults for one sequence, and the smallest loop over it."""

    def __init__(self, model: Model, like: Engine) -> None:
        """Create a context of the same length, threads and attention as `like`."""
        self._model = model
        self._n_ctx = like.n_ctx
        params = llama_cpp.llama_context_default_params()
        params.n_ctx = like.n_ctx
        params.n_batch = params.n_ubatch = ModelParams().n_batch
        params.n_threads = params.n_threads_batch = like.n_threads
        params.flash_attn_type = (
            llama_cpp.LLAMA_FLASH_ATTN_TYPE_ENABLED if like.flash_attn else llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        )
        with model.handle as pointer:
            context = llama_cpp.llama_init_from_model(pointer, params)
            if not context:
                raise DecodeError("no memory for a second context; use a smaller one with -c")
            self._context = Handle(context, llama_cpp.llama_free, within=model.handle)

    def close(self) -> None:
        """Free the context. Closing twice is allowed."""
        self._context.close()

    def answer(self, prompt: Sequence[int], max_tokens: int) -> tuple[list[int], int, float, float]:
        """Greedy answer; returns its tokens, single-token decodes, and seconds of prefill and of those decodes.

        Raises:
            UsageError: It is closed, or a token id is not in the vocabulary.
        """
        check_tokens(prompt, self._model.n_vocab)
        with self._context as context:
            return self._answer(context, prompt, max_tokens)

    def _answer(self, context: Any, prompt: Sequence[int], max_tokens: int) -> tuple[list[int], int, float, float]:
        started = time.perf_counter()
        memory = llama_cpp.llama_get_memory(context)
        assert memory is not None
        llama_cpp.llama_memory_clear(memory, False)
        size = ModelParams().n_batch
        for at in range(0, len(prompt) - 1, size):
            self._decode(context, prompt[at : min(at + size, len(prompt) - 1)])
        token = prompt[-1]
        answer: list[int] = []
        steps = 0
        decoding = time.perf_counter()
        while len(answer) < max_tokens and len(prompt) + len(answer) <= self._n_ctx:
            self._decode(context, [token])
            steps += 1
            pointer = llama_cpp.llama_get_logits_ith(context, -1)
            token = int(np.ctypeslib.as_array(pointer, shape=(self._model.n_vocab,)).argmax())
            if self._model.is_end(token):
                break
            answer.append(token)
        return answer, steps, decoding - started, time.perf_counter() - decoding

    def _decode(self, context: Any, tokens: Sequence[int]) -> None:
        array = (ctypes.c_int32 * len(tokens))(*tokens)
        if llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(array, len(tokens))) != 0:
            raise DecodeError("llama.cpp could not decode")
