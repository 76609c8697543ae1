"""The chat: takes prompts, gives them to the decoding thread, draws what comes back, at most twelve times a second."""

import sys
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from racer_local.errors import ExitCode, UsageError
from racer_local.terminal import Look

from .chat import Chat
from .commands import COMMANDS, usage
from .decoder import Decoder
from .doing import Doing
from .events import Opener
from .sessions import Session
from .widgets.prompt import Prompt
from .widgets.prose import prepare
from .widgets.stats import StatsPanel
from .widgets.status import Status, StatusLine
from .widgets.transcript import Transcript
from .widgets.tree import StepTree

TICK_S = 1 / 12
UNSENT_EVERY_S = 1.0
HINT = "F2 token colours · F3 draft tree · F4 statistics · /help · Ctrl+Q leave"
HINT_ANSWERING = "Esc stop · F2 token colours · F3 draft tree · F4 statistics"


def run(
    open_racer: Opener,
    *,
    session: Session,
    options: dict[str, Any],
    title: str,
    open_model: Callable[[str], Opener] | None = None,
    look: Look | None = None,
    suggest: Callable[[], str] | None = None,
) -> int:
    """Chat in the terminal until the user leaves.

    Args:
        open_racer: Loads the model; is given a function that takes progress from 0 to 1 and returns False to give up.
        session: The conversation to hold.
        options: Options of `Racer.stream_chat` for every answer.
        title: What to call the model while it loads.
        open_model: Makes such a function for another model's name or path; None where the model cannot be changed.
        look: Keys and theme of the user's.

    Returns:
        Exit code of the program.

    Raises:
        UsageError: There is no such theme.
    """
    decoder = Decoder(open_racer)
    app = ChatApp(decoder, session=session, options=options, title=title, open_model=open_model)
    app.suggest = suggest
    if look is not None:
        app.set_keymap(dict(look.keys))
    if look is not None and look.theme is not None:
        if look.theme not in app.available_themes:
            raise UsageError(f"there is no theme {look.theme!r}; there are {', '.join(sorted(app.available_themes))}")
        app.theme = look.theme
    try:
        app.run()
    finally:
        decoder.close()
        session.close()
    if app.last_words:
        print(app.last_words, file=sys.stderr)
    return int(app.return_code or ExitCode.DONE)


