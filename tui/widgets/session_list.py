"""The list of earlier conversations, to be searched and chosen from.

Searching happens in a thread, so that no key waits for it; what is found is shown as it comes.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import get_current_worker

from ..session_folder import Entry
from ..sources import MUTED

Finder = Callable[[str], Iterator[tuple[Entry, str] | None]]
"""Finds sessions by words, see `SessionIndex.find`."""
KEYS = "Enter goes on with the conversation · Esc leaves"
MOST = 200
"""Conversations that are listed; more words find the others."""
SHOW_EVERY_S = 0.25


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
        self._number = 0
        """Of the search in progress; what earlier ones find comes too late."""
        self._is_new = True
        """Whether the list still shows what was found for other words."""
        self._takes_first = False
        """Whether Enter was pressed before something was found."""

    @dataclass
    class Found(Message):
        """What a search has found so far, of all that there is."""

        number: int
        found: Sequence[tuple[Entry, str]]
        is_done: bool

    def compose(self) -> ComposeResult:
        """Search line, list, keys."""
        with Vertical():
            yield Input(self._words, placeholder="words to search for", compact=True)
            yield OptionList(markup=False)
            yield Static(KEYS, markup=False)

    def on_mount(self) -> None:
        """Show all that is found for the words there are."""
        self.query_one(Input).focus()
        self._search(self._words, self._number)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        if event.value != self._words:
            self._words, self._is_new, self._takes_first = event.value, True, False
            self._number += 1
            self._search(event.value, self._number)

    @work(thread=True, exclusive=True)
    def _search(self, words: str, number: int) -> None:
        worker = get_current_worker()
        found: list[tuple[Entry, str]] = []
        shown = time.monotonic()
        for match in self._find(words):
            if worker.is_cancelled:
                return
            if match is not None:
                found.append(match)
            if len(found) > MOST:
                break
            if time.monotonic() - shown > SHOW_EVERY_S:
                self.post_message(self.Found(number, tuple(found), is_done=False))
                shown = time.monotonic()
        self.post_message(self.Found(number, tuple(found), is_done=True))

    @on(Found)
    def _show(self, event: Found) -> None:
        if event.number != self._number:
            return
        options = self.query_one(OptionList)
        if self._is_new:
            options.clear_options()
            self._is_new = False
        options.add_options([_option(*match) for match in event.found[options.option_count : MOST]])
        if options.option_count and options.highlighted is None:
            options.highlighted = 0
        more = " · more words find more" if len(event.found) > MOST else ""
        self.query_one(Static).update(f"{KEYS}{more}" if event.is_done else f"searching · {KEYS}")
        if self._takes_first:
            self._take_highlighted()

    @on(Input.Submitted)
    def _take_highlighted(self) -> None:
        options = self.query_one(OptionList)
        if self._is_new or not options.option_count:
            self._takes_first = True
        elif options.highlighted is not None:
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


def _option(entry: Entry, line: str) -> Option:
    when = entry.created[:16].replace("T", " ")
    text = Content.assemble((when, MUTED), "  ", entry.name, "\n", (line, "dim"))
    return Option(text, id=entry.id)
