"""Memory of a chat, prompt lookup, the drafters of all policies and their bounds."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from racer_local.draft_tree import DraftMode, DraftTree
from racer_local.drafting.cost import StepCost
from racer_local.drafting.depth_limit import DepthLimitedDrafter
from racer_local.drafting.drafter import Drafter
from racer_local.drafting.lookup import LookupDrafter, NgramIndex
from racer_local.drafting.memory import Memory
from racer_local.drafting.off import OffDrafter
from racer_local.drafting.policies import POLICIES, DraftConfig, fit_to_mode, make_drafter, make_memory
from racer_local.drafting.successors import RowScan
from racer_local.settings import MAX_BUDGET
from racer_local.tokens import Source
from tests.fakes import is_chain, tree_from
from tests.kernels.test_automaton import check_invariants, ngram_of

QUICK = settings(derandomize=True, deadline=None, max_examples=60)
TREE = DraftMode("tree", "trees can be verified")
CHAIN = DraftMode("chain", "only chains can be verified", 4)
TOKENS = st.lists(st.integers(0, 4), max_size=25)


def memory(n_vocab: int = 50, *, max_ngram: int = 4, max_nodes: int | None = None) -> Memory:
    """An empty memory."""
    return make_memory(DraftConfig(max_ngram=max_ngram, max_nodes=max_nodes), n_vocab, 256)


def window(m: Memory) -> list[tuple[int, ...]]:
    """n-grams of the automaton's window, by length."""
    return [ngram_of(m.automaton.nodes, int(v)) for v in m.automaton.active[0]]


def learn_nothing(drafter: Drafter, committed: Sequence[int], root: int = 0) -> None:
    """Commit tokens that no draft had, with a scan of a row of no numbers."""
    scan = RowScan(8)
    for token in committed:
        scan.read(np.full((1, 50), -np.inf, np.float32))
        drafter.learn(root, DraftTree.empty(), scan, [], [token])
        root = token


# memory


@QUICK
@given(st.lists(st.tuples(st.integers(0, 60), TOKENS.filter(bool), TOKENS), min_size=1, max_size=6))
def test_window_stands_at_the_end_of_the_context(turns: list[tuple[int, list[int], list[int]]]) -> None:
    """Turns that each keep some of the context, add to it and are answered: further on, back, or somewhere else."""
    m = memory()
    context: list[int] = []
    for kept, added, answer in turns:
        prompt = context[:kept] + added
        m.begin(prompt)
        assert m.context == prompt
        m.commit(answer)
        context = prompt + answer
        assert m.context == context
        scratch = memory()
        scratch.begin(context)
        assert window(m) == window(scratch)
        check_invariants(m.automaton)


def test_what_is_known_is_not_counted_again() -> None:
    m, once = memory(), memory()
    once.begin([1, 2, 3, 4, 5, 6])
    m.begin([1, 2, 3])
    m.commit([4])
    m.begin([1, 2, 3, 4, 5])
    m.begin([1, 2, 3, 4, 5])
    m.commit([6])
    np.testing.assert_array_equal(m.automaton.nodes, once.automaton.nodes)
    np.testing.assert_array_equal(m.automaton.active[0], once.automaton.active[0])


def test_an_answer_that_was_thrown_away_is_still_remembered() -> None:
    """Asking again goes back to the prompt; the first answer's n-grams stay and are drafted."""
    m = memory()
    m.begin([1, 2, 3])
    m.commit([4, 5, 6, 7])
    m.begin([1, 2, 3])
    drafter = make_drafter(DraftConfig("racer", budget=5), TREE, m)
    assert drafter.propose(63).token.tolist() == [4, 5, 6, 7]


def test_a_prompt_that_begins_otherwise() -> None:
    m = memory()
    m.begin([1, 2, 3])
    m.begin([9, 2, 3])
    assert window(m) == [(), (3,), (2, 3), (9, 2, 3), ()]


def test_new_chat_on_a_full_automaton() -> None:
    """Many chats that begin alike, in an automaton too small for one of them."""
    m = memory(max_nodes=1024)
    rng = np.random.default_rng(0)
    opening = rng.integers(0, 50, 20).tolist()
    for _ in range(4):
        m.begin(opening + rng.integers(0, 50, 400).tolist())
        check_invariants(m.automaton)
    assert m.automaton.n_evicted > 1024
    assert m.automaton.n_nodes == 1024


