"""A conversation that is being held, and its file, which is written as things are said.

The file is locked as long as it is held, so that two programs never write into one conversation. What stands in the
input is in a small file beside it, written whole each time.
"""

import contextlib
import json
import os
import re
import threading
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, TextIO

from racer_local import private_files
from racer_local.errors import RacerError, UsageError
from racer_local.terminal_text import one_line
from racer_local.thoughts import THINK, ThoughtFormat

from .conversation import ENDING, TITLE_LENGTH, VERSION, Conversation, read, unsent_file
from .file_lock import try_lock

NEEDS_NO_FILE = ("title", "system", "keep")
"""Lines that make no file: as long as nothing was said there is nothing to keep."""


class Session:
    """A conversation that is being held, and its file, which is made with the first thing that is said or typed.

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
        self._is_torn = False
        """Whether the file's last line was cut off."""
        self._is_draft = False
        """Whether the file was made for what stands in the input alone."""

    @classmethod
    def begin(cls, folder: Path, model: str, system: str = "") -> "Session":
        """A new conversation."""
        session = cls(folder, Conversation(created=_now(), model=model))
        session.conversation.system = system
        return session

    @classmethod
    def resume(cls, folder: Path, identity: str) -> "Session":
        """Go on with an earlier conversation.

        Raises:
            RacerError: There is none of this name, its file cannot be read, or another window holds it.
        """
        path = folder / (identity + ENDING)
        session = cls(folder, Conversation(id=identity))
        session._claim(path)
        try:
            session.conversation = read(path)
        except RacerError:
            session.close()
            raise
        session._is_draft = session.conversation.n_said == 0 and bool(session.conversation.unsent)
        return session

    @property
    def path(self) -> Path | None:
        """Its file, None before there is one."""
        return self.folder / (self.conversation.id + ENDING) if self.conversation.id else None

    def say(self, text: str) -> None:
        """A message of the user."""
        draft = self._leave_draft() if self._is_draft else None
        self._write({"type": "user", "text": text})
        if self.failed is not None:
            return
        if draft is not None:
            _remove(draft)
        elif self.path is not None:
            _remove(unsent_file(self.path))

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
        if text == self.conversation.unsent or self.failed is not None:
            return
        if not text:
            self._forget_unsent()
            return
        with self._writing():
            self.conversation.unsent = text
            if not self.conversation.id:
                self._file, self._is_draft = self._create(text), True
            assert self.path is not None
            private_files.replace(unsent_file(self.path), text)

    def close(self) -> None:
        """Close the file, which frees it for others."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _forget_unsent(self) -> None:
        """Nothing stands in the input; a file that was made for it alone goes with it."""
        if self._is_draft:
            _remove(self._leave_draft())
            self.conversation.unsent = ""
            return
        path = self.path
        if path is not None and not _remove(unsent_file(path)):
            self._write({"type": "unsent", "text": ""})  # it came from a line of an older program
        self.conversation.unsent = ""

    def _leave_draft(self) -> Path:
        """Go back to having no file; returns the one there was."""
        path = self.path
        assert path is not None
        self.close()
        self._is_draft = False
        self.conversation.id, self.conversation.created = "", _now()
        return path

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """One at a time; where writing fails, the conversation goes on in memory."""
        with self._lock:
            try:
                yield
            except OSError as error:
                self.failed = f"this conversation is no longer saved: {error.strerror or error}"
                self._file = None

    def _write(self, line: dict[str, Any]) -> None:
        """Take a line in and append it to the file."""
        with self._writing():
            self.conversation.take(line)
            if self.failed is not None or (not self.conversation.id and line["type"] in NEEDS_NO_FILE):
                return
            file = self._file = self._file or self._open(line)
            if self._is_torn:
                file.write("\n")
                self._is_torn = False
            _put(file, line)
            file.flush()

    def _open(self, line: dict[str, Any]) -> TextIO:
        """Open the file to append to, a new one if there is none."""
        if self.conversation.id:
            return private_files.append(self.folder / (self.conversation.id + ENDING))
        return self._create(str(line.get("text", "")))

    def _claim(self, path: Path) -> None:
        """Open a file that is there and lock it."""
        if not _is_file(path):
            raise RacerError(f"there is no session {self.conversation.id!r}")
        try:
            self._file = private_files.append(path)
            self._is_torn = not _ends_well(path)
        except OSError:
            return  # it can perhaps be read; the first thing said finds out that nothing is kept
        if not try_lock(self._file):
            self.close()
            raise UsageError(HELD.format(self.conversation.id))

    def _create(self, text: str) -> TextIO:
        """A new file that begins with its head, named after the time and what is said first."""
        private_files.make_folder(self.folder)
        about = self.conversation
        stem = f"{datetime.fromisoformat(about.created):%Y%m%d-%H%M%S}-{_slug(text)}".rstrip("-")
        about.id, file = _create(self.folder, stem)
        try_lock(file)
        _put(
            file,
            {"type": "session", "version": VERSION, "id": about.id, "created": about.created, "model": about.model},
        )
        if about.system:
            _put(file, {"type": "system", "text": about.system})
        if about.title:
            _put(file, {"type": "title", "title": about.title})
        file.flush()
        return file


HELD = "the conversation {} is open in another window; close it there first"


def _now() -> str:
    return datetime.now(UTC).astimezone().isoformat(timespec="seconds")


def _put(file: TextIO, line: dict[str, Any]) -> None:
    file.write(json.dumps(line, ensure_ascii=False) + "\n")


def _create(folder: Path, stem: str) -> tuple[str, TextIO]:
    """A new file of a name that is free: the stem, or the stem with a number."""
    for number in count(1):
        identity = stem if number == 1 else f"{stem}-{number}"
        try:
            return identity, private_files.append(folder / (identity + ENDING), new=True)
        except FileExistsError:
            continue
    raise AssertionError("there is always a number more")


def _remove(path: Path) -> bool:
    """Remove a file, and what was not sent beside it; whether it was there."""
    with contextlib.suppress(OSError):
        if path.suffix == ENDING:
            unsent_file(path).unlink(missing_ok=True)
        path.unlink()
        return True
    return False


def delete(folder: Path, identity: str) -> None:
    """Remove a session's file.

    Raises:
        RacerError: There is none of this name, it cannot be removed, or another window holds it.
    """
    path = folder / (identity + ENDING)
    if not _is_file(path):
        raise RacerError(f"there is no session {identity!r}")
    try:
        with path.open("rb") as file:
            if not try_lock(file):
                raise UsageError(HELD.format(identity))
        unsent_file(path).unlink(missing_ok=True)
        path.unlink()
    except OSError as error:
        raise RacerError(f"cannot delete {identity}: {error.strerror}") from error


def _is_file(path: Path) -> bool:
    """Whether there is such a file; a name that can be none, too long or with a null character, is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _slug(text: str) -> str:
    """A text as part of a file name: letters, digits and hyphens of ASCII, at most 40."""
    plain = unicodedata.normalize("NFKD", text[:200]).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")[:40].strip("-")


def _ends_well(path: Path) -> bool:
    """Whether a file is empty or ends with a whole line."""
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
