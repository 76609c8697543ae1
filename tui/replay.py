"""A recorded run, played again: an `Answerer` without a model. The file is described in `recording`."""

import json
import math
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from racer_local.answers import Step
from racer_local.draft_tree import DraftTree
from racer_local.errors import RacerError, UsageError
from racer_local.prompt import Message, Prompt
from racer_local.stats import GenerationStats
from racer_local.thoughts import ThoughtFormat, named
from racer_local.tokens import N_SOURCES, Source, Token

from .decoder import Decoder
from .events import Event
from .recording import FAULTS, KIND, VERSION, index_of, stats_of, text_of, tree_of, whole_of

HEAD_BYTES = 1 << 20
"""A first line that is longer is none of ours: nobody wants a model's file read to its first newline."""
PIECE_S = 0.1
"""Waiting is done in pieces, so that no length of it is too long to be waited for."""


@dataclass(slots=True)
class RecordedAnswer:
    """One answer of the file.

    Attributes:
        messages: What was sent.
        prompt: Token ids that were made of it.
        goes_on: Whether it goes on with an answer that was begun before.
        events: What came, and when in milliseconds: steps, prompt tokens done and to do, the message of an error.
    """

    messages: list[dict[str, str]]
    prompt: list[int]
    goes_on: bool
    events: list[tuple[float, Step | tuple[int, int] | str]] = field(default_factory=list)

    @property
    def steps(self) -> list[Step]:
        """Its steps."""
        return [event for _, event in self.events if isinstance(event, Step)]

    @property
    def n_to_read(self) -> int:
        """Prompt tokens that had to be read, 0 where that is not known."""
        return next((event[1] for _, event in self.events if isinstance(event, tuple)), 0)

    @property
    def question(self) -> str:
        """The last message of the user, empty where there is none."""
        return next((m["content"] for m in reversed(self.messages) if m["role"] == "user"), "")

    @property
    def typed(self) -> str:
        """What is typed into the chat to ask for such an answer."""
        if self.goes_on:
            return "/continue"
        return f"/{self.question}" if self.question.startswith("/") else self.question


@dataclass(frozen=True, slots=True)
class RecordedModel:
    """What the file says of the model.

    Attributes:
        description: Architecture, size and file type.
        device: Where the layers were.
        pieces: Bytes of the tokens that occur.
    """

    description: str
    device: str
    pieces: dict[int, bytes]

    def piece(self, token: int) -> bytes:
        """Bytes of a token; none for one that does not occur."""
        return self.pieces.get(token, b"")


@dataclass(slots=True)
class RecordedContext:
    """The context of the run."""

    n_ctx: int


class Replayed:
    """Answers with the recorded answers in turn, whatever is asked, and begins anew after the last.

    Attributes:
        model, engine: What the file says of them.
        drafts_wanted: Changes nothing.
        answers: All answers that have begun to come.
        n_asked: How many answers were asked for.
        hold: Steps after which an answer waits for `cancel`, for a look at its middle; None plays on.
    """

    def __init__(self, path: Path, speed: float = 1.0) -> None:
        """Read a recording.

        Args:
            path: The file.
            speed: How many times faster than recorded it is played; 0 or infinity: without waiting.

        Raises:
            UsageError: The file cannot be read, is no recording or is damaged, or the speed is no such number.
        """
        if not speed >= 0:
            raise UsageError(f"the speed of a replay must be 0 or more, not {speed}")
        self._pace = 1 / (1e3 * speed) if speed else 0.0
        reader = _Reader(path)
        self.model, self.engine, self.answers = reader.model, reader.engine, reader.answers
        self.drafts_wanted = True
        self.n_asked = 0
        self.hold: int | None = None
        self._head = reader.head
        self._cancelled = threading.Event()
        self._resting = threading.Event()
        self._resting.set()

    @property
    def notes(self) -> list[str]:
        """What people should know of the model, as recorded."""
        return list(self._head["notes"])

    @property
    def thoughts(self) -> ThoughtFormat:
        """How the model marked its thoughts; files of earlier versions do not say it."""
        return named(str(self._head.get("thoughts", "")))

    @property
    def questions(self) -> list[str]:
        """What was asked, one message for each answer."""
        return [answer.question for answer in self.answers]

    @property
    def resting(self) -> bool:
        """Whether no step will come before something is asked: no answer is in progress, or it is held."""
        return self._resting.is_set()

    def drafting(self, draft: Any = None) -> dict[str, Any]:
        """How the recorded answers were drafted."""
        return dict(self._head["drafting"])

    def cancel(self) -> None:
        """End the answer in progress at once; called from another thread."""
        self._cancelled.set()

    def close(self) -> None:
        """End what is in progress; there is nothing to free."""
        self.cancel()

    @property
    def next_answer(self) -> RecordedAnswer:
        """The one that is played next."""
        return self.answers[self.n_asked % len(self.answers)]

    def prepare(
        self, messages: Sequence[Message], so_far: Sequence[int] | str = (), *, make_room: bool = False
    ) -> Prompt:
        """The prompt that the next answer was made for; nobody reads the messages, so all have room."""
        return Prompt(list(self.next_answer.prompt), list(messages), n_begun=len(so_far))

    def stream(self, prompt: Prompt, **options: Any) -> Iterator[Step]:
        """Play the next answer; of the options, `on_prefill` alone has an effect."""
        self._cancelled.clear()
        answer = self.next_answer
        self.n_asked += 1
        return self._play(answer, options.get("on_prefill") or (lambda done, todo: None))

    def _play(self, answer: RecordedAnswer, on_prefill: Callable[[int, int], None]) -> Generator[Step, None, None]:
        self._resting.clear()
        began, n_steps = time.monotonic(), 0
        last = Step("", (), DraftTree.empty(), (), 0, GenerationStats())
        try:
            if answer.n_to_read:
                on_prefill(0, answer.n_to_read)
            for ms, event in answer.events:
                if isinstance(event, Step) and n_steps == self.hold:
                    self._resting.set()
                    self._cancelled.wait()
                if not self._wait_until(began + ms * self._pace):
                    break
                if isinstance(event, str):
                    raise RacerError(event)
                if isinstance(event, tuple):
                    on_prefill(*event)
                    continue
                yield event
                if event.finish_reason:
                    return
                last, n_steps = event, n_steps + 1
            yield Step("", (), DraftTree.empty(), (), 0, last.stats.snapshot(), "cancelled", last.note)
        finally:
            self._resting.set()

    def _wait_until(self, moment: float) -> bool:
        """Wait for a moment; returns at once, and False, when the answer is cancelled."""
        while not self._cancelled.is_set() and (left := moment - time.monotonic()) > 0:
            self._cancelled.wait(min(left, PIECE_S))
        return not self._cancelled.is_set()


