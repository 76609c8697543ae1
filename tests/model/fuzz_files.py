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
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from racer_local import gguf_file
from racer_local.errors import ModelError, RacerError
from racer_local.kernels.warmup import warm_up
from racer_local.llama import amx, library, load_check, load_check_child
from racer_local.terminal_text import one_line
from tests.model.gguf_bytes import bases
from tests.model.mutations import mutated

LIMIT_S = 10.0
"""A file that takes longer hangs."""
MEMORY_BYTES = 8 << 30
"""Address space of a process that opens a file: what claims more gets an error and not the machine's memory."""


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