class ChatApp(Doing):
    """The whole screen: layout and keys. Commands are in `doing`, what the thread brings in `receiving`."""

    CSS = """
    #body { height: 1fr; layout: vertical; }
    Screen.-wide #body { layout: horizontal; }
    #hint { height: 1; padding: 0 1; color: $text-muted; text-wrap: nowrap; text-overflow: ellipsis; }
    #hint.notice { color: $text-warning; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop", priority=True, id="stop"),
        Binding("ctrl+c", "interrupt", "Stop, then leave", priority=True, id="interrupt"),
        Binding("ctrl+q", "leave", "Leave", priority=True, id="leave"),
        Binding("f2", "do('tokens')", "Token colours", priority=True, id="tokens"),
        Binding("f3", "do('tree')", "Draft tree", priority=True, id="tree"),
        Binding("f4", "do('stats')", "Statistics", priority=True, id="stats"),
        Binding("f5", "toggle_drafting", "Drafting on or off", priority=True, id="drafting"),
        Binding("ctrl+r", "do('load')", "Earlier conversations", priority=True, id="load"),
        Binding("ctrl+t", "do('think')", "Thoughts", priority=True, id="think"),
        Binding("pageup", "page(-1)", "Page up", priority=True, id="page_up"),
        Binding("pagedown", "page(1)", "Page down", priority=True, id="page_down"),
    ]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 (declared in the base)
    VERTICAL_BREAKPOINTS = [(0, "-short"), (20, "-tall")]  # noqa: RUF012

    def __init__(
        self,
        engine: Decoder,
        *,
        session: Session,
        options: dict[str, Any],
        title: str,
        open_model: Callable[[str], Opener] | None = None,
    ) -> None:
        """Prepare; the model begins to load when the screen is up. Arguments as in `run`."""
        super().__init__(Chat(session, options))
        self.engine = engine
        self.open_model = open_model
        self.transcript = Transcript()
        self.tree_panel = StepTree()
        self.stats_panel = StatsPanel()
        self.prompt = Prompt()
        self.status = StatusLine(Status(title))
        self._hint = Static(id="hint")

    def compose(self) -> ComposeResult:
        """Transcript, panels, prompt, status line, hint; the panels are hidden at first."""
        with Container(id="body"):
            yield self.transcript
            yield self.tree_panel
            yield self.stats_panel
        yield self.prompt
        yield self.status
        yield self._hint

    def get_system_commands(self, screen: Screen) -> Iterable[SystemCommand]:
        """The command palette: what Textual has, and the slash commands."""
        yield from super().get_system_commands(screen)
        for command in COMMANDS:
            if command.arguments in ("",) or command.arguments.startswith("["):
                yield SystemCommand(usage(command), command.help, lambda name=command.name: self.action_do(name))

    async def on_mount(self) -> None:
        """Show what was said earlier, and load the model behind the interface."""
        self.prompt.focus()
        self.notice()
        await self.show_conversation()
        self.prompt.put(self.chat.session.conversation.unsent)
        self.engine.start()
        self.run_worker(prepare, thread=True)
        self.set_interval(TICK_S, self.tick)
        self.set_interval(UNSENT_EVERY_S, self.keep_unsent)

    # keys

    @on(Prompt.Refused)
    def _keep(self) -> None:
        busy = "the model is loading" if self.racer is None else "an answer is in progress"
        self.notice(f"{busy}; your text stays here until it can be sent")

    @on(Prompt.Changed)
    def _typed(self) -> None:
        if self._leave_next:
            self.notice()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What the keys of this screen do has no place while another is above it."""
        return len(self.screen_stack) <= 1 or action not in ("stop", "do", "page", "toggle_drafting")

    def action_stop(self) -> None:
        """End the answer, keep its text."""
        if self.answer is not None or self.comparing:
            self.engine.stop()
            self.notice("stopping")

    def action_interrupt(self) -> None:
        """Stop the answer, or copy what is selected; again: leave."""
        if self._leave_next:
            self.exit(return_code=ExitCode.INTERRUPTED)
        elif self.answer is not None or self.comparing:
            self.engine.stop()
            self.notice("stopping; Ctrl+C again leaves", leave_next=True)
        elif selected := self.screen.get_selected_text() or self.prompt.selected_text:
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
            self.notice("copied; Ctrl+C again leaves", leave_next=True)
        else:
            self.notice("Ctrl+C again leaves", leave_next=True)

    def action_leave(self) -> None:
        """Leave; `run` ends the thread once the screen is restored."""
        self.keep_unsent()
        self.exit(return_code=ExitCode.DONE)

    def action_toggle_drafting(self) -> None:
        """Switch drafting off or on, also in the middle of an answer."""
        if self.racer is not None:
            self.racer.drafts_wanted = not self.racer.drafts_wanted
            self.show_drafting()
            self.notice(f"drafting is {'on' if self.racer.drafts_wanted else 'off'}; F5 changes that")

    def action_page(self, direction: int) -> None:
        """Scroll the transcript by a page."""
        if direction < 0:
            self.transcript.scroll_page_up()
        else:
            self.transcript.scroll_page_down()

    def notice(self, text: str = "", *, leave_next: bool = False) -> None:
        """Say something in the hint line; without a text the hint comes back."""
        self._leave_next = leave_next
        self._hint.set_class(bool(text), "notice")
        self._hint.update(Content(text or (HINT_ANSWERING if self.answer is not None else HINT)))


KEY_NAMES = {binding.id for binding in ChatApp.BINDINGS if isinstance(binding, Binding) and binding.id}
"""What `[keys]` of the configuration knows."""
