"""Recording a trace: a drafter that passes everything on and writes down every verified row."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from racer_local.api import Racer
from racer_local.bench.harness import answer_greedily, converse, fresh_cost, fresh_drafter
from racer_local.bench.questions import Question
from racer_local.bench.trace import TOP, LogitRow, Trace, TracedAnswer
from racer_local.draft_tree import DraftTree
from racer_local.drafting.cost import StepCost
from racer_local.drafting.drafter import Drafter
from racer_local.drafting.policies import DraftConfig
from racer_local.drafting.successors import RowScan
from racer_local.sequences import common_prefix


class TraceRecorder:
    """Stands between the loop and a drafter."""

    def __init__(self, inner: Drafter, k: int) -> None:
        self._inner = inner
        self._narrow = RowScan(k)
        self.note = inner.note
        self._rows: list[tuple[tuple[int, ...], LogitRow]] = []
        self._committed: list[int] = []

    def begin(self, prompt: Sequence[int]) -> None:
        """Start a new answer."""
        self._rows.clear()
        self._committed.clear()
        self._inner.begin(prompt)

    def propose(self, limit: int) -> DraftTree:
        """Pass on."""
        return self._inner.propose(limit)

    def learn(self, root: int, tree: DraftTree, scan: RowScan, path: Sequence[int], committed: Sequence[int]) -> None:
        """Write down the rows of the root and of every node, by the tokens of the answer that lead there."""
        before = tuple(self._committed)
        paths: list[tuple[int, ...]] = [before]
        for node in range(len(tree)):
            paths.append((*paths[tree.parent[node] + 1], int(tree.token[node])))
        for row, tokens in enumerate(paths):
            self._rows.append((tokens, (scan.ids[row].copy(), scan.gaps[row].copy())))
        self._committed += committed
        self._narrow.fill(scan.ids, scan.gaps)
        self._inner.learn(root, tree, self._narrow, path, committed)

    def answer(self, kind: str, question: str, prompt: Sequence[int], *, ended: bool) -> TracedAnswer:
        """What was recorded since `begin`."""
        truth = self._committed
        out = TracedAnswer(
            kind=kind,
            question=question,
            prompt=np.asarray(prompt, np.int32),
            tokens=np.asarray(truth, np.int32),
            ids=np.full((len(truth) + 1, TOP), -1, np.int32),
            gaps=np.full((len(truth) + 1, TOP), np.inf, np.float32),
            ended=ended,
        )
        for tokens, row in self._rows:
            at = common_prefix(tokens, truth)
            if at == len(tokens):
                out.ids[at], out.gaps[at] = row
            else:
                out.off_path[at, tokens[at:]] = row
        return out


def record_trace(
    racer: Racer,
    questions: Sequence[Question],
    config: DraftConfig,
    max_tokens: int,
    info: dict[str, Any],
    trace: Trace,
    on_progress: Callable[[int, int], None],
) -> None:
    """Answer all questions greedily with one memory throughout, recording into `trace`.

    Args:
        racer: The loaded model.
        questions: What to ask.
        config: How to draft.
        max_tokens: Bound of each answer.
        info: Goes into the trace.
        trace: Filled as the recording goes on, so that an interrupted one keeps what it has.
        on_progress: Called with questions done and to do.
    """
    trace.info.update(info)
    cost = fresh_cost(racer, config)
    recorder = TraceRecorder(fresh_drafter(racer, config, cost), config.breadth)
    for number, question in enumerate(questions):
        on_progress(number, len(questions))
        converse(racer, question, partial(_answer, racer, recorder, cost, question, max_tokens, trace))
    on_progress(len(questions), len(questions))


def _answer(
    racer: Racer,
    recorder: TraceRecorder,
    cost: StepCost,
    question: Question,
    max_tokens: int,
    trace: Trace,
    prompt: list[int],
) -> str:
    done = answer_greedily(racer, recorder, prompt, max_tokens, RowScan(TOP), cost)
    ended = done.finish_reason == "stop"
    trace.answers.append(recorder.answer(question.kind, question.id, prompt, ended=ended))
    return done.text
