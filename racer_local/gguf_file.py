"""What can be said of a GGUF file without llama.cpp: whether it is one, its parts, and what identifies it."""

import hashlib
import re
import stat
import struct
from functools import lru_cache
from pathlib import Path

from racer_local.errors import ModelError
from racer_local.terminal_text import ONE_LINE_LIMIT, one_line, path_text

GGUF_MAGIC = b"GGUF"
GGUF_HEADER_BYTES = 24
SPLIT_NAME = re.compile(r"(.+)-([0-9]{5})-of-([0-9]{5})\.gguf", re.DOTALL)
"""Name of a part of a split model: prefix, number from 1, count; llama.cpp's `llama_split_path`."""
SPLIT_COUNT_KEY = struct.pack("<Q", 11) + b"split.count" + struct.pack("<I", 2)
"""How a file says that it is a part; the count follows as 16 bits."""
SPLIT_COUNT_WITHIN = 64 << 20
HASHED_BYTES = 1 << 20
"""Beginning and end of a model file that identify it, together with its size."""


def check_file(path: Path) -> Path:
    """Check what can be said of a file without the library.

    Returns:
        What to load: the file, or the first part of a split model.

    Raises:
        ModelError: It, or a part that belongs to it, is missing, unreadable or no GGUF file.
    """
    _check_one(path)
    parts = split_parts(path)
    missing = [part.name for part in parts if not part.exists()]
    if missing:
        if not _says_it_is_split(path):
            return path  # only its name looks like a part's
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        first = one_line(missing[0], ONE_LINE_LIMIT)
        raise ModelError(f"{path_text(path)} is one of {len(parts)} parts; put {first}{more} beside it")
    for part in parts:
        if part != path:
            _check_one(part)
    return parts[0]


def split_parts(path: Path) -> list[Path]:
    """All parts of the split model that a file belongs to by its name, in order; else the file alone."""
    match = SPLIT_NAME.fullmatch(path.name)
    prefix, number, count = (match[1], int(match[2]), int(match[3])) if match else ("", 1, 1)
    if count == 1 or not 1 <= number <= count:
        return [path]
    return [path.with_name(f"{prefix}-{i:05d}-of-{count:05d}.gguf") for i in range(1, count + 1)]


def file_id(path: Path) -> str:
    """Identifies a model file by its beginning, its end and its size; 16 hexadecimal digits."""
    status = path.stat()
    return _digest(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=64)
def _digest(path: Path, size: int, _changed: int) -> str:
    """As `file_id`, which a start asks for several times; a file that has changed since is read anew."""
    with path.open("rb") as file:
        start = file.read(HASHED_BYTES)
        file.seek(max(0, size - HASHED_BYTES))
        end = file.read()
    return hashlib.sha256(start + end + str(size).encode()).hexdigest()[:16]


def _check_one(path: Path) -> None:
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise ModelError(f"no such file: {path_text(path)}") from None
    except OSError as error:
        raise ModelError(f"cannot read {path_text(path)}: {error.strerror}") from error
    if stat.S_ISDIR(status.st_mode):
        raise ModelError(f"{path_text(path)} is a directory: {_what_to_name_in(path)}")
    if not stat.S_ISREG(status.st_mode):
        raise ModelError(f"{path_text(path)} is a pipe or a device; name a GGUF file")
    try:
        with path.open("rb") as file:
            magic = file.read(len(GGUF_MAGIC))
    except OSError as error:
        raise ModelError(f"cannot read {path_text(path)}: {error.strerror}") from error
    if not magic:
        raise ModelError(f"{path_text(path)} is empty; download it again")
    if magic != GGUF_MAGIC:
        looks = "a web page" if magic.lstrip()[:1] == b"<" else "something else"
        raise ModelError(f"{path_text(path)} is not a GGUF file but {looks}; download the model's .gguf file")
    if status.st_size < GGUF_HEADER_BYTES:
        raise ModelError(
            f"{path_text(path)} is truncated or damaged; download it again (it has {status.st_size} bytes)"
        )


def _what_to_name_in(directory: Path) -> str:
    try:
        found = sorted(p.name for p in directory.glob("*.gguf"))
    except OSError:
        found = []
    return (
        one_line(f"it holds {', '.join(found[:3])}; name one of them", ONE_LINE_LIMIT) if found else "name a GGUF file"
    )


def _says_it_is_split(path: Path) -> bool:
    with path.open("rb") as file:
        start = file.read(SPLIT_COUNT_WITHIN)
    at = start.find(SPLIT_COUNT_KEY)
    value = start[at + len(SPLIT_COUNT_KEY) :][:2]
    return at >= 0 and int.from_bytes(value, "little") > 1
