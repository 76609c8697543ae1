"""Long calls of llama.cpp that call back into Python, made in a thread of their own.

An exception in a callback from C is lost, and so is Ctrl+C, which Python raises in whatever the main thread runs. In
another thread callbacks only take notes, and the caller waits where both are raised.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")

POLL_S = 0.02


def wait_for(
    work: Callable[[], T],
    undo: Callable[[T], None],
    *,
    look: Callable[[], None] = lambda: None,
    stop: Callable[[], None] = lambda: None,
) -> T:
    """Carry out `work` in another thread.

    Args:
        work: What to do.
        undo: Frees what `work` made, where it is not wanted any more.
        look: Called here now and then, and when the work is done; may raise.
        stop: Tells `work` to end soon.

    Raises:
        BaseException: What `work` or `look` raised, or Ctrl+C; then nothing that `work` made is left.
    """
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        try:
            done = False
            while not done:
                done = bool(wait([future], POLL_S).done)
                look()
        except BaseException:
            stop()
            if future.exception() is None:
                undo(future.result())
            raise
        return future.result()
