"""What the decoding thread brings, for the application that holds widgets, conversation and thread."""

import gc
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.app import App

from racer_local.answers import Step
from racer_local.terminal_text import one_line

from .chat import Chat
from .decoder import Decoder
from .draft_reason import draft_reason
from .draw_throttle import CALM_SHARE, PANELS_SHARE, DrawThrottle
from .events import Answerer, Ask, Began, Compared, Event, Failed, Loaded, LoadFailed, NotChanged
from .widgets.answer import Answer
from .widgets.prompt import Prompt
from .widgets.stats import StatsPanel
from .widgets.status import StatusLine
from .widgets.transcript import Transcript
from .widgets.tree import StepTree

FOOTNOTES = {
    "cancelled": "stopped; /continue goes on",
    "length": "ended at the bound of tokens for an answer; /continue goes on",
    "context": "ended because the context is full",
}
TAIL_TOKENS = 12
"""Tokens at a prompt's end that show whether it opens a thought."""


class Receiving(App[None]):
    """Takes events from the thread and brings them to conversation and widgets.

    Attributes:
        chat: The conversation.
        racer: The loaded model, None while there is none.
        answer: Place of the answer in progress, None while there is none.
        comparing: Whether a comparison is in progress.
        last_words: To be said on stderr once the screen is restored.
    """

    engine: Decoder
    transcript: Transcript
    tree_panel: StepTree
    stats_panel: StatsPanel
    prompt: Prompt
    status: StatusLine
    if TYPE_CHECKING:

        def notice(self, text: str = "", *, leave_next: bool = False) -> None:
            """Say something in the hint line."""

        async def show_conversation(self) -> None:
            """Draw the whole conversation anew."""

        async def show_comparison(self, event: Compared) -> None:
            """Say what a comparison has found."""

    def __init__(self, chat: Chat) -> None:
        super().__init__()
        self.chat = chat
        self.racer: Answerer | None = None
        self.answer: Answer | None = None
        self.comparing = False
        self.suggest: Callable[[], str] | None = None
        self.last_words = ""
        self._tokens_read: list[int] = []
        """Tokens of the prompt in progress and of what has been answered to it."""
        self._undrawn: list[Step] = []
        self._pace = DrawThrottle()
        self._draft_note: tuple[str, bool] = ("", False)
        """Why drafting is as it is, and whether that limits it; a step's own note goes before."""
        self._leave_next = False
        self._blinks: bool | None = None
        """Whether the cursor blinks again once the answer is done; None while none is in progress."""
        self._said: set[str] = set()
        """Notes that were shown; each is shown once."""

    @property
    def is_busy(self) -> bool:
        """Whether something is in progress that a second thing would disturb."""
        return self.racer is None or self.answer is not None or self.comparing

    @property
    def _share(self) -> float:
        is_calm = not (self.tree_panel.display or self.stats_panel.display or self.transcript.shows_tokens)
        return CALM_SHARE if is_calm else PANELS_SHARE

    async def tick(self) -> None:
        events = self.engine.poll()
        for event in events:
            if isinstance(event, Began):
                await self._began(event)
        self._undrawn += [event for event in events if isinstance(event, Step)]
        ended = any(e.finish_reason if isinstance(e, Step) else not isinstance(e, Began) for e in events)
        if self._undrawn and (self._pace.due(self._share) or ended):
            steps, self._undrawn = self._undrawn, []
            await self._take(steps)
        for event in events:
            if not isinstance(event, Step | Began):
                await self._handle(event)
        self.status.change(progress=self.engine.progress, prefill=self.engine.prefill)

    async def _handle(self, event: Event) -> None:
        if isinstance(event, Loaded):
            await self._loaded(event.racer)
        elif isinstance(event, LoadFailed):
            self.last_words = f"racer-chat: {one_line(event.message)}"
            if self.prompt.text.strip():
                self.last_words += f"\nnot sent: {self.prompt.text}"
            self.exit(return_code=event.exit_code)
        elif isinstance(event, NotChanged):
            await self.transcript.note(f"{event.message}; the model from before is loaded again")
        elif isinstance(event, Compared):
            await self.show_comparison(event)
        elif isinstance(event, Failed):
            if self.comparing:
                self.comparing = False
                await self.transcript.note(event.message)
                self._at_rest()
            else:
                await self._end("failed", event.message)

    async def _loaded(self, racer: Answerer) -> None:
        self.racer = racer
        gc.freeze()  # what is loaded by now stays; looking through it for garbage halts everything for 0.1 s
        self.status.change(model=racer.model.description, device=racer.model.device, n_ctx=racer.engine.n_ctx)
        self.show_drafting()
        self._at_rest()
        await self._remark()

    def show_drafting(self) -> None:
        """Say in the status line how answers are drafted from now on."""
        assert self.racer is not None
        drafting = self.racer.drafting(self.chat.draft)
        policy, mode, reason = drafting["policy"], drafting["mode"], drafting["reason"]
        self.status.change(draft="drafting off" if mode == "off" else f"{policy} {mode}")
        self._draft_note = (reason, mode != "tree")
        self._show_reason("" if self.racer.drafts_wanted else "drafting is switched off (F5)")
        self.tree_panel.set_model(self.racer.model.piece, f"{mode}: {reason}")

    async def _began(self, event: Began) -> None:
        self._tokens_read = event.context
        if event.n_left_out:
            turns = "turn is" if event.n_left_out == 1 else f"{event.n_left_out} turns are"
            await self._say_once(f"the context is full: the oldest {turns} left out of what the model reads")
        if self.answer is not None and self.racer is not None and not self.answer.text:
            known = self.racer.thoughts
            tail = b"".join(self.racer.model.piece(token) for token in event.context[-TAIL_TOKENS:])
            self.chat.session.mark_thoughts(known, opened=known.is_opened_by(tail.decode("utf-8", "replace")))
            self.answer.begin(self.chat.turns[-1].splitter())

    async def _take(self, steps: Sequence[Step]) -> None:
        assert self.answer is not None, "steps come while an answer is in progress"
        self.chat.add(steps)
        self.answer.add(steps)
        self.stats_panel.add(steps)
        for i in range(len(steps) - 1, -1, -1):
            if len(steps[i].tree):
                self._show_draft(steps, i)
                break
        self._tokens_read += [token.id for step in steps for token in step.tokens]
        last = steps[-1]
        self.status.change(stats=last.stats, reading=False)
        self._show_reason(last.note)
        if last.finish_reason:
            await self._end(last.finish_reason)

    def _show_draft(self, steps: Sequence[Step], i: int) -> None:
        """Show a step's draft; why it was made is looked up when it is drawn."""
        step, n_before = steps[i], sum(len(earlier.tokens) for earlier in steps[:i])
        context = self._tokens_read
        at = len(context) + n_before

        def reason() -> str:
            piece = self.racer.model.piece if self.racer is not None else bytes
            return draft_reason(context[:at], step.tree, step.path, piece)

        self.tree_panel.show(step.tree, step.path, step.stats.steps, reason)

    def _show_reason(self, note: str) -> None:
        reason, limited = (note, True) if note else self._draft_note
        self.status.change(reason=reason, limited=limited)

    async def _end(self, reason: str, error: str = "") -> None:
        answer, self.answer = self.answer, None
        assert answer is not None, "an answer ends once"
        answer.finish(FOOTNOTES.get(reason, "" if answer.text or error else "an empty answer"))
        notice = "stopped; Ctrl+C again leaves" if self._leave_next else ""
        n_turns = len(self.chat.turns)
        text = self.chat.end(reason)
        if text is not None:
            self.prompt.put_back(text)
            await self.transcript.take_back()
            notice = notice or "no answer has begun; your text is back in the input"
        elif reason in ("failed", "cancelled") and not answer.text and n_turns:
            await self.show_conversation()
            notice = notice or "no answer has begun; the one from before stays"
        if error:
            await self.transcript.note(error)
        await self._remark()
        self._at_rest(notice, leave_next=self._leave_next)

    def _at_rest(self, notice: str = "", *, leave_next: bool = False) -> None:
        """Nothing is in progress any more."""
        self.status.change(reading=False)
        self.prompt.ready = True
        if self._blinks is not None:
            self.prompt.cursor_blink, self._blinks = self._blinks, None
        self.notice(notice, leave_next=leave_next)
        if self.suggest is not None and not self.prompt.text:
            with self.prompt.prevent(self.prompt.Changed):  # nobody typed it
                self.prompt.put(self.suggest())

    async def _remark(self) -> None:
        """Show what there is to know of model and files, each thing once."""
        for note in self.racer.notes if self.racer is not None else ():
            await self._say_once(note)
        if self.chat.session.failed is not None:
            await self._say_once(self.chat.session.failed)

    async def _say_once(self, note: str) -> None:
        if note not in self._said:
            self._said.add(note)
            await self.transcript.note(note)

    def keep_unsent(self) -> None:
        """Write what stands in the input to the session, so that a crash does not lose it."""
        text = self.prompt.text
        self.chat.session.unsent("" if text.startswith("/") else text)

    def begin(self, ask: Ask, answer: Answer) -> None:
        """Give an answer to the thread to be made, and a place on the screen."""
        self.answer = answer
        self._pace.restart()
        self.prompt.ready = False
        self._blinks = self.prompt.cursor_blink
        self.prompt.cursor_blink = False  # each blink is a draw, which decoding pays for
        self.stats_panel.begin()
        self.engine.ask(ask)
        self.status.change(reading=True)
        self.notice()
