"""A thread that loads the model and decodes; the interface looks in now and then and never waits for it."""

import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from queue import Empty, SimpleQueue

from racer_local.answers import Step
from racer_local.drafting.policies import OFF_POLICY
from racer_local.errors import ExitCode, RacerError
from racer_local.sequences import common_prefix

from .events import (
    Answerer,
    Ask,
    Began,
    Change,
    Compare,
    Compared,
    Event,
    Failed,
    Job,
    Loaded,
    LoadFailed,
    NotChanged,
    Opener,
)

CLOSE_TIMEOUT_S = 10.0
"""How long leaving waits for the thread: a decode in progress ends early, other native calls do not."""
Difference = Callable[[Answerer, list[int], Sequence[int], Sequence[int]], tuple[int, float]]
"""Where two answers to a prompt part and how far apart the logits are there; see `compare.first_difference`."""


class Decoder:
    """Owner of the decoding thread and of the model in it. One job at a time.

    Attributes:
        progress: How much of the file is loaded, 0 to 1.
        prefill: Prompt tokens done and to do; None before the first are done.
    """

    def __init__(self, open_racer: Opener, difference: Difference | None = None) -> None:
        """Prepare; `start` begins to load.

        Args:
            open_racer: Loads the model.
            difference: Compares two answers; None takes the real one.
        """
        self._open = open_racer
        self._difference = difference
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._racer: Answerer | None = None
        self._stop = threading.Event()
        self._closing = threading.Event()
        # a daemon, so that a native call that does not return cannot keep the program from ending
        self._thread = threading.Thread(target=self._run, name="decoder", daemon=True)
        self.progress = 0.0
        self.prefill: tuple[int, int] | None = None

    def start(self) -> None:
        """Begin to load the model."""
        self._thread.start()

    def poll(self) -> list[Event]:
        """What happened since the last call; never waits."""
        events: list[Event] = []
        while True:
            try:
                events.append(self._events.get_nowait())
            except Empty:
                return events

    def ask(self, job: Job) -> None:
        """Begin a job; the one before has ended."""
        self._stop.clear()
        self.prefill = None
        if isinstance(job, Change):
            self.progress = 0.0
        self._jobs.put(job)

    def stop(self) -> None:
        """End the answer in progress; it still ends with a last step."""
        self._stop.set()
        if self._racer is not None:
            self._racer.cancel()

    def close(self, timeout: float = CLOSE_TIMEOUT_S) -> bool:
        """End everything and free the model. Closing twice is allowed.

        Args:
            timeout: Seconds to wait for the thread.

        Returns:
            Whether the thread has ended.
        """
        self._closing.set()
        self.stop()
        self._jobs.put(None)
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    # inside the thread

    def _run(self) -> None:
        try:
            self._load(self._open)
            while not self._closing.is_set() and (job := self._jobs.get()) is not None:
                if isinstance(job, Change):
                    self._change(job)
                else:
                    self._work(job)
        except RacerError as error:
            self._events.put(LoadFailed(str(error), error.exit_code))
        # whatever else goes wrong must reach the screen: nobody sees a traceback behind it
        except Exception as error:
            self._events.put(LoadFailed(_unexpected(error), ExitCode.FAILED))
        finally:
            if self._racer is not None:
                self._racer.close()

    def _load(self, open_racer: Opener) -> None:
        racer = self._racer = open_racer(self._report)
        self._open = open_racer
        self._events.put(Loaded(racer))

    def _change(self, job: Change) -> None:
        """Load another model. Two at once might not fit, so the one before goes first."""
        assert self._racer is not None
        self._racer.close()
        self._racer = None
        try:
            self._load(job.open_racer)
        except Exception as error:
            message = str(error) if isinstance(error, RacerError) else _unexpected(error)
            self._events.put(NotChanged(message))
            self.progress = 0.0
            self._load(self._open)

    def _work(self, job: Ask | Compare) -> None:
        assert self._racer is not None
        try:
            if isinstance(job, Ask):
                self._answer(self._racer, job)
            else:
                self._compare(self._racer, job)
        except RacerError as error:
            self._events.put(Failed(str(error)))
        # as above: an answer that ends without a word would leave the interface waiting
        except Exception as error:
            self._events.put(Failed(_unexpected(error)))

    def _answer(self, racer: Answerer, job: Ask) -> None:
        prompt = racer.prepare(job.messages, job.so_far, make_room=True)
        self._events.put(Began(prompt.tokens, prompt.n_left_out))
        for step in racer.stream(prompt, on_prefill=self._on_prefill(racer), **job.options):
            if job.journal is not None:
                job.journal(step)
            self._events.put(step)
            self._repeat_stop(racer)

    def _compare(self, racer: Answerer, job: Compare) -> None:
        ask = job.ask
        prompt = racer.prepare(ask.messages, ask.so_far, make_room=True)
        options = {**ask.options, "draft": OFF_POLICY}
        plain: list[int] = []
        last: Step | None = None
        for step in racer.stream(prompt, on_prefill=self._on_prefill(racer), **options):
            plain += [token.id for token in step.tokens]
            last = step
            self._repeat_stop(racer)
        assert last is not None, "an answer has a last step"
        complete = last.finish_reason != "cancelled"
        drafted = list(job.tokens)
        at = common_prefix(drafted, plain)
        if at == len(drafted) == len(plain) or not complete:
            self._events.put(Compared(last.stats, complete=complete))
            return
        find = self._difference or import_module("racer_local.compare").first_difference
        _, gap = find(racer, prompt.tokens, drafted, plain)
        pair = tuple(_text(racer, tokens, at) for tokens in (drafted, plain))
        self._events.put(Compared(last.stats, at, (pair[0], pair[1]), gap))

    def _on_prefill(self, racer: Answerer) -> Callable[[int, int], None]:
        def on_prefill(done: int, todo: int) -> None:
            self.prefill = (done, todo)
            self._repeat_stop(racer)

        return on_prefill

    def _repeat_stop(self, racer: Answerer) -> None:
        """Ask again: a stop that came before the answer had begun was forgotten at its beginning."""
        if self._stop.is_set():
            racer.cancel()

    def _report(self, progress: float) -> bool:
        self.progress = progress
        return not self._closing.is_set()


def _text(racer: Answerer, tokens: Sequence[int], at: int) -> str:
    """Text of a token of an answer, empty where it has ended."""
    return racer.model.piece(tokens[at]).decode("utf-8", "replace") if at < len(tokens) else ""


def _unexpected(error: Exception) -> str:
    return f"unexpected {type(error).__name__}: {error}"
