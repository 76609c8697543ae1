"""SIGTERM and SIGHUP: a program that is told to end, or whose terminal goes, ends in order and with the usual code."""

import os
import signal
import stat
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

NAMES = ("SIGTERM", "SIGHUP")
PATIENCE_S = 15.0
"""Ending that takes longer is cut short: what was said is in its file by then."""


class EndSignals:
    """A context manager that notes the signals, so that whoever runs can look and end.

    Attributes:
        number: The first signal that came, None while there was none.
    """

    def __init__(self, on_end: Callable[[], None] | None = None) -> None:
        """Begin to listen when entered.

        Args:
            on_end: Called when the first one comes, between any two steps of the main thread.
        """
        self.number: int | None = None
        self._on_end = on_end
        self._before: dict[int, Any] = {}

    @property
    def exit_code(self) -> int | None:
        """What to end with, as shells count it: 143 or 129; None while there was no signal."""
        return None if self.number is None else 128 + self.number

    def __enter__(self) -> "EndSignals":
        for number in (getattr(signal, name) for name in NAMES if hasattr(signal, name)):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.number is not None:
            return
        self.number = number
        if number != signal.SIGTERM:
            _let_go_of_terminal()
        watch = threading.Timer(PATIENCE_S, os._exit, (128 + number,))
        watch.daemon = True
        watch.start()
        if self._on_end is not None:
            self._on_end()


def _let_go_of_terminal() -> None:
    """Nothing reads from or writes to a terminal that is gone: each try would fail or wait for ever."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for handle in range(3):
        if stat.S_ISCHR(os.fstat(handle).st_mode):
            os.dup2(nothing, handle)
    os.close(nothing)
