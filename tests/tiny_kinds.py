"""Tiny GGUF files with random weights, one for each kind of memory and vocabulary that a model can have."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from tests.tiny import add_byte_level, add_sentencepiece, finish

WIDTH = 64
FF = 96
HEADS = 2
HEAD = 32
"""Width of a head; quantised caches want a multiple of 32."""
LAYERS = 2
EXPERTS = 4
WINDOW = 12
"""Tokens that sliding-window attention sees, so few that any test runs out of it."""
CONTEXT = 2048
INNER = 2 * WIDTH
STATE = 16
TIME_STEP_RANK = 4
CONV = 4
DELTA_HEADS = 2


class TinyFile:
    """A model file in the making. Shapes are given as NumPy has them: rows (outputs), then columns (inputs).

    Attributes:
        writer: For metadata.
    """

    def __init__(self, path: Path, arch: str, *, byte_level: bool, seed: int) -> None:
        """Begin a file with what all architectures have: sizes, vocabulary, embedding and output.

        Args:
            path: Where to.
            arch: Name of the architecture.
            byte_level: Whether the vocabulary is of the BPE kind.
            seed: Of the random weights.
        """
        self.writer = gguf.GGUFWriter(path, arch)
        self._rng = np.random.default_rng(seed)
        self.writer.add_name(f"tiny {arch}")
        self.writer.add_context_length(CONTEXT)
        self.writer.add_embedding_length(WIDTH)
        self.writer.add_block_count(LAYERS)
        self.writer.add_layer_norm_rms_eps(1e-5)
        no_text = add_byte_level(self.writer) if byte_level else add_sentencepiece(self.writer)
        # a row of zeros: random weights must not end an answer
        for name in ("token_embd.weight", "output.weight"):
            rows = self._random(len(no_text), WIDTH)
            rows[no_text] = 0
            self.writer.add_tensor(name, rows)

    def _random(self, *shape: int) -> NDArray[np.float32]:
        return self._rng.standard_normal(shape).astype(np.float32)

    def matrix(self, name: str, *shape: int, gain: float = 1.0) -> None:
        """Weights that keep the size of what they are applied to, times `gain`."""
        self.writer.add_tensor(f"{name}.weight", self._random(*shape) * np.float32(gain / np.sqrt(shape[-1])))

    def values(self, name: str, *shape: int, mean: float = 0.0, spread: float = 0.1) -> None:
        """A tensor of random numbers under its full name."""
        self.writer.add_tensor(name, np.float32(mean) + np.float32(spread) * self._random(*shape))

    def norm(self, name: str, width: int = WIDTH) -> None:
        """Weights of a normalisation."""
        self.values(f"{name}.weight", width, mean=1.0)

    def attention_sizes(self, kv_heads: int | Sequence[int] = 1, *, rope: bool = True) -> None:
        """Metadata of attention; a layer with 0 heads for K and V has another kind of memory."""
        self.writer.add_head_count(HEADS)
        self.writer.add_head_count_kv(kv_heads)
        self.writer.add_key_length(HEAD)
        self.writer.add_value_length(HEAD)
        if rope:
            self.writer.add_rope_dimension_count(HEAD)

    def attention(self, i: int, *, bias: bool = False, head_norms: bool = False, gated: bool = False) -> None:
        """Weights of an attention layer. Queries are large, so that attention picks single tokens."""
        q, kv = HEADS * HEAD * (2 if gated else 1), HEAD
        self.norm(f"blk.{i}.attn_norm")
        for name, rows, gain in (("attn_q", q, 3.0), ("attn_k", kv, 1.0), ("attn_v", kv, 1.0)):
            self.matrix(f"blk.{i}.{name}", rows, WIDTH, gain=gain)
            if bias:
                self.values(f"blk.{i}.{name}.bias", rows)
        self.matrix(f"blk.{i}.attn_output", WIDTH, HEADS * HEAD)
        if head_norms:
            self.norm(f"blk.{i}.attn_q_norm", HEAD)
            self.norm(f"blk.{i}.attn_k_norm", HEAD)

    def feed_forward(self, i: int, norm: str = "ffn_norm") -> None:
        """Weights of a dense feed-forward layer."""
        self.norm(f"blk.{i}.{norm}")
        self.matrix(f"blk.{i}.ffn_gate", FF, WIDTH)
        self.matrix(f"blk.{i}.ffn_up", FF, WIDTH)
        self.matrix(f"blk.{i}.ffn_down", WIDTH, FF)

    def expert_sizes(self) -> None:
        """Metadata of a mixture of experts."""
        self.writer.add_expert_count(EXPERTS)
        self.writer.add_expert_used_count(2)
        self.writer.add_expert_feed_forward_length(FF)

    def experts(self, i: int, *, norm: str = "ffn_norm", bias: bool = False) -> None:
        """Weights of a mixture of experts."""
        self.norm(f"blk.{i}.{norm}")
        self.matrix(f"blk.{i}.ffn_gate_inp", EXPERTS, WIDTH)
        for name, rows, columns in (("gate", FF, WIDTH), ("up", FF, WIDTH), ("down", WIDTH, FF)):
            self.matrix(f"blk.{i}.ffn_{name}_exps", EXPERTS, rows, columns)
            if bias:
                self.values(f"blk.{i}.ffn_{name}_exps.bias", EXPERTS, rows)
        if bias:
            self.values(f"blk.{i}.ffn_gate_inp.bias", EXPERTS)

    def state_sizes(self, inner: int, state: int, rank: int) -> None:
        """Metadata of a running state."""
        self.writer.add_ssm_conv_kernel(CONV)
        self.writer.add_ssm_inner_size(inner)
        self.writer.add_ssm_state_size(state)
        self.writer.add_ssm_time_step_rank(rank)

    def mamba(self, i: int, *, norms: bool = False) -> None:
        """Weights of a Mamba layer that forgets slowly."""
        self.norm(f"blk.{i}.attn_norm")
        self.matrix(f"blk.{i}.ssm_in", 2 * INNER, WIDTH)
        self.values(f"blk.{i}.ssm_conv1d.weight", INNER, CONV, spread=0.5)
        self.values(f"blk.{i}.ssm_conv1d.bias", INNER)
        self.matrix(f"blk.{i}.ssm_x", TIME_STEP_RANK + 2 * STATE, INNER)
        self.matrix(f"blk.{i}.ssm_dt", INNER, TIME_STEP_RANK)
        self.values(f"blk.{i}.ssm_dt.bias", INNER, mean=-3.0)
        self.values(f"blk.{i}.ssm_a", INNER, STATE, mean=-1.0)
        self.values(f"blk.{i}.ssm_d", INNER, mean=1.0)
        self.matrix(f"blk.{i}.ssm_out", WIDTH, INNER)
        if norms:
            for name, width in (("dt", TIME_STEP_RANK), ("b", STATE), ("c", STATE)):
                self.norm(f"blk.{i}.ssm_{name}_norm", width)

    def short_convolution(self, i: int) -> None:
        """Weights of a gated short convolution, whose memory is its last inputs."""
        self.norm(f"blk.{i}.attn_norm")
        self.values(f"blk.{i}.shortconv.conv.weight", WIDTH, CONV, spread=0.5)
        self.matrix(f"blk.{i}.shortconv.in_proj", 3 * WIDTH, WIDTH)
        self.matrix(f"blk.{i}.shortconv.out_proj", WIDTH, WIDTH)

    def delta_net(self, i: int) -> None:
        """Weights of a gated delta net, whose memory is a matrix for each head; it forgets slowly."""
        inner = DELTA_HEADS * HEAD
        self.norm(f"blk.{i}.attn_norm")
        self.matrix(f"blk.{i}.attn_qkv", 3 * inner, WIDTH)
        self.matrix(f"blk.{i}.attn_gate", inner, WIDTH)
        self.values(f"blk.{i}.ssm_conv1d.weight", 3 * inner, CONV, spread=0.5)
        self.values(f"blk.{i}.ssm_dt.bias", DELTA_HEADS)
        self.values(f"blk.{i}.ssm_a", DELTA_HEADS, mean=-0.1, spread=0.01)
        self.matrix(f"blk.{i}.ssm_beta", DELTA_HEADS, WIDTH)
        self.matrix(f"blk.{i}.ssm_alpha", DELTA_HEADS, WIDTH)
        self.norm(f"blk.{i}.ssm_norm", HEAD)
        self.matrix(f"blk.{i}.ssm_out", WIDTH, inner)


def _llama(file: TinyFile) -> None:
    file.attention_sizes()
    file.writer.add_feed_forward_length(FF)
    file.norm("output_norm")
    for i in range(LAYERS):
        file.attention(i)
        file.feed_forward(i)


def _qwen2(file: TinyFile) -> None:
    file.attention_sizes()
    file.writer.add_feed_forward_length(FF)
    file.norm("output_norm")
    for i in range(LAYERS):
        file.attention(i, bias=True)
        file.feed_forward(i)


def _qwen2vl(file: TinyFile) -> None:
    file.writer.add_rope_dimension_sections([4, 6, 6, 0])
    _qwen2(file)


def _qwen3(file: TinyFile) -> None:
    file.attention_sizes()
    file.writer.add_feed_forward_length(FF)
    file.norm("output_norm")
    for i in range(LAYERS):
        file.attention(i, head_norms=True)
        file.feed_forward(i)


def _gemma3(file: TinyFile) -> None:
    file.attention_sizes()
    file.writer.add_feed_forward_length(FF)
    file.writer.add_sliding_window(WINDOW)
    file.writer.add_sliding_window_pattern(2)
    file.norm("output_norm")
    for i in range(LAYERS):
        file.attention(i, head_norms=True)
        file.norm(f"blk.{i}.post_attention_norm")
        file.feed_forward(i)
        file.norm(f"blk.{i}.post_ffw_norm")


def _gpt_oss(file: TinyFile) -> None:
    file.attention_sizes()
    file.expert_sizes()
    file.writer.add_sliding_window(WINDOW)
    file.norm("output_norm")
    for i in range(LAYERS):
        file.attention(i, bias=True)
        file.values(f"blk.{i}.attn_output.bias", WIDTH)
        file.values(f"blk.{i}.attn_sinks.weight", HEADS)
        file.experts(i, norm="post_attention_norm", bias=True)


def _qwen3moe(file: TinyFile) -> None:
    file.attention_sizes()
    file.expert_sizes()
    file.writer.add_feed_forward_length(FF)
    file.norm("output_norm")
    for i in range(LAYERS):
        file.attention(i, head_norms=True)
        file.experts(i)


def _mamba(file: TinyFile) -> None:
    file.state_sizes(INNER, STATE, TIME_STEP_RANK)
    file.norm("output_norm")
    for i in range(LAYERS):
        file.mamba(i)


def _jamba(file: TinyFile) -> None:
    file.attention_sizes([0, 1], rope=False)
    file.state_sizes(INNER, STATE, TIME_STEP_RANK)
    file.writer.add_feed_forward_length(FF)
    file.norm("output_norm")
    file.mamba(0, norms=True)
    file.attention(1)
    for i in range(LAYERS):
        file.feed_forward(i)


def _lfm2(file: TinyFile) -> None:
    file.attention_sizes([0, 1])
    file.writer.add_feed_forward_length(FF)
    file.writer.add_shortconv_l_cache(CONV)
    file.norm("token_embd_norm")  # the name that this architecture has for its last normalisation
    file.short_convolution(0)
    file.attention(1, head_norms=True)
    for i in range(LAYERS):
        file.feed_forward(i)


def _qwen35(file: TinyFile) -> None:
    file.attention_sizes()
    file.state_sizes(DELTA_HEADS * HEAD, HEAD, DELTA_HEADS)
    file.writer.add_ssm_group_count(DELTA_HEADS)
    file.writer.add_full_attention_interval(2)
    file.writer.add_rope_dimension_sections([6, 5, 5, 0])
    file.writer.add_feed_forward_length(FF)
    file.norm("output_norm")
    file.delta_net(0)
    file.attention(1, head_norms=True, gated=True)
    for i in range(LAYERS):
        file.feed_forward(i, norm="post_attention_norm")


@dataclass(frozen=True)
class Kind:
    """A kind of model and what the product should make of it.

    Attributes:
        name: What it is.
        arch: Architecture by llama.cpp's name.
        fill: Adds metadata and weights.
        mode: `tree`, `chain` or `off`.
        reason: Part of the reason that is given.
        byte_level: Whether the vocabulary is of the BPE kind.
        max_depth: Longest path that can be taken back, None where there is no bound.
        keeps_prefix: Whether the memory can be cut to any shorter prefix.
        seed: Of the random weights.
    """

    name: str
    arch: str
    fill: Callable[[TinyFile], None]
    mode: str
    reason: str
    byte_level: bool = True
    max_depth: int | None = None
    keeps_prefix: bool = True
    seed: int = 0

    def write(self, path: Path) -> Path:
        """Write a file of this kind."""
        file = TinyFile(path, self.arch, byte_level=self.byte_level, seed=self.seed)
        self.fill(file)
        finish(file.writer)
        return path


_NO_ROLLBACK = "without rollback"
_ROLLBACK = "rolls back up to 8 tokens"
_WINDOW = "sliding-window attention with the full cache"

KINDS = (
    Kind("llama-sentencepiece", "llama", _llama, "tree", "ordinary attention", byte_level=False),
    Kind("qwen2-byte-level", "qwen2", _qwen2, "tree", "ordinary attention"),
    Kind("qwen3-head-norms", "qwen3", _qwen3, "tree", "ordinary attention"),
    Kind("gemma3-sliding-window", "gemma3", _gemma3, "tree", _WINDOW, byte_level=False),
    Kind("gpt-oss-experts-sliding-window", "gpt-oss", _gpt_oss, "tree", _WINDOW),
    Kind("qwen3moe-experts", "qwen3moe", _qwen3moe, "tree", "ordinary attention"),
    Kind("qwen2vl-several-position-axes", "qwen2vl", _qwen2vl, "chain", "M-RoPE"),
    Kind("lfm2-hybrid-with-rollback", "lfm2", _lfm2, "chain", _ROLLBACK, max_depth=8, keeps_prefix=False),
    Kind("qwen35-hybrid-with-rollback", "qwen35", _qwen35, "chain", _ROLLBACK, max_depth=8, keeps_prefix=False),
    Kind("mamba-recurrent", "mamba", _mamba, "off", _NO_ROLLBACK, byte_level=False, keeps_prefix=False),
    Kind("jamba-hybrid", "jamba", _jamba, "off", _NO_ROLLBACK, byte_level=False, keeps_prefix=False),
)
