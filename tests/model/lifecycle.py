"""Everything public of a Racer in random order: while it answers, closed, half loaded, from two threads.

Each run is a seed. Runs are made in a child process, since what is looked for ends it: a signal.

    python -m tests.model.lifecycle --count 500
"""

import argparse
import random
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np

from racer_local.api import Racer
from racer_local.cli import doctor
from racer_local.draft_tree import DraftTree
from racer_local.errors import RacerError, UsageError
from racer_local.llama.baseline import Baseline
from racer_local.llama.chat import ChatFormat
from racer_local.llama.engine import Engine
from racer_local.llama.model import Model
from racer_local.llama.sampling import Sampler
from racer_local.prompt import Prompt
from racer_local.settings import SamplingParams
from tests.tiny import write_llama

N_CTX = 128
MESSAGES = [{"role": "user", "content": "the hen"}]
KEEPS_WORKING = {"close", "cancel", "notes", "request_stop", "clear_stop", "stop_requested", "is_closed", "in_use"}
"""What may be asked of a closed object as well."""
FACTS = {"n_past", "room", "device"}
"""Properties that are made of plain numbers and need no memory of llama.cpp."""

Arguments = dict[str, Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]]


def one_node() -> DraftTree:
    """A draft of one token."""
    tree = DraftTree.allocate(1)
    tree.token[0], tree.depth[0] = 7, 1
    return tree


def drain(steps: Any) -> list[Any]:
    """All of an answer."""
    return list(steps) if isinstance(steps, Generator) else [steps]


OF_RACER: Arguments = {
    "stream": lambda: (("the hen",), {"max_tokens": 3, "temperature": 0}),
    "generate": lambda: (("a",), {"max_tokens": 2}),
    "stream_chat": lambda: ((MESSAGES,), {"max_tokens": 2}),
    "chat": lambda: ((MESSAGES,), {"max_tokens": 2, "dry_multiplier": 0.5}),
    "create_chat_completion": lambda: ((MESSAGES,), {"max_tokens": 1}),
    "prepare": lambda: ((MESSAGES,), {}),
    "splitter": lambda: ((Prompt([40, 41]),), {}),
}
OF_MODEL: Arguments = {
    "meta": lambda: (("general.name",), {}),
    "tokenize": lambda: (("the hen",), {"add_special": True}),
    "piece": lambda: ((random.choice([0, 40, 10**6, -1]),), {}),
    "written": lambda: ((random.choice([0, 40, 10**6]),), {}),
    "show": lambda: ((["<s>"],), {}),
    "is_control": lambda: ((random.choice([0, 2, 10**6]),), {}),
    "token_of": lambda: (("<s>",), {}),
    "with_begin": lambda: (([40],), {}),
    "is_end": lambda: ((random.choice([0, 2, 10**6, -5]),), {}),
}
OF_ENGINE: Arguments = {
    "prefill": lambda: (([random.choice([1, 5, 40, 10**7, -1])] * random.choice([0, 3, 90]),), {}),
    "verify": lambda: ((random.choice([3, 10**7]), random.choice([one_node(), DraftTree.empty()])), {}),
    "commit": lambda: ((3, one_node(), random.choice([[], [0]])), {}),
}
OF_FORMAT: Arguments = {"prompt": lambda: ((MESSAGES,), {})}
OBJECTS: dict[str, tuple[type, Arguments]] = {
    "": (Racer, OF_RACER),
    "model": (Model, OF_MODEL),
    "engine": (Engine, OF_ENGINE),
    "chat_format": (ChatFormat, OF_FORMAT),
}


def public_names(kind: type) -> list[str]:
    """Public methods and properties."""
    return sorted(name for name in vars(kind) if not name.startswith("_"))


def call(target: Any, name: str, arguments: Arguments) -> Any:
    """Read a property, or call a method and exhaust what it gives."""
    value = getattr(target, name)
    if not callable(value) or name in ("handle",):
        return value
    args, options = arguments[name]() if name in arguments else ((), {})
    return drain(value(*args, **options))


def must_refuse(racer: Racer, held: dict[str, Any]) -> None:
    """Check that a closed Racer, and what was taken from it before, says so."""
    for place, (kind, arguments) in OBJECTS.items():
        target = racer if not place else held.get(place)
        if target is None:
            continue
        for name in public_names(kind):
            if name in KEEPS_WORKING | FACTS:
                call(target, name, arguments)
                continue
            try:
                call(target, name, arguments)
            except UsageError as error:
                if "closed" not in str(error) and "token ids" not in str(error):
                    raise AssertionError(f"{place}.{name} on a closed Racer: {error}") from error
            else:
                raise AssertionError(f"{place}.{name} works on a closed Racer")


