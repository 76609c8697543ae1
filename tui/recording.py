"""A run on disk: what was asked, every step of every answer and when it came, to be played again without a model.

A file of JSON lines in ASCII. The first says what made it:

    recording  version, created (ISO time), racer_local and llama_cpp_python (versions), model (description, device),
               n_ctx, drafting (as `Racer.drafting` has it), notes, thoughts (a name of `thoughts.FORMATS`)

Each of the others is one thing that happened, in order; `ms` counts from the beginning of the answer:

    answer   messages, prompt (its token ids), goes_on (whether it goes on with one that was begun): it begins
    prefill  ms, done, todo: prompt tokens that were read
    step     ms, n_committed, and of `records.Step` what is not empty:
             tokens  [id, text, source, match_len, depth, step] of each; their texts joined are the step's text
             tree    a list for each array of `DraftTree`, null for a chance that is not known
             path, finish_reason, note
             stats   the counters of `GenerationStats` that have changed; of lists, [index, value] of what has
    failed   ms, message: it ended with an error

Answers and steps have `pieces` besides: bytes as Latin-1 by token id, of those tokens that no earlier line has.

Nothing is ever taken out of a file. A last line that was cut off by a crash is ignored.
"""

import contextlib
import json
import math
import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self, TextIO

import numpy as np

from racer_local.answers import Step
from racer_local.draft_tree import ROOT, DraftTree
from racer_local.errors import RacerError, UsageError
from racer_local.prompt import Message, Prompt
from racer_local.stats import GenerationStats
from racer_local.thoughts import ThoughtFormat
from racer_local.tokens import N_SOURCES

from .events import Answerer, Context, LoadedModel

KIND = "recording"
VERSION = 1
ARRAYS = tuple(f.name for f in fields(DraftTree))
COUNTERS = tuple(f.name for f in fields(GenerationStats))
FAULTS = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)
"""What values that no recording has bring about."""
EXISTS = "{} exists already; a recording needs a new file"


