"""The chat: takes prompts, gives them to the decoding thread, draws what comes back, at most twelve times a second."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.widgets import Static, Tooltip

from racer_local.errors import ExitCode
from racer_local.records import Step

from .engine import Answerer, Decoder, Event, Failed, Loaded, LoadFailed
from .pace import Pace
from .text import one_line
from .widgets.answer import Answer
from .widgets.prompt import Prompt
from .widgets.status import Status, StatusLine
from .widgets.transcript import Transcript
from .widgets.tree import StepTree

if TYPE_CHECKING:
    # at run time this would load llama.cpp before there is anything on the screen
    from racer_local.api import Racer

TICK_S = 1 / 12
HINT = "F2 token colours · F3 draft tree · Ctrl+Q leave"
HINT_ANSWERING = "Esc stop · F2 token colours · F3 draft tree"
FOOTNOTES = {
    "cancelled": "stopped",
    "length": "ended at the bound of tokens for an answer",
    "context": "ended because the context is full",
}


def run(
    open_racer: "Callable[[Callable[[float], bool]], Racer]",
    *,
    system: str | None,
    options: dict[str, Any],
    title: str,
) -> int:
    """Chat in the terminal until the user leaves.

    Args:
        open_racer: Loads the model; is given a function that takes progress from 0 to 1 and returns False to give up.
        system: System prompt.
        options: Options of `Racer.stream_chat` for every answer.
        title: What to call the model while it loads.

    Returns:
        Exit code of the program.
    """
    decoder = Decoder(open_racer)
    app = ChatApp(decoder, system=system, options=options, title=title)
    try:
        app.run()
    finally:
        decoder.close()
    if app.last_words:
        print(app.last_words, file=sys.stderr)
    return int(app.return_code or ExitCode.DONE)


class ChatApp(App[None]):
    """The whole screen.

    Attributes:
        messages: The conversation as it is sent to the model.
        last_words: To be said on stderr once the screen is restored.
    """

    CSS = """
    #body { height: 1fr; layout: vertical; }
    Screen.-wide #body { layout: horizontal; }
    #hint { height: 1; padding: 0 1; color: $text-muted; text-wrap: nowrap; text-overflow: ellipsis; }
    #hint.notice { color: $text-warning; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop", priority=True),
        Binding("ctrl+c", "interrupt", "Stop, then leave", priority=True),
        Binding("ctrl+q", "leave", "Leave", priority=True),
        Binding("f2", "toggle_tokens", "Token colours", priority=True),
        Binding("f3", "toggle_tree", "Draft tree", priority=True),
        Binding("pageup", "page(-1)", "Page up", priority=True),
        Binding("pagedown", "page(1)", "Page down", priority=True),
    ]
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 (declared in the base)
    VERTICAL_BREAKPOINTS = [(0, "-short"), (20, "-tall")]  # noqa: RUF012

    def __init__(self, engine: Decoder, *, system: str | None, options: dict[str, Any], title: str) -> None:
        """Prepare; the model begins to load when the screen is up. Arguments as in `run`."""
        super().__init__()
        self._engine = engine
        self._options = options
        self._racer: Answerer | None = None
        self._answer: Answer | None = None
        self._undrawn: list[Step] = []
        self._pace = Pace()
        self._draft_note: tuple[str, bool] = ("", False)
        """Why drafting is as it is, and whether that limits it; a step's own note goes before."""
        self._leave_next = False
        self._said = ""
        """The last remark of the chat format; each is shown once."""
        self.messages: list[dict[str, str]] = [{"role": "system", "content": system}] if system else []
        self.last_words = ""
        self._transcript = Transcript()
        self._tree = StepTree()
        self._prompt = Prompt()
        self._status = StatusLine(Status(title))
        self._hint = Static(id="hint")

    def compose(self) -> ComposeResult:
        """Transcript, prompt, status line, hint; the tree panel is hidden at first."""
        with Container(id="body"):
            yield self._transcript
            yield self._tree
        yield self._prompt
        yield self._status
        yield self._hint

    async def on_mount(self) -> None:
        """Load the model behind the interface."""
        # table cells hand their text to the tooltip as markup, and a model's text must not be read as such
        await self.screen.query(Tooltip).remove()
        self._prompt.focus()
        self._notice()
        self._engine.start()
        self.set_interval(TICK_S, self._tick)

    # what the thread brings

    async def _tick(self) -> None:
        events = self._engine.poll()
        self._undrawn += [event for event in events if isinstance(event, Step)]
        ended = any(not isinstance(event, Step) or event.finish_reason for event in events)
        if self._undrawn and (self._pace.due() or ended):
            steps, self._undrawn = self._undrawn, []
            await self._take(steps)
        for event in events:
            if not isinstance(event, Step):
                await self._handle(event)
        self._status.change(progress=self._engine.progress, prefill=self._engine.prefill)

    async def _handle(self, event: Event) -> None:
        if isinstance(event, Loaded):
            await self._loaded(event.racer)
        elif isinstance(event, LoadFailed):
            self.last_words = f"racer-chat: {one_line(event.message)}"
            if self._prompt.text.strip():
                self.last_words += f"\nnot sent: {self._prompt.text}"
            self.exit(return_code=event.exit_code)
        elif isinstance(event, Failed):
            await self._end("failed", event.message)

    async def _loaded(self, racer: Answerer) -> None:
        self._racer = racer
        drafting = racer.drafting(self._options.get("draft"))
        policy, mode, reason = drafting["policy"], drafting["mode"], drafting["reason"]
        self._status.change(
            model=racer.model.description,
            device=racer.model.device,
            draft="drafting off" if mode == "off" else f"{policy} {mode}",
            n_ctx=racer.engine.n_ctx,
        )
        self._draft_note = (reason, mode != "tree")
        self._show_reason("")
        self._tree.set_model(racer.model.piece, f"{mode}: {reason}")
        self._prompt.ready = True
        self._notice()
        await self._remark()

    async def _take(self, steps: Sequence[Step]) -> None:
        assert self._answer is not None, "steps come while an answer is in progress"
        await self._answer.add(steps)
        drafted = next((step for step in reversed(steps) if len(step.tree)), None)
        if drafted is not None:
            self._tree.show(drafted.tree, drafted.path, drafted.stats.steps)
        last = steps[-1]
        self._status.change(stats=last.stats, reading=False)
        self._show_reason(last.note)
        if last.finish_reason:
            await self._end(last.finish_reason)

    def _show_reason(self, note: str) -> None:
        reason, limited = (note, True) if note else self._draft_note
        self._status.change(reason=reason, limited=limited)

    async def _end(self, reason: str, error: str = "") -> None:
        answer, self._answer = self._answer, None
        assert answer is not None, "an answer ends once"
        await answer.finish(FOOTNOTES.get(reason, "" if answer.text or error else "an empty answer"))
        self._status.change(reading=False)
        notice = "stopped; Ctrl+C again leaves" if self._leave_next else ""
        if answer.text or reason not in ("failed", "cancelled"):
            self.messages.append({"role": "assistant", "content": answer.text})
        else:
            self._prompt.put_back(self.messages.pop()["content"])
            await self._transcript.take_back()
            notice = notice or "no answer has begun; your text is back in the input"
        if error:
            await self._transcript.note(error)
        await self._remark()
        self._notice(notice, leave_next=self._leave_next)
        self._prompt.ready = True

    async def _remark(self) -> None:
        """Show what the chat format has to say, once."""
        said = self._racer.chat_format.note if self._racer is not None else ""
        if said and said != self._said:
            await self._transcript.note(said)
        self._said = said

    # what the user does

    @on(Prompt.Submitted)
    async def _ask(self, event: Prompt.Submitted) -> None:
        self.messages.append({"role": "user", "content": event.text})
        self._answer = await self._transcript.begin(event.text)
        self._engine.ask(self.messages, self._options)
        self._status.change(reading=True)
        self._notice()

    @on(Prompt.Refused)
    def _keep(self) -> None:
        busy = "the model is loading" if self._racer is None else "an answer is in progress"
        self._notice(f"{busy}; your text stays here until it can be sent")

    @on(Prompt.Changed)
    def _typed(self) -> None:
        if self._leave_next:
            self._notice()

    def action_stop(self) -> None:
        """End the answer, keep its text."""
        if self._answer is not None:
            self._engine.stop()
            self._notice("stopping")

    def action_interrupt(self) -> None:
        """Stop the answer, or copy what is selected; again: leave."""
        if self._leave_next:
            self.exit(return_code=ExitCode.INTERRUPTED)
        elif self._answer is not None:
            self._engine.stop()
            self._notice("stopping; Ctrl+C again leaves", leave_next=True)
        elif selected := self.screen.get_selected_text() or self._prompt.selected_text:
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
            self._notice("copied; Ctrl+C again leaves", leave_next=True)
        else:
            self._notice("Ctrl+C again leaves", leave_next=True)

    def action_leave(self) -> None:
        """Leave; `run` ends the thread once the screen is restored."""
        self.exit(return_code=ExitCode.DONE)

    def action_toggle_tokens(self) -> None:
        """Show tokens in place of Markdown, or the other way round."""
        self._transcript.toggle_tokens()

    def action_toggle_tree(self) -> None:
        """Show or hide the draft tree."""
        self._tree.toggle()

    def action_page(self, direction: int) -> None:
        """Scroll the transcript by a page."""
        if direction < 0:
            self._transcript.scroll_page_up()
        else:
            self._transcript.scroll_page_down()

    def _notice(self, text: str = "", *, leave_next: bool = False) -> None:
        """Say something in the hint line; without a text the hint comes back."""
        self._leave_next = leave_next
        self._hint.set_class(bool(text), "notice")
        self._hint.update(Content(text or (HINT_ANSWERING if self._answer is not None else HINT)))
