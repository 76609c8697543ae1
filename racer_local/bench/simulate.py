"""Driving the real drafters by a recorded truth, without a model: deterministic, thousands of tokens a second.

What the model would say after a node on the true path, or after a recorded node off it, comes from the trace. A node
that was never recorded teaches nothing, so simulated drafting is at best as good as measured, and equal to it where the
same drafts were recorded.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from racer_local.bench.curves import Curve
from racer_local.bench.methods import ORACLE
from racer_local.bench.oracle import OracleDrafter
from racer_local.bench.results import Answer, Result
from racer_local.bench.trace import Trace, TracedAnswer
from racer_local.draft_tree import DraftMode, DraftTree
from racer_local.drafting.beliefs import Beliefs
from racer_local.drafting.cost import StepCost
from racer_local.drafting.drafter import Drafter
from racer_local.drafting.policies import DraftConfig, make_drafter, make_memory
from racer_local.drafting.successors import RowScan
from racer_local.errors import RacerError
from racer_local.kernels.verify import walk_greedy
from racer_local.settings import MAX_BUDGET

TREE = DraftMode("tree", "simulated")


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a trace, and what a decode costs.

    Attributes:
        n_ctx: Context length.
        max_tokens: Bound of each answer.
        curve: Cost of a decode.
    """

    n_ctx: int
    max_tokens: int
    curve: Curve

    def at(self, n_past: int) -> int:
        """Tokens that one decode may hold with `n_past` in the cache."""
        return min(self.n_ctx - n_past, MAX_BUDGET)


def simulate(
    trace: Trace,
    label: str,
    config: DraftConfig,
    curve: Curve,
    on_progress: Callable[[int, int], None],
    beliefs: Beliefs | None = None,
) -> list[Result]:
    """Draft for all answers with one memory throughout.

    The turns of a question make one result, as when they were measured; its seconds are times of a plain step, and
    there is no own work.

    Args:
        trace: What the model said.
        label: Name of the method; that of the oracle is simulated with what it has to know.
        config: How to draft.
        curve: What a decode costs.
        on_progress: Called with answers done and to do.
        beliefs: What policy `auto` begins with, changed; None begins with the shipped priors.
    """
    memory = make_memory(config, trace.n_vocab, int(trace.info["n_ctx"]))
    cost = StepCost({n: float(curve.ratio[n]) for n in range(1, MAX_BUDGET + 1)})
    oracle = OracleDrafter(config, memory, cost) if label == ORACLE else None
    drafter = oracle or make_drafter(config, TREE, memory, cost, beliefs)
    scan = RowScan(config.breadth)
    limits = Limits(int(trace.info["n_ctx"]), int(trace.info["max_tokens"]), curve)
    results: list[Result] = []
    for number, answer in enumerate(trace.answers):
        on_progress(number, len(trace.answers))
        if oracle is not None:
            oracle.truth = answer.tokens.tolist()
        turns = (_simulate_answer(answer, drafter, scan, limits, cost),)
        if results and (results[-1].kind, results[-1].question) == (answer.kind, answer.question):
            turns = results.pop().turns + turns
        results.append(Result(answer.question, answer.kind, label, turns))
    return results


def _simulate_answer(
    answer: TracedAnswer, drafter: Drafter, scan: RowScan, limits: Limits, step_cost: StepCost
) -> Answer:
    picks, nodes = np.zeros(MAX_BUDGET, np.int32), np.zeros(MAX_BUDGET, np.int32)
    truth = answer.tokens.tolist()
    said: list[int] = []
    drafter.begin(answer.prompt.tolist())
    root, steps, drafted, accepted, cost, done = int(answer.prompt[-1]), 0, 0, 0, 0.0, False
    while not done:
        last, n_past = len(said) + 1 >= limits.max_tokens, len(answer.prompt) - 1 + len(said)
        tree = drafter.propose(0 if last else limits.at(n_past) - 1)
        scan.fill(*_rows(answer, truth, len(said), tree))
        n = walk_greedy(scan.ids, tree.token, tree.parent, picks, nodes)
        kept = picks[: min(n, len(truth) - len(said))].tolist()
        path = nodes[: min(n - 1, len(kept))].tolist()
        drafter.learn(root, tree, scan, path, kept)
        said += kept
        steps += 1
        drafted += len(tree)
        accepted += len(path)
        cost += limits.curve.ratio[len(tree) + 1]
        step_cost.observe(len(tree) + 1, n_past, float(limits.curve.ratio[len(tree) + 1]))
        done = n > len(kept) or (not answer.ended and len(said) == len(truth))
        root = kept[-1] if kept else root
    if said != truth:
        raise RacerError(f"the simulation of question {answer.question} left the recorded text; the trace is damaged")
    return Answer(tuple(truth), "", float(cost), 0.0, steps, drafted, accepted, 0.0)


def _rows(
    answer: TracedAnswer, truth: list[int], at: int, tree: DraftTree
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Rows of the root, which stands before answer token `at`, and of every node; -1 where none was recorded."""
    n = len(tree)
    ids = np.full((n + 1, answer.ids.shape[1]), -1, np.int32)
    gaps = np.full(ids.shape, np.inf, np.float32)
    ids[0], gaps[0] = answer.ids[at], answer.gaps[at]
    # where each node's path leaves the answer, and how it goes on from there
    left: list[tuple[int, tuple[int, ...]]] = [(at, ())]
    for node, (token, parent) in enumerate(zip(tree.token.tolist(), tree.parent.tolist(), strict=True)):
        position, path = left[parent + 1]
        if not path and position < len(truth) and truth[position] == token:
            left.append((position + 1, ()))
            ids[node + 1], gaps[node + 1] = answer.ids[position + 1], answer.gaps[position + 1]
            continue
        left.append((position, (*path, token)))
        row = answer.off_path.get(left[-1])
        if row is not None:
            ids[node + 1], gaps[node + 1] = row
    return ids, gaps
