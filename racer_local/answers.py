"""An answer: a step for each decode, and the whole when it has ended. Data only; nothing here decides."""

from collections.abc import Iterable
from dataclasses import dataclass

from racer_local.draft_tree import DraftTree
from racer_local.stats import GenerationStats
from racer_local.tokens import Token


@dataclass(frozen=True, slots=True)
class Step:
    """What one decode brought.

    Attributes:
        text: Text released by this step: the texts of `tokens` joined.
        tokens: Tokens released. Those of a possible stop string wait for a later step; half a character is no text yet.
        tree: The draft that was verified.
        path: Accepted nodes of `tree`, from the root down.
        n_committed: Tokens that this decode decided, released or not; at least 1.
        stats: Running totals, a snapshot.
        finish_reason: Set on the last step only: `stop`, `length`, `context`, `cancelled`.
        note: Why drafting is off or paused, empty otherwise.
    """

    text: str
    tokens: tuple[Token, ...]
    tree: DraftTree
    path: tuple[int, ...]
    n_committed: int
    stats: GenerationStats
    finish_reason: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished answer. `str()` gives its text.

    Attributes:
        text: The whole answer.
        tokens: Its tokens; their texts joined are `text`.
        finish_reason: `stop` (end token or stop string), `length` (max_tokens), `context` (full), `cancelled`.
        stats: Totals of the answer.
        note: Why drafting was off or paused at its end, empty otherwise.
    """

    text: str
    tokens: tuple[Token, ...]
    finish_reason: str
    stats: GenerationStats
    note: str = ""

    def __str__(self) -> str:
        return self.text


def collect(steps: Iterable[Step]) -> Completion:
    """Put the steps of an answer together."""
    tokens: list[Token] = []
    last: Step | None = None
    for step in steps:
        tokens += step.tokens
        last = step
    assert last is not None
    assert last.finish_reason is not None, "an answer ends with a reason"
    return Completion("".join(t.text for t in tokens), tuple(tokens), last.finish_reason, last.stats, last.note)
