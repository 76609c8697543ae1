"""Where the user types."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.keys import Keys
from textual.message import Message
from textual.widgets import TextArea

from racer_local.terminal_text import readable

NEW_LINE_KEYS = ("ctrl+j", "alt+enter", "shift+enter", "shift+\r", "alt+\r")
"""The last two are how Textual reads xterm's way to send modified keys."""

# Terminals without the Kitty protocol send Alt+Enter as Escape and Return, of which Textual makes a plain Enter;
# it would send the prompt instead of breaking the line.
cast(dict[str, Any], ANSI_SEQUENCES_KEYS)["\x1b\r"] = (Keys.ControlJ,)


class Prompt(TextArea):
    """Text input that grows. Enter sends, a paste never does, Up and Down on its edges bring back what was sent before.

    Attributes:
        sent_before: What was sent, oldest first.
    """

    DEFAULT_CSS = """
    Prompt {
        height: auto;
        max-height: 8;
        border: none;
        border-top: solid $panel;
        padding: 0 1;
        background: $background;
        &:focus { border: none; border-top: solid $primary; }
    }
    Screen.-short Prompt { max-height: 4; }
    """

    @dataclass
    class Completing(Message):
        """The user asks how a command could go on."""

        text: str

    @dataclass
    class Refused(Message):
        """The user tried to send what cannot be sent now; the text stays in the input."""

        reason: str

    def __init__(self, refusal: Callable[[str], str], send: Callable[[str], Awaitable[None]]) -> None:
        """Make an empty input.

        Args:
            refusal: Why a text cannot be sent now, empty if it can.
            send: Does what a text says that has left the input. No key is taken meanwhile.
        """
        super().__init__(
            show_line_numbers=False,
            highlight_cursor_line=False,
            placeholder="Enter sends, Ctrl+J starts a new line",
        )
        self._refusal, self._submit = refusal, send
        self.sent_before: list[str] = []
        self._place = 0
        """Where in the history the input is; its length is what has not been sent yet."""
        self._unsent = ""

    async def on_key(self, event: events.Key) -> None:
        """Send on Enter, break the line on its relatives."""
        if event.key in NEW_LINE_KEYS:
            self._replace("\n")
        elif event.key == "enter":
            await self._send()
        elif event.key == "tab" and self.text.startswith("/"):
            self.post_message(self.Completing(self.text))
        elif event.key == "up" and self.cursor_location[0] == 0 and self._place > 0 and self._is_plain():
            self._recall(self._place - 1)
        elif event.key == "down" and self._place < len(self.sent_before) and self._on_last_line() and self._is_plain():
            self._recall(self._place + 1)
        else:
            return
        event.stop()
        event.prevent_default()

    async def on_paste(self, event: events.Paste) -> None:
        """Insert a paste without what would steer the terminal."""
        self._replace(readable(event.text.replace("\r\n", "\n").replace("\r", "\n")))
        event.stop()
        event.prevent_default()

    def put_back(self, text: str) -> None:
        """Give back a text that got no answer, in front of what has been typed since."""
        # nobody has typed this, so it is no change to react to
        with self.prevent(self.Changed):
            self.text = readable(f"{text}\n{self.text}" if self.text else text)
        self.move_cursor(self.document.end)

    def remember(self, text: str) -> None:
        """Add to the history."""
        text = readable(text)
        if text.strip() and self.sent_before[-1:] != [text]:
            self.sent_before.append(text)
        self._place = len(self.sent_before)

    def put(self, text: str) -> None:
        """Put a text in place of what stands here; it may come from a file."""
        self.text = readable(text)
        self.move_cursor(self.document.end)

    async def _send(self) -> None:
        text = self.text
        if not text.strip():
            return
        if reason := self._refusal(text):
            self.post_message(self.Refused(reason))
            return
        self.remember(text)
        self.clear()
        await self._submit(text)

    def _recall(self, place: int) -> None:
        if self._place == len(self.sent_before):
            self._unsent = self.text
        self._place = place
        self.put(self.sent_before[place] if place < len(self.sent_before) else self._unsent)

    def _is_plain(self) -> bool:
        """Whether Up and Down may leave what stands here: it is empty, or is itself from the history."""
        at = self._place
        return not self.text or (at < len(self.sent_before) and self.text == self.sent_before[at])

    def _on_last_line(self) -> bool:
        return self.cursor_location[0] == self.document.end[0]

    def _replace(self, text: str) -> None:
        self.replace(text, *self.selection)
        self.scroll_cursor_visible()