def test_size_of_the_automaton_follows_the_context() -> None:
    config = DraftConfig()
    assert len(make_memory(config, 10, 8192).automaton.nodes) == 81920
    assert len(make_memory(config, 10, 64).automaton.nodes) == 1024
    assert len(make_memory(DraftConfig(max_nodes=2000), 10, 8192).automaton.nodes) == 2000


# prompt lookup


def naive_lookup(context: Sequence[int], n: int, limit: int) -> list[int]:
    """What followed the last earlier occurrence of the last n tokens."""
    for at in range(len(context) - n - 1, -1, -1):
        if len(context) >= n and list(context[at : at + n]) == list(context[-n:]):
            return list(context[at + n : at + n + limit])
    return []


@QUICK
@given(st.lists(st.integers(0, 2), max_size=40), st.integers(1, 4), st.integers(0, 9))
def test_lookup_finds_the_last_earlier_occurrence(context: list[int], n: int, limit: int) -> None:
    whole, grown = NgramIndex(n), NgramIndex(n)
    whole.reset([7, 8, 9])
    whole.reset(context)
    for token in context:
        grown.observe([token])
    expected = naive_lookup(context, n, limit)
    assert whole.continuation(limit) == grown.continuation(limit) == expected


# drafters


def test_lookup_drafts_a_chain() -> None:
    drafter = LookupDrafter(limit=4, n=2)
    drafter.begin([1, 2, 3, 4, 5, 6, 7, 1])
    assert len(drafter.propose(63)) == 0
    learn_nothing(drafter, [2])
    tree = drafter.propose(63)
    assert tree.token.tolist() == [3, 4, 5, 6]
    assert is_chain(tree)
    assert tree.depth.tolist() == [1, 2, 3, 4]
    assert tree.source.tolist() == [Source.RETRIEVAL] * 4
    assert tree.match_len.tolist() == [2] * 4
    assert drafter.propose(2).token.tolist() == [3, 4]
    assert len(drafter.propose(0)) == 0


def trained(policy: str, mode: DraftMode = TREE, *, budget: int = 8, chain: bool = False) -> Drafter:
    """A drafter in a context that repeats, with successors that differ from what is retrieved."""
    m = memory()
    m.successors.ids[:, 0] = np.arange(50) + 1
    m.successors.ids[-1, 0] = -1
    m.successors.ids[:, 1] = 0
    drafter = make_drafter(DraftConfig(policy=policy, budget=budget, chain=chain, max_ngram=4), mode, m)
    drafter.begin([1, 2, 3, 10, 20, 30, 40, 1, 2, 3])
    return drafter


def test_policies_draw_on_their_sources() -> None:
    bits = {
        policy: int(np.bitwise_or.reduce(trained(policy, budget=63).propose(63).source, initial=0))
        for policy in POLICIES
        if policy != "auto"
    }
    assert bits == {
        "racer": Source.RETRIEVAL | Source.LOGITS,
        "retrieval": Source.RETRIEVAL,
        "logits": Source.LOGITS,
        "lookup": Source.RETRIEVAL,
        "off": Source.MODEL,
    }
    drafter = trained("racer", budget=63)
    learn_nothing(drafter, [5], root=3)
    assert drafter.propose(63).source.tolist() == [Source.LOGITS] * 62


@pytest.mark.parametrize("policy", [p for p in POLICIES if p not in ("off", "auto")])
@pytest.mark.parametrize("chain", [False, True])
@pytest.mark.parametrize("budget", [1, 2, 8, MAX_BUDGET])
def test_budget_counts_the_root(policy: str, chain: bool, budget: int) -> None:
    available = 7 if policy == "lookup" else MAX_BUDGET
    if policy == "logits" and chain:
        available = 46  # 4 to 49, after which nothing is known
    drafter = trained(policy, budget=budget, chain=chain)
    for limit in (0, 1, 3, MAX_BUDGET - 1):
        tree = drafter.propose(limit)
        assert len(tree) == min(budget - 1, limit, available)
        assert not chain or is_chain(tree)


