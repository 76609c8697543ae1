"""Time of each drafting kernel, to show that none grows with the length of the conversation.

The automaton learns pseudo-text: words of a few tokens drawn by Zipf's law, in phrases that come back, so that n-grams
repeat as they do in a chat. Proposals are timed at contexts spread over the last part of the text.
"""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from racer_local.draft_tree import DraftTree
from racer_local.drafting.automaton import Automaton
from racer_local.drafting.beliefs import Beliefs
from racer_local.drafting.policies import DraftConfig
from racer_local.drafting.successors import RowScan, Successors
from racer_local.kernels import paper_rule
from racer_local.kernels.candidates import CANDIDATE_WIDTH, DraftSources
from racer_local.kernels.draft_layout import D_SOURCE, DRAFT_HEIGHT, HEAP_SIZE, RETRIEVAL_BIT
from racer_local.kernels.expected_gain import DraftLimits, Workspace, propose_gain
from racer_local.kernels.verify import walk_greedy
from racer_local.llama.batch import Batch
from racer_local.settings import MAX_BUDGET

SIZES = (8, 16, 64)
NODES = (1_000, 10_000, 100_000, 1_000_000)
REPEATS = 400
STEP_TOKENS = 3
"""Tokens that a step commits, for the time of learning one."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Time of one kernel, microseconds a call.

    Attributes:
        kernel: What was timed.
        automaton_nodes: Nodes of the automaton.
        size: Nodes of the draft, the root included; 0 where it does not matter.
        median_us: Median over calls.
        p90_us: 90th percentile.
        retrieved: Nodes of a draft that retrieval found, on average.
    """

    kernel: str
    automaton_nodes: int
    size: int
    median_us: float
    p90_us: float
    retrieved: float = 0.0


def pseudo_text(n_tokens: int, n_vocab: int, seed: int) -> NDArray[np.int32]:
    """Tokens with the repetitions of a chat, int32[n_tokens]."""
    rng = np.random.default_rng(0)  # words and phrases are the same in every text, what is said with them is not
    words = [rng.integers(0, n_vocab, rng.integers(1, 4)) for _ in range(5000)]
    chance = 1 / np.arange(1, len(words) + 1)
    chance /= chance.sum()
    phrases = [rng.choice(len(words), rng.integers(3, 12), p=chance) for _ in range(2000)]
    rng = np.random.default_rng(seed)
    parts: list[NDArray[np.int64]] = []
    length = 0
    while length < n_tokens:
        picked = phrases[int(rng.integers(len(phrases)))] if rng.random() < 0.4 else rng.choice(len(words), 6, p=chance)
        part = np.concatenate([words[w] for w in picked])
        parts.append(part)
        length += len(part)
    return np.concatenate(parts)[:n_tokens].astype(np.int32)


