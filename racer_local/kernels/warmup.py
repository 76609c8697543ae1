"""Runs every kernel once on tiny arrays, so that compiling or loading compiled code happens while the model loads."""

import numpy as np

from racer_local.kernels import (
    automaton,
    batch,
    beliefs,
    calibration,
    candidates,
    draft_layout,
    expected_gain,
    paper_rule,
    sampling,
    successors,
    verify,
)


def warm_up() -> None:
    """Compile all kernels, or load them from the cache. Takes seconds the first time and tenths of one later."""
    i32 = np.int32
    nodes, buckets = np.zeros((64, automaton.NODE_WIDTH), i32), np.zeros(64, i32)
    state, active = np.zeros(automaton.STATE_WIDTH, i32), np.zeros((4, 4), i32)
    state[automaton.USED] = 1
    tokens = np.array([1, 2, 1, 2], i32)
    automaton.observe(nodes, buckets, state, active, tokens)
    automaton.seek(nodes, buckets, state, active, tokens)
    table_ids, table_gaps = np.full((8, 2), -1, i32), np.zeros((8, 2), np.float32)
    options = np.array([3, 1, 2, 1, 1], i32)
    tree = np.zeros((draft_layout.DRAFT_HEIGHT, 8), i32)
    heap, entries = np.zeros(64, np.int64), np.zeros((64, paper_rule.ENTRY_WIDTH), i32)
    paper_rule.propose_tree(nodes, active, table_ids, 2, options, tree, heap, entries)
    counts, prior = np.zeros((candidates.N_CLASSES, 2), np.float32), np.zeros(candidates.N_CLASSES, np.float32)
    known = candidates.DraftSources(nodes, buckets, active, table_ids, table_gaps)
    p, drafts = np.ones(8, np.float32), np.zeros((64, candidates.CANDIDATE_WIDTH), i32)
    limits = expected_gain.DraftLimits(2, 3, False, False, 1.0, np.float32(1))
    space = expected_gain.Workspace(tree, p, heap, drafts)
    expected_gain.propose_gain(known, 2, counts, prior, np.ones(8, np.float32), limits, space)
    scratch = np.zeros((candidates.MAX_CANDIDATES, candidates.CANDIDATE_WIDTH), i32)
    beliefs.learn_beliefs(known, 2, tokens, 2, np.float32(1), counts, scratch)
    calibration.learn_calibration(np.full(3, -1, i32), np.ones(3, np.float32), np.zeros(1, i32), 1.0, 0.1, np.zeros(2))
    n = paper_rule.propose_chain(nodes, active, table_ids, 2, options, tree)
    rows = np.zeros((n + 1, 8), np.float32)
    ids, gaps = np.zeros((n + 1, 2), i32), np.zeros((n + 1, 2), np.float32)
    successors.scan_rows(rows, ids, gaps)
    successors.learn_rows(table_ids, table_gaps, tokens[: n + 1], ids, gaps, np.zeros(1, i32))
    token, parent, depth = (
        tree[row, :n].copy() for row in (draft_layout.D_TOKEN, draft_layout.D_PARENT, draft_layout.D_DEPTH)
    )
    verify.walk_greedy(ids, token, parent, np.zeros(8, i32), np.zeros(8, i32))
    out = np.zeros(8, i32)
    batch.tree_fault(1, token, parent, depth, 8, 8)
    batch.fill_tree(
        1, token, parent, depth, 0, out, out.copy(), out.copy(), np.zeros((8, 8), i32), np.zeros(8, np.int8), out.copy()
    )
    sampling.fill_candidates(rows[0], np.zeros(8, sampling.CANDIDATE))
