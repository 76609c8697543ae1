"""What can be wrong in a model file: changes of its bytes, and of what they mean, drawn at random."""

import dataclasses
import random
import struct
from collections.abc import Callable

import gguf

from tests.model.gguf_bytes import ARRAY, SIZES, STRING, File, Pair, strings

NUMBERS = (
    *(0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 100, 127, 128, 255, 256, 257, 293, 294, 511, 512, 513),
    *(1000, 4095, 4096, 65535, 65536, 10**6, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1),
)
FLOATS = (0.0, -1.0, 1e-5, 1.0, 1e30, float("inf"), float("nan"))
TOKENIZERS = (b"llama", b"gpt2", b"bert", b"t5", b"rwkv", b"plamo2", b"gemma4", b"none", b"no_vocab", b"")


# mutations of the bytes


def _anywhere(rng: random.Random, file: File) -> int:
    return rng.randrange(4, file.head)


def flip_bits(rng: random.Random, file: File) -> bytes:
    out = bytearray(file.dump())
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        out[_anywhere(rng, file)] ^= 1 << rng.randrange(8)
    return bytes(out)


def random_bytes(rng: random.Random, file: File) -> bytes:
    out = bytearray(file.dump())
    at = _anywhere(rng, file)
    noise = rng.randbytes(rng.choice((1, 2, 4, 8, 64, 512)))
    return bytes(out[:at] + noise + out[at + len(noise) :])


