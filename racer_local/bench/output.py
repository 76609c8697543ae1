"""What the benchmark commands share: progress, interruption, the JSON file."""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Sized
from pathlib import Path
from typing import Any, NamedTuple

from racer_local.errors import ExitCode, RacerError, UsageError
from racer_local.terminal_text import neutral


def write_json(file: Path | None, data: dict[str, Any]) -> None:
    """Write a report, if a file is named."""
    if file is not None:
        try:
            file.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", "utf-8")
        except OSError as error:
            raise RacerError(f"cannot write {file}: {error.strerror}") from error


class Outcome(NamedTuple):
    """How a measurement ended.

    Attributes:
        complete: Whether all of it was made.
        error: What went wrong, if anything did.
    """

    complete: bool
    error: RacerError | None

    def exit_code(self) -> int:
        """The exit code, after everything measured so far was reported; raises what went wrong."""
        if self.error is not None:
            raise self.error
        return ExitCode.DONE if self.complete else ExitCode.INTERRUPTED


def interruptible(work: Callable[[], None], gathered: Sized) -> Outcome:
    """Do the work; Ctrl+C or a known failure ends it early and leaves what it has gathered to be reported.

    Args:
        work: What to do.
        gathered: What it fills; a failure before there is anything in it is raised at once.
    """
    before = signal.signal(signal.SIGINT, _note_interrupt)
    try:
        work()
    except KeyboardInterrupt:
        print(file=sys.stderr)
        return Outcome(False, None)
    except RacerError as error:
        if not gathered:
            raise
        return Outcome(False, error)
    finally:
        signal.signal(signal.SIGINT, before)
        _interrupted.clear()
    return Outcome(True, None)


_interrupted = threading.Event()


def _note_interrupt(*_: object) -> None:
    """Ctrl+C. What is raised inside a function that llama.cpp calls back is lost, so it is noted as well."""
    _interrupted.set()
    raise KeyboardInterrupt


def check_writable(file: Path | None) -> None:
    """Raise UsageError if a report could not be written there: better before measuring than after."""
    if file is not None and (file.is_dir() or not os.access(file.parent, os.W_OK)):
        raise UsageError(f"cannot write {file}: its folder must exist and be writable")


class Progress:
    """Progress on stderr, where that is a terminal."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __call__(self, done: int, todo: int) -> None:
        self.say(f"{done}/{todo}")
        if done == todo:
            self.end()

    def say(self, text: str) -> None:
        """Show a text in place of the last one. An interrupt that was lost is raised here."""
        if _interrupted.is_set():
            raise KeyboardInterrupt
        if sys.stderr.isatty():
            print(f"\r\x1b[K{neutral(self._what)} {text}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Clear the line."""
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def whole_numbers(text: str | None, option: str) -> tuple[int, ...]:
    """Numbers of a list with commas, ascending and each once; none for None."""
    if text is None:
        return ()
    try:
        numbers = tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError as error:
        raise UsageError(f"{option} takes whole numbers with commas, not {text!r}") from error
    if numbers[0] < 1:
        raise UsageError(f"{option} must be 1 or more")
    return numbers
