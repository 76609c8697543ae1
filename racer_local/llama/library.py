"""The llama.cpp library: loaded once, kept silent, its log kept at hand for error messages.

llama.cpp has one log for all; what it says to one thread is kept apart from what it says to others.
"""

import ctypes
import re
import sys
import threading
from collections import deque
from functools import cache

import llama_cpp

from racer_local.terminal_text import neutral

LOG_LINES = 200
LOG_DEBUG = 1
LOG_ERROR = 4
LOG_CONTINUED = 5

_BUFFER = re.compile(r"(?P<kind>KV|RS|compute|output) +buffer size = +(?P<mib>[\d.]+) MiB")

_echo = False


class _Log(threading.local):
    """What the library has said to this thread.

    Attributes:
        lines: Level and text of the last lines.
        in_debug: Whether the line that may be continued is one for llama.cpp's own developers, which is not kept.
    """

    def __init__(self) -> None:
        self.lines: deque[tuple[int, str]] = deque(maxlen=LOG_LINES)
        self.in_debug = False


_log = _Log()


@llama_cpp.llama_log_callback
def _on_log(level: int, text: bytes, _user_data: ctypes.c_void_p) -> None:
    line, lines = text.decode("utf-8", "replace"), _log.lines
    _log.in_debug = level == LOG_DEBUG or (level == LOG_CONTINUED and _log.in_debug)
    if not _log.in_debug:
        if level == LOG_CONTINUED and lines:
            last_level, last = lines.pop()
            level, line = last_level, last + line
        lines.append((level, line))
    if _echo:
        said = text.decode("utf-8", "replace")
        sys.stderr.write(neutral(said) if sys.stderr.isatty() else said)


def load(*, echo_log: bool | None = None) -> None:
    """Start the library and take over its log, which would otherwise go to stderr.

    Args:
        echo_log: Whether to write the log to stderr as well (for `-v`); None leaves that as it is.
    """
    global _echo
    _echo = _echo if echo_log is None else echo_log
    _start()


@cache
def _start() -> None:
    llama_cpp.llama_log_set(_on_log, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()


def clear_log() -> None:
    """Forget what the library has said to this thread so far."""
    _log.lines.clear()


def logged_errors() -> list[str]:
    """Error lines that the library has written to this thread since `clear_log`, stripped."""
    return [line.strip() for level, line in _log.lines if level == LOG_ERROR and line.strip()]


def logged_sizes() -> dict[str, float]:
    """Buffers of the context made last, in MiB by kind, as the library has said since `clear_log`."""
    sizes: dict[str, float] = {}
    for _, line in _log.lines:
        found = _BUFFER.search(line)
        if found:
            name = f"{found['kind'].lower()} buffer"
            sizes[name] = sizes.get(name, 0.0) + float(found["mib"])
    return sizes


def version() -> str:
    """Version of llama-cpp-python, which fixes that of llama.cpp."""
    return llama_cpp.__version__


def supports_gpu() -> bool:
    """Whether this build of the library can offload layers."""
    return bool(llama_cpp.llama_supports_gpu_offload())


def system_info() -> str:
    """CPU features and backends that the library was built with, as it prints them."""
    return llama_cpp.llama_print_system_info().decode("utf-8", "replace").strip()
