"""Tiny GGUF files with random weights and a real tokenizer in miniature, written with the gguf package."""

from collections.abc import Sequence
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

VOCAB_NORMAL = 1
VOCAB_UNKNOWN = 2
VOCAB_CONTROL = 3
VOCAB_BYTE = 6


def vocabulary(control: Sequence[str] = ()) -> tuple[list[str], list[float], list[int]]:
    """SentencePiece style: unknown, begin, end, all bytes, then letters and a few words, `control` tokens last."""
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
    for name in control:
        tokens.append(name)
        kinds.append(VOCAB_CONTROL)
        scores.append(0.0)
    return tokens, scores, kinds


def byte_letters() -> list[str]:
    """The printable letter that stands for each byte in a byte-level vocabulary, in the order of the bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def byte_level_vocabulary() -> tuple[list[str], list[str], list[int]]:
    """BPE style: tokens, merges and kinds; all bytes, what the merges make of them, then control tokens."""
    merges = ["t h", "th e", "i n", "a n", "e r", "Ġ the", "Ġ a", "Ġ in", "m an", "h e", "he n", "Ġ man", "Ġ hen"]
    control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokens = [*byte_letters(), *(merge.replace(" ", "") for merge in merges)]
    kinds = [VOCAB_NORMAL] * len(tokens) + [VOCAB_CONTROL] * len(control)
    return tokens + control, merges, kinds


def add_sentencepiece(writer: gguf.GGUFWriter, control: Sequence[str] = ()) -> NDArray[np.bool_]:
    """Write the vocabulary of `vocabulary`; returns which tokens are no text, bool[V]."""
    tokens, scores, kinds = vocabulary(control)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores(scores)
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    return np.isin(kinds, (VOCAB_UNKNOWN, VOCAB_CONTROL))


def add_byte_level(writer: gguf.GGUFWriter) -> NDArray[np.bool_]:
    """Write the vocabulary of `byte_level_vocabulary`; returns which tokens are no text, bool[V]."""
    tokens, merges, kinds = byte_level_vocabulary()
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(tokens.index("<|endoftext|>"))
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_add_bos_token(False)
    return np.isin(kinds, (VOCAB_UNKNOWN, VOCAB_CONTROL))


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
    name: str | None = "tiny",
    control: Sequence[str] = (),
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
        name: What the file calls itself.
        control: More control tokens.
    """
    width, ff, heads = 32, 64, 4
    writer = gguf.GGUFWriter(path, "llama")
    if name is not None:
        writer.add_name(name)
    writer.add_context_length(context)
    writer.add_embedding_length(width)
    writer.add_block_count(n_layers)
    writer.add_feed_forward_length(ff)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads // 2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // heads)
    if pooling is not None:
        writer.add_pooling_type(gguf.PoolingType(pooling))
    if causal is not None:
        writer.add_causal_attention(causal)
    if template is not None:
        writer.add_chat_template(template)
    n_vocab = len(add_sentencepiece(writer, control))
    if weights:
        rng = np.random.default_rng(seed)

        def matrix(name: str, *shape: int) -> None:
            writer.add_tensor(name, (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32))

        def ones(name: str) -> None:
            writer.add_tensor(name, np.ones(width, np.float32))

        writer.add_tensor("token_embd.weight", rng.standard_normal((n_vocab, width)).astype(np.float32))
        ones("output_norm.weight")
        writer.add_tensor("output.weight", rng.standard_normal((n_vocab, width)).astype(np.float32))
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
    finish(writer)
    return path


def finish(writer: gguf.GGUFWriter) -> None:
    """Write everything that was added and close the file."""
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
