"""Conversations on disk: one append-only file of JSON lines each, that survives a crash and can be searched with grep.

Every line is an object with a `type`:

    session   version, id, created (ISO time), model: the first line
    title     title: the last one counts
    system    text: the system prompt from here on, empty for none
    user      text: a message of the user; it begins a turn
    answer    begins an answer; a second one after the same message replaces the first (regenerated)
    part      text: a piece of the answer, as decoded, written as it comes
    thoughts  format (a name of `thoughts.FORMATS`), opened (whether the prompt had begun a thought): how the answer's
              thoughts are marked; without such a line by plain tags in the answer
    end       reason, and timings where there are some
    keep      turns: only so many of the first turns still count (undone, edited)
    unsent    text: what stands in the input; older programs wrote so, today it is in a file of its own beside

Nothing is ever taken out of a file. A last line that was cut off by a crash is ignored. What stands in the input is in
a file of the same name that ends in `.unsent`, as plain text, as long as it was not sent.
"""

import contextlib
import errno
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from racer_local.errors import RacerError
from racer_local.terminal_text import one_line
from racer_local.thoughts import THINK, ThoughtFormat, ThoughtSplitter, named, split, starts_inside

VERSION = 1
ENDING = ".jsonl"
UNSENT_ENDING = ".unsent"
TITLE_LENGTH = 60


@dataclass(slots=True)
class Turn:
    """A message of the user and what was answered.

    Attributes:
        user: The message.
        answer: The answer's text as decoded, with its thoughts and their marks; None while there is none.
        reason: How the answer ended; empty if the program did before it.
        thoughts: How thoughts are marked in the answer.
        opened: Whether the prompt had begun a thought.
    """

    user: str
    answer: str | None = None
    reason: str = ""
    thoughts: ThoughtFormat = THINK
    opened: bool = False

    def splitter(self) -> ThoughtSplitter:
        """Tells thoughts from what is said, from the answer's beginning on."""
        return ThoughtSplitter(self.thoughts, opened=self.opened)

    def split(self) -> tuple[str, str]:
        """What is thought and what is said in the answer so far."""
        return split(self.answer or "", self.thoughts, opened=self.opened)


@dataclass(slots=True)
class Conversation:
    """What a session's file says.

    Attributes:
        id: Name of the file without its ending.
        created: ISO time.
        model: Name of the model file that it was begun with.
        title: What it is called.
        system: System prompt, empty for none.
        turns: In order.
        unsent: What stood in the input.
        n_said: Messages of the user, with those that were taken back.
    """

    id: str = ""
    created: str = ""
    model: str = ""
    title: str = ""
    system: str = ""
    turns: list[Turn] = field(default_factory=list)
    unsent: str = ""
    n_said: int = 0

    def messages(self) -> list[dict[str, str]]:
        """As the model reads them; a last turn without an answer ends with the user's message."""
        out = [{"role": "system", "content": self.system}] if self.system else []
        for turn in self.turns:
            out.append({"role": "user", "content": turn.user})
            if turn.answer is not None:
                out.append({"role": "assistant", "content": turn.answer})
        return out

    @property
    def name(self) -> str:
        """Title, or the beginning of the first message, also of one that was not sent."""
        first = self.turns[0].user if self.turns else self.unsent
        return self.title or one_line(first, TITLE_LENGTH) or "empty"

    @property
    def is_worth_keeping(self) -> bool:
        """Whether there is something to go on with."""
        return bool(self.turns or self.unsent)

    def take(self, line: dict[str, Any]) -> None:
        """Take in one line of the file; unknown types are for newer programs and are passed over."""
        kind = line.get("type")
        if kind == "session":
            self.id, self.created, self.model = (str(line.get(k, "")) for k in ("id", "created", "model"))
        elif kind == "title":
            self.title = str(line.get("title", ""))
        elif kind == "system":
            self.system = str(line.get("text", ""))
        elif kind == "user":
            self.turns.append(Turn(str(line.get("text", ""))))
            self.unsent = ""
            self.n_said += 1
        elif kind == "keep":
            del self.turns[max(0, int(line.get("turns", 0))) :]
        elif kind == "unsent":
            self.unsent = str(line.get("text", ""))
        elif self.turns:
            turn = self.turns[-1]
            if kind == "answer":
                turn.answer, turn.reason, turn.thoughts, turn.opened = "", "", THINK, False
            elif kind == "part":
                turn.answer = (turn.answer or "") + str(line.get("text", ""))
            elif kind == "thoughts":
                turn.thoughts, turn.opened = named(str(line.get("format", ""))), bool(line.get("opened"))
            elif kind == "end":
                turn.reason = str(line.get("reason", ""))


def read(path: Path) -> Conversation:
    """What a session's file says, as far as it can be read, and the file of what was not sent beside it.

    Raises:
        RacerError: There is no such file, or it cannot be read.
    """
    conversation = Conversation()
    try:
        with _open(path) as file:
            for line in _lines(file):
                with contextlib.suppress(ValueError, TypeError):  # damaged: the rest still counts
                    conversation.take(line)
    except FileNotFoundError as error:
        raise RacerError(f"there is no session {path.name.removesuffix(ENDING)!r}") from error
    except OSError as error:
        raise RacerError(f"cannot read {path}: {error.strerror}") from error
    conversation.id = path.name.removesuffix(ENDING)
    for turn in conversation.turns:
        turn.opened = turn.opened or starts_inside(turn.answer or "", turn.thoughts)
    with contextlib.suppress(OSError), _open(unsent_file(path)) as file:
        conversation.unsent = file.read()
    return conversation


def unsent_file(path: Path) -> Path:
    """Where what was not sent stands, of a session's file."""
    return path.with_name(path.name.removesuffix(ENDING) + UNSENT_ENDING)


def _open(path: Path) -> TextIO:
    """Open a file to read from; what is none, a pipe say, is not waited for."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no file")
    return os.fdopen(handle, encoding="utf-8", errors="replace", newline="\n")


def _lines(file: TextIO) -> Iterator[dict[str, Any]]:
    for text in file:
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            continue  # cut off by a crash, or not ours
        if isinstance(line, dict):
            yield line
