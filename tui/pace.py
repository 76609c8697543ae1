"""How often to draw: decoding and drawing share the machine, and decoding comes first."""

import time
from collections.abc import Callable

SHARE = 0.05
"""Of one core, for drawing. What a draw costs grows with the transcript: its layout is computed anew."""
MAX_WAIT_S = 2.0


class Pace:
    """Says when the next draw is due: when the last has been paid for, after two seconds in any case."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, cpu: Callable[[], float] = time.thread_time
    ) -> None:
        """Begin; the first draw is due at once.

        Args:
            clock: Time in seconds.
            cpu: Processor time of the drawing thread in seconds.
        """
        self._clock, self._cpu = clock, cpu
        self._drawn_at, self._cpu_then = clock() - MAX_WAIT_S, cpu()

    def due(self) -> bool:
        """Whether to draw now; if so, the next waiting time begins."""
        now, cpu = self._clock(), self._cpu()
        elapsed = now - self._drawn_at
        if elapsed < MAX_WAIT_S and cpu - self._cpu_then > SHARE * elapsed:
            return False
        self._drawn_at, self._cpu_then = now, cpu
        return True
