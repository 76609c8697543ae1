"""Picking tokens with llama.cpp's own sampler chain, once per visited node."""

import ctypes
import secrets
from typing import Any

import llama_cpp
import numpy as np
from numpy.typing import NDArray

from racer_local.errors import DecodeError
from racer_local.kernels.sampling import CANDIDATE, fill_candidates
from racer_local.llama.handle import Handle
from racer_local.llama.model import Model
from racer_local.settings import SamplingParams

DRY_BREAKERS = (b"\n", b":", b'"', b"*")
"""Strings at which DRY starts anew; llama.cpp's own default."""


class Sampler:
    """A sampler chain with its own candidates buffer.

    Attributes:
        seed: The seed in use, drawn when the settings gave none.
    """

    def __init__(self, model: Model, params: SamplingParams) -> None:
        """Build the chain in llama.cpp's default order.

        Raises:
            UsageError: The model is closed.
            DecodeError: llama.cpp rejects a setting.
        """
        self.seed = params.seed if params.seed is not None else secrets.randbelow(2**32 - 1)
        self._history = _history_length(params)
        chain: Any = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
        self._chain = Handle(chain, llama_cpp.llama_sampler_free)
        with model.handle:
            for sampler in _stages(model, params, self.seed):
                if not sampler:
                    self.close()
                    raise DecodeError("llama.cpp rejected a sampling option")
                llama_cpp.llama_sampler_chain_add(chain, sampler)
        self._candidates = np.zeros(model.n_vocab, CANDIDATE)
        self._array: Any = llama_cpp.llama_token_data_array(
            data=self._candidates.ctypes.data_as(ctypes.POINTER(llama_cpp.llama_token_data)),
            size=model.n_vocab,
            selected=-1,
            sorted=False,
        )

    def close(self) -> None:
        """Free the chain. Closing twice is allowed."""
        self._chain.close()

    def start(self, prompt: NDArray[np.int32]) -> None:
        """Show the chain the end of the prompt, as far as penalties look back.

        Raises:
            UsageError: It is closed.
        """
        with self._chain as chain:
            if self._history:
                tail = prompt if self._history < 0 else prompt[-self._history :]
                for token in tail.tolist():
                    llama_cpp.llama_sampler_accept(chain, token)

    def pick(self, row: NDArray[np.float32]) -> int:
        """Pick the token after a node and let the chain take note of it.

        Args:
            row: float32[V], logits.

        Raises:
            UsageError: It is closed.
        """
        array = self._array
        pointer: Any = ctypes.byref(array)
        with self._chain as chain:
            fill_candidates(row, self._candidates)
            array.size = len(row)
            array.selected = -1
            array.sorted = False
            llama_cpp.llama_sampler_apply(chain, pointer)
            if not 0 <= array.selected < array.size:
                raise DecodeError("no token is left after sampling; loosen the sampling options")
            token = int(array.data[array.selected].id)
            llama_cpp.llama_sampler_accept(chain, token)
        return token


def _history_length(params: SamplingParams) -> int:
    """Prompt tokens that the chain must see; -1 for all."""
    if not params.has_penalties:
        return 0
    if params.dry_multiplier > 0 or params.penalty_last_n < 0:
        return -1
    return params.penalty_last_n


def _stages(model: Model, params: SamplingParams, seed: int) -> list[Any]:
    """Samplers in llama.cpp's default order."""
    V = model.n_vocab
    stages: list[Any] = []
    if params.logit_bias:
        known = {t: b for t, b in params.logit_bias.items() if t < V}
        biases = (llama_cpp.llama_logit_bias * len(known))(*known.items())
        stages.append(llama_cpp.llama_sampler_init_logit_bias(V, len(known), biases))
    if params.repeat_penalty != 1.0 or params.frequency_penalty != 0.0 or params.presence_penalty != 0.0:
        last_n = params.penalty_last_n if params.penalty_last_n >= 0 else model.n_ctx_train
        stages.append(
            llama_cpp.llama_sampler_init_penalties(
                V, last_n, params.repeat_penalty, params.frequency_penalty, params.presence_penalty
            )
        )
    if params.dry_multiplier > 0:
        breakers = (ctypes.c_char_p * len(DRY_BREAKERS))(*DRY_BREAKERS)
        stages.append(
            llama_cpp.llama_sampler_init_dry(
                model.vocab,
                params.dry_multiplier,
                params.dry_base,
                params.dry_allowed_length,
                params.dry_penalty_last_n,
                breakers,
                len(DRY_BREAKERS),
            )
        )
    if params.temperature == 0:
        stages.append(llama_cpp.llama_sampler_init_greedy())
        return stages
    if params.mirostat:
        stages.append(llama_cpp.llama_sampler_init_temp(params.temperature))
        if params.mirostat == 1:
            stages.append(llama_cpp.llama_sampler_init_mirostat(V, seed, params.mirostat_tau, params.mirostat_eta, 100))
        else:
            stages.append(llama_cpp.llama_sampler_init_mirostat_v2(seed, params.mirostat_tau, params.mirostat_eta))
        return stages
    if params.top_k > 0:
        stages.append(llama_cpp.llama_sampler_init_top_k(params.top_k))
    if params.typical_p < 1:
        stages.append(llama_cpp.llama_sampler_init_typical(params.typical_p, 1))
    if params.top_p < 1:
        stages.append(llama_cpp.llama_sampler_init_top_p(params.top_p, 1))
    if params.min_p > 0:
        stages.append(llama_cpp.llama_sampler_init_min_p(params.min_p, 1))
    if params.xtc_probability > 0:
        stages.append(llama_cpp.llama_sampler_init_xtc(params.xtc_probability, params.xtc_threshold, 1, seed))
    stages.append(llama_cpp.llama_sampler_init_temp(params.temperature))
    stages.append(llama_cpp.llama_sampler_init_dist(seed))
    return stages
