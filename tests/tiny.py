"""Tiny GGUF files with random weights and a real tokenizer in miniature, written with the gguf package."""

from pathlib import Path

import gguf
import numpy as np

VOCAB_NORMAL = 1
VOCAB_UNKNOWN = 2
VOCAB_CONTROL = 3
VOCAB_BYTE = 6


def vocabulary() -> tuple[list[str], list[float], list[int]]:
    """SentencePiece style: unknown, begin, end, all bytes, then letters and a few words."""
    tokens = ["<unk>", "<s>", "</s>"]
    kinds = [VOCAB_UNKNOWN, VOCAB_CONTROL, VOCAB_CONTROL]
    scores = [0.0, 0.0, 0.0]
    for byte in range(256):
        tokens.append(f"<0x{byte:02X}>")
        kinds.append(VOCAB_BYTE)
        scores.append(-1000.0)
    words = ["▁", *map(chr, range(97, 123)), "▁the", "▁a", "th", "he", "in", "er", "▁t", "an", "é", "日"]
    for rank, word in enumerate(words):
        tokens.append(word)
        kinds.append(VOCAB_NORMAL)
        scores.append(-float(rank))
    return tokens, scores, kinds


def write_llama(
    path: Path,
    *,
    weights: bool = True,
    seed: int = 0,
    n_layers: int = 2,
    pooling: int | None = None,
    causal: bool | None = None,
    template: str | None = None,
    context: int = 512,
) -> Path:
    """Write a llama model.

    Args:
        path: Where to.
        weights: Leave them out for a vocabulary-only file.
        seed: Of the random weights.
        n_layers: Number of layers.
        pooling: Pooling type of an embedding model.
        causal: Whether attention looks back only; embedding models say False.
        template: Chat template.
        context: Training context.
    """
    tokens, scores, kinds = vocabulary()
    width, ff, heads = 32, 64, 4
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(context)
    writer.add_embedding_length(width)
    writer.add_block_count(n_layers)
    writer.add_feed_forward_length(ff)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads // 2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // heads)
    writer.add_vocab_size(len(tokens))
    if pooling is not None:
        writer.add_pooling_type(gguf.PoolingType(pooling))
    if causal is not None:
        writer.add_causal_attention(causal)
    if template is not None:
        writer.add_chat_template(template)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    if weights:
        rng = np.random.default_rng(seed)

        def matrix(name: str, *shape: int) -> None:
            writer.add_tensor(name, (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32))

        def ones(name: str) -> None:
            writer.add_tensor(name, np.ones(width, np.float32))

        writer.add_tensor("token_embd.weight", rng.standard_normal((len(tokens), width)).astype(np.float32))
        ones("output_norm.weight")
        writer.add_tensor("output.weight", rng.standard_normal((len(tokens), width)).astype(np.float32))
        for i in range(n_layers):
            ones(f"blk.{i}.attn_norm.weight")
            matrix(f"blk.{i}.attn_q.weight", width, width)
            matrix(f"blk.{i}.attn_k.weight", width // 2, width)
            matrix(f"blk.{i}.attn_v.weight", width // 2, width)
            matrix(f"blk.{i}.attn_output.weight", width, width)
            ones(f"blk.{i}.ffn_norm.weight")
            matrix(f"blk.{i}.ffn_gate.weight", ff, width)
            matrix(f"blk.{i}.ffn_up.weight", ff, width)
            matrix(f"blk.{i}.ffn_down.weight", width, ff)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
