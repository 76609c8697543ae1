"""What tests of the benchmarks share: a made-up model that has answered, and wrong calls of racer-bench."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from racer_local.bench.cli import main
from racer_local.bench.trace import TOP, Trace, TracedAnswer
from racer_local.errors import ExitCode

V = 200


def write_lines(path: Path, *lines: object) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    return path


def fails(capsys: pytest.CaptureFixture[str], code: ExitCode, *args: str) -> str:
    """Run racer-bench with wrong input: one line on stderr, nothing on stdout."""
    try:
        returned: Any = main(list(args))
    except SystemExit as left:
        returned = left.code
    assert returned == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("racer-bench")
    return err


def successor(a: int, b: int) -> int:
    """The made-up model: what follows two tokens."""
    return (a * 7 + b * 3 + 11) % 40


def row_of(context: list[int]) -> tuple[np.ndarray, np.ndarray]:
    best = successor(*context[-2:])
    others = [(best + 1 + i) % 40 for i in range(TOP - 1)]
    return np.array([best, *others], np.int32), np.arange(TOP, dtype=np.float32)


def made_up(n_answers: int = 4, length: int = 80, *, ended: bool = False) -> Trace:
    """Answers of the made-up model, the rows of the true path alone."""
    answers = []
    for i in range(n_answers):
        context = [i + 1, i + 2, i + 3]
        prompt, ids, gaps = list(context), [], []
        for _ in range(length + 1):
            best, distance = row_of(context)
            ids.append(best)
            gaps.append(distance)
            context.append(int(best[0]))
        answers.append(
            TracedAnswer(
                f"kind{i % 2}",
                str(i),
                np.array(prompt, np.int32),
                np.array(context[3 : 3 + length], np.int32),
                np.array(ids),
                np.array(gaps),
                ended,
                {(2, (5, 6)): row_of([5, 6])},
            )
        )
    return Trace({"n_vocab": V, "n_ctx": 512, "max_tokens": 1000 if ended else length}, answers)