class Recording:
    """An `Answerer` that writes down what another one answers, as it goes. All else of that one is passed through.

    If the file cannot be written any more, the answers go on, and `notes` says so.
    """

    def __init__(self, path: Path, racer: Answerer) -> None:
        """Begin a new file. The racer is closed together with this object, and at once if there can be no file.

        Raises:
            UsageError: The file exists already or cannot be made.
        """
        self._path = path
        self._racer = racer
        self._failure = ""
        self._known: set[int] = set()
        """Tokens whose bytes are in the file."""
        try:
            self._file: TextIO | None = _create(path)
        except UsageError:
            racer.close()
            raise
        self._write(KIND, lambda: _head(racer))

    def __getattr__(self, name: str) -> Any:
        """What is not recorded is the other one's."""
        return getattr(self._racer, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def drafts_wanted(self) -> bool:
        """Whether drafts are made; may be changed at any time."""
        return self._racer.drafts_wanted

    @drafts_wanted.setter
    def drafts_wanted(self, wanted: bool) -> None:
        self._racer.drafts_wanted = wanted

    @property
    def model(self) -> LoadedModel:
        """The loaded file."""
        return self._racer.model

    @property
    def engine(self) -> Context:
        """Its context."""
        return self._racer.engine

    @property
    def notes(self) -> list[str]:
        """Those of the other one, and whether the recording has ended early."""
        return [*self._racer.notes, *([self._failure] if self._failure else [])]

    @property
    def thoughts(self) -> ThoughtFormat:
        """How the model marks its thoughts."""
        return self._racer.thoughts

    def prepare(
        self, messages: Sequence[Message], so_far: Sequence[int] | str = (), *, make_room: bool = False
    ) -> Prompt:
        """The prompt that asks for the next answer, or for the rest of one."""
        return self._racer.prepare(messages, so_far, make_room=make_room)

    def drafting(self, draft: Any = None) -> dict[str, Any]:
        """How an answer would be drafted."""
        return self._racer.drafting(draft)

    def cancel(self) -> None:
        """End the answer in progress; called from another thread."""
        self._racer.cancel()

    def close(self) -> None:
        """Free everything and close the file."""
        try:
            self._racer.close()
        finally:
            self._end_file()

    def stream(self, prompt: Prompt, **options: Any) -> Iterator[Step]:
        """Answer a prompt step by step; each step is in the file before it is given."""
        began = time.perf_counter()
        on_prefill = options.pop("on_prefill", None)

        def note_prefill(done: int, todo: int) -> None:
            self._write("prefill", lambda: {"ms": _ms_since(began), "done": done, "todo": todo})
            if on_prefill is not None:
                on_prefill(done, todo)

        def begun() -> dict[str, Any]:
            messages = [dict(m) for m in prompt.messages]
            about = {"messages": messages, "prompt": prompt.tokens, "goes_on": prompt.goes_on}
            return {**about, "pieces": self._pieces(prompt.tokens)}

        steps = self._racer.stream(prompt, on_prefill=note_prefill, **options)
        return self._recorded(steps, begun, began)

    def _recorded(
        self, steps: Iterator[Step], begun: Callable[[], dict[str, Any]], began: float
    ) -> Generator[Step, None, None]:
        self._write("answer", begun)
        before = GenerationStats()
        try:
            for step in steps:
                self._write("step", lambda step=step, before=before: self._line(step, before, _ms_since(began)))
                before = step.stats
                yield step
        except RacerError as error:
            self._write("failed", lambda message=str(error): {"ms": _ms_since(began), "message": message})
            raise

    def _line(self, step: Step, before: GenerationStats, ms: float) -> dict[str, Any]:
        tree = {name: getattr(step.tree, name).tolist() for name in ARRAYS}
        tree["p"] = [None if p != p else p for p in tree["p"]]
        line: dict[str, Any] = {
            "pieces": self._pieces([*tree["token"], *(token.id for token in step.tokens)]),
            "tokens": step.tokens,
            "tree": tree if len(step.tree) else {},
            "path": step.path,
            "stats": changes(before, step.stats),
            "finish_reason": step.finish_reason,
            "note": step.note,
        }
        return {"ms": ms, "n_committed": step.n_committed, **{k: v for k, v in line.items() if v}}

    def _pieces(self, tokens: Iterable[int]) -> dict[int, str]:
        """Bytes of the tokens that the file does not have yet."""
        new = sorted(set(tokens) - self._known)
        self._known.update(new)
        return {token: self._racer.model.piece(token).decode("latin-1") for token in new}

    def _write(self, kind: str, what: Callable[[], dict[str, Any]]) -> None:
        """Append a line; where that fails, nothing is written from then on, nor made ready to be."""
        if self._file is None:
            return
        line = json.dumps({"type": kind, **what()}, default=_number)
        try:
            self._file.write(line + "\n")
            self._file.flush()
        except OSError as error:
            self._failure = f"the recording in {self._path} ends here: {error.strerror or error}"
            self._end_file()

    def _end_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            # what could not be written is tried once more here, and was told
            with contextlib.suppress(OSError):
                file.close()


def check_new(path: Path) -> None:
    """See before a model is loaded whether a recording could be made there.

    Raises:
        UsageError: It could not.
    """
    try:
        exists = path.exists()
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    if exists:
        raise UsageError(EXISTS.format(path))
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise UsageError(f"cannot write {path}: its folder must exist and be writable")


def changes(before: GenerationStats, after: GenerationStats) -> dict[str, Any]:
    """The counters that have changed, as they are now; of lists, index and value of each entry that has."""
    out: dict[str, Any] = {}
    for name in COUNTERS:
        old, new = getattr(before, name), getattr(after, name)
        if isinstance(new, list):
            new = [[i, n] for i, (o, n) in enumerate(zip(old, new, strict=True)) if o != n]
            old = []
        if old != new:
            out[name] = new
    return out


def tree_of(columns: dict[str, list[Any]]) -> DraftTree:
    """The draft that a line has; one of `FAULTS` where no recording has such a one."""
    values = {name: columns[name] for name in ARRAYS}
    values["p"] = [math.nan if p is None else p for p in values["p"]]
    n = len(values["token"])
    empty = DraftTree.empty()
    # fromiter takes plain numbers only, and complains of those that its type does not hold
    tree = DraftTree(*(np.fromiter(values[name], getattr(empty, name).dtype) for name in ARRAYS))
    if any(len(column) != n for column in values.values()):
        raise ValueError("its draft has columns of several lengths")
    if ((tree.parent < ROOT) | (tree.parent >= np.arange(n))).any():
        raise ValueError("its draft has a node before its parent")
    if (tree.source >= N_SOURCES).any():
        raise ValueError("its draft has an unknown source")
    return tree


def stats_of(before: GenerationStats, changed: dict[str, Any]) -> GenerationStats:
    """The counters after a step, from what `changes` gave."""
    stats = before.snapshot()
    for name, value in changed.items():
        if name not in COUNTERS:
            raise ValueError(f"there is no counter {name!r}")
        old = getattr(stats, name)
        if isinstance(old, list):
            for i, n in value:
                old[index_of(i, len(old))] = whole_of(n)
        else:
            setattr(stats, name, whole_of(value) if isinstance(old, int) else float(value))
    return stats


def text_of(value: Any) -> str:
    """The value, if it is a text."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def whole_of(value: Any) -> int:
    """The value, if it is a whole number."""
    if type(value) is not int:
        raise TypeError(f"{value!r} is no whole number")
    return value


def index_of(value: Any, n: int) -> int:
    """The value, if it is an index of `n` things."""
    if not 0 <= whole_of(value) < n:
        raise ValueError(f"{value} is none of {n}")
    return value


def _head(racer: Answerer) -> dict[str, Any]:
    return {
        "version": VERSION,
        "created": datetime.now(UTC).astimezone().isoformat(timespec="seconds"),
        "racer_local": version("racer-local"),
        "llama_cpp_python": version("llama-cpp-python"),
        "model": {"description": racer.model.description, "device": racer.model.device},
        "n_ctx": racer.engine.n_ctx,
        "drafting": racer.drafting(),
        "notes": list(racer.notes),
        "thoughts": racer.thoughts.name,
    }


def _create(path: Path) -> TextIO:
    """A new file that only its owner can read: it holds what people have written."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise UsageError(EXISTS.format(path)) from error
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    return os.fdopen(handle, "w", encoding="ascii", newline="\n")


def _number(value: Any) -> Any:
    """A number of NumPy as Python's own."""
    return value.item()


def _ms_since(began: float) -> float:
    return round((time.perf_counter() - began) * 1e3, 3)
