"""Made-up runs to be recorded: steps of any kind, a racer that gives them, files of what it gave."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from racer_local.tui.events import Answerer  # pyright: ignore[reportMissingImports]
from racer_local.tui.recording import ARRAYS, Recording  # pyright: ignore[reportMissingImports]

from racer_local.answers import Step
from racer_local.draft_tree import ROOT, DraftTree
from racer_local.settings import MAX_BUDGET
from racer_local.stats import GenerationStats
from racer_local.tokens import N_SOURCES, Source, Token
from tests.tui.scripted import ScriptedRacer

HOUR_MS = 3.6e6
ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why [/b]?"}]


# made-up steps


def trees() -> st.SearchStrategy[DraftTree]:
    """Any tree that a policy could draft, and some that none would."""

    @st.composite
    def build(draw: st.DrawFn) -> DraftTree:
        n = draw(st.integers(0, 12))
        tree = DraftTree.allocate(n)
        for i in range(n):
            tree.token[i] = draw(st.integers(0, 2**31 - 1))
            parent = draw(st.integers(ROOT, i - 1))
            tree.parent[i] = parent
            tree.depth[i] = 1 if parent == ROOT else tree.depth[parent] + 1
            tree.source[i] = draw(st.integers(0, N_SOURCES - 1))
            tree.match_len[i] = draw(st.integers(0, 2**15 - 1))
            tree.p[i] = draw(st.floats(0, 1, width=32) | st.just(math.nan))
        return tree

    return build()


def stats() -> st.SearchStrategy[GenerationStats]:
    """Any counters."""
    counts, seconds = st.integers(0, 2**53), st.floats(0, 1e9)
    values: dict[str, st.SearchStrategy[Any]] = {
        f.name: seconds if isinstance(f.default, float) else counts
        for f in fields(GenerationStats)
        if f.name not in ("source_counts", "accepted_hist")
    }
    values["source_counts"] = st.lists(counts, min_size=N_SOURCES, max_size=N_SOURCES)
    values["accepted_hist"] = st.dictionaries(st.integers(0, MAX_BUDGET - 1), counts, max_size=4).map(
        lambda some: [some.get(i, 0) for i in range(MAX_BUDGET)]
    )
    return st.builds(GenerationStats, **values)


def tokens() -> st.SearchStrategy[Token]:
    """Any token; its text may have what JSON, files and terminals take amiss."""
    number = st.integers(0, 2**31 - 1)
    text = st.text(max_size=5) | st.sampled_from(["\n", "\r\n", "\u2028", "\x1b[31m", '"', "\udc80", "\x00"])
    return st.builds(Token, number, text, st.integers(0, N_SOURCES - 1).map(Source), number, number, number)


@st.composite
def steps(draw: st.DrawFn, finish: str | None = None) -> Step:
    """Any step."""
    said = tuple(draw(st.lists(tokens(), max_size=3)))
    tree = draw(trees())
    path = tuple(draw(st.lists(st.integers(0, len(tree) - 1), max_size=3))) if len(tree) else ()
    note = draw(st.text(max_size=5))
    return Step("".join(t.text for t in said), said, tree, path, draw(st.integers(0, 9)), draw(stats()), finish, note)


def same(a: Step, b: Step) -> bool:
    """Whether two steps are equal in every field, types of the arrays included, NaN being equal to NaN."""
    for name in ARRAYS:
        x, y = getattr(a.tree, name), getattr(b.tree, name)
        if x.dtype != y.dtype or not np.array_equal(x, y, equal_nan=name == "p"):
            return False
    plain = [f.name for f in fields(Step) if f.name != "tree"]
    return all(getattr(a, name) == getattr(b, name) for name in plain) and all(
        type(x.source) is type(y.source) for x, y in zip(a.tokens, b.tokens, strict=True)
    )


class Fixed(ScriptedRacer):
    """Gives the steps of its making, an answer each call; an exception among them is raised."""

    def __init__(self, *answers: Sequence[Step | Exception]) -> None:
        super().__init__()
        self._answers = list(answers)
        self.n_closed_early = 0

    def stream(self, prompt: Any, **options: Any) -> Iterator[Step]:
        self.asked.append(list(prompt.messages))
        self.options.append(options)
        return self._give(self._answers.pop(0))

    def _give(self, answer: Sequence[Step | Exception]) -> Iterator[Step]:
        try:
            for step in answer:
                if isinstance(step, Exception):
                    raise step
                yield step
        except GeneratorExit:
            self.n_closed_early += 1
            raise

    def _piece(self, token: int) -> bytes:
        return bytes(range(token % 256, 256)) if token % 3 else b""


def play(answerer: Answerer, messages: Any = ASKED, so_far: Any = (), **options: Any) -> list[Step]:
    """One answer, all of it."""
    return list(answerer.stream(answerer.prepare(messages, so_far), **options))


def record(path: Path, racer: ScriptedRacer, *asked: str) -> Path:
    """A run in which this was asked."""
    with Recording(path, racer) as recording:
        for text in asked:
            play(recording, [{"role": "user", "content": text}], on_prefill=lambda *_: None)
    return path


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The lines of a file, which are JSON to the letter: it knows no NaN."""
    return [json.loads(line, parse_constant=pytest.fail) for line in path.read_text("ascii").splitlines()]


def write(path: Path, lines: Sequence[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "ascii")
    return path
