"""What passes between the interface and the decoding thread: what is asked for, and what is reported."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from racer_local.answers import Step
from racer_local.prompt import Message, Prompt
from racer_local.stats import GenerationStats
from racer_local.thoughts import ThoughtFormat


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


class Answerer(Protocol):
    """What the chat needs of a `racer_local.api.Racer`.

    Attributes:
        drafts_wanted: Whether drafts are made; changed by the interface while the thread decodes.
    """

    drafts_wanted: bool

    @property
    def model(self) -> LoadedModel:
        """The loaded file."""
        ...

    @property
    def engine(self) -> Context:
        """Its context."""
        ...

    @property
    def notes(self) -> list[str]:
        """What people should know, a line each."""
        ...

    @property
    def thoughts(self) -> ThoughtFormat:
        """How the model marks its thoughts; the marks are part of the text of its tokens."""
        ...

    def prepare(
        self, messages: Sequence[Message], so_far: Sequence[int] | str = (), *, make_room: bool = False
    ) -> Prompt:
        """The prompt that asks for the next answer, or for the rest of one; without turns that have no room."""
        ...

    def stream(self, prompt: Prompt, **options: Any) -> Iterator[Step]:
        """Answer a prompt step by step."""
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


# what the interface asks for


@dataclass(frozen=True, slots=True)
class Ask:
    """Answer a conversation.

    Attributes:
        messages: The conversation.
        options: Those of `Racer.stream`.
        so_far: Beginning of the answer, to go on with.
        journal: Called in the thread with every step before the interface sees it.
    """

    messages: Sequence[Message]
    options: Mapping[str, Any]
    so_far: Sequence[int] | str = ()
    journal: Callable[[Step], None] | None = None


@dataclass(frozen=True, slots=True)
class Compare:
    """Answer once more without drafts and say how that differs.

    Attributes:
        ask: How the answer was made; its seed is set.
        tokens: The answer's tokens.
        stats: Its totals.
    """

    ask: Ask
    tokens: Sequence[int]
    stats: GenerationStats


@dataclass(frozen=True, slots=True)
class Change:
    """Load another model; the one before comes back if that fails."""

    open_racer: Opener


Job = Ask | Compare | Change


# what the thread reports


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
class NotChanged:
    """Another model could not be loaded; the one before is being loaded again."""

    message: str


@dataclass(frozen=True, slots=True)
class Began:
    """The prompt is made and about to be read.

    Attributes:
        context: Its tokens, with those of an answer that is gone on with.
        n_left_out: Oldest turns that the context has no room for.
    """

    context: list[int] = field(repr=False)
    n_left_out: int


@dataclass(frozen=True, slots=True)
class Compared:
    """An answer without drafts, beside the one with them.

    Attributes:
        stats: Totals without drafts.
        position: First token that differs; None if all are the same.
        pair: Texts of the two tokens there, with drafts and without; empty where one answer had ended.
        gap: Distance of their logits in a plain decode.
        complete: Whether it was not stopped.
    """

    stats: GenerationStats
    position: int | None = None
    pair: tuple[str, str] = ("", "")
    gap: float = 0.0
    complete: bool = True


@dataclass(frozen=True, slots=True)
class Failed:
    """What was in progress ended with an error; the steps that came before stand."""

    message: str


Event = Loaded | LoadFailed | NotChanged | Began | Compared | Failed | Step
"""An answer ends with a step that has a finish reason, or with `Failed`; a comparison with `Compared` or `Failed`."""