class WholeDecoder(Decoder):
    """Hands over what is played all at once, when it has come to rest: what is drawn then does not depend on when
    the interface happens to look.
    """

    def __init__(self, replayed: Replayed) -> None:
        super().__init__(lambda _progress: replayed)
        self._replayed = replayed

    def poll(self) -> list[Event]:
        """What has happened, if no more of it is to come."""
        return super().poll() if self._replayed.resting else []


class _Reader:
    """Takes in a file line by line."""

    def __init__(self, path: Path) -> None:
        self.answers: list[RecordedAnswer] = []
        self._pieces: dict[int, bytes] = {}
        self._before = GenerationStats()
        """Counters of the step before."""
        try:
            with path.open("rb") as file:
                self.head = _head(path, file.readline(HEAD_BYTES))
                for number, text in enumerate(file, 2):
                    try:
                        self._take(json.loads(text))
                    except FAULTS as error:
                        if text.endswith(b"\n"):
                            raise UsageError(f"{path} is damaged in line {number}: {_reason(error)}") from error
        except OSError as error:
            raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
        self.answers = [a for a in self.answers if not all(isinstance(event, tuple) for _, event in a.events)]
        if not self.answers:
            raise UsageError(f"{path} has no answer in it")
        about = self.head["model"]
        self.model = RecordedModel(about["description"], about["device"], self._pieces)
        self.engine = RecordedContext(self.head["n_ctx"])

    def _take(self, line: dict[str, Any]) -> None:
        kind = line["type"]
        for token, piece in line.get("pieces", {}).items():
            self._pieces[int(token)] = piece.encode("latin-1")
        if kind == "answer":
            messages = [{key: text_of(message[key]) for key in ("role", "content")} for message in line["messages"]]
            prompt = [whole_of(token) for token in line["prompt"]]
            self.answers.append(RecordedAnswer(messages, prompt, bool(line["goes_on"])))
            self._before = GenerationStats()
            return
        answer, ms = self.answers[-1], _time(line["ms"])
        if kind == "prefill":
            answer.events.append((ms, (whole_of(line["done"]), whole_of(line["todo"]))))
        elif kind == "step":
            step = _step(line, self._before)
            self._before = step.stats
            answer.events.append((ms, step))
        elif kind == "failed":
            answer.events.append((ms, text_of(line["message"])))


def _head(path: Path, text: bytes) -> dict[str, Any]:
    """The first line."""
    try:
        head = json.loads(text)
        ours = head["type"] == KIND
        made = whole_of(head["version"]) if ours else VERSION
    except FAULTS:
        ours, head, made = False, {}, VERSION
    if not ours:
        raise UsageError(f"{path} is no recording of racer-chat")
    if made != VERSION:
        raise UsageError(f"{path} is a recording of version {made}; this program plays version {VERSION}")
    try:
        for value in (head["model"]["description"], head["model"]["device"], *head["notes"]):
            text_of(value)
        for name in ("policy", "mode", "reason"):
            text_of(head["drafting"][name])
        whole_of(head["n_ctx"])
    except FAULTS as error:
        raise UsageError(f"{path} is damaged in line 1: {_reason(error)}") from error
    return head


def _step(line: dict[str, Any], before: GenerationStats) -> Step:
    """The step that a line describes; `before` has the counters of the one before it."""
    tokens = tuple(_token(*values) for values in line.get("tokens", ()))
    tree = tree_of(line["tree"]) if "tree" in line else DraftTree.empty()
    finish = line.get("finish_reason")
    return Step(
        text="".join(t.text for t in tokens),
        tokens=tokens,
        tree=tree,
        path=tuple(index_of(node, len(tree)) for node in line.get("path", ())),
        n_committed=whole_of(line["n_committed"]),
        stats=stats_of(before, line.get("stats", {})),
        finish_reason=None if finish is None else text_of(finish),
        note=text_of(line.get("note", "")),
    )


def _token(token: Any, text: Any, source: Any, match_len: Any, depth: Any, step: Any) -> Token:
    bits = Source(index_of(source, N_SOURCES))
    return Token(whole_of(token), text_of(text), bits, whole_of(match_len), whole_of(depth), whole_of(step))


def _time(value: Any) -> float:
    if not 0 <= (ms := float(value)) < math.inf:
        raise ValueError(f"{value!r} is no time")
    return ms


def _reason(error: Exception) -> str:
    """What is wrong with a line, in few words."""
    text = str(error)
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        text = "it is no JSON"
    elif isinstance(error, KeyError):
        text = f"{error} is missing"
    return " ".join(text.split())[:100]
