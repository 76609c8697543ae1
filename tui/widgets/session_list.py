"""The list of earlier conversations, to be searched and chosen from."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from racer_local.terminal_text import one_line

from ..sessions import Conversation
from ..sources import MUTED

Finder = Callable[[str], Sequence[tuple[Conversation, str]]]
"""Conversations in which all words of a text occur, each with what to show of it; all of them for no words."""


class SessionList(ModalScreen[str | None]):
    """Ends with the chosen session's id, or None."""

    DEFAULT_CSS = """
    SessionList {
        align: center middle;
        & > Vertical {
            width: 90%; max-width: 100; height: 80%; background: $surface; border: round $primary; padding: 0 1;
        }
        & Input { margin-bottom: 1; background: $panel; }
        & OptionList { height: 1fr; border: none; background: $surface; }
        & Static { color: $text-muted; height: 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave", priority=True),
        Binding("down", "move(1)", "Next", priority=True),
        Binding("up", "move(-1)", "Previous", priority=True),
    ]

    def __init__(self, find: Finder, words: str = "") -> None:
        super().__init__()
        self._find = find
        self._words = words

    def compose(self) -> ComposeResult:
        """Search line, list, keys."""
        with Vertical():
            yield Input(self._words, placeholder="words to search for", compact=True)
            yield OptionList(markup=False)
            yield Static("Enter goes on with the conversation · Esc leaves", markup=False)

    def on_mount(self) -> None:
        """Show all that is found for the words there are."""
        self.query_one(Input).focus()
        self._fill()

    @on(Input.Changed)
    def _fill(self) -> None:
        options = self.query_one(OptionList)
        options.clear_options()
        for conversation, said in self._find(self.query_one(Input).value):
            when = conversation.created[:16].replace("T", " ")
            text = Content.assemble((when, MUTED), "  ", one_line(conversation.name), "\n", (one_line(said), "dim"))
            options.add_option(Option(text, id=conversation.id))
        if options.option_count:
            options.highlighted = 0

    @on(Input.Submitted)
    def _take_highlighted(self) -> None:
        options = self.query_one(OptionList)
        if options.highlighted is not None and options.option_count:
            self.dismiss(options.get_option_at_index(options.highlighted).id)

    @on(OptionList.OptionSelected)
    def _take(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option.id)

    def action_leave(self) -> None:
        """Choose nothing."""
        self.dismiss(None)

    def action_move(self, by: int) -> None:
        """Move the choice while the search line keeps the keyboard."""
        options = self.query_one(OptionList)
        if options.option_count:
            options.highlighted = ((options.highlighted or 0) + by) % options.option_count
