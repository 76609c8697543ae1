"""The chat's application: layout and keys. What is done stands in `commands`, its course in `controller`."""

import sys
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from textual import on
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from racer_local.end_signals import EndSignals
from racer_local.errors import ExitCode, RacerError, UsageError
from racer_local.terminal import Look
from racer_local.terminal_text import one_line

from .chat import Chat
from .commands.context import Context
from .commands.registry import COMMANDS
from .controller import Controller
from .decoder import Decoder
from .events import Opener
from .phase import Phase
from .session import Session
from .session_folder import SessionIndex
from .submissions import Submissions
from .views import Views
from .widgets.prompt import Prompt
from .widgets.prose import prepare
from .widgets.session_list import Finder, SessionList
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
        options: Options of `Racer.stream` for every answer.
        title: What to call the model while it loads.
        open_model: Makes such a function for another model's name or path; None where the model cannot be changed.
        look: Keys and theme of the user's.
        suggest: What to put into an empty input when nothing is in progress; given where a recorded run is played.

    Returns:
        Exit code of the program.

    Raises:
        UsageError: There is no such theme.
    """
    decoder = Decoder(open_racer)
    app = ChatApp(decoder, session=session, options=options, title=title, open_model=open_model, suggest=suggest)
    if look is not None:
        app.set_keymap(dict(look.keys))
    if look is not None and look.theme is not None:
        if look.theme not in app.available_themes:
            raise UsageError(f"there is no theme {look.theme!r}; there are {', '.join(sorted(app.available_themes))}")
        app.theme = look.theme
    with EndSignals() as ended_by:
        try:
            app.ended_by = ended_by
            app.run()
        finally:
            if ended_by.number is not None:
                app.controller.keep_unsent()
            decoder.close()
            app.controller.chat.session.close()
    if ended_by.exit_code is not None:
        return ended_by.exit_code
    if app.last_words:
        print(app.last_words, file=sys.stderr)
    return int(app.return_code or ExitCode.DONE)


class ChatApp(App[None]):
    """The whole screen.

    Attributes:
        controller: The chat's course.
        last_words: To be said on stderr once the screen is restored.
        ended_by: Signals that end the program.
    """

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
        decoder: Decoder,
        *,
        session: Session,
        options: dict[str, Any],
        title: str,
        open_model: Callable[[str], Opener] | None = None,
        suggest: Callable[[], str] | None = None,
    ) -> None:
        """Prepare; the model begins to load when the screen is up. Arguments as in `run`."""
        super().__init__()
        prompt = Prompt(lambda text: self._submissions.refusal(text), lambda text: self._submissions.send(text))
        self.views = Views(Transcript(), StepTree(), StatsPanel(), prompt, StatusLine(Status(title)))
        self.controller = Controller(Chat(session, options), decoder, self.views, self, suggest)
        self._submissions = Submissions(
            Context(self.controller, self.views, self, open_model, SessionIndex(session.folder))
        )
        self._hint = Static(id="hint")
        self._leaves_next = False
        self.last_words = ""
        self.ended_by = EndSignals()

    def compose(self) -> ComposeResult:
        """Transcript, panels, prompt, status line, hint; the panels are hidden at first."""
        with Container(id="body"):
            yield self.views.transcript
            yield self.views.tree_panel
            yield self.views.stats_panel
        yield self.views.prompt
        yield self.views.status
        yield self._hint

    def get_system_commands(self, screen: Screen) -> Iterable[SystemCommand]:
        """The command palette: what Textual has, and the slash commands."""
        yield from super().get_system_commands(screen)
        for command in COMMANDS.values():
            if not command.needs_argument:
                yield SystemCommand(command.usage, command.help, lambda name=command.name: self.action_do(name))

    async def on_mount(self) -> None:
        """Show what was said earlier, and load the model behind the interface."""
        self.views.prompt.focus()
        self.notice()
        await self.controller.show_conversation()
        self.views.prompt.put(self.controller.chat.session.conversation.unsent)
        self.controller.start()
        self.run_worker(prepare, thread=True)
        self.set_interval(TICK_S, self.controller.tick)
        self.set_interval(UNSENT_EVERY_S, self.controller.keep_unsent)
        self.set_interval(TICK_S, self._leave_if_told)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in progress, so that a message can be sent."""
        return self.controller.phase is Phase.IDLE

    def _leave_if_told(self) -> None:
        """Leave after a signal; a terminal that is gone is no reason to lose what stands in the input."""
        if self.ended_by.exit_code is not None:
            self.controller.keep_unsent()
            self.leave(self.ended_by.exit_code)

    # keys

    @on(Prompt.Refused)
    def _refused(self, event: Prompt.Refused) -> None:
        self.notice(event.reason)

    @on(Prompt.Completing)
    def _complete(self, event: Prompt.Completing) -> None:
        self._submissions.complete(event.text)

    @on(Prompt.Changed)
    def _typed(self) -> None:
        if self._leaves_next:
            self.notice()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What the keys of this screen do has no place while another is above it."""
        return len(self.screen_stack) <= 1 or action not in ("stop", "do", "page", "toggle_drafting")

    async def action_do(self, name: str) -> None:
        """Carry out a command without an argument, by a key or from the palette."""
        await self._submissions.do(name)

    def action_stop(self) -> None:
        """End the answer, keep its text."""
        if self.controller.stop():
            self.notice("stopping")

    def action_interrupt(self) -> None:
        """Stop the answer, or copy what is selected; again: leave."""
        if self._leaves_next:
            self.exit(return_code=ExitCode.INTERRUPTED)
        elif self.controller.stop():
            self.notice("stopping; Ctrl+C again leaves", leave_next=True)
        elif selected := self.screen.get_selected_text() or self.views.prompt.selected_text:
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
            self.notice("copied; Ctrl+C again leaves", leave_next=True)
        else:
            self.notice("Ctrl+C again leaves", leave_next=True)

    def action_leave(self) -> None:
        """Leave; `run` ends the thread once the screen is restored."""
        self.controller.keep_unsent()
        self.leave(ExitCode.DONE)

    def action_toggle_drafting(self) -> None:
        """Switch drafting off or on, also in the middle of an answer."""
        racer = self.controller.racer
        if racer is not None:
            self.controller.switch_drafts(not racer.drafts_wanted)
            self.notice(f"drafting is {'on' if racer.drafts_wanted else 'off'}; F5 changes that")

    def action_page(self, direction: int) -> None:
        """Scroll the transcript by a page."""
        if direction < 0:
            self.views.transcript.scroll_page_up()
        else:
            self.views.transcript.scroll_page_down()

    # what controller and commands ask for; see `views.Host`

    @property
    def leaves_next(self) -> bool:
        """See `Host`."""
        return self._leaves_next

    @property
    def n_columns(self) -> int:
        """See `Host`."""
        return self.size.width

    def notice(self, text: str = "", *, leave_next: bool = False) -> None:
        """See `Host`."""
        self._leaves_next = leave_next
        self._hint.set_class(bool(text), "notice")
        self._hint.update(Content(one_line(text) or (HINT_ANSWERING if self.controller.phase.can_be_stopped else HINT)))

    def leave(self, code: int, last_words: str = "") -> None:
        """See `Host`."""
        self.last_words = last_words
        self.exit(return_code=code)

    def choose_session(self, find: Finder, words: str) -> None:
        """See `Host`."""

        async def hold(identity: str) -> None:
            try:
                await self.controller.resume(identity)
            except RacerError as error:
                self.notice(one_line(str(error)))

        def chosen(identity: str | None) -> None:
            if identity is not None:
                self.run_worker(hold(identity))

        self.push_screen(SessionList(find, words), chosen)


KEY_NAMES = {binding.id for binding in ChatApp.BINDINGS if isinstance(binding, Binding) and binding.id}
"""What `[keys]` of the configuration knows."""