def change_field(rng: random.Random, file: File) -> bytes:
    out = bytearray(file.dump())
    for _ in range(rng.choice((1, 1, 2))):
        at, size = rng.choice(file.fields)
        old = int.from_bytes(out[at : at + size], "little")
        new = rng.choice((*NUMBERS, old + 1, old - 1, old * 2, old // 2, rng.getrandbits(8 * size)))
        out[at : at + size] = (new % 256**size).to_bytes(size, "little")
    return bytes(out)


def cut(rng: random.Random, file: File) -> bytes:
    out = file.dump()
    return out[: rng.choice((_anywhere(rng, file), rng.randrange(len(out))))]


def remove_span(rng: random.Random, file: File) -> bytes:
    out = file.dump()
    at = _anywhere(rng, file)
    return out[:at] + out[at + rng.choice((1, 2, 4, 8, 32, 300)) :]


def insert_span(rng: random.Random, file: File) -> bytes:
    out = file.dump()
    at, source = _anywhere(rng, file), _anywhere(rng, file)
    return out[:at] + out[source : source + rng.choice((1, 2, 4, 8, 32, 300))] + out[at:]


def clear_span(rng: random.Random, file: File) -> bytes:
    out = bytearray(file.dump())
    at = _anywhere(rng, file)
    n = rng.choice((1, 4, 8, 32, 300))
    out[at : at + n] = bytes([rng.choice((0, 0xFF))]) * n
    return bytes(out)


def spoil_data(rng: random.Random, file: File) -> bytes:
    out = bytearray(file.dump())
    for _ in range(200):
        out[rng.randrange(file.head, len(out))] = rng.randrange(256)
    return bytes(out)


# mutations of what the bytes mean


def _parameter_keys() -> list[bytes]:
    """All keys that the format knows for numbers of an architecture, for llama."""
    found = set()
    for group in vars(gguf.Keys).values():
        for value in vars(group).values() if isinstance(group, type) else ():
            if isinstance(value, str) and "{arch}" in value:
                found.add(value.replace("{arch}", "llama").encode())
    return sorted(found)


PARAMETERS = _parameter_keys()
ARCHITECTURES = sorted(name.encode() for name in gguf.MODEL_ARCH_NAMES.values())


def _value(rng: random.Random, key: bytes, kind: int) -> Pair:
    """A well-formed value of a kind."""
    if kind == ARRAY:
        item_kind, count = rng.choice((*SIZES, STRING)), rng.choice((0, 1, 2, 4, 300, 1000))
        items = [_value(rng, key, item_kind).payload for _ in range(count)]
        return Pair(key, kind, b"".join(items), item_kind, count)
    if kind == STRING:
        return Pair(key, kind, strings([rng.choice((b"", b"x", b"\xff\n\x1b[31m", rng.randbytes(9), b"y" * 300_000))]))
    if kind in (6, 12):
        return Pair(key, kind, struct.pack("<f" if kind == 6 else "<d", rng.choice(FLOATS)))
    return Pair(key, kind, (rng.choice(NUMBERS) % 256 ** SIZES[kind]).to_bytes(SIZES[kind], "little"))


def change_value(rng: random.Random, file: File) -> bytes:
    i = rng.randrange(len(file.pairs))
    file.pairs[i] = _value(rng, file.pairs[i].key, file.pairs[i].kind)
    return file.dump()


def change_kind(rng: random.Random, file: File) -> bytes:
    i = rng.randrange(len(file.pairs))
    file.pairs[i] = _value(rng, file.pairs[i].key, rng.choice((*SIZES, STRING, ARRAY)))
    return file.dump()


def add_parameter(rng: random.Random, file: File) -> bytes:
    known = {p.key for p in file.pairs}
    for _ in range(rng.choice((1, 1, 2, 5))):
        key = rng.choice(PARAMETERS)
        if key not in known:
            known.add(key)
            file.pairs.append(_value(rng, key, rng.choice((4, 4, 4, 6, 7, STRING, ARRAY))))
    return file.dump()


def add_split(rng: random.Random, file: File) -> bytes:
    for key in (b"split.no", b"split.count", b"split.tensors.count"):
        if rng.random() < 0.7:
            file.pairs.append(_value(rng, key, rng.choice((2, 2, 4, 5))))
    return file.dump()


def drop_pairs(rng: random.Random, file: File) -> bytes:
    for _ in range(rng.choice((1, 1, 3))):
        del file.pairs[rng.randrange(len(file.pairs))]
    return file.dump()


def wrong_counts(rng: random.Random, file: File) -> bytes:
    if rng.random() < 0.5:
        file.n_pairs = rng.choice((*NUMBERS, len(file.pairs) - 1, len(file.pairs) + 1))
    else:
        file.n_tensors = rng.choice((*NUMBERS, len(file.tensors) - 1, len(file.tensors) + 1))
    return file.dump()


def other_architecture(rng: random.Random, file: File) -> bytes:
    name = rng.choice(ARCHITECTURES)
    for pair in file.pairs:
        if pair.key == b"general.architecture":
            pair.payload = strings([name])
        elif pair.key.startswith(b"llama."):
            pair.key = name + pair.key[5:]
    return file.dump()


def well_equipped(rng: random.Random, file: File) -> bytes:
    """Another architecture, or the same, with most of the parameters that any might ask for."""
    other_architecture(rng, file)
    arch = next(p.payload[8:] for p in file.pairs if p.key == b"general.architecture")
    known = {p.key for p in file.pairs}
    for name in PARAMETERS:
        key = arch + name[5:]
        if key not in known and rng.random() < 0.8:
            payload = struct.pack("<I", rng.choice((0, 1, 1, 2, 2, 4, 8, 32, 64)))
            if name.endswith((b"epsilon", b"scale", b"factor", b"base", b"theta")):
                payload = struct.pack("<f", rng.choice((1e-5, 1.0, 10000.0)))
                file.pairs.append(Pair(key, 6, payload))
            else:
                file.pairs.append(Pair(key, 4, payload))
    return file.dump()


def other_tokenizer(rng: random.Random, file: File) -> bytes:
    for pair in file.pairs:
        if pair.key == b"tokenizer.ggml.model":
            pair.payload = strings([rng.choice(TOKENIZERS)])
    return file.dump()


def change_tokens(rng: random.Random, file: File) -> bytes:
    """Tokens emptied, repeated or turned into another kind; the count stays."""
    at = {p.key: p for p in file.pairs}
    pair = at[b"tokenizer.ggml.tokens"]
    tokens = []
    start = 0
    while start < len(pair.payload):
        (n,) = struct.unpack_from("<Q", pair.payload, start)
        tokens.append(pair.payload[start + 8 : start + 8 + n])
        start += 8 + n
    for _ in range(rng.choice((1, 10, 300))):
        tokens[rng.randrange(len(tokens))] = rng.choice((b"", b"x", b"<0x", tokens[0], rng.randbytes(3)))
    pair.payload = strings(tokens)
    kinds = bytearray(at[b"tokenizer.ggml.token_type"].payload)
    for _ in range(rng.choice((0, 1, 10, 300))):
        i = 4 * rng.randrange(len(tokens))
        kinds[i : i + 4] = struct.pack("<i", rng.choice((*range(-1, 8), 2**31 - 1)))
    at[b"tokenizer.ggml.token_type"].payload = bytes(kinds)
    return file.dump()


def change_tensor(rng: random.Random, file: File) -> bytes:
    tensor = rng.choice(file.tensors)
    what = rng.randrange(6)
    if what == 0:
        tensor.kind = rng.randrange(-1, 45)
    elif what == 1:
        tensor.shape[rng.randrange(len(tensor.shape))] = rng.choice(NUMBERS)
    elif what == 2:
        tensor.shape = [rng.choice((0, 1, 2, 32, 64)) for _ in range(rng.randrange(7))]
    elif what == 3:
        tensor.offset = rng.choice((*NUMBERS, tensor.offset + 1, tensor.offset + 32))
    elif what == 4:
        tensor.name = rng.choice((b"", b"x" * 63, b"x" * 200, rng.choice(file.tensors).name, b"output_norm.bias"))
    else:
        file.tensors.remove(tensor)
    return file.dump()


def reshape_all(rng: random.Random, file: File) -> bytes:
    """Another width everywhere, tensors and parameters alike, the data long enough: a file that agrees with itself."""
    old, new = rng.choice(((32, rng.choice((0, 1, 2, 7, 16, 33, 48))), (64, rng.choice((0, 1, 5, 63, 96)))))
    parameters = rng.random() < 0.8
    offset = 0
    for tensor in file.tensors:
        tensor.shape = [new if n == old else n for n in tensor.shape]
        tensor.offset = offset
        size = 4
        for n in tensor.shape:
            size *= n
        offset += -(-size // 32) * 32
    for pair in file.pairs:
        if parameters and pair.kind == 4 and pair.payload == struct.pack("<I", old):
            pair.payload = struct.pack("<I", new)
    file.data = (file.data * 8)[:offset]
    return file.dump()


MUTATIONS: tuple[Callable[[random.Random, File], bytes], ...] = (
    *(flip_bits, random_bytes, change_field, change_field, cut, remove_span, insert_span, clear_span, spoil_data),
    *(change_value, change_value, change_kind, add_parameter, add_parameter, add_split, drop_pairs, wrong_counts),
    *(other_architecture, well_equipped, other_tokenizer, change_tokens, change_tensor, change_tensor, reshape_all),
)


def mutated(files: list[File], seed: int, i: int) -> tuple[str, bytes]:
    """Mutation number i: what was done, and the file."""
    rng = random.Random(f"{seed}/{i}")
    base = files[i % len(files)]
    file = File([dataclasses.replace(p) for p in base.pairs], [], base.data)
    file.tensors = [dataclasses.replace(t, shape=list(t.shape)) for t in base.tensors]
    mutation = MUTATIONS[i // len(files) % len(MUTATIONS)]
    return mutation.__name__, mutation(rng, file)