def run(path: Path, seed: int) -> None:
    """Random calls on one Racer, then all of them on the closed one."""
    random.seed(seed)
    racer = Racer.__new__(Racer)
    if seed % 10 == 0:
        try:
            racer.__init__(path, n_ctx=N_CTX, remember=False, on_progress=lambda share: share < 0)
        except RacerError:
            must_refuse(racer, {})
            return
    racer.__init__(path, n_ctx=N_CTX, remember=False, draft=random.choice(["auto", "racer", "off"]))
    held: dict[str, Any] = {"model": racer.model, "engine": racer.engine, "chat_format": racer.chat_format}
    sampler, bare = Sampler(racer.model, SamplingParams()), Baseline(racer.model, racer.engine)
    suspended: list[Generator[Any]] = []
    others: list[threading.Thread] = []
    for _ in range(random.randint(1, 25)):
        what = random.random()
        try:
            if what < 0.15:
                suspended.append(racer.stream("the hen", max_tokens=40, temperature=random.choice([0, 1])))
            elif what < 0.4 and suspended:
                next(random.choice(suspended), None)
            elif what < 0.45:
                doctor.examine(racer)
            elif what < 0.5:
                others.append(threading.Thread(target=in_thread, args=(racer, random.random())))
                others[-1].start()
            elif what < 0.55:
                sampler.pick(np.zeros(racer.model.n_vocab, np.float32))
                bare.answer([1, 5], 2)
            else:
                place = random.choice(["", "", "model", "engine", "chat_format"])
                kind, arguments = OBJECTS[place]
                names = [n for n in public_names(kind) if n != "close" or random.random() < 0.2]
                call(held[place] if place else racer, random.choice(names), arguments)
        except RacerError:
            pass
    racer.close()
    for answer in suspended:
        try:
            next(answer)
        except (UsageError, StopIteration):
            pass
        else:
            raise AssertionError("an answer goes on after closing")
    for thread in others:
        thread.join()
    sampler.close()
    bare.close()
    for closed in (lambda: sampler.pick(np.zeros(4, np.float32)), lambda: bare.answer([1], 1)):
        try:
            closed()
        except UsageError:
            continue
        raise AssertionError("a closed sampler or baseline works")
    held["model"].close()
    must_refuse(racer, held)


def in_thread(racer: Racer, choice: float) -> None:
    """What another thread may do at any time."""
    try:
        if choice < 0.3:
            racer.close()
        elif choice < 0.6:
            racer.cancel()
        elif choice < 0.8:
            racer.generate("the", max_tokens=30)
        else:
            racer.model.tokenize("the hen " * 100, add_special=False)
    except RacerError:
        pass


def child(path: Path, seeds: range) -> None:
    """Make runs in this process, saying which one begins."""
    for seed in seeds:
        print(seed, flush=True)
        run(path, seed)


def search(path: Path, count: int) -> list[str]:
    """Make `count` runs in child processes; returns what went wrong, a line each."""
    faults, first = [], 0
    while first < count and len(faults) < 5:
        command = [
            sys.executable,
            "-X",
            "faulthandler",
            "-m",
            "tests.model.lifecycle",
            "--child",
            str(path),
            str(first),
            str(count),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        last = int(done.stdout.split()[-1]) if done.stdout.split() else first
        if done.returncode:
            faults.append(f"seed {last}: exit {done.returncode}: {done.stderr[-400:]}")
        elif last + 1 < count:
            faults.append(f"seed {last}: ended early")
        first = last + 1
    return faults


def main() -> None:
    """Make many runs."""
    if sys.argv[1:2] == ["--child"]:
        child(Path(sys.argv[2]), range(int(sys.argv[3]), int(sys.argv[4])))
        return
    parser = argparse.ArgumentParser(description="Everything public of a Racer in random order.")
    parser.add_argument("--count", type=int, default=500)
    count = parser.parse_args().count
    with tempfile.TemporaryDirectory() as folder:
        faults = search(write_llama(Path(folder) / "tiny.gguf"), count)
    print("\n".join(faults) or f"{count} runs, no fault")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
