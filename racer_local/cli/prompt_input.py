"""Where the prompt of one answer comes from: -p, stdin, or both."""

import argparse
import os
import stat
import sys
import threading
from typing import Any

from racer_local.cli.parser import given
from racer_local.errors import UsageError
from racer_local.text_file import decode

WAIT_S = 1.0
"""Waiting longer for input is told."""
WAITING = "waiting for the end of stdin, which goes below the prompt (--no-stdin leaves it alone)"
PIECE_BYTES = 1 << 16


def find_prompt(args: argparse.Namespace) -> str | None:
    """The prompt to answer; None when the terminal chat is wanted.

    Raises:
        UsageError: There is neither a prompt nor a terminal to ask for one.
    """
    named = given(args, "prompt")
    reads = named == "-" or (_is_piped(sys.stdin) and not given(args, "no_stdin"))
    piped = decode(_read_all(sys.stdin), "stdin", errors="replace") if reads else ""
    if named not in (None, "-"):
        return f"{named}\n\n{piped}" if piped.strip() else named
    if named == "-" or piped:
        return piped
    if any(given(args, name) for name in ("json", "jsonl", "raw", "show_thoughts")):
        raise UsageError("there is no prompt; give one with -p TEXT or on stdin")
    if not all(stream and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise UsageError("there is no prompt and no terminal to chat in; give a prompt with -p TEXT or on stdin")
    return None


def _is_piped(stream: Any) -> bool:
    """Whether somebody sends text on stdin: a pipe, a file or a socket, not a terminal or a device."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _read_all(stream: Any) -> bytes:
    """Everything up to the end; a pause that may be somebody's forgotten open pipe is told once, on stderr."""
    pieces: list[bytes] = []
    told = threading.Event()

    def tell() -> None:
        if not told.is_set():
            told.set()
            print(f"racer-chat: {WAITING}", file=sys.stderr, flush=True)

    while True:
        timer = threading.Timer(WAIT_S, tell)
        timer.daemon = True
        timer.start()
        try:
            piece = stream.buffer.read1(PIECE_BYTES)
        finally:
            timer.cancel()
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
