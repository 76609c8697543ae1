"""SIGTERM, SIGHUP and a terminal that goes: in a pseudo-terminal, at any moment, nothing said or typed is lost."""

import contextlib
import os
import re
import signal
import sys
import time
from pathlib import Path

import pexpect
import pytest
from racer_local.tui.conversation import Conversation  # pyright: ignore[reportMissingImports]
from racer_local.tui.session_folder import list_sessions  # pyright: ignore[reportMissingImports]

ROOT = Path(__file__).resolve().parents[2]
CHAT = """
import sys, time
from pathlib import Path
from racer_local.tui import app
from racer_local.tui.session import Session
from tests.tui.scripted import Gate, ScriptedRacer

folder = Path(sys.argv[1])

class Racer(ScriptedRacer):
    def close(self):
        (folder / "closed").touch()

def load(on_progress):
    while sys.argv[2] == "loading" and on_progress(0.5):
        time.sleep(0.02)
    return Racer(["half an answer", Gate(), "never"])

sys.exit(app.run(load, session=Session.begin(folder, "m"), options={}, title="scripted"))
"""
F4, CTRL_R = "\x1bOS", "\x12"


class Terminal:
    """The chat over a script in a pseudo-terminal; all that it writes is kept."""

    def __init__(self, folder: Path, moment: str) -> None:
        environment = {**os.environ, "TERM": "xterm-256color", "XDG_CACHE_HOME": str(folder)}
        arguments = ["-c", CHAT, str(folder), moment]
        self.child = pexpect.spawn(
            sys.executable,
            arguments,
            cwd=str(ROOT),
            env=environment,  # pyright: ignore[reportArgumentType]
            dimensions=(24, 80),
            encoding="utf-8",
        )
        self.written = ""

    def wait_for(self, pattern: str) -> None:
        """Read until something was written."""
        end = time.monotonic() + 40
        while not re.search(pattern, self.written):
            assert time.monotonic() < end, f"no {pattern!r} in {self.written[-2000:]!r}"
            self.read()

    def read(self) -> None:
        """Take what there is."""
        with contextlib.suppress(pexpect.TIMEOUT, pexpect.EOF):
            self.written += self.child.read_nonblocking(65536, timeout=0.1)

    def ended(self) -> int | None:
        """The exit code, once the program is over."""
        end = time.monotonic() + 40
        while self.child.isalive() and time.monotonic() < end:
            self.read()
        self.read()
        self.child.close()
        return self.child.exitstatus


def begin(folder: Path, moment: str) -> Terminal:
    """The chat at one of the moments."""
    chat = Terminal(folder, moment)
    chat.wait_for("scripted" if moment == "loading" else "racer tree")
    if moment == "answering":
        chat.child.send("go\r")
        chat.wait_for("half an")
    if moment == "panel":
        chat.child.send(F4)
        chat.child.send(CTRL_R)
        chat.wait_for("words to search")
    if moment == "typing":
        chat.child.send("not sent yet")
        chat.wait_for("yet")
    return chat


def kept(folder: Path) -> Conversation:
    """The only conversation."""
    (conversation,) = list_sessions(folder)
    return conversation


@pytest.mark.parametrize("moment", ["loading", "idle", "typing", "answering", "panel"])
def test_told_to_end_the_terminal_is_as_before_and_nothing_is_lost(tmp_path: Path, moment: str) -> None:
    chat = begin(tmp_path, moment)
    chat.child.kill(signal.SIGTERM)
    assert chat.ended() == 143
    for mode in ("1000", "1003", "1006", "1049", "2004"):
        assert chat.written.rfind(f"\x1b[?{mode}l") > chat.written.rfind(f"\x1b[?{mode}h"), f"{mode} is still on"
    assert "Traceback" not in chat.written
    if moment == "typing":
        assert kept(tmp_path).unsent == "not sent yet"
    if moment == "answering":
        assert kept(tmp_path).turns[0].answer == "half an answer"
    if moment != "loading":
        assert (tmp_path / "closed").exists(), "what was learned is written when the model is closed"


@pytest.mark.parametrize("moment", ["loading", "idle", "typing", "answering", "panel"])
def test_a_hangup_ends_it(tmp_path: Path, moment: str) -> None:
    chat = begin(tmp_path, moment)
    chat.child.kill(signal.SIGHUP)
    assert chat.ended() == 129
    assert "Traceback" not in chat.written
    assert moment == "loading" or (tmp_path / "closed").exists()
    if moment == "typing":
        assert kept(tmp_path).unsent == "not sent yet"
    if moment == "answering":
        assert kept(tmp_path).turns[0].answer == "half an answer"


@pytest.mark.parametrize("moment", ["typing", "answering"])
def test_a_closed_terminal_ends_it(tmp_path: Path, moment: str) -> None:
    chat = begin(tmp_path, moment)
    assert chat.child.pid is not None
    os.close(chat.child.child_fd)
    end = time.monotonic() + 40
    while not (ended := os.waitpid(chat.child.pid, os.WNOHANG))[0]:
        assert time.monotonic() < end, "it never ended"
        time.sleep(0.05)
    chat.child.closed = True
    assert os.waitstatus_to_exitcode(ended[1]) == 129
    assert (tmp_path / "closed").exists()
    if moment == "typing":
        assert kept(tmp_path).unsent == "not sent yet"
    else:
        assert kept(tmp_path).turns[0].answer == "half an answer"
