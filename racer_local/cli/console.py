"""What a command does in the terminal while it waits: progress for people, Ctrl+C and signals to end."""

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING, Any

from racer_local.end_signals import EndSignals
from racer_local.errors import ExitCode

if TYPE_CHECKING:
    from racer_local.api import Racer

PROGRESS_AFTER_S = 0.7
"""Loading that takes longer shows its progress."""


class Interrupt:
    """Ctrl+C: the first one ends the answer and keeps its text, the second one leaves. SIGTERM and SIGHUP end it too.

    Attributes:
        asked: Whether the answer shall end.
        racer: Who answers, None before the model is loaded.
    """

    def __init__(self) -> None:
        self.asked = False
        self.racer: Racer | None = None
        self._before: Any = None
        self._ended_by = EndSignals(self._on_end)

    def __enter__(self) -> "Interrupt":
        self._before = signal.signal(signal.SIGINT, self._on_signal)
        self._ended_by.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended_by.__exit__()
        signal.signal(signal.SIGINT, self._before)

    @property
    def exit_code(self) -> int:
        """What an answer that was ended by it ends the program with."""
        return self._ended_by.exit_code or ExitCode.INTERRUPTED

    def _on_end(self) -> None:
        if self.racer is None:
            os._exit(self.exit_code)  # nothing was said or learned yet
        self.asked = True
        self.racer.cancel()

    def _on_signal(self, *_: object) -> None:
        if self.asked:
            os._exit(ExitCode.INTERRUPTED)
        self.asked = True
        if self.racer is not None:
            self.racer.cancel()


class Progress:
    """Progress of loading on stderr, for people, when it takes longer. A context manager around the loading."""

    def __init__(self, interrupt: Interrupt) -> None:
        self._interrupt = interrupt
        self._timer = threading.Timer(PROGRESS_AFTER_S, self._begin)
        self._timer.daemon = True
        self._lock = threading.Lock()
        self._says = "loading"
        self._shown = False

    def __enter__(self) -> "Progress":
        if sys.stderr.isatty():
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            if self._shown:
                print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = False

    def __call__(self, progress: float) -> bool:
        self._says = f"loading {progress:.0%}" if progress < 1 else "preparing (the first start takes some seconds)"
        if self._shown:
            self._draw()
        return not self._interrupt.asked

    def _begin(self) -> None:
        with self._lock:
            self._shown = True
        self._draw()

    def _draw(self) -> None:
        with self._lock:
            if self._shown:
                print(f"\r\x1b[K{self._says} ", end="", file=sys.stderr, flush=True)
