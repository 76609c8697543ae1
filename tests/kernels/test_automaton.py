"""The n-gram automaton against a dictionary of n-grams, and the invariants that its bound rests on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from racer_local.drafting.automaton import Automaton
from racer_local.kernels import automaton
from tests import naive
from tests.kernels.examples import quick
from tests.naive import Ngram

QUICK = quick(60)


def ngram_of(nodes: NDArray[np.int32], v: int) -> Ngram:
    """The n-gram of a node, read from its parents."""
    tokens: list[int] = []
    while v != 0:
        assert len(tokens) < len(nodes), "parents go round in a circle"
        tokens.append(int(nodes[v, automaton.TOKEN]))
        v = int(nodes[v, automaton.PARENT])
    return tuple(reversed(tokens))


def walk_list(nodes: NDArray[np.int32], first: int, forward: int, back: int) -> list[int]:
    """Nodes of a doubly linked list, its two directions checked against each other."""
    found: list[int] = []
    before, v = 0, first
    while v != 0:
        assert nodes[v, back] == before
        assert len(found) < len(nodes), "a list goes round in a circle"
        found.append(v)
        before, v = v, int(nodes[v, forward])
    return found


def check_invariants(a: Automaton) -> dict[Ngram, int]:
    """Check what must hold whatever was inserted; returns the nodes by n-gram."""
    nodes, used = a.nodes, a.n_nodes
    assert 1 <= used <= len(nodes)
    assert not nodes[used:].any(), "rows beyond USED are untouched"
    by_ngram: dict[Ngram, int] = {(): 0}
    for v in range(1, used):
        ngram = ngram_of(nodes, v)
        assert ngram not in by_ngram
        by_ngram[ngram] = v
        assert len(ngram) == nodes[v, automaton.DEPTH] <= a.max_ngram
        assert nodes[v, automaton.COUNT] >= 1
    for ngram, v in by_ngram.items():
        siblings = walk_list(nodes, int(nodes[v, automaton.CHILD]), automaton.NEXT, automaton.PREV)
        assert sorted(siblings) == sorted(u for n, u in by_ngram.items() if n and n[:-1] == ngram)
        if v != 0:
            assert nodes[v, automaton.LINK] == by_ngram[ngram[1:]], (
                "a link points at the n-gram without its first token"
            )
            parent = by_ngram[ngram[:-1]]
            assert automaton.find_child(nodes, a.buckets, parent, ngram[-1]) == v
    chained = [u for head in a.buckets for u in _chain(nodes, int(head))]
    assert sorted(chained) == list(range(1, used)), "every node stands in one bucket, once"
    _check_use_order(a)
    return by_ngram


def _chain(nodes: NDArray[np.int32], v: int) -> list[int]:
    found: list[int] = []
    while v != 0 and len(found) <= len(nodes):
        found.append(v)
        v = int(nodes[v, automaton.CHAIN])
    return found


def _check_use_order(a: Automaton) -> None:
    nodes = a.nodes
    oldest_first = walk_list(nodes, int(a.state[automaton.OLDEST]), automaton.NEWER, automaton.OLDER)
    assert sorted(oldest_first) == list(range(1, a.n_nodes))
    if not oldest_first:
        return
    assert a.state[automaton.NEWEST] == oldest_first[-1]
    age = {v: i for i, v in enumerate(oldest_first)}
    for v in oldest_first:
        for above in (int(nodes[v, automaton.PARENT]), int(nodes[v, automaton.LINK])):
            assert above == 0 or age[v] < age[above], "a node is older than its parent and its link target"
    oldest = oldest_first[0]
    assert nodes[oldest, automaton.CHILD] == 0
    assert not (nodes[1 : a.n_nodes, automaton.LINK] == oldest).any()


def check_twin(a: Automaton, twin: naive.Automaton) -> None:
    """Check an automaton against its twin, node by node."""
    by_ngram = check_invariants(a)
    assert by_ngram.keys() - {()} == twin.count.keys()
    assert a.n_evicted == twin.evicted
    for ngram, v in by_ngram.items():
        children = walk_list(a.nodes, int(a.nodes[v, automaton.CHILD]), automaton.NEXT, automaton.PREV)
        assert [ngram_of(a.nodes, c) for c in children] == twin.children[ngram]
        if v != 0:
            assert a.nodes[v, automaton.COUNT] == twin.count[ngram]
    oldest_first = walk_list(a.nodes, int(a.state[automaton.OLDEST]), automaton.NEWER, automaton.OLDER)
    assert [ngram_of(a.nodes, v) for v in oldest_first] == sorted(twin.touched, key=twin.touched.__getitem__)
    check_window(a, twin.window)


def check_window(a: Automaton, window: list[Ngram | None]) -> None:
    """Check that row 0 of `active` holds the nodes of these n-grams."""
    for length, ngram in enumerate(window):
        v = int(a.active[0, length])
        if ngram:
            assert v != 0
            assert ngram_of(a.nodes, v) == ngram
        else:
            assert v == 0


@st.composite
def streams(draw: st.DrawFn, max_length: int = 60) -> tuple[int, int, list[int]]:
    """N, a capacity a little above the least allowed, and tokens of a small alphabet."""
    n = draw(st.integers(2, 5))
    capacity = n * (n + 3) + 1 + draw(st.integers(0, 25))
    alphabet = draw(st.integers(1, 6))
    return n, capacity, draw(st.lists(st.integers(0, alphabet - 1), max_size=max_length))


@QUICK
@given(streams())
def test_same_as_twin_after_every_token(case: tuple[int, int, list[int]]) -> None:
    n, capacity, tokens = case
    a, twin = Automaton(capacity, n), naive.Automaton(capacity, n)
    for token in tokens:
        a.observe(np.array([token], np.int32))
        twin.observe([token])
        check_twin(a, twin)


@pytest.mark.parametrize(("n", "capacity", "alphabet"), [(2, 11, 50), (2, 11, 9), (3, 19, 3), (4, 29, 3), (5, 60, 8)])
def test_constant_eviction(n: int, capacity: int, alphabet: int) -> None:
    tokens = np.random.default_rng(capacity).integers(0, alphabet, 300).astype(np.int32)
    a, twin = Automaton(capacity, n), naive.Automaton(capacity, n)
    for at in range(0, len(tokens), 5):
        a.observe(tokens[at : at + 5])
        twin.observe(tokens[at : at + 5].tolist())
        check_twin(a, twin)
    assert a.n_evicted > 100
    assert a.n_nodes == capacity


def test_large_token_ids() -> None:
    tokens = np.array([2**31 - 1, 0, 262_143, 2**31 - 1, 0, 151_935] * 3, np.int32)
    a, twin = Automaton(64, 4), naive.Automaton(64, 4)
    a.observe(tokens)
    twin.observe(tokens.tolist())
    check_twin(a, twin)


def test_counts_are_exact_while_nothing_is_evicted() -> None:
    tokens = np.random.default_rng(3).integers(0, 3, 200).astype(np.int32)
    a = Automaton(4096, 6)
    a.observe(tokens)
    assert a.n_evicted == 0
    text = tokens.tolist()
    for ngram, v in check_invariants(a).items():
        if v:
            seen = sum(tuple(text[i : i + len(ngram)]) == ngram for i in range(len(text)))
            assert a.nodes[v, automaton.COUNT] == seen


def test_how_tokens_are_split_does_not_matter() -> None:
    tokens = np.random.default_rng(4).integers(0, 4, 120).astype(np.int32)
    whole, parts = Automaton(64, 4), Automaton(64, 4)
    whole.observe(tokens)
    for part in np.array_split(tokens, 17):
        parts.observe(part)
    np.testing.assert_array_equal(whole.nodes, parts.nodes)
    np.testing.assert_array_equal(whole.state, parts.state)
    np.testing.assert_array_equal(whole.active[0], parts.active[0])


def test_observe_nothing() -> None:
    a = Automaton(64, 4)
    a.observe(np.zeros(0, np.int32))
    assert a.n_nodes == 1
    check_invariants(a)


@QUICK
@given(streams(), st.lists(st.integers(0, 5), max_size=12))
def test_seek_gives_the_longest_matches(case: tuple[int, int, list[int]], context: list[int]) -> None:
    n, capacity, tokens = case
    a, twin = Automaton(capacity, n), naive.Automaton(capacity, n)
    a.observe(np.array(tokens, np.int32))
    twin.observe(tokens)
    before = a.nodes[:, [automaton.TOKEN, automaton.PARENT, automaton.COUNT, automaton.LINK]].copy()
    a.seek(np.array(context, np.int32))
    twin.seek(context)
    check_window(a, twin.window)
    np.testing.assert_array_equal(
        a.nodes[:, [automaton.TOKEN, automaton.PARENT, automaton.COUNT, automaton.LINK]], before
    )
    assert a.n_nodes == len(twin.count) + 1
    check_invariants(a)


@QUICK
@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.data())
def test_seek_back_to_any_place_is_the_window_of_that_place(tokens: list[int], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(tokens)))
    a = Automaton(4096, 4)
    a.observe(np.array(tokens[:at], np.int32))
    there = a.active[0].copy()
    a.observe(np.array(tokens[at:], np.int32))
    a.seek(np.array(tokens[:at], np.int32))
    np.testing.assert_array_equal(a.active[0], there)


@QUICK
@given(
    st.integers(2, 4),
    st.lists(st.tuples(st.lists(st.integers(0, 3), max_size=15), st.lists(st.integers(0, 3), max_size=6)), max_size=6),
)
def test_seek_and_learn_on_same_counts_as_twin(n: int, parts: list[tuple[list[int], list[int]]]) -> None:
    a, twin = Automaton(2048, n), naive.Automaton(2048, n)
    for tokens, context in parts:
        a.observe(np.array(tokens, np.int32))
        twin.observe(tokens)
        a.seek(np.array(context, np.int32))
        twin.seek(context)
        by_ngram = check_invariants(a)
        check_window(a, twin.window)
        assert {g: a.nodes[v, automaton.COUNT] for g, v in by_ngram.items() if v} == twin.count


@quick(150)
@given(
    streams(max_length=40),
    st.lists(st.tuples(st.integers(0, 40), st.lists(st.integers(0, 7), min_size=1, max_size=6)), max_size=5),
)
def test_going_back_when_full(case: tuple[int, int, list[int]], returns: list[tuple[int, list[int]]]) -> None:
    """A chat that returns to an early place, whose n-grams may be the oldest of a full automaton, and goes on there."""
    n, capacity, tokens = case
    a, twin = Automaton(capacity, n), naive.Automaton(capacity, n)
    a.observe(np.array(tokens, np.int32))
    twin.observe(tokens)
    for at, more in returns:
        a.seek(np.array(tokens[:at], np.int32))
        twin.seek(tokens[:at])
        for token in more:
            a.observe(np.array([token], np.int32))
            twin.observe([token])
            check_twin(a, twin)


def test_going_back_to_the_oldest_ngrams_when_full() -> None:
    """The smallest case of the above: the window is the first to be evicted while it is being extended."""
    a = Automaton(3 * 6 + 1, 3)
    a.observe(np.array([1, 2, 3], np.int32))
    a.seek(np.zeros(0, np.int32))
    fresh = 10
    while a.n_evicted == 0:  # until the next eviction takes an n-gram of the first three tokens
        a.observe(np.array([fresh], np.int32))
        fresh += 1
    a.seek(np.array([1, 2, 3], np.int32))
    for token in (4, 5, 6, 7):
        a.observe(np.array([token], np.int32))
        check_invariants(a)


def test_too_small_a_capacity_is_refused() -> None:
    with pytest.raises(AssertionError):
        Automaton(3 * 6, 3)
    Automaton(3 * 6 + 1, 3)


def test_size_is_reported() -> None:
    a = Automaton(100, 4)
    assert a.n_bytes == 100 * automaton.NODE_WIDTH * 4 + 128 * 4
    a.observe(np.arange(200, dtype=np.int32))
    assert a.n_nodes == 100
    # every new token adds four n-grams, but for the first three
    assert a.n_nodes - 1 + a.n_evicted == 4 * 200 - 6
