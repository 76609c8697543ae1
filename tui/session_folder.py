"""The folder of sessions: what there is, the latest first, and what was said in it.

Reading two thousand conversations takes seconds. So what was read once is known until its file changes, the list is
made piece by piece, and what only needs names reads no file.
"""

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from racer_local import locations
from racer_local.errors import RacerError
from racer_local.terminal_text import neutral, one_line

from .conversation import ENDING, TITLE_LENGTH, UNSENT_ENDING, Conversation, read

Stamp = tuple[tuple[int, int], ...]
"""Times of change and sizes of a session's files."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of a session for the list.

    Attributes:
        id: Its name.
        created: ISO time.
        name: What it is called.
        last: The last message, on one line.
        text: Everything that was said, to search in.
        folded: The same without upper case.
    """

    id: str
    created: str
    name: str
    last: str
    text: str
    folded: str

    @classmethod
    def of(cls, conversation: Conversation) -> "Entry":
        """Of a conversation that was read."""
        said = (text for turn in conversation.turns for text in (turn.user, turn.answer or ""))
        text = "\n".join([conversation.title, *said, conversation.unsent])
        last = f"not sent: {conversation.unsent}" if conversation.unsent else conversation.turns[-1].user
        name = one_line(conversation.name, TITLE_LENGTH)
        return cls(conversation.id, one_line(conversation.created), name, one_line(last, 400), text, text.casefold())

    def line_with(self, word: str) -> str:
        """The line around the first place where a word without upper case occurs."""
        at = len(self.text[: self.folded.index(word)])
        start = self.text.rfind("\n", 0, at) + 1
        return one_line(self.text[max(start, at - 30) :][: 4 * TITLE_LENGTH], TITLE_LENGTH)


class SessionIndex:
    """The sessions of a folder, to be listed and searched again and again, also from several threads."""

    def __init__(self, folder: Path) -> None:
        """Of a folder, which need not exist."""
        self._folder = folder
        self._known: dict[str, tuple[Stamp, Entry | None]] = {}
        self._lock = threading.Lock()

    def find(self, words: str = "") -> Iterator[tuple[Entry, str] | None]:
        """Sessions in which all words occur, the latest first, each with the line to show of it.

        Args:
            words: Separated by blanks; none for all sessions.

        Yields:
            What is found, and None for each session that is not: a place to show what there is so far, or to give up.
        """
        wanted = words.casefold().split()
        for identity, stamp in _stamps(self._folder):
            entry = self._entry(identity, stamp)
            if entry is None or not all(word in entry.folded for word in wanted):
                yield None
            else:
                yield entry, entry.line_with(wanted[0]) if wanted else entry.last

    def _entry(self, identity: str, stamp: Stamp) -> Entry | None:
        """What is known of a session; None where it has nothing to go on with."""
        with self._lock:
            before, entry = self._known.get(identity, (None, None))
            if before != stamp:
                conversation = _read_or_none(self._folder, identity)
                entry = Entry.of(conversation) if conversation is not None else None
                self._known[identity] = stamp, entry
            return entry


def names(folder: Path) -> list[str]:
    """Names of all sessions, the latest first; no file is read."""
    return [identity for identity, _ in _stamps(folder)]


def latest(folder: Path) -> str | None:
    """Name of the session that was written to last, None where there is none to go on with."""
    return next((identity for identity in names(folder) if _read_or_none(folder, identity) is not None), None)


def list_sessions(folder: Path) -> list[Conversation]:
    """All conversations that have something to go on with, the latest first."""
    found = (_read_or_none(folder, identity) for identity in names(folder))
    return [conversation for conversation in found if conversation is not None]


def lines() -> list[str]:
    """The user's conversations for the command line: name and title, the latest first."""
    return [f"{c.id:44} {neutral(c.name)}" for c in list_sessions(locations.sessions_dir())]


def _read_or_none(folder: Path, identity: str) -> Conversation | None:
    """A conversation that can be gone on with, or None: it went away, is another's, or is empty."""
    try:
        conversation = read(folder / (identity + ENDING))
    except RacerError:
        return None
    return conversation if conversation.is_worth_keeping else None


def _stamps(folder: Path) -> list[tuple[str, Stamp]]:
    """Sessions and when and how large their files were, the latest first."""
    sessions: dict[str, tuple[int, int]] = {}
    unsent: dict[str, tuple[int, int]] = {}
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return []
    for entry in entries:
        stem, ending = os.path.splitext(entry.name)
        of = {ENDING: sessions, UNSENT_ENDING: unsent}.get(ending)
        try:
            if of is not None and entry.is_file():
                about = entry.stat()
                of[stem] = about.st_mtime_ns, about.st_size
        except OSError:
            continue  # it went away
    found = [(name, (stamp, *([unsent[name]] if name in unsent else []))) for name, stamp in sessions.items()]
    return sorted(found, key=lambda item: (max(time for time, _ in item[1]), item[0]), reverse=True)
