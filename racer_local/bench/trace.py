"""Recorded answers: what the model said after every token, so that drafting can be tried without the model.

A trace is a compressed NumPy archive (`.npz`) of these arrays. T answer tokens in A answers, k = 16 best of each row:

    version      int32, VERSION
    info         text, JSON: model file, its hash, vocabulary size, drafting, machine, command
    kinds        text[A], kind of each answer's question
    questions    text[A], id of each answer's question
    prompt       int32[P], prompts one after the other; prompt_end int64[A], where each ends
    ended        bool[A], whether an end token ended the answer
    token        int32[T], answers one after the other; answer_end int64[A]
    row_ids      int32[T + A, k], best tokens of the row that each answer token was picked from, and one row more an
                 answer: what came after its last token (an end token, or what the bound cut off); -1 if never decoded
    row_gaps     float16[T + A, k], distance of each to the best logit
    node_at      int64[N], for rows of drafted nodes off the true path: answer and position, as index into row_ids, of
                 the row at which the path leaves the answer
    node_path    int32[N, D], tokens of the path from there, filled up with -1; node_ids, node_gaps likewise its row

Rows off the path are what rejected branches teach the successor table.
"""

import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from racer_local.errors import UsageError

VERSION = 1
TOP = 16
"""Tokens kept of each row; at least the breadth of any drafting to be simulated."""

LogitRow = tuple[NDArray[np.int32], NDArray[np.float32]]
"""Best tokens, int32[k], and their distances to the best logit, float32[k]."""


@dataclass(slots=True)
class TracedAnswer:
    """One answer.

    Attributes:
        kind: Kind of the question.
        question: Its id.
        prompt: int32[n], prompt tokens.
        tokens: int32[m], answer tokens.
        ids: int32[m + 1, TOP], see the module.
        gaps: float32[m + 1, TOP].
        ended: Whether an end token ended it, rather than a bound.
        off_path: Rows of nodes off the true path, by position of leaving and path from there.
    """

    kind: str
    question: str
    prompt: NDArray[np.int32]
    tokens: NDArray[np.int32]
    ids: NDArray[np.int32]
    gaps: NDArray[np.float32]
    ended: bool
    off_path: dict[tuple[int, tuple[int, ...]], LogitRow] = field(default_factory=dict)


@dataclass(slots=True)
class Trace:
    """Answers and what they were recorded from.

    Attributes:
        info: Model, vocabulary size, drafting, machine and command.
        answers: In the order of recording.
    """

    info: dict[str, Any]
    answers: list[TracedAnswer]

    @property
    def n_vocab(self) -> int:
        """Vocabulary size of the model."""
        return int(self.info["n_vocab"])

    def save(self, file: Path) -> None:
        """Write the archive."""
        # an open file, since NumPy would add an ending to a name that has none
        with file.open("wb") as out:
            np.savez_compressed(out, **self._arrays())

    def _arrays(self) -> dict[str, Any]:
        answers = self.answers
        nodes = [(a, at, path, row) for a, x in enumerate(answers) for (at, path), row in x.off_path.items()]
        starts = np.cumsum([0, *[len(x.ids) for x in answers]])
        depth = max((len(path) for _, _, path, _ in nodes), default=1)
        node_path = np.full((len(nodes), depth), -1, np.int32)
        for i, (_, _, path, _) in enumerate(nodes):
            node_path[i, : len(path)] = path
        return {
            "version": np.int32(VERSION),
            "info": np.array(json.dumps(self.info)),
            "kinds": np.array([x.kind for x in answers]),
            "questions": np.array([x.question for x in answers]),
            "ended": np.array([x.ended for x in answers]),
            "prompt": _joined([x.prompt for x in answers]),
            "prompt_end": np.cumsum([len(x.prompt) for x in answers]),
            "token": _joined([x.tokens for x in answers]),
            "answer_end": np.cumsum([len(x.tokens) for x in answers]),
            "row_ids": np.concatenate([x.ids for x in answers]),
            "row_gaps": np.concatenate([x.gaps for x in answers]).astype(np.float16),
            "node_at": np.array([starts[a] + at for a, at, _, _ in nodes], np.int64),
            "node_path": node_path,
            "node_ids": np.array([row[0] for *_, row in nodes], np.int32).reshape(-1, TOP),
            "node_gaps": np.array([row[1] for *_, row in nodes], np.float16).reshape(-1, TOP),
        }

    @classmethod
    def load(cls, file: Path) -> Self:
        """Read an archive.

        Raises:
            UsageError: It is missing, damaged, or of another version.
        """
        try:
            with np.load(file, allow_pickle=False) as data:
                if int(data["version"]) != VERSION:
                    raise UsageError(
                        f"{file} is a trace of version {int(data['version'])}, this program reads {VERSION}"
                    )
                trace = cls(json.loads(str(data["info"])), _answers(data))
                if not all(isinstance(trace.info.get(k), int) for k in ("n_vocab", "n_ctx", "max_tokens")):
                    raise UsageError(f"{file} does not say what it was recorded with; record it again")
                used = (data[name].max(initial=0) for name in ("prompt", "token", "row_ids", "node_path", "node_ids"))
                if max(used) >= trace.n_vocab:
                    raise UsageError(
                        f"{file} holds tokens of another vocabulary than its {trace.n_vocab}; record it again"
                    )
                return trace
        except OSError as error:
            raise UsageError(f"cannot read the trace {file}: {error}") from error
        except (KeyError, ValueError, TypeError, IndexError, EOFError, zipfile.BadZipFile, zlib.error) as error:
            raise UsageError(f"{file} is no trace, or damaged; record it again ({error})") from error


def _joined(parts: Sequence[NDArray[np.int32]]) -> NDArray[np.int32]:
    return np.concatenate([np.zeros(0, np.int32), *parts])


def _answers(data: Mapping[str, NDArray[Any]]) -> list[TracedAnswer]:
    kinds, questions = data["kinds"], data["questions"]
    prompt, token, row_ids = data["prompt"], data["token"], data["row_ids"]
    row_gaps = data["row_gaps"].astype(np.float32)
    out = []
    prompt_at = token_at = 0
    for i, (prompt_end, answer_end) in enumerate(zip(data["prompt_end"], data["answer_end"], strict=True)):
        rows = slice(token_at + i, answer_end + i + 1)
        out.append(
            TracedAnswer(
                kind=str(kinds[i]),
                question=str(questions[i]),
                prompt=prompt[prompt_at:prompt_end],
                tokens=token[token_at:answer_end],
                ids=row_ids[rows],
                gaps=row_gaps[rows],
                ended=bool(data["ended"][i]),
            )
        )
        prompt_at, token_at = prompt_end, answer_end
    starts = np.cumsum([0, *[len(x.ids) for x in out]])
    node_path, node_ids = data["node_path"], data["node_ids"]
    node_gaps = data["node_gaps"].astype(np.float32)
    owner = np.searchsorted(starts, data["node_at"], side="right") - 1
    for i, answer in enumerate(owner):
        at = int(data["node_at"][i] - starts[answer])
        path = tuple(int(t) for t in node_path[i] if t >= 0)
        out[answer].off_path[at, path] = (node_ids[i], node_gaps[i])
    return out
