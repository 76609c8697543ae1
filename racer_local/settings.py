"""The one definition of every default, checked once when built and trusted afterwards.

`ModelParams` says how a file is loaded, `SamplingParams` how a token is picked; how drafts are made is said by
`drafting.policies.DraftConfig`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from racer_local import cpus
from racer_local.checks import check_choice, check_number, check_switch
from racer_local.errors import UsageError

KV_TYPES = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0")
DEFAULT_N_CTX = 8192
MIN_N_CTX = 32
MAX_BUDGET = 64


def from_options(cls: type, options: Mapping[str, Any], what: str) -> Any:
    """Build the settings class `cls` from keyword options; an unknown name is an error, never swallowed."""
    known = [f.name for f in fields(cls)]
    for name in options:
        if name not in known:
            raise UsageError(f"unknown {what} option {name!r}; known: {', '.join(known)}")
    return cls(**options)


def default_threads() -> int:
    """Threads for llama.cpp; see `cpus`."""
    return cpus.usable().n_threads


@dataclass(frozen=True, slots=True)
class ModelParams:
    """How to load a model and what context to give it.

    Attributes:
        n_ctx: Context length in tokens; None takes 8192 or the model's own, whichever is smaller.
        n_gpu_layers: Layers to put on a GPU; -1 all. Without GPU support in the build nothing is offloaded.
        n_threads: CPU threads for every decode; None takes the cores that this process may use, see `cpus`.
        flash_attn: Flash attention; None chooses: off on the CPU, on where layers are offloaded.
        type_k: Number type of the K cache, one of `KV_TYPES`.
        type_v: Number type of the V cache; a quantised one needs flash attention.
        n_batch: Tokens in one prefill decode.
        use_mmap: Map the file instead of reading it.
    """

    n_ctx: int | None = None
    n_gpu_layers: int = -1
    n_threads: int | None = None
    flash_attn: bool | None = None
    type_k: str = "f16"
    type_v: str = "f16"
    n_batch: int = 512
    use_mmap: bool = True

    def __post_init__(self) -> None:
        check_number("n_ctx", self.n_ctx, int, MIN_N_CTX, 2**24, optional=True)
        check_number("n_gpu_layers", self.n_gpu_layers, int, -1, 10_000)
        check_number("n_threads", self.n_threads, int, 1, 512, optional=True)
        check_number("n_batch", self.n_batch, int, MAX_BUDGET, 65536)
        check_switch("flash_attn", self.flash_attn, optional=True)
        check_switch("use_mmap", self.use_mmap)
        check_choice("type_k", self.type_k, KV_TYPES)
        check_choice("type_v", self.type_v, KV_TYPES)
        if self.type_v.startswith("q") and self.flash_attn is False:
            raise UsageError(f"type_v={self.type_v} needs flash attention; turn it on or use f16")


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is picked from a row of logits. Names and meaning are those of llama.cpp.

    Attributes:
        temperature: 0 picks the best token (greedy).
        seed: None draws a fresh seed for each answer.
        penalty_last_n: How many tokens back penalties look; -1 the whole context.
        logit_bias: Token id to a number that is added to its logit; -inf forbids it.
        mirostat: 0 off, 1 or 2 the version; replaces top_k, top_p, min_p, typical_p and xtc.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    typical_p: float = 1.0
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_last_n: int = 64
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    seed: int | None = None
    logit_bias: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_number("temperature", self.temperature, float, 0, 100)
        check_number("top_k", self.top_k, int, 0, 2**31 - 1)
        check_number("top_p", self.top_p, float, 0, 1)
        check_number("min_p", self.min_p, float, 0, 1)
        check_number("typical_p", self.typical_p, float, 0, 1)
        check_number("repeat_penalty", self.repeat_penalty, float, 0.01, 100)
        check_number("frequency_penalty", self.frequency_penalty, float, -100, 100)
        check_number("presence_penalty", self.presence_penalty, float, -100, 100)
        check_number("penalty_last_n", self.penalty_last_n, int, -1, 2**24)
        check_number("dry_multiplier", self.dry_multiplier, float, 0, 100)
        check_number("dry_base", self.dry_base, float, 1, 100)
        check_number("dry_allowed_length", self.dry_allowed_length, int, 0, 2**24)
        check_number("dry_penalty_last_n", self.dry_penalty_last_n, int, -1, 2**24)
        check_number("xtc_probability", self.xtc_probability, float, 0, 1)
        check_number("xtc_threshold", self.xtc_threshold, float, 0, 1)
        check_number("mirostat", self.mirostat, int, 0, 2)
        check_number("mirostat_tau", self.mirostat_tau, float, 0, 100)
        check_number("mirostat_eta", self.mirostat_eta, float, 0, 1)
        check_number("seed", self.seed, int, 0, 2**32 - 2, optional=True)
        if not isinstance(self.logit_bias, Mapping):
            raise UsageError(f"logit_bias must map token ids to numbers, not {self.logit_bias!r}")
        for token, bias in self.logit_bias.items():
            check_number("logit_bias token", token, int, 0, 2**31 - 1)
            check_number("logit_bias value", bias, float, -math.inf, 1e9)

    @property
    def has_penalties(self) -> bool:
        """Whether earlier tokens change the logits of later ones."""
        return (
            self.repeat_penalty != 1.0
            or self.frequency_penalty != 0.0
            or self.presence_penalty != 0.0
            or self.dry_multiplier > 0.0
        )

    @property
    def is_argmax(self) -> bool:
        """Whether the picked token is always the one with the highest raw logit."""
        return self.temperature == 0 and not self.has_penalties and not self.logit_bias


def sampling_of(sampling: SamplingParams | None, options: Mapping[str, Any]) -> SamplingParams:
    """The parameters that a call asks for, given whole or as options, not both."""
    if sampling is None:
        return from_options(SamplingParams, options, "sampling")
    if options:
        raise UsageError(f"give either sampling=... or {', '.join(sorted(options))}, not both")
    return sampling


def stops_of(stop: str | Sequence[str] | None) -> tuple[str, ...]:
    """Stop strings that a call asks for, checked; None asks for none."""
    if not isinstance(stop, (str, list, tuple, set, frozenset, type(None))):
        raise UsageError(f"stop must be a text or a list of texts, not {stop!r}")
    stops = (stop,) if isinstance(stop, str) else tuple(stop or ())
    if any(not isinstance(s, str) or not s for s in stops):
        raise UsageError("a stop string must be text of at least one character")
    return stops
