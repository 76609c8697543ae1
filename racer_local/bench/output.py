"""What the benchmark commands share: progress, interruption, the JSON file."""

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from racer_local.errors import RacerError

HASHED_BYTES = 1 << 20
"""Beginning of the model file that identifies it, together with its size."""


def model_hash(path: Path) -> str:
    """Identifies a model file by its beginning and its size."""
    with path.open("rb") as file:
        start = file.read(HASHED_BYTES)
    return hashlib.sha256(start + str(path.stat().st_size).encode()).hexdigest()[:16]


def write_json(file: Path | None, data: dict[str, Any]) -> None:
    """Write a report, if a file is named."""
    if file is not None:
        try:
            file.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", "utf-8")
        except OSError as error:
            raise RacerError(f"cannot write {file}: {error.strerror}") from error


def interruptible(work: Callable[[], None]) -> bool:
    """Do the work; returns False if Ctrl+C ended it early, and leaves what it has gathered to be reported."""
    try:
        work()
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return False
    return True


class Progress:
    """Progress on stderr, where that is a terminal."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __call__(self, done: int, todo: int) -> None:
        self.say(f"{done}/{todo}")
        if done == todo:
            self.end()

    def say(self, text: str) -> None:
        """Show a text in place of the last one."""
        if sys.stderr.isatty():
            print(f"\r\x1b[K{self._what} {text}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Clear the line."""
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
