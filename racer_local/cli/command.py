"""What the command lines share: one line for a wrong option, one line and an exit code for a known failure."""

import argparse
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

from racer_local.errors import ExitCode, RacerError
from racer_local.terminal_text import neutral


def say(text: str, *, on_stderr: bool = False) -> None:
    """Print a line; in a terminal nothing of it steers, elsewhere it is exact, so that programs can use it."""
    stream = sys.stderr if on_stderr else sys.stdout
    print(neutral(text) if stream.isatty() else text, file=stream)


class Parser(argparse.ArgumentParser):
    """An argument parser that answers a mistake with one line.

    Attributes:
        options: What `add_argument` has returned, by long name, of options that may be looked up.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.options: dict[str, argparse.Action] = {}

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and leave."""
        say(f"{self.prog}: {message} (see {self.prog} --help)", on_stderr=True)
        raise SystemExit(ExitCode.USAGE)


def report_errors(program: str, work: Callable[[], int], *, verbose: bool) -> int:
    """Run a program's work and return its exit code; a known failure is one line on stderr.

    Args:
        program: Name to put before the line.
        work: Returns the exit code.
        verbose: Show the trace as well.
    """
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    try:
        return work()
    except RacerError as error:
        if verbose:
            say(traceback.format_exc(), on_stderr=True)
        say(f"{program}: {error}", on_stderr=True)
        return error.exit_code
    except BrokenPipeError:
        _give_up_stdout()
        return ExitCode.FAILED
    except OSError as error:
        if verbose:
            say(traceback.format_exc(), on_stderr=True)
        _give_up_stdout()
        print(f"{program}: {error.strerror or error}", file=sys.stderr)
        return ExitCode.FAILED
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED


def _give_up_stdout() -> None:
    """Nothing more can be said on stdout, not even by the interpreter's last flush."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
