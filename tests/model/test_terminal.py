"""The whole program in a pseudo-terminal with the demo model, as a user would meet it."""

import os
import re
import sys
import time
from pathlib import Path

import pexpect
import pyte
import pytest

COLUMNS, ROWS = 100, 30


class Terminal:
    """racer-chat in a terminal that remembers its screen."""

    def __init__(self, home: Path, *arguments: str) -> None:
        places = {f"XDG_{name}_HOME": str(home / name.lower()) for name in ("CONFIG", "DATA")}
        command = [sys.executable, "-m", "racer_local.cli", *arguments]
        environment = {**os.environ, **places, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        self.child = pexpect.spawn(
            command[0],
            command[1:],
            dimensions=(ROWS, COLUMNS),
            env=environment,  # pyright: ignore[reportArgumentType]
            encoding="utf-8",
            timeout=60,
        )
        self._screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.Stream(self._screen)

    def text(self) -> str:
        """What stands on the screen."""
        try:
            while True:
                self._stream.feed(self.child.read_nonblocking(65536, timeout=0.05))
        except (pexpect.TIMEOUT, pexpect.EOF):
            pass
        return "\n".join(line.rstrip() for line in self._screen.display)

    def colours_of(self, word: str) -> set[str]:
        """Colours of a word where it stands on the screen."""
        for row, line in enumerate(self._screen.display):
            if word in line:
                at = line.index(word)
                return {self._screen.buffer[row][column].fg for column in range(at, at + len(word))}
        return set()

    def wait_for(self, pattern: str, *, gone: bool = False, seconds: float = 60) -> None:
        """Wait until something stands on the screen, or does no longer."""
        end = time.monotonic() + seconds
        while (re.search(pattern, shown := self.text()) is not None) == gone:
            if time.monotonic() > end or not self.child.isalive():
                pytest.fail(f"{'still' if gone else 'no'} {pattern!r} on the screen:\n{shown}")

    def send(self, keys: str) -> None:
        """Type."""
        self.child.send(keys)

    def ended(self) -> int | None:
        """The exit code, once the program is over."""
        end = time.monotonic() + 30
        while self.child.isalive() and time.monotonic() < end:
            self.text()
        self.child.close()
        return self.child.exitstatus


F2, ESCAPE, CTRL_Q = "\x1bOQ", "\x1b", "\x11"


@pytest.mark.model
def test_start_ask_colour_stop_continue_leave_and_come_back(demo_path: Path, tmp_path: Path) -> None:
    assert demo_path.exists()
    chat = Terminal(tmp_path, "--temp", "0", "-c", "1024")
    chat.send("Write a long story about a fox and a raven.")  # while the model loads
    chat.wait_for("auto tree")
    chat.send("\r")
    chat.wait_for(r"\d tok/step")
    chat.send(ESCAPE)
    chat.wait_for("stopped; /continue goes on")
    chat.send(F2)
    chat.wait_for("retrieval")
    legend = {word: chat.colours_of(word) for word in ("retrieval", "logits", "both")}
    assert all(legend.values())
    assert len({frozenset(colours) for colours in legend.values()}) == 3, "each source has a colour of its own"
    chat.send(F2)
    chat.send("/continue\r")
    chat.wait_for("stopped; /continue goes on", gone=True)
    chat.send(ESCAPE)
    chat.wait_for("stopped; /continue goes on")
    chat.send(CTRL_Q)
    assert chat.ended() == 0

    again = Terminal(tmp_path, "--resume", "-c", "1024")
    again.wait_for("Write a long story")
    again.wait_for("auto tree")
    again.send(f"/export md {tmp_path}/talk.md\r")
    again.wait_for("written to")
    again.send(CTRL_Q)
    assert again.ended() == 0
    talk = (tmp_path / "talk.md").read_text("utf-8")
    assert "Write a long story" in talk
    assert "## Answer" in talk
