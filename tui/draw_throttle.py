"""How often to draw: decoding and drawing share the machine, and decoding comes first."""

import time
from collections.abc import Callable

CALM_SHARE, PANELS_SHARE = 0.02, 0.05
"""Of one core, for drawing the plain conversation, and with anything more on the screen: what drawing takes is taken
from decoding, whose threads wait for each other."""
MAX_WAIT_S = 2.0


class DrawThrottle:
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
        self.restart()

    def restart(self) -> None:
        """The next draw is due at once."""
        self._drawn_at, self._cpu_then = self._clock() - MAX_WAIT_S, self._cpu()

    def due(self, share: float) -> bool:
        """Whether to draw now, if drawing may take this share of a core; if so, the next waiting time begins."""
        now, cpu = self._clock(), self._cpu()
        elapsed = now - self._drawn_at
        if elapsed < MAX_WAIT_S and cpu - self._cpu_then > share * elapsed:
            return False
        self._drawn_at, self._cpu_then = now, cpu
        return True
