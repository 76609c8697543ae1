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
    unsent    text: what stands in the input, to be there again after a crash

Nothing is ever taken out of a file. A last line that was cut off by a crash is ignored.
"""

import contextlib
import json
import os
import re
import threading
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, TextIO

from racer_local.errors import RacerError
from racer_local.terminal_text import one_line
from racer_local.thoughts import THINK, ThoughtFormat, ThoughtSplitter, named, split, starts_inside

VERSION = 1
ENDING = ".jsonl"
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
    """

    id: str = ""
    created: str = ""
    model: str = ""
    title: str = ""
    system: str = ""
    turns: list[Turn] = field(default_factory=list)
    unsent: str = ""

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
        """Title, or the beginning of the first message."""
        return self.title or (one_line(self.turns[0].user, TITLE_LENGTH) if self.turns else "empty")

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


class Session:
    """A conversation that is being held, and its file, which is made with the first thing that is said.

    The interface and the decoding thread may both write.

    Attributes:
        conversation: What the file says.
        folder: Where its file is.
        failed: Why nothing is written any more, None while it is. The conversation goes on without.
    """

    def __init__(self, folder: Path, conversation: Conversation) -> None:
        self.conversation = conversation
        self.failed: str | None = None
        self.folder = folder
        self._lock = threading.Lock()
        self._file: TextIO | None = None

    @classmethod
    def begin(cls, folder: Path, model: str, system: str = "") -> "Session":
        """A new conversation."""
        now = datetime.now(UTC).astimezone()
        session = cls(folder, Conversation(created=now.isoformat(timespec="seconds"), model=model))
        session.conversation.system = system
        return session

    @classmethod
    def resume(cls, folder: Path, identity: str) -> "Session":
        """Go on with an earlier conversation.

        Raises:
            RacerError: There is none of this name, or its file cannot be read.
        """
        path = folder / (identity + ENDING)
        conversation = read(path)
        conversation.id = identity
        return cls(folder, conversation)

    @property
    def path(self) -> Path | None:
        """Its file, None before there is one."""
        return self.folder / (self.conversation.id + ENDING) if self.conversation.id else None

    def say(self, text: str) -> None:
        """A message of the user."""
        self._write({"type": "user", "text": text})

    def answer(self) -> None:
        """An answer begins."""
        self._write({"type": "answer"})

    def part(self, text: str) -> None:
        """A piece of it."""
        if text:
            self._write({"type": "part", "text": text})

    def mark_thoughts(self, known: ThoughtFormat, *, opened: bool) -> None:
        """How thoughts are marked in the answer."""
        if opened or known is not THINK:
            self._write({"type": "thoughts", "format": known.name, "opened": opened})

    def end(self, reason: str, timings: dict[str, Any] | None = None) -> None:
        """It ends."""
        self._write({"type": "end", "reason": reason, **({"timings": timings} if timings else {})})

    def keep(self, turns: int) -> None:
        """Forget all but the first turns."""
        self._write({"type": "keep", "turns": turns})

    def rename(self, title: str) -> None:
        """Give it a title."""
        self._write({"type": "title", "title": one_line(title, TITLE_LENGTH)})

    def set_system(self, text: str) -> None:
        """Change the system prompt."""
        self._write({"type": "system", "text": text})

    def unsent(self, text: str) -> None:
        """Remember what stands in the input, where that has changed."""
        if text != self.conversation.unsent:
            self._write({"type": "unsent", "text": text})

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, line: dict[str, Any]) -> None:
        """Take a line in and append it to the file; where that fails, the conversation goes on in memory."""
        with self._lock:
            self.conversation.take(line)
            if self.failed is not None:
                return
            try:
                file = self._file = self._file or self._open(line)
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
                file.flush()
            except OSError as error:
                self.failed = f"this conversation is no longer saved: {error.strerror or error}"
                self._file = None

    def _open(self, line: dict[str, Any]) -> TextIO:
        """Open the file to append to; a new one begins with its head."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = self.conversation
        if about.id:
            path = self.folder / (about.id + ENDING)
            torn = not _ends_well(path)
            file = _append_to(path)
            if torn:
                file.write("\n")
            return file
        begun = datetime.fromisoformat(about.created)
        stem = f"{begun:%Y%m%d-%H%M%S}-{_slug(str(line.get('text', '')))}".rstrip("-")
        about.id, file = _create(self.folder, stem)
        head = [{"type": "session", "version": VERSION, "id": about.id, "created": about.created, "model": about.model}]
        if about.system and line.get("type") != "system":
            head.append({"type": "system", "text": about.system})
        file.writelines(json.dumps(part, ensure_ascii=False) + "\n" for part in head)
        return file


def _create(folder: Path, stem: str) -> tuple[str, TextIO]:
    """A new file of a name that is free: the stem, or the stem with a number."""
    for number in count(1):
        identity = stem if number == 1 else f"{stem}-{number}"
        try:
            return identity, _append_to(folder / (identity + ENDING), new=True)
        except FileExistsError:
            continue
    raise AssertionError("there is always a number more")


def _append_to(path: Path, *, new: bool = False) -> TextIO:
    """Open a file that only its owner can read."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | (os.O_EXCL if new else 0)
    return os.fdopen(os.open(path, flags, 0o600), "a", encoding="utf-8", errors="replace")


def read(path: Path) -> Conversation:
    """What a session's file says, as far as it can be read.

    Raises:
        RacerError: There is no such file, or it cannot be read.
    """
    conversation = Conversation(id=path.name.removesuffix(ENDING))
    try:
        with path.open("r", encoding="utf-8", errors="replace") as file:
            for line in _lines(file):
                with contextlib.suppress(ValueError, TypeError):  # damaged: the rest still counts
                    conversation.take(line)
    except FileNotFoundError as error:
        raise RacerError(f"there is no session {conversation.id!r}") from error
    except OSError as error:
        raise RacerError(f"cannot read {path}: {error.strerror}") from error
    conversation.id = path.name.removesuffix(ENDING)
    for turn in conversation.turns:
        turn.opened = turn.opened or starts_inside(turn.answer or "", turn.thoughts)
    return conversation


def _slug(text: str) -> str:
    """A text as part of a file name: letters, digits and hyphens of ASCII, at most 40."""
    plain = unicodedata.normalize("NFKD", text[:200]).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:40].strip("-")


def _lines(file: Any) -> Iterator[dict[str, Any]]:
    for text in file:
        try:
            line = json.loads(text)
        except ValueError:
            continue  # cut off by a crash
        if isinstance(line, dict):
            yield line


def _ends_well(path: Path) -> bool:
    """Whether a file is empty or ends with a whole line."""
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
