"""Question sets: JSON lines of `question_id`, `category` and `turns`, as Spec-Bench has them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from racer_local.errors import UsageError
from racer_local.text_file import read_text

OWN = Path(__file__).with_name("prompts.jsonl")
"""The questions written for this project, used when none are named."""

MT_BENCH = frozenset(
    {"writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities"},
)
"""Categories of MT-Bench, which Spec-Bench reports together."""
MULTI_TURN = "multi-turn"
WARM_UP = "Count from one to ten."
"""Asked before anything is measured."""
WARM_UP_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Question:
    """One conversation to hold.

    Attributes:
        id: As the file names it.
        kind: Group in reports: the category; `multi-turn` for MT-Bench's; the file's name where a set of single
            questions has an MT-Bench category (HumanEval, MGSM).
        turns: What the user says, one after the other.
    """

    id: str
    kind: str
    turns: tuple[str, ...]


def load(files: Sequence[Path], limit: int | None = None, skip: int = 0) -> list[Question]:
    """Read question files, the kinds taking turns: the first of each kind, then the second of each, and so on.

    Args:
        files: JSON lines files.
        limit: Questions of each kind at most.
        skip: Questions of each kind left out before those, so that one set can teach and another judge.

    Raises:
        UsageError: A file cannot be read, a line is no question, or none is left.
    """
    kinds: dict[str, list[Question]] = {}
    taken: set[tuple[str, str]] = set()
    for file in files:
        for question in _read(file, taken):
            kinds.setdefault(question.kind, []).append(question)
    longest = max((len(q) for q in kinds.values()), default=0)
    rounds = min(longest, skip + limit) if limit is not None else longest
    left = [questions[i] for i in range(skip, rounds) for questions in kinds.values() if i < len(questions)]
    if not left:
        raise UsageError(f"no kind has more than {skip} questions")
    return left


def _read(file: Path, taken: set[tuple[str, str]]) -> list[Question]:
    lines = read_text(file, "the questions").splitlines()
    found = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                question = _question(json.loads(line), file)
                # ids tell questions apart in reports: one that is missing or taken becomes the place in the file
                if not question.id or (question.kind, question.id) in taken:
                    question = replace(question, id=f"{file.name}:{number}")
                taken.add((question.kind, question.id))
                found.append(question)
            except (ValueError, TypeError, KeyError) as error:
                raise UsageError(f"{file}, line {number}: no question in JSON ({error})") from error
    if not found:
        raise UsageError(f"{file} holds no questions")
    return found


def _question(data: Any, file: Path) -> Question:
    if not isinstance(data, dict):
        raise TypeError("a question is an object")
    turns, category = data.get("turns"), data.get("category")
    if not isinstance(turns, list) or not turns or not all(isinstance(t, str) and t.strip() for t in turns):
        raise ValueError("'turns' must be a list of texts, at least one")
    if not isinstance(category, str) or not category:
        raise ValueError("'category' must be a name")
    kind = category
    if category in MT_BENCH:
        kind = MULTI_TURN if len(turns) > 1 else file.stem
    return Question(str(data.get("question_id", "")), kind, tuple(turns))
