"""Damaged model files by the thousand: what llama.cpp does with them, and whether any of it reaches the user.

    python -m tests.model.fuzz_files --count 3000

writes mutated copies of two tiny models (bit flips, random bytes, changed lengths, counts and types, huge sizes, other
architectures, metadata and tensors renamed, left out or added) and has each opened by a forked process: first as the
trial does, then, where that went well, as the program does, with a short answer. Printed is how often what happened:

    answers     the file still works
    error       one clear line
    trial dies  llama.cpp ends the process; in the program that is the child process of the trial, so: one clear line
    trial hangs the same, after a while
    FAULT       the process died, hung or raised something unclear after the trial had passed: the user would see it

and which assertions of llama.cpp failed. Of the files that end or hang the trial a sample is given to the real trial.
Faults are kept in the directory `--keep`, and the exit code is 1 if there are any. The same seed makes the same files.
"""

import argparse
import contextlib
import dataclasses
import importlib
import json
import os
import random
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import gguf

from racer_local import gguf_file
from racer_local.errors import ModelError, RacerError
from racer_local.kernels.warmup import warm_up
from racer_local.llama import amx, library, load_check, load_check_child
from racer_local.terminal_text import one_line
from tests.tiny import write_llama

LIMIT_S = 10.0
"""A file that takes longer hangs."""
MEMORY_BYTES = 8 << 30
"""Address space of a process that opens a file: what claims more gets an error and not the machine's memory."""

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9
NUMBERS = (
    *(0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 31, 32, 33, 63, 64, 100, 127, 128, 255, 256, 257, 293, 294, 511, 512, 513),
    *(1000, 4095, 4096, 65535, 65536, 10**6, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1),
)
FLOATS = (0.0, -1.0, 1e-5, 1.0, 1e30, float("inf"), float("nan"))
TOKENIZERS = (b"llama", b"gpt2", b"bert", b"t5", b"rwkv", b"plamo2", b"gemma4", b"none", b"no_vocab", b"")


# the format, taken apart and put together


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


# opening files in forked processes


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a file did: one of the words of the module's docstring, and in which words."""

    what: str
    text: str


class Opener:
    """A process that forks itself for each file, so that none has to be started anew."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.model.fuzz_files", "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **load_check.CHILD_ENVIRONMENT},
            cwd=Path(__file__).parents[2],
        )

    def open(self, path: Path) -> Outcome:
        """Open a file as the trial does, then as the program does."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(str(path)).encode() + b"\n")
        stdin.flush()
        # what loads the library for the first time may take longer than a file
        ready, _, _ = select.select([stdout], [], [], 60 + 3 * LIMIT_S)
        line = stdout.readline() if ready else b""
        if not line:
            raise RuntimeError("the process that opens files is gone")
        return Outcome(**json.loads(line))

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def serve() -> None:
    """Fork for each line of stdin, the name of a file as JSON; write what became of it as a line."""
    importlib.import_module("racer_local.api")  # once, and not in each fork
    library.load()
    warm_up()
    with tempfile.TemporaryFile(buffering=0) as stage, tempfile.TemporaryFile(buffering=0) as errors:
        while line := sys.stdin.buffer.readline():
            for file in (stage, errors):
                file.seek(0)
                file.truncate()
            pid = os.fork()
            if pid == 0:
                _open_and_leave(json.loads(line), stage, errors)
            status = _wait(pid)
            stage.seek(0)
            said = stage.read().decode()
            errors.seek(0)
            log = errors.read().decode("utf-8", "replace")
            print(json.dumps(dataclasses.asdict(_judge(said, log, status))), flush=True)


def _wait(pid: int) -> int | None:
    """Exit status of a process, None if it hung and was killed."""
    until = time.monotonic() + LIMIT_S
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def _judge(said: str, log: str, status: int | None) -> Outcome:
    stage, _, text = said.partition(":")
    if status == 0:
        return Outcome(stage, text)
    found = re.search(r"[^/\s]+:\d+: .+", log) or re.search(r"what\(\):\s*.+", log)
    how = "hangs" if status is None else "dies"
    reason = found[0] if found else f"status {status}"
    return Outcome(f"trial {how}" if stage == "trial" else f"FAULT {how}", one_line(reason))


