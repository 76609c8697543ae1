"""Whether a file can be opened without harm: a try in a child process.

Some damaged files make llama.cpp end the process that loads them: a failed assertion, an exception that nobody catches,
a wild pointer, more memory than there is. A file that was not seen before is therefore opened in a child process, which
ends instead of this one. What passed is remembered, so each file costs one child process. What the child does stands in
`load_check_child`.
"""

import contextlib
import hashlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from racer_local import gguf_file, locations
from racer_local.errors import Cancelled, ModelError
from racer_local.llama import library, load_check_child
from racer_local.llama.load_check_child import BEGUN, OPENED
from racer_local.state_file import StateFile
from racer_local.terminal_text import one_line, path_text

VERSION = 1
KEPT = 300
"""Files remembered as passed; the oldest are forgotten."""
LEAST_WAIT_S = 60.0
SLOWEST_BYTES_PER_S = 20e6
"""A file on a slow disk may take this long to read; what takes longer hangs."""
POLL_S = 0.02
GONE_WITHIN_S = 2.0
"""How long a child that was killed is waited for."""

ORDINARY = (0, 1)
"""Exit codes of a child that ended by itself: all done; refused, in the ordinary way."""
SENT_BY_PEOPLE = (-signal.SIGINT, -signal.SIGTERM)
KILLED = -9
"""What the system does to a process when memory runs out."""
CHILD = "import runpy, sys; sys.path[:] = {path!r}; runpy.run_module({module!r}, run_name='__main__')"
"""The child finds modules where this process does, and not in the current directory."""
CHILD_ENVIRONMENT = {
    "GGML_NO_BACKTRACE": "1",  # it would start a debugger
    "CUDA_VISIBLE_DEVICES": "",
    "HIP_VISIBLE_DEVICES": "",
    "GGML_VK_VISIBLE_DEVICES": "",
}


def check(path: Path, on_progress: Callable[[float], bool] | None = None, *, rearranged: bool = False) -> int | None:
    """Open a file in a child process, unless it passed before.

    Args:
        path: A file that passes `check_file`; of a split model the first part.
        on_progress: Called with 0 now and then; returning False gives up.
        rearranged: Open it a second time, weights rearranged for the CPU; then a child runs even for a known file.

    Returns:
        The exit code of a child that could open the file, negative for the signal that ended it: 0 all done, else the
        second opening failed. None where no child was needed or could run, where it was ended from outside, and where
        llama.cpp refused the file in the ordinary way: loading it here will say why.

    Raises:
        ModelError: Loading the file would end this process, or would not end.
        Cancelled: `on_progress` returned False.
    """
    memory = StateFile(locations.cache_dir() / "trials.json", VERSION)
    try:
        size, key = _identify(path)
    except OSError as error:
        raise ModelError(f"cannot read {path_text(path)}: {error.strerror}") from error
    if not rearranged and key in _read(memory):
        return None
    limit_s = LEAST_WAIT_S + size / SLOWEST_BYTES_PER_S
    end = _run(_command(path, rearranged=rearranged), limit_s, on_progress)
    if end is None or BEGUN not in end.said:
        return None
    if OPENED in end.said:
        _remember(memory, key)
        return end.code
    if end.code in ORDINARY or end.code in SENT_BY_PEOPLE:
        return None
    raise ModelError(_explain(path, end, limit_s))


@dataclass(frozen=True, slots=True)
class _End:
    """How a child ended: what it said on stdout, its exit code (None: it was given up), what stood on stderr."""

    said: list[str]
    code: int | None
    errors: str


def _identify(path: Path) -> tuple[int, str]:
    """Size in bytes and key of a model, all its parts together."""
    total, names = 0, [library.version()]
    for part in [part for part in gguf_file.split_parts(path) if part.exists()] or [path]:
        status = part.stat()
        total += status.st_size
        names.append(gguf_file.file_id(part))
        if status.st_size > 2 * gguf_file.HASHED_BYTES:
            names.append(str(status.st_mtime_ns))  # what lies between beginning and end may have changed
    return total, hashlib.sha256("|".join(names).encode()).hexdigest()[:16]


def _read(memory: StateFile) -> list[str]:
    try:
        passed = (memory.read() or {"passed": []}).get("passed")
        if not isinstance(passed, list) or not all(isinstance(key, str) for key in passed):
            raise ValueError("not a list of keys")
    except OSError:
        return []
    except ValueError:
        memory.set_aside()
        return []
    return passed


def _remember(memory: StateFile, key: str) -> None:
    passed = [other for other in _read(memory) if other != key]
    with contextlib.suppress(OSError):  # nowhere to remember it: the next start tries again
        memory.write({"passed": [*passed, key][-KEPT:]})


def _command(path: Path, *, rearranged: bool) -> list[str]:
    return [
        sys.executable,
        "-P",
        "-c",
        CHILD.format(path=sys.path, module=load_check_child.__name__),
        str(path),
        *(["rearranged"] if rearranged else []),
    ]


def _run(command: list[str], limit_s: float, on_progress: Callable[[float], bool] | None) -> _End | None:
    """Run a child to its end; None if it cannot be started."""
    with contextlib.ExitStack() as stack:
        try:
            out, errors = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(2))
            # a session of its own, so that Ctrl+C ends the waiting here, and the child is ended below
            child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=errors,
                env={**os.environ, **CHILD_ENVIRONMENT},
                start_new_session=True,
            )
        except (OSError, ValueError):
            return None
        stack.callback(_end, child)
        code = _wait(child, time.monotonic() + limit_s, on_progress)
        _end(child)
        return _End(_text(out).split(), code, _text(errors))


def _wait(child: subprocess.Popen[bytes], until: float, on_progress: Callable[[float], bool] | None) -> int | None:
    """Exit code of a child; None when the time is up."""
    while time.monotonic() < until:
        if (code := child.poll()) is not None:
            return code
        if on_progress is not None and not on_progress(0.0):
            raise Cancelled("loading was stopped")
        time.sleep(POLL_S)
    return None


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a child. Ctrl+C while it was looked at can leave its lock locked, and `wait` would wait for that for ever."""
    child.kill()
    until = time.monotonic() + GONE_WITHIN_S
    while child.poll() is None and time.monotonic() < until:
        time.sleep(POLL_S)
    if child.stdin is not None:
        child.stdin.close()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(1 << 16).decode("utf-8", "replace")


def _explain(path: Path, end: _End, limit_s: float) -> str:
    """One line: what the file does to llama.cpp."""
    if end.code is None:
        return (
            f"{path_text(path)} was not open after {limit_s:.0f} s and was given up; it is damaged, or the disk is slow"
        )
    if end.code == KILLED:
        return f"{path_text(path)} cannot be loaded: the process was killed, so it needs more memory than there is"
    found = re.search(r"[^/\\\s]+:\d+: .+", end.errors) or re.search(r"what\(\):\s*.+", end.errors)
    reason = found[0] if found else (signal.strsignal(-end.code) if end.code < 0 else "") or f"exit code {end.code}"
    reason = one_line(reason, 200)
    return f"{path_text(path)} is damaged or not for llama-cpp-python {library.version()}, which fails on it ({reason})"
