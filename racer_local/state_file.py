"""Small JSON files of state that the program keeps between starts: versioned, checked, written whole or not at all."""

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any


class StateFile:
    """One file. A damaged one is set aside, so that nothing is lost and the next start is clean.

    Attributes:
        path: Where it is, whether it exists or not.
    """

    def __init__(self, path: Path, version: int) -> None:
        """Name a file whose contents have this version; another version reads as if there were none."""
        self.path = path
        self._version = version

    def read(self) -> dict[str, Any] | None:
        """What the file holds; None where there is none, or one of another version.

        Raises:
            ValueError: It is damaged.
            OSError: It cannot be read.
        """
        try:
            data = json.loads(self.path.read_text("utf-8"))
        except FileNotFoundError:
            return None
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        if not isinstance(data, dict):
            raise ValueError("not an object")
        if data.pop("version", None) != self._version:
            return None
        return data

    def write(self, data: dict[str, Any]) -> None:
        """Write the file in one go: a reader, or a second writer, sees the old or the new contents.

        Raises:
            OSError: It cannot be written; what was there before still is.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(prefix=self.path.name, suffix=".tmp", dir=self.path.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump({"version": self._version, **data}, file, ensure_ascii=False)
            Path(draft).replace(self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(draft).unlink()
            raise

    def set_aside(self) -> Path:
        """Rename the file, so that the next read finds none; returns its new name."""
        aside = self.path.with_name(self.path.name + ".damaged")
        with contextlib.suppress(OSError):
            self.path.replace(aside)
        return aside
