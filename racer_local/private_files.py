"""Files that hold what people have written: their owner alone can read them, whatever rights an older one had."""

import contextlib
import os
from pathlib import Path
from typing import TextIO

FILE_MODE = 0o600
FOLDER_MODE = 0o700


def make_folder(path: Path) -> None:
    """Make a folder of ours, or close one that was open to others.

    Raises:
        OSError: It cannot be made.
    """
    path.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
    if path.stat().st_mode & 0o777 != FOLDER_MODE:
        with contextlib.suppress(OSError):  # another's: what is in it still has rights of its own
            path.chmod(FOLDER_MODE)


def create(path: Path) -> TextIO:
    """Open a new file to write to.

    Raises:
        FileExistsError: There is something of this name already; it stays as it is.
        OSError: It cannot be made.
    """
    return _open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)


def append(path: Path, *, new: bool = False) -> TextIO:
    """Open a file to append to: one that must be new, or one that must be there.

    Raises:
        OSError: It cannot be opened.
    """
    return _open(path, os.O_WRONLY | os.O_APPEND | (os.O_CREAT | os.O_EXCL if new else 0))


def replace(path: Path, text: str) -> None:
    """Write a file in one go: whoever reads it, also after a crash, finds the old or the new text.

    Raises:
        OSError: It cannot be written; what was there before still is.
    """
    draft = path.with_name(path.name + ".new")
    try:
        with _open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as file:
            file.write(text)
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise


def _open(path: Path, flags: int) -> TextIO:
    handle = os.open(path, flags, FILE_MODE)
    if os.fstat(handle).st_mode & 0o777 != FILE_MODE and hasattr(os, "fchmod"):
        with contextlib.suppress(OSError):  # a file system without rights
            os.fchmod(handle, FILE_MODE)
    return os.fdopen(handle, "a" if flags & os.O_APPEND else "w", encoding="utf-8", errors="replace", newline="\n")