def run(n_vocab: int = 50_000) -> list[Timing]:
    """Time every kernel; takes about a minute, most of it to fill the large automata."""
    out: list[Timing] = []
    config = DraftConfig()
    successors = Successors(n_vocab, config.breadth)
    rng = np.random.default_rng(0)
    successors.ids[:] = rng.integers(0, n_vocab, successors.ids.shape)
    successors.gaps[:] = np.sort(rng.exponential(2.0, successors.gaps.shape), axis=1)
    successors.gaps[:, 0] = 0.0
    for max_nodes in NODES:
        automaton = Automaton(max_nodes, config.max_ngram)
        automaton.observe(pseudo_text(max_nodes // 4 + 2000, n_vocab, 1))
        fresh = pseudo_text(REPEATS * STEP_TOKENS * 2, n_vocab, 2)
        for size in SIZES:
            out.append(_propose(automaton, successors, fresh, size))
            out.append(_propose_gain(automaton, successors, fresh, size))
        out.append(_learn_text(automaton, fresh))
    for size in SIZES:
        out += _rows(successors, n_vocab, size)
    return out


def as_dicts(timings: list[Timing]) -> list[dict[str, object]]:
    """For JSON."""
    return [asdict(t) for t in timings]


def table(timings: list[Timing]) -> str:
    """For people."""
    lines = [f"{'kernel':28} {'automaton':>10} {'draft':>6} {'median µs':>10} {'p90 µs':>8} {'retrieved':>10}"]
    lines += [
        f"{t.kernel:28} {t.automaton_nodes or '':>10} {t.size or '':>6} {t.median_us:10.1f} {t.p90_us:8.1f}"
        + (f" {t.retrieved:10.1f}" if t.retrieved else "")
        for t in timings
    ]
    return "\n".join(lines)


def _timed(kernel: str, nodes: int, size: int, calls: list[Callable[[], object]]) -> Timing:
    calls[0]()
    spent = []
    for call in calls:
        started = time.perf_counter_ns()
        call()
        spent.append(time.perf_counter_ns() - started)
    return Timing(kernel, nodes, size, float(np.median(spent)) / 1e3, float(np.percentile(spent, 90)) / 1e3)


def _propose(automaton: Automaton, successors: Successors, fresh: NDArray[np.int32], size: int) -> Timing:
    options = np.zeros(paper_rule.OPTIONS_WIDTH, np.int32)
    options[:] = (size - 1, 2, 8, 1, 1)
    draft = np.zeros((DRAFT_HEIGHT, MAX_BUDGET + 1), np.int32)
    heap = np.zeros(HEAP_SIZE, np.int64)
    entries = np.zeros((HEAP_SIZE, paper_rule.ENTRY_WIDTH), np.int32)
    calls = []
    for i in range(REPEATS):
        automaton.seek(fresh[: 20 + i])
        window, root = automaton.active.copy(), int(fresh[19 + i])
        arguments = (automaton.nodes, window, successors.ids, root, options, draft, heap, entries)
        calls.append(partial(paper_rule.propose_tree, *arguments))
    timing = _timed("propose", len(automaton.nodes), size, calls)
    found = [(draft[D_SOURCE, : call()] & RETRIEVAL_BIT).sum() for call in calls]
    return replace(timing, retrieved=float(np.mean(found)))


def _propose_gain(automaton: Automaton, successors: Successors, fresh: NDArray[np.int32], size: int) -> Timing:
    """Policy `auto`, on a machine where further nodes cost nothing up to the size: the most work that it can have."""
    beliefs = Beliefs()
    known = DraftSources(automaton.nodes, automaton.buckets, automaton.active, successors.ids, successors.gaps)
    workspace = Workspace(
        np.zeros((DRAFT_HEIGHT, MAX_BUDGET + 1), np.int32),
        np.zeros(MAX_BUDGET, np.float32),
        np.zeros(HEAP_SIZE, np.int64),
        np.zeros((HEAP_SIZE, CANDIDATE_WIDTH), np.int32),
    )
    cost = np.ones(MAX_BUDGET + 1, np.float32)
    limits = DraftLimits(2, size - 1, False, False, 1.0, np.float32(1))
    calls = []
    for i in range(REPEATS):
        automaton.seek(fresh[: 20 + i])
        at = known._replace(active=automaton.active.copy())
        calls.append(
            partial(propose_gain, at, int(fresh[19 + i]), beliefs.counts, beliefs.prior, cost, limits, workspace)
        )
    timing = _timed("propose by gain", len(automaton.nodes), size, calls)
    found = [(workspace.draft[D_SOURCE, : call()] & RETRIEVAL_BIT > 0).sum() for call in calls]
    return replace(timing, retrieved=float(np.mean(found)))


def _learn_text(automaton: Automaton, fresh: NDArray[np.int32]) -> Timing:
    chunks = [fresh[i : i + STEP_TOKENS] for i in range(0, REPEATS * STEP_TOKENS, STEP_TOKENS)]
    return _timed(
        f"learn {STEP_TOKENS} tokens", len(automaton.nodes), 0, [partial(automaton.observe, c) for c in chunks]
    )


def _rows(successors: Successors, n_vocab: int, size: int) -> list[Timing]:
    """Kernels whose work depends on the draft and the vocabulary only."""
    rng = np.random.default_rng(1)
    rows = (rng.standard_normal((size, n_vocab)) * 3).astype(np.float32)
    scan = RowScan(successors.ids.shape[1])
    tree = DraftTree.allocate(size - 1)
    tree.token[:] = rng.integers(0, n_vocab, size - 1)
    tree.parent[:] = [rng.integers(-1, i) if i else -1 for i in range(size - 1)]
    tree.depth[:] = 1
    tokens, path = np.zeros(size, np.int32), np.zeros(1, np.int32)
    tokens[1:] = tree.token
    picks, nodes = np.zeros(MAX_BUDGET, np.int32), np.zeros(MAX_BUDGET, np.int32)
    batch = Batch(MAX_BUDGET, MAX_BUDGET)
    return [
        _timed(f"scan rows of {n_vocab} logits", 0, size, [partial(scan.read, rows)] * REPEATS),
        _timed("learn rows", 0, size, [partial(successors.learn, tokens, scan, path)] * REPEATS),
        _timed("walk", 0, size, [partial(walk_greedy, scan.ids, tree.token, tree.parent, picks, nodes)] * REPEATS),
        _timed("fill batch", 0, size, [partial(batch.set_tree, 1, tree, 9)] * REPEATS),
    ]