@pytest.mark.parametrize("policy", [p for p in POLICIES if p not in ("off", "auto")])
def test_a_model_that_takes_back_little_gets_short_chains(policy: str) -> None:
    drafter = trained(policy, CHAIN)
    assert isinstance(drafter, DepthLimitedDrafter)
    tree = drafter.propose(63)
    assert is_chain(tree)
    assert len(tree) == 4
    assert len(drafter.propose(2)) == 2
    assert len(trained(policy, CHAIN, budget=3).propose(63)) == 2


def test_a_short_drafter_keeps_its_inner_one_in_step() -> None:
    m = memory()
    drafter = make_drafter(DraftConfig(), CHAIN, m, StepCost())
    drafter.begin([1, 2])
    learn_nothing(drafter, [3], root=2)
    assert m.context == [1, 2, 3]


def test_no_drafting_says_why() -> None:
    off = make_drafter(DraftConfig(policy="off"), TREE, None)
    assert isinstance(off, OffDrafter)
    assert off.note == "drafting is switched off"
    unable = make_drafter(DraftConfig(), DraftMode("off", "this model cannot take tokens back"), None)
    assert isinstance(unable, OffDrafter)
    assert unable.note == "this model cannot take tokens back"
    assert len(unable.propose(63)) == 0
    assert make_drafter(DraftConfig(policy="lookup"), TREE, None).note == ""


def test_configuration_fits_the_mode() -> None:
    assert fit_to_mode(DraftConfig(), TREE) == DraftConfig()
    assert fit_to_mode(DraftConfig(), CHAIN) == DraftConfig(chain=True)
    assert fit_to_mode(DraftConfig(chain=True), TREE) == DraftConfig(chain=True)


def test_rejected_nodes_teach_and_accepted_ones_have_the_last_word() -> None:
    m = memory()
    drafter = make_drafter(DraftConfig("racer", max_ngram=4), TREE, m)
    drafter.begin([1])
    tree = tree_from([(2, -1), (3, -1), (2, 1)])
    rows = np.zeros((4, 50), np.float32)
    for row, best in enumerate((3, 11, 2, 13)):
        rows[row, best] = 5
    scan = RowScan(8)
    scan.read(rows)
    drafter.learn(1, tree, scan, [1, 2], [3, 2, 13])
    assert m.context == [1, 3, 2, 13]
    assert m.successors.ids[[1, 3, 2], 0].tolist() == [3, 2, 13]
    scan.read(rows)
    drafter.learn(13, tree, scan, [0], [2, 11])
    assert m.successors.ids[[13, 3, 2], 0].tolist() == [3, 2, 11]


def test_shortest_and_longest_settings_of_retrieval_draft() -> None:
    for max_ngram, min_match in ((2, 1), (3, 2), (16, 15)):
        m = make_memory(DraftConfig(max_ngram=max_ngram, min_match=min_match), 50, 256)
        drafter = make_drafter(DraftConfig("racer", max_ngram=max_ngram, min_match=min_match, budget=8), TREE, m)
        passage = list(range(1, 40))
        drafter.begin(passage + passage[:20])
        assert drafter.propose(63).token.tolist() == passage[20:27]


# warm-up

STEPS_AFTER_WARM_UP = """
from racer_local.kernels import automaton, beliefs, calibration, expected_gain, paper_rule, successors, verify
from racer_local.drafting.policies import DraftConfig
from racer_local.kernels.warmup import warm_up
from tests.loop_answers import answer
from tests.fakes import ScriptedModel, random_rows

kernels = (automaton.observe, automaton.seek, paper_rule.propose_tree, paper_rule.propose_chain, successors.scan_rows,
           successors.learn_rows, verify.walk_greedy, expected_gain.propose_gain, beliefs.learn_beliefs,
           calibration.learn_calibration)
warm_up()
before = [len(kernel.signatures) for kernel in kernels]
for policy in ("racer", "auto"):
    for chain in (False, True):
        model = ScriptedModel(random_rows(8, 1))
        answer(model, DraftConfig(policy=policy, chain=chain), [1, 2, 3], max_tokens=20)
assert min(before) == 1, before
assert [len(kernel.signatures) for kernel in kernels] == before, "a step compiles what warm-up did not"
"""


def test_warm_up_leaves_nothing_to_compile() -> None:
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", STEPS_AFTER_WARM_UP], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
