"""Files that people name in the chat: how a path is typed, what is read, and what is written."""

import contextlib
import errno
import os
import re
import shlex
import stat
from pathlib import Path

from racer_local import private_files
from racer_local.errors import UsageError
from racer_local.terminal_text import path_text, readable
from racer_local.text_file import decode

READ_BYTES = 1 << 20
"""Largest file that is read."""


def path_of(typed: str) -> Path:
    """The path that a text means: as it stands if there is such a file, else as a shell would read it.

    Terminals put quotes or backslashes into the names of files that are dragged onto them.

    Raises:
        UsageError: It can be no path.
    """
    if "\0" in typed:
        raise UsageError("a path has no null characters")
    try:
        path = Path(typed).expanduser()
        if not path.exists() and (unquoted := _unquoted(typed)) is not None:
            path = Path(unquoted).expanduser()
    except (OSError, RuntimeError) as error:  # a name too long to be one; a user without a home
        raise UsageError(f"{path_text(Path(typed))} is no path: {getattr(error, 'strerror', None) or error}") from error
    return path


def _unquoted(typed: str) -> str | None:
    """What a shell would make of a text, None if that is not one word."""
    words = shlex.shlex(typed, posix=True)
    words.whitespace_split, words.commenters = True, ""
    if os.name == "nt":
        words.escape = ""
    with contextlib.suppress(ValueError):  # a quote without its other half
        found = list(words)
        if len(found) == 1:
            return found[0]
    return None


def read_file(path: Path) -> str:
    """Text of a file, fit to be shown. A pipe or a device is not waited for.

    Raises:
        UsageError: It is no file of text in UTF-8, too large, or cannot be read.
    """
    named = path_text(path)
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise OSError(errno.EINVAL, "it is no file")
        with os.fdopen(handle, "rb") as file:
            data = file.read(READ_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {named}: {error.strerror}") from error
    if len(data) > READ_BYTES:
        raise UsageError(f"{named} is larger than {READ_BYTES >> 20} MiB")
    return readable(decode(data, named))


def fenced(name: str, text: str) -> str:
    """A file's text as a code block that nothing in it ends."""
    longest = max((len(run) for run in re.findall("~+", text)), default=0)
    fence = "```" if "```" not in text else "~" * max(4, longest + 1)
    return f"{fence} {path_text(Path(name))}\n{text.rstrip()}\n{fence}\n"


def write_new(path: Path, text: str) -> None:
    """Write a text to a new file that its owner alone can read.

    Raises:
        UsageError: There is something of this name, which stays as it is, or the file cannot be written.
    """
    named = path_text(path)
    try:
        file = private_files.create(path)
    except FileExistsError as error:
        raise UsageError(f"there already, name another file: {named}") from error
    except OSError as error:
        raise UsageError(f"cannot write {named}: {error.strerror}") from error
    try:
        with file:
            file.write(text)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise UsageError(f"cannot write {named}: {error.strerror}") from error
