"""A thread that loads the model and decodes; the interface looks in now and then and never waits for it."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from racer_local.errors import ExitCode, RacerError
from racer_local.records import Step

CLOSE_TIMEOUT_S = 10.0
"""How long leaving waits for the thread: a decode in progress ends early, other native calls do not."""


class LoadedModel(Protocol):
    """A model file, as `llama.model.Model` is one."""

    @property
    def description(self) -> str:
        """Architecture, size and file type."""
        ...

    @property
    def device(self) -> str:
        """Where the layers are."""
        ...

    def piece(self, token: int) -> bytes:
        """Bytes that a token adds to the text."""
        ...


class Context(Protocol):
    """A context, as `llama.engine.Engine` is one."""

    n_ctx: int


class Template(Protocol):
    """How messages are rendered, as `llama.chat.ChatFormat` does it."""

    note: str


class Answerer(Protocol):
    """What the chat needs of a `racer_local.api.Racer`."""

    @property
    def model(self) -> LoadedModel:
        """The loaded file."""
        ...

    @property
    def engine(self) -> Context:
        """Its context."""
        ...

    @property
    def chat_format(self) -> Template:
        """Renders messages."""
        ...

    def stream_chat(self, messages: Sequence[Mapping[str, str]], **options: Any) -> Iterator[Step]:
        """Answer a conversation step by step."""
        ...

    def drafting(self, draft: Any = None) -> dict[str, Any]:
        """How an answer would be drafted: `policy`, `mode`, `reason`."""
        ...

    def cancel(self) -> None:
        """End the answer in progress; called from another thread."""
        ...

    def close(self) -> None:
        """Free everything."""
        ...


Opener = Callable[[Callable[[float], bool]], Answerer]
"""Loads a model; is given a function that takes progress from 0 to 1 and returns False to give up."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The model is ready."""

    racer: Answerer


@dataclass(frozen=True, slots=True)
class LoadFailed:
    """There is no model, and there will be none."""

    message: str
    exit_code: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The answer in progress ended with an error; the steps that came before stand."""

    message: str


Event = Loaded | LoadFailed | Failed | Step
"""What the thread reports; an answer ends with a step that has a finish reason, or with `Failed`."""


class Decoder:
    """Owner of the decoding thread and of the model in it. One answer at a time.

    Attributes:
        progress: How much of the file is loaded, 0 to 1.
        prefill: Prompt tokens done and to do; None before the first are done.
    """

    def __init__(self, open_racer: Opener) -> None:
        """Prepare; `start` begins to load."""
        self._open = open_racer
        self._events: SimpleQueue[Event] = SimpleQueue()
        self._jobs: SimpleQueue[tuple[Sequence[Mapping[str, str]], dict[str, Any]] | None] = SimpleQueue()
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

    def ask(self, messages: Sequence[Mapping[str, str]], options: Mapping[str, Any]) -> None:
        """Answer a conversation; takes the options of `Racer.stream_chat`."""
        self._stop.clear()
        self.prefill = None
        self._jobs.put((list(messages), dict(options)))

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
            racer = self._racer = self._open(self._report)
        except RacerError as error:
            self._events.put(LoadFailed(str(error), error.exit_code))
            return
        # whatever else goes wrong must reach the screen: nobody sees a traceback behind it
        except Exception as error:
            self._events.put(LoadFailed(_unexpected(error), ExitCode.FAILED))
            return
        try:
            self._events.put(Loaded(racer))
            while not self._closing.is_set() and (job := self._jobs.get()) is not None:
                self._answer(racer, *job)
        finally:
            racer.close()

    def _answer(self, racer: Answerer, messages: Sequence[Mapping[str, str]], options: dict[str, Any]) -> None:
        def on_prefill(done: int, todo: int) -> None:
            self.prefill = (done, todo)
            self._repeat_stop(racer)

        try:
            for step in racer.stream_chat(messages, on_prefill=on_prefill, **options):
                self._events.put(step)
                self._repeat_stop(racer)
        except RacerError as error:
            self._events.put(Failed(str(error)))
        # as above: an answer that ends without a word would leave the interface waiting
        except Exception as error:
            self._events.put(Failed(_unexpected(error)))

    def _repeat_stop(self, racer: Answerer) -> None:
        """Ask again: a stop that came before the answer had begun was forgotten at its beginning."""
        if self._stop.is_set():
            racer.cancel()

    def _report(self, progress: float) -> bool:
        self.progress = progress
        return not self._closing.is_set()


def _unexpected(error: Exception) -> str:
    return f"unexpected {type(error).__name__}: {error}"
