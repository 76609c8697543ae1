"""What the command lines want of the terminal chat, so that they need not know how it is drawn."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

Progress = Callable[[int, int], None]
"""Is told runs done and to do."""


@dataclass(frozen=True, slots=True)
class Look:
    """What users change of the chat.

    Attributes:
        keys: Keys by the name of what they do.
        theme: Name of a Textual theme, None for the usual one.
    """

    keys: Mapping[str, str]
    theme: str | None = None


class Terminal(Protocol):
    """The chat in the terminal, and what is made with it. `racer_local.tui.door.Door` is one."""

    def start(
        self,
        open_racer: Callable[[Callable[[float], bool]], Any],
        *,
        title: str,
        system: str | None,
        resume: str | None,
        options: dict[str, Any],
        loading: dict[str, Any] | None,
        look: Look,
    ) -> int:
        """Chat until the user leaves; returns the exit code.

        Args:
            open_racer: Loads the model; is given a function that takes progress from 0 to 1 and returns False to
                give up.
            title: What to call the model while it loads.
            system: System prompt; None leaves that of a resumed conversation.
            resume: Name of an earlier conversation, empty for the last one, None for a new one.
            options: Options of `Racer.stream` for every answer.
            loading: Options of `Racer` for other models that are loaded later; None where there can be none, since
                a recording is of one model.
            look: The user's keys and theme.

        Raises:
            UsageError: There is no such conversation, key or theme.
        """
        ...

    def play(self, recording: Path, speed: float, *, look: Look) -> int:
        """Chat with a recorded run until the user leaves; nothing that is said is kept. Returns the exit code.

        Args:
            recording: The file.
            speed: How many times faster than recorded; 0 waits for nothing.
            look: The user's keys and theme.

        Raises:
            UsageError: The file is no recording, the speed is no speed, or there is no such key or theme.
        """
        ...

    def session_lines(self) -> list[str]:
        """The user's conversations: name and title, the latest first."""
        ...

    def check_recording(self, path: Path) -> None:
        """Raise UsageError if no recording can be begun there: better before a model is loaded than after."""
        ...

    def record(self, path: Path, racer: Any) -> Any:
        """The racer with everything that it answers written to a new file."""
        ...

    def draw_picture(
        self,
        recording: Path,
        out: Path,
        *,
        size: str,
        keys: Sequence[str],
        until: float | None,
        questions: int,
    ) -> None:
        """Draw the chat over a recorded run, see `tui.picture.draw`; the size is columns and lines, 100x34 say."""
        ...

    def time_interface(
        self, model: Path, max_tokens: int, key_tokens: int, repeats: int, on_progress: Progress
    ) -> tuple[list[dict[str, Any]], str]:
        """What the interface costs in speed, and how soon it answers a key: for programs, and as a table."""
        ...