def _open_and_leave(path: str, stage: IO[bytes], errors: IO[bytes]) -> None:
    import resource

    os.dup2(errors.fileno(), 2)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def say(text: str) -> None:
        stage.seek(0)
        stage.truncate()
        stage.write(text.encode("utf-8", "replace"))
        stage.flush()

    try:
        gguf_file.check_file(Path(path))
        say("trial:")
        load_check_child.open_here(path)
        say("product:")
        say(f"answers:{_use(path)}")
    except RacerError as error:
        text = str(error)
        clear = text.isprintable() and len(text) < 1200
        say(f"error:{text}" if clear else f"FAULT unclear:{text!r}")
    except BaseException:
        say(f"FAULT raises:{traceback.format_exc()}")
    os._exit(0)


def _use(path: str) -> str:
    """Load a file as the program does, but without the trial, and have it answer."""
    from racer_local.api import Racer

    setattr(load_check, "check", lambda *_args, **_options: None)  # noqa: B010
    setattr(amx, "works", lambda *_args: False)  # noqa: B010
    with Racer(path, remember=False, n_threads=1) as racer:
        text = racer.generate("the in an", max_tokens=6).text
        racer.chat([{"role": "user", "content": "日本語 <s> \U0001f98a"}], max_tokens=3, temperature=1.0, seed=1)
        return racer.model.description + text


# the run


@dataclass
class Tally:
    """What happened how often; the first files of each kind; why processes died."""

    counts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    by_mutation: Counter[tuple[str, str]] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    deadly: list[Path] = field(default_factory=list)

    def report(self) -> str:
        """The summary as text."""
        lines = [f"{n:6d}  {what}" for what, n in self.counts.most_common()]
        lines += ["", "why processes ended or hung:"] + [f"{n:6d}  {why}" for why, n in self.reasons.most_common(30)]
        kinds = list(self.counts)
        lines += ["", "by mutation:", " " * 24 + "".join(f"{kind:>13}" for kind in kinds)]
        for name in sorted({name for name, _ in self.by_mutation}):
            lines.append(f"{name:24}" + "".join(f"{self.by_mutation[name, kind]:13}" for kind in kinds))
        return "\n".join([*lines, *self.faults])


def run(directory: Path, count: int, seed: int = 0, *, first: int = 0) -> Iterator[Tally]:
    """Open mutated files, yielding the tally after each.

    Args:
        directory: Where files are written; those that end a process stay there.
        count: How many.
        seed: Of the mutations.
        first: Number of the first one.
    """
    files = bases(directory)
    tally = Tally()
    opener = Opener()
    try:
        for i in range(first, first + count):
            name, data = mutated(files, seed, i)
            path = directory / f"{i:05d}-{name}.gguf"
            path.write_bytes(data)
            outcome = opener.open(path)
            tally.counts[outcome.what] += 1
            tally.by_mutation[name, outcome.what] += 1
            if outcome.what not in ("answers", "error"):
                tally.reasons[outcome.text.splitlines()[0] if outcome.text else "?"] += 1
            if outcome.what.startswith("FAULT"):
                tally.faults.append(f"{path.name}: {outcome.what}: {outcome.text}")
            elif outcome.what.startswith("trial"):
                tally.deadly.append(path)
            else:
                path.unlink()
            yield tally
    finally:
        opener.close()


def check_with_the_real_trial(paths: list[Path]) -> list[str]:
    """Which of the files that end a process do not end in a ModelError by the real trial."""
    wrong = []
    for path in paths:
        try:
            load_check.check(gguf_file.check_file(path))
            wrong.append(f"{path.name}: passed the real trial")
        except ModelError as error:
            if not str(error).isprintable():
                wrong.append(f"{path.name}: {error!r}")
    return wrong


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; see the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.model.fuzz_files")
    parser.add_argument("--count", type=int, default=3000, help="how many files")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--sample", type=int, default=20, help="how many deadly ones to give to the real trial")
    parser.add_argument("--keep", type=Path, help="directory for the files that did harm")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.serve:
        serve()
        return 0
    with contextlib.ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        os.environ["XDG_CACHE_HOME"] = str(home / "cache")
        directory = args.keep or home
        directory.mkdir(parents=True, exist_ok=True)
        tally = Tally()
        started = time.monotonic()
        for done, tally in enumerate(run(directory, args.count, args.seed, first=args.first), 1):
            if done % 250 == 0:
                print(f"{done} files, {time.monotonic() - started:.0f} s: {dict(tally.counts)}", flush=True)
        print(tally.report())
        every = max(1, len(tally.deadly) // max(1, args.sample))
        sample = tally.deadly[::every][: args.sample]
        wrong = check_with_the_real_trial(sample)
        print(
            f"\n{len(sample)} deadly files given to the real trial, {len(wrong)} of them not refused", *wrong, sep="\n"
        )
        return 1 if tally.faults or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
