"""A GGUF file taken apart into its bytes and put together again, so that each of them can be wrong; two tiny models."""

import dataclasses
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.tiny import write_llama

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9


@dataclass
class Pair:
    """A key with its value as bytes; of an array without type and count."""

    key: bytes
    kind: int
    payload: bytes
    item_kind: int = 0
    count: int = 0


@dataclass
class Tensor:
    """Where a tensor is and what it is."""

    name: bytes
    shape: list[int]
    kind: int
    offset: int


@dataclass
class File:
    """A GGUF file. `fields` are place and width of all its numbers, known once it was put together."""

    pairs: list[Pair]
    tensors: list[Tensor]
    data: bytes
    n_pairs: int | None = None
    n_tensors: int | None = None
    fields: list[tuple[int, int]] = field(default_factory=list)
    head: int = 0

    @classmethod
    def parse(cls, raw: bytes) -> "File":
        """Take a well-formed file apart."""
        at = 8

        def number(form: str) -> int:
            nonlocal at
            (value,) = struct.unpack_from("<" + form, raw, at)
            at += struct.calcsize(form)
            return value

        def text() -> bytes:
            nonlocal at
            n = number("Q")
            at += n
            return raw[at - n : at]

        def skip(kind: int) -> None:
            nonlocal at
            if kind == STRING:
                text()
            else:
                at += SIZES[kind]

        n_tensors, n_pairs = number("Q"), number("Q")
        pairs, tensors = [], []
        for _ in range(n_pairs):
            key, kind = text(), number("I")
            item_kind, count = (number("I"), number("Q")) if kind == ARRAY else (kind, 1)
            start = at
            for _ in range(count):
                skip(item_kind)
            pairs.append(Pair(key, kind, raw[start:at], item_kind, count))
        for _ in range(n_tensors):
            name, n_dims = text(), number("I")
            tensors.append(Tensor(name, [number("Q") for _ in range(n_dims)], number("I"), number("Q")))
        return cls(pairs, tensors, raw[(at + 31) // 32 * 32 :])

    def dump(self) -> bytes:
        """Put the file together, whatever it says."""
        out = bytearray(b"GGUF" + struct.pack("<I", 3))
        self.fields = [(4, 4)]

        def number(form: str, value: int) -> None:
            size = struct.calcsize(form)
            self.fields.append((len(out), size))
            out.extend((value % 256**size).to_bytes(size, "little"))

        def text(value: bytes) -> None:
            number("Q", len(value))
            out.extend(value)

        number("Q", len(self.tensors) if self.n_tensors is None else self.n_tensors)
        number("Q", len(self.pairs) if self.n_pairs is None else self.n_pairs)
        for pair in self.pairs:
            text(pair.key)
            number("I", pair.kind)
            if pair.kind == ARRAY:
                number("I", pair.item_kind)
                number("Q", pair.count)
            elif pair.kind in SIZES:
                self.fields.append((len(out), SIZES[pair.kind]))
            out.extend(pair.payload)
        for tensor in self.tensors:
            text(tensor.name)
            number("I", len(tensor.shape))
            for n in tensor.shape:
                number("Q", n)
            number("I", tensor.kind)
            number("Q", tensor.offset)
        self.head = len(out)
        out.extend(bytes(-len(out) % 32))
        return bytes(out) + self.data


def strings(items: list[bytes]) -> bytes:
    """Payload of an array of strings."""
    return b"".join(struct.pack("<Q", len(item)) + item for item in items)


def bases(directory: Path) -> list[File]:
    """Two tiny models that answer: one with SentencePiece's kind of vocabulary, one with byte pairs."""
    spm = File.parse(write_llama(directory / "base.gguf").read_bytes())
    spm.dump()
    bpe = File(list(spm.pairs), spm.tensors, spm.data)
    n_tokens = next(p.count for p in spm.pairs if p.key == b"tokenizer.ggml.tokens")
    shown = [b for b in range(256) if 33 <= b < 127 or (161 <= b < 256 and b != 173)]
    characters = [chr(b) for b in shown] + [chr(256 + i) for i in range(256 - len(shown))]
    merges = [b"t h", b"h e", b"i n", b"e r", b"a n", b"th e"]
    tokens = [c.encode() for c in characters] + [m.replace(b" ", b"") for m in merges]
    kinds = [1 if i < len(tokens) else 3 for i in range(n_tokens)]
    tokens += [f"<|{i}|>".encode() for i in range(n_tokens - len(tokens))]
    replaced = {
        b"tokenizer.ggml.model": Pair(b"", STRING, strings([b"gpt2"])),
        b"tokenizer.ggml.tokens": Pair(b"", ARRAY, strings(tokens), STRING, n_tokens),
        b"tokenizer.ggml.token_type": Pair(b"", ARRAY, struct.pack(f"<{n_tokens}i", *kinds), 5, n_tokens),
    }
    bpe.pairs = [
        dataclasses.replace(replaced.get(p.key, p), key=p.key) for p in spm.pairs if p.key != b"tokenizer.ggml.scores"
    ]
    bpe.pairs.append(Pair(b"tokenizer.ggml.pre", STRING, strings([b"llama-bpe"])))
    bpe.pairs.append(Pair(b"tokenizer.ggml.merges", ARRAY, strings(merges), STRING, len(merges)))
    bpe.dump()
    return [spm, bpe]


DEADLY: dict[str, tuple[bytes, Callable[[bytes], bytes]]] = {
    "twin": (b"tokenizer.ggml.tokens", lambda old: old.replace(strings([b"<unk>"]), strings([b"<s>"]))),
    "epsilon": (b"llama.attention.layer_norm_rms_epsilon", lambda _old: struct.pack("<f", -1.0)),
}
"""What ends the llama.cpp of llama-cpp-python 0.3.36: while it loads, and while it decodes."""


def deadly_file(directory: Path, name: str) -> Path:
    """Write one of `DEADLY`."""
    base, _ = bases(directory)
    key, change = DEADLY[name]
    for pair in base.pairs:
        if pair.key == key:
            pair.payload = change(pair.payload)
    path = directory / f"deadly-{name}.gguf"
    path.write_bytes(base.dump())
    return path
