"""A pointer into llama.cpp that any thread may close at any time: it is freed when nobody is at work with it."""

import threading
from collections.abc import Callable
from typing import Any, Self

from racer_local.errors import UsageError

CLOSED = "this Racer is closed"


class Handle:
    """Owner of a pointer. Use it as a context manager around calls that need the pointer.

    Closing never waits: from then on nobody gets the pointer, and who holds it last frees it. So a decode in another
    thread, or a callback that closes what called it, never works on freed memory.
    """

    def __init__(self, pointer: Any, free: Callable[[Any], object], *, within: Self | None = None) -> None:
        """Take over a pointer.

        Args:
            pointer: What llama.cpp gave.
            free: Frees it.
            within: What it points into, which is kept until this is freed.
        """
        if within is not None:
            within.__enter__()
        self._pointer = pointer
        self._free = free
        self._within = within
        self._users = 0
        self._lock = threading.Lock()
        self.is_closed = False

    def __enter__(self) -> Any:
        """The pointer, which stays good until `__exit__`.

        Raises:
            UsageError: It is closed.
        """
        with self._lock:
            if self.is_closed:
                raise UsageError(CLOSED)
            self._users += 1
            return self._pointer

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
        if self.is_closed:
            self._free_if_idle()

    def close(self) -> None:
        """Give the pointer to nobody any more, and free it, now or when the last one is done with it."""
        self.is_closed = True
        self._free_if_idle()

    def _free_if_idle(self) -> None:
        with self._lock:
            if self._users or self._pointer is None:
                return
            pointer, self._pointer = self._pointer, None
        self._free(pointer)
        if self._within is not None:
            self._within.__exit__()
