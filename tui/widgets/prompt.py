"""Where the user types."""

from dataclasses import dataclass
from typing import Any, cast

from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual.keys import Keys
from textual.message import Message
from textual.widgets import TextArea

from ..text import readable

NEW_LINE_KEYS = ("ctrl+j", "alt+enter", "shift+enter", "shift+\r", "alt+\r")
"""The last two are how Textual reads xterm's way to send modified keys."""

# Terminals without the Kitty protocol send Alt+Enter as Escape and Return, of which Textual makes a plain Enter;
# it would send the prompt instead of breaking the line.
cast(dict[str, Any], ANSI_SEQUENCES_KEYS)["\x1b\r"] = (Keys.ControlJ,)


class Prompt(TextArea):
    """Text input that grows. Enter sends, a paste never does.

    Attributes:
        ready: Whether Enter sends; otherwise the text stays and `Refused` is posted.
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
    class Submitted(Message):
        """The user sent a text, which has left the input."""

        text: str

    @dataclass
    class Refused(Message):
        """The user tried to send while nothing can be answered; the text stays in the input."""

    def __init__(self) -> None:
        super().__init__(
            show_line_numbers=False,
            highlight_cursor_line=False,
            placeholder="Enter sends, Ctrl+J starts a new line",
        )
        self.ready = False

    async def on_key(self, event: events.Key) -> None:
        """Send on Enter, break the line on its relatives."""
        if event.key in NEW_LINE_KEYS:
            self._replace("\n")
        elif event.key == "enter":
            self._send()
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
            self.text = f"{text}\n{self.text}" if self.text else text
        self.move_cursor(self.document.end)

    def _send(self) -> None:
        if not self.text.strip():
            return
        if not self.ready:
            self.post_message(self.Refused())
            return
        text = self.text
        self.ready = False
        self.clear()
        self.post_message(self.Submitted(text))

    def _replace(self, text: str) -> None:
        self.replace(text, *self.selection)
        self.scroll_cursor_visible()
