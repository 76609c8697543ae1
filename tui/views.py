"""What the controller and the commands have before them: the widgets of the screen, and what the application does."""

from dataclasses import dataclass
from typing import Protocol

from .widgets.prompt import Prompt
from .widgets.session_list import Finder
from .widgets.stats import StatsPanel
from .widgets.status import StatusLine
from .widgets.transcript import Transcript
from .widgets.tree import StepTree


@dataclass(frozen=True, slots=True)
class Views:
    """The widgets of the screen."""

    transcript: Transcript
    tree_panel: StepTree
    stats_panel: StatsPanel
    prompt: Prompt
    status: StatusLine


class Host(Protocol):
    """The application, as far as controller and commands need it."""

    @property
    def leaves_next(self) -> bool:
        """Whether the next Ctrl+C leaves."""
        ...

    @property
    def n_columns(self) -> int:
        """Width of the terminal."""
        ...

    def notice(self, text: str = "", *, leave_next: bool = False) -> None:
        """Say something in the hint line; without a text the hint comes back."""
        ...

    def leave(self, code: int, last_words: str = "") -> None:
        """End the chat; the last words are said on stderr once the screen is restored."""
        ...

    def copy_to_clipboard(self, text: str) -> None:
        """Give a text to the terminal's clipboard."""
        ...

    def choose_session(self, find: Finder, words: str) -> None:
        """Show the list of conversations; the one that is chosen is held."""
        ...
