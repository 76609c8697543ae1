"""What a run measures: rows of answers, and where texts differ; to and from JSON."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from racer_local.drafting.policies import OFF_POLICY
from racer_local.errors import UsageError
from racer_local.text_file import read_text

OFF = OFF_POLICY
"""Label of plain decoding, which ratios refer to."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one method made of one prompt. Times are seconds.

    Attributes:
        tokens: Answer tokens.
        text: Their text.
        seconds: Time of all decodes after prefill, our own work included.
        prompt_s: Time of prefill.
        steps: Decodes.
        drafted: Nodes drafted.
        accepted: Nodes accepted.
        own_s: Part of `seconds` that is ours.
    """

    tokens: tuple[int, ...]
    text: str
    seconds: float
    prompt_s: float
    steps: int
    drafted: int
    accepted: int
    own_s: float


@dataclass(frozen=True, slots=True)
class Result:
    """One question answered by one method, all its turns together.

    Attributes:
        question: Its id.
        kind: Its kind.
        method: Label of the method.
        turns: An answer a turn.
    """

    question: str
    kind: str
    method: str
    turns: tuple[Answer, ...]

    def total(self, what: str) -> float:
        """Sum of a field over the turns."""
        return sum(getattr(turn, what) for turn in self.turns)

    @property
    def n_tokens(self) -> int:
        """Answer tokens of all turns."""
        return sum(len(turn.tokens) for turn in self.turns)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a method's text parts from that of plain decoding.

    Attributes:
        question: Id.
        method: Label.
        position: Answer token at which they part.
        gap: Distance of the two tokens' logits in a plain decode of what they share.
    """

    question: str
    method: str
    position: int
    gap: float


@dataclass(slots=True)
class Results:
    """What a run has measured so far.

    Attributes:
        rows: In the order of measuring.
        same: Answers to equal prompts that equal those of plain decoding, by method.
        compared: Answers to equal prompts, by method.
        differences: First differences of the others.
    """

    rows: list[Result] = field(default_factory=list)
    same: dict[str, int] = field(default_factory=dict)
    compared: dict[str, int] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def load_results(file: Path) -> list[Result]:
    """Rows of an earlier report.

    Raises:
        UsageError: The file is no report with rows.
    """
    text = read_text(file)
    try:
        data = json.loads(text)
        return [Result(**{**row, "turns": tuple(_answer(turn) for turn in row["turns"])}) for row in data["rows"]]
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{file} is no report of racer-bench run or peer ({error!r})") from error


def _answer(turn: dict[str, Any]) -> Answer:
    return Answer(**{**turn, "tokens": tuple(turn["tokens"])})
