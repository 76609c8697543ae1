"""The chat's course: owns the phase, gives jobs to the decoding thread, and brings what comes back to the widgets."""

import gc
import re
from collections.abc import Callable, Sequence

from racer_local.answers import Step
from racer_local.errors import UsageError
from racer_local.terminal_text import one_line

from .chat import Chat
from .comparison import comparison_text
from .decoder import Decoder
from .draft_reason import draft_reason
from .draw_throttle import CALM_SHARE, PANELS_SHARE, DrawThrottle
from .events import (
    Answerer,
    Ask,
    Began,
    Change,
    Compare,
    Compared,
    Event,
    Failed,
    Loaded,
    LoadFailed,
    NotChanged,
    Opener,
)
from .phase import Phase
from .session import Session
from .views import Host, Views
from .widgets.answer import Answer

FOOTNOTES = {
    "cancelled": "stopped; /continue goes on",
    "length": "ended at the bound of tokens for an answer; /continue goes on",
    "context": "ended because the context is full",
}
TAIL_TOKENS = 12
"""Tokens at a prompt's end that show whether it opens a thought."""


class Controller:
    """Takes what is asked for to the decoding thread, and its events to conversation and widgets.

    Attributes:
        chat: The conversation.
        phase: What is in progress.
        racer: The loaded model, None while there is none.
    """

    def __init__(
        self, chat: Chat, decoder: Decoder, views: Views, host: Host, suggest: Callable[[], str] | None = None
    ) -> None:
        """Prepare; the model begins to load with `start`.

        Args:
            chat: The conversation.
            decoder: The decoding thread.
            views: What is drawn on.
            host: The application.
            suggest: What to put into an empty input when nothing is in progress; None for nothing.
        """
        self.chat = chat
        self.phase = Phase.LOADING
        self.racer: Answerer | None = None
        self._decoder = decoder
        self._views = views
        self._host = host
        self._suggest = suggest
        self._answer: Answer | None = None
        """Place of the answer in progress."""
        self._is_reading = False
        """Whether the answer in progress waits for its prompt to be read."""
        self._context: list[int] = []
        """Tokens of the prompt in progress and of what has been answered to it."""
        self._undrawn: list[Step] = []
        self._throttle = DrawThrottle()
        self._draft_note: tuple[str, bool] = ("", False)
        """Why drafting is as it is, and whether that limits it; a step's own note goes before."""
        self._blinks = True
        """Whether the cursor blinks when no answer is in progress."""
        self._said: set[str] = set()
        """Notes that were shown; each is shown once."""

    @property
    def is_replay(self) -> bool:
        """Whether a recorded run is played, without a model."""
        return self._suggest is not None

    def start(self) -> None:
        """Begin to load the model."""
        self._decoder.start()

    # what is asked for

    def begin(self, ask: Ask, answer: Answer) -> None:
        """Give an answer to the thread to be made, and a place on the screen."""
        views = self._views
        self.phase = Phase.ANSWERING
        self._answer, self._is_reading = answer, True
        self._throttle.restart()
        self._blinks = views.prompt.cursor_blink
        views.prompt.cursor_blink = False  # each blink is a draw, which decoding pays for
        views.stats_panel.begin()
        self._decoder.ask(ask)
        self._show_progress()
        self._host.notice()

    def compare(self, job: Compare) -> None:
        """Have the last answer made once more without drafts."""
        self.phase = Phase.COMPARING
        self._decoder.ask(job)
        self._host.notice("answering once more with drafting off; Esc stops")

    def change_model(self, open_racer: Opener, title: str) -> None:
        """Load another model. What is known of tokens goes with the one before: ids mean something else now."""
        self.phase = Phase.CHANGING_MODEL
        self.racer, self._context = None, []
        self._views.tree_panel.forget_model()
        self._views.status.change(model="", title=title, progress=0.0)
        self._decoder.ask(Change(open_racer))

    def stop(self) -> bool:
        """End the answer or the comparison in progress, keep its text; returns whether there was one."""
        if self.phase.can_be_stopped:
            self._decoder.stop()
        return self.phase.can_be_stopped

    def switch_drafts(self, wanted: bool) -> None:
        """Make drafts from now on, or make none; also in the middle of an answer."""
        if self.racer is not None:
            self.racer.drafts_wanted = wanted
            self.show_drafting()

    async def hold(self, session: Session) -> None:
        """Hold another conversation.

        Raises:
            UsageError: An answer is in progress; it ends in the conversation that it belongs to.
        """
        if self.phase.can_be_stopped:
            raise UsageError(f"{self.phase.value} and comes first; Esc stops it")
        prompt = self._views.prompt
        self.chat.session.unsent(prompt.text)
        self.chat.session.close()
        self.chat.hold(session)
        prompt.put(session.conversation.unsent)
        await self.show_conversation()

    async def resume(self, identity: str) -> None:
        """Hold an earlier conversation.

        Raises:
            RacerError: It is held already, here or in another window, or cannot be read; or as `hold`.
        """
        if identity == self.chat.session.conversation.id:
            raise UsageError("this is the conversation that you are in")
        session = Session.resume(self.chat.session.folder, identity)
        try:
            await self.hold(session)
        except UsageError:
            session.close()
            raise

    async def show_conversation(self) -> None:
        """Draw the whole conversation anew."""
        turns = self.chat.turns
        answers = await self._views.transcript.show([turn.user for turn in turns])
        for turn, answer in zip(turns[len(turns) - len(answers) :], answers, strict=True):
            if turn.answer is not None:
                answer.begin(turn.splitter())
                answer.put(turn.answer, "" if turn.reason else "cut off; /continue goes on")
        for turn in turns:
            self._views.prompt.remember(turn.user)

    async def take_back(self) -> str:
        """Take the last turn back, also on the screen; returns its message."""
        text = self.chat.undo()
        if not await self._views.transcript.take_back():
            await self.show_conversation()
        return text

    def keep_unsent(self) -> None:
        """Write what stands in the input to the session, so that a crash does not lose it; no half-typed command."""
        text = self._views.prompt.text
        self.chat.session.unsent("" if re.fullmatch(r"/[a-zA-Z]*( .*)?", text) else text)

    def show_drafting(self) -> None:
        """Say in the status line how answers are drafted from now on."""
        if self.racer is None:
            return
        drafting = self.racer.drafting(self.chat.draft)
        policy, mode, reason = drafting["policy"], drafting["mode"], drafting["reason"]
        self._views.status.change(draft="drafting off" if mode == "off" else f"{policy} {mode}")
        self._draft_note = (reason, mode != "tree")
        self._show_reason("" if self.racer.drafts_wanted else "drafting is switched off (F5)")
        self._views.tree_panel.set_model(self.racer.model.piece, f"{mode}: {reason}")

    # what the thread brings

    async def tick(self) -> None:
        """Take in what has happened since the last tick; steps are drawn when the next draw is due."""
        events = self._decoder.poll()
        for event in events:
            if isinstance(event, Began):
                await self._began(event)
        self._undrawn += [event for event in events if isinstance(event, Step)]
        ended = any(e.finish_reason if isinstance(e, Step) else not isinstance(e, Began) for e in events)
        if self._undrawn and (self._throttle.due(self._share) or ended):
            steps, self._undrawn = self._undrawn, []
            await self._take(steps)
        for event in events:
            if not isinstance(event, Step | Began):
                await self._handle(event)
        self._show_progress()

    @property
    def _share(self) -> float:
        views = self._views
        is_calm = not (views.tree_panel.display or views.stats_panel.display or views.transcript.shows_tokens)
        return CALM_SHARE if is_calm else PANELS_SHARE

    async def _handle(self, event: Event) -> None:
        if isinstance(event, Loaded):
            await self._loaded(event.racer)
        elif isinstance(event, LoadFailed):
            text = self._views.prompt.text
            unsent = f"\nnot sent: {text}" if text.strip() else ""
            self._host.leave(event.exit_code, f"racer-chat: {one_line(event.message)}{unsent}")
        elif isinstance(event, NotChanged):
            self.phase = Phase.LOADING
            await self._views.transcript.note(f"{event.message}; the model from before is loaded again")
        elif isinstance(event, Compared):
            await self._views.transcript.info(comparison_text(event, self.chat.speed))
            self._rest()
        elif isinstance(event, Failed) and self.phase is Phase.COMPARING:
            await self._views.transcript.note(event.message)
            self._rest()
        elif isinstance(event, Failed):
            await self._end("failed", event.message)

    async def _loaded(self, racer: Answerer) -> None:
        if self.phase is Phase.CHANGING_MODEL:
            self.chat.change_model()
        self.racer = racer
        gc.freeze()  # what is loaded by now stays; looking through it for garbage halts everything for 0.1 s
        self._views.status.change(model=racer.model.description, device=racer.model.device, n_ctx=racer.engine.n_ctx)
        self._rest()
        self.show_drafting()
        await self._remark()

    async def _began(self, event: Began) -> None:
        self._context = event.context
        if event.n_left_out:
            turns = "turn is" if event.n_left_out == 1 else f"{event.n_left_out} turns are"
            await self._say_once(f"the context is full: the oldest {turns} left out of what the model reads")
        if self._answer is not None and self.racer is not None and not self._answer.text:
            known = self.racer.thoughts
            tail = b"".join(self.racer.model.piece(token) for token in event.context[-TAIL_TOKENS:])
            self.chat.session.mark_thoughts(known, opened=known.is_opened_by(tail.decode("utf-8", "replace")))
            self._answer.begin(self.chat.turns[-1].splitter())

    async def _take(self, steps: Sequence[Step]) -> None:
        assert self._answer is not None, "steps come while an answer is in progress"
        self.chat.add(steps)
        self._answer.add(steps)
        self._views.stats_panel.add(steps)
        for i in range(len(steps) - 1, -1, -1):
            if len(steps[i].tree):
                self._show_draft(steps, i)
                break
        self._context += [token.id for step in steps for token in step.tokens]
        last = steps[-1]
        self._is_reading = False
        self._views.status.change(stats=last.stats)
        self._show_reason(last.note)
        if last.finish_reason:
            await self._end(last.finish_reason)

    def _show_draft(self, steps: Sequence[Step], i: int) -> None:
        """Show a step's draft; why it was made is looked up when it is drawn."""
        step, n_before = steps[i], sum(len(earlier.tokens) for earlier in steps[:i])
        context, racer = self._context, self.racer
        at = len(context) + n_before
        assert racer is not None, "steps come of a loaded model"

        def reason() -> str:
            return draft_reason(context[:at], step.tree, step.path, racer.model.piece)

        self._views.tree_panel.show(step.tree, step.path, step.stats.steps, reason)

    def _show_reason(self, note: str) -> None:
        reason, limited = (note, True) if note else self._draft_note
        self._views.status.change(reason=reason, limited=limited)

    def _show_progress(self) -> None:
        decoder = self._decoder
        self._views.status.change(progress=decoder.progress, prefill=decoder.prefill, reading=self._is_reading)

    async def _end(self, reason: str, error: str = "") -> None:
        answer, self._answer = self._answer, None
        assert answer is not None, "an answer ends once"
        views = self._views
        answer.finish(FOOTNOTES.get(reason, "" if answer.text or error else "an empty answer"))
        notice = "stopped; Ctrl+C again leaves" if self._host.leaves_next else ""
        n_turns = len(self.chat.turns)
        text = self.chat.end(reason)
        if text is not None:
            views.prompt.put_back(text)
            await views.transcript.take_back()
            notice = notice or "no answer has begun; your text is back in the input"
        elif reason in ("failed", "cancelled") and not answer.text and n_turns:
            await self.show_conversation()
            notice = notice or "no answer has begun; the one from before stays"
        if error:
            await views.transcript.note(error)
        await self._remark()
        self._rest(notice, leave_next=self._host.leaves_next)

    def _rest(self, notice: str = "", *, leave_next: bool = False) -> None:
        """Nothing is in progress any more."""
        prompt = self._views.prompt
        if self.phase is Phase.ANSWERING:
            prompt.cursor_blink = self._blinks
        self._is_reading = False
        self.phase = Phase.IDLE
        self._show_progress()
        self._host.notice(notice, leave_next=leave_next)
        if self._suggest is not None and not prompt.text:
            with prompt.prevent(prompt.Changed):  # nobody typed it
                prompt.put(self._suggest())

    async def _remark(self) -> None:
        """Show what there is to know of model and files, each thing once."""
        for note in self.racer.notes if self.racer is not None else ():
            await self._say_once(note)
        if self.chat.session.failed is not None:
            await self._say_once(self.chat.session.failed)

    async def _say_once(self, note: str) -> None:
        if note not in self._said:
            self._said.add(note)
            await self._views.transcript.note(note)
