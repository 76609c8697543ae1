"""Drafts by the paper's rule against slow twins, and what must hold of every draft."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from racer_local.draft_tree import DraftTree
from racer_local.drafting.automaton import Automaton
from racer_local.kernels import draft_layout
from racer_local.kernels import paper_rule as kernels
from racer_local.settings import MAX_BUDGET
from racer_local.tokens import Source
from tests import naive
from tests.fakes import is_chain
from tests.kernels.examples import quick
from tests.naive import Node, Options

QUICK = quick(150)


class Case:
    """An automaton with its twin after some text, at the end of that or of another context, and a successor table."""

    def __init__(
        self,
        text: Sequence[int],
        successors: NDArray[np.int32],
        n: int = 4,
        capacity: int = 4096,
        context: Sequence[int] | None = None,
    ) -> None:
        self.text = list(text)
        self.context = self.text if context is None else list(context)
        self.root = self.context[-1]
        self.n = n
        self.automaton = Automaton(capacity, n)
        self.twin = naive.Automaton(capacity, n)
        self.automaton.observe(np.array(text, np.int32))
        self.twin.observe(text)
        if context is not None:
            self.automaton.seek(np.array(context, np.int32))
            self.twin.seek(context)
        self.successors = successors

    def tree(self, options: Options) -> DraftTree:
        """Draft of the kernel for trees."""
        draft, packed = self._scratch(options)
        heap = np.zeros(draft_layout.HEAP_SIZE, np.int64)
        entries = np.zeros((draft_layout.HEAP_SIZE, kernels.ENTRY_WIDTH), np.int32)
        nodes, active = self.automaton.nodes, self.automaton.active
        n = kernels.propose_tree(nodes, active, self.successors, self.root, packed, draft, heap, entries)
        return DraftTree.of(draft, n)

    def chain(self, options: Options) -> DraftTree:
        """Draft of the kernel for chains."""
        draft, packed = self._scratch(options)
        nodes, active = self.automaton.nodes, self.automaton.active
        return DraftTree.of(draft, kernels.propose_chain(nodes, active, self.successors, self.root, packed, draft))

    def naive_tree(self, options: Options) -> list[Node]:
        """Draft of the slow twin for trees."""
        return naive.propose_tree(self.twin, self.successors.tolist(), self.root, options)

    def naive_chain(self, options: Options) -> list[Node]:
        """Draft of the slow twin for chains."""
        return naive.propose_chain(self.twin, self.successors.tolist(), self.root, options)

    @staticmethod
    def _scratch(options: Options) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        # scratch of a real drafter holds what earlier drafts left there
        draft = np.random.default_rng(0).integers(0, 9, (draft_layout.DRAFT_HEIGHT, MAX_BUDGET + 1)).astype(np.int32)
        packed = np.zeros(kernels.OPTIONS_WIDTH, np.int32)
        packed[kernels.O_LIMIT] = options.limit
        packed[kernels.O_MIN_MATCH] = options.min_match
        packed[kernels.O_BREADTH] = options.breadth
        packed[kernels.O_RETRIEVAL] = options.retrieval
        packed[kernels.O_LOGITS] = options.logits
        return draft, packed


def random_successors(rng: np.random.Generator, n_vocab: int, k: int) -> NDArray[np.int32]:
    """A table with distinct guesses in each row; some rows are short or empty."""
    table = np.full((n_vocab, k), -1, np.int32)
    for row in table:
        guesses = rng.permutation(n_vocab)[: rng.integers(0, k + 1)]
        row[: len(guesses)] = guesses
    return table


@st.composite
def cases(draw: st.DrawFn) -> tuple[Case, Options]:
    """A random text, sometimes of repeated phrases, in a small or a large automaton."""
    n_vocab = draw(st.sampled_from([2, 4, 8, 40]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    if draw(st.booleans()):
        text = rng.integers(0, n_vocab, draw(st.integers(1, 150))).tolist()
    else:
        phrases = [rng.integers(0, n_vocab, rng.integers(1, 12)).tolist() for _ in range(4)]
        text = [t for i in rng.integers(0, 4, draw(st.integers(1, 15))) for t in phrases[i]]
    n = draw(st.integers(2, 6))
    capacity = draw(st.sampled_from([n * (n + 3) + 1, 100, 4096]))
    options = Options(
        limit=draw(st.sampled_from([0, 1, 3, 7, 15, 63])),
        min_match=draw(st.integers(1, n)),
        breadth=draw(st.integers(1, 8)),
        retrieval=draw(st.booleans()),
        logits=draw(st.booleans()),
    )
    context = text[: draw(st.integers(1, len(text)))] if draw(st.booleans()) else None
    return Case(text, random_successors(rng, n_vocab, draw(st.integers(1, 8))), n, capacity, context), options


def check_same(tree: DraftTree, nodes: list[Node]) -> None:
    """Check a draft against its twin's, in order."""
    assert tree.token.tolist() == [n.token for n in nodes]
    assert tree.parent.tolist() == [n.parent for n in nodes]
    assert tree.depth.tolist() == [n.depth for n in nodes]
    assert tree.source.tolist() == [n.source for n in nodes]
    assert tree.match_len.tolist() == [n.match for n in nodes]


def path_to(tree: DraftTree, node: int) -> list[int]:
    """Tokens from the first drafted one down to a node."""
    tokens: list[int] = []
    while node >= 0:
        tokens.append(int(tree.token[node]))
        node = int(tree.parent[node])
    return tokens[::-1]


def occurs(part: Sequence[int], text: Sequence[int]) -> bool:
    """Whether `part` stands somewhere in `text`."""
    return any(list(text[i : i + len(part)]) == list(part) for i in range(len(text) - len(part) + 1))


def check_draft(tree: DraftTree, case: Case, options: Options) -> None:
    """Check what must hold of every draft."""
    assert len(tree) <= options.limit
    for i in range(len(tree)):
        parent = int(tree.parent[i])
        assert -1 <= parent < i
        assert tree.depth[i] == (1 if parent < 0 else tree.depth[parent] + 1)
        assert np.isnan(tree.p[i])
        source = Source(int(tree.source[i]))
        assert source
        assert source & ~((Source.RETRIEVAL * options.retrieval) | (Source.LOGITS * options.logits)) == 0
        path = path_to(tree, i)
        if source & Source.RETRIEVAL:
            assert options.min_match <= tree.match_len[i] <= case.n
            # the tokens before the node, as many as retrieval trusts, were followed by its token in the text
            assert occurs((case.context + path)[-options.min_match - 1 :], case.text)
            # and the context's own part is as long as stated, for the first node of a path
            if parent < 0:
                assert occurs([*case.context[-int(tree.match_len[i]) :], path[0]], case.text)
        else:
            assert tree.match_len[i] == 0
        if source & Source.LOGITS:
            before = path[-2] if len(path) > 1 else case.root
            assert path[-1] in case.successors[before].tolist()
    assert len({(p, t) for p, t in zip(tree.parent.tolist(), tree.token.tolist(), strict=True)}) == len(tree)


@QUICK
@given(cases())
def test_tree_is_the_twins(drawn: tuple[Case, Options]) -> None:
    case, options = drawn
    tree = case.tree(options)
    check_same(tree, case.naive_tree(options))
    check_draft(tree, case, options)


@QUICK
@given(cases())
def test_chain_is_the_twins(drawn: tuple[Case, Options]) -> None:
    case, options = drawn
    chain = case.chain(options)
    check_same(chain, case.naive_chain(options))
    check_draft(chain, case, options)
    assert is_chain(chain)


def no_successors(n_vocab: int, k: int = 8) -> NDArray[np.int32]:
    """A table that has seen nothing."""
    return np.full((n_vocab, k), -1, np.int32)


@pytest.mark.parametrize("n", [2, 4, 10, 16])
@pytest.mark.parametrize("chain", [False, True])
def test_long_copy_fills_the_budget(n: int, chain: bool) -> None:
    """A copied passage is drafted past the longest n-gram, to the end of the limit."""
    passage = list(range(100, 300))
    case = Case([*passage, 5, *passage[:20]], no_successors(300), n)
    options = Options(limit=63, min_match=min(2, n - 1), logits=False)
    tree = case.chain(options) if chain else case.tree(options)
    assert tree.token.tolist() == passage[20:83]
    assert is_chain(tree)
    assert set(tree.match_len.tolist()) == {n - 1}


@pytest.mark.parametrize("chain", [False, True])
def test_a_path_ends_where_only_too_short_ngrams_go_on(chain: bool) -> None:
    """What is known to follow "1 2 3 4" follows its last token alone, which is too short a match unless allowed."""
    case = Case([4, 7, 1, 2, 3, 4], no_successors(10), context=[1, 2])
    for min_match, tokens in ((2, [3, 4]), (1, [3, 4, 7, 1, 2])):
        options = Options(limit=5, min_match=min_match)
        tree = case.chain(options) if chain else case.tree(options)
        assert tree.token.tolist() == tokens


def test_nothing_known_nothing_drafted() -> None:
    case = Case([1, 2, 3], no_successors(10))
    for options in (Options(63), Options(63, retrieval=False), Options(63, logits=False)):
        assert len(case.tree(options)) == 0
        assert len(case.chain(options)) == 0


def test_more_frequent_stands_first_then_longer_match_then_nearer() -> None:
    # after "1 2": three times 3, once 4; after "0 1 2": once 4
    text = [1, 2, 3, 9, 1, 2, 3, 8, 1, 2, 3, 7, 0, 1, 2, 4, 6, 0, 1, 2]
    tree = Case(text, no_successors(10)).tree(Options(limit=3, logits=False))
    assert tree.token.tolist()[0] == 3
    assert tree.match_len.tolist()[0] == 2
    # of the candidates seen once, 4 after the longest match comes first
    assert tree.token.tolist()[1] == 4
    assert tree.match_len.tolist()[1] == 3
    assert tree.parent.tolist()[:2] == [-1, -1]


def test_of_equal_candidates_the_recent_one_stands_first() -> None:
    text = [1, 2, 5, 1, 2, 6, 1, 2, 7, 1, 2]
    tree = Case(text, no_successors(10)).tree(Options(limit=3, logits=False))
    assert tree.token.tolist() == [7, 6, 5]


def test_only_the_most_recent_children_are_looked_at() -> None:
    text = [0, 1, 99, 0, 1, 99]
    for t in range(2, 2 + kernels.MAX_CHILDREN):
        text += [0, 1, t]
    case = Case([*text, 0, 1], no_successors(100), n=3)
    options = Options(limit=63, logits=False)
    first = [t for t, p in zip(case.tree(options).token, case.tree(options).parent, strict=True) if p < 0]
    assert sorted(first) == list(range(2, 2 + kernels.MAX_CHILDREN))
    assert case.chain(Options(limit=1)).token.tolist() == [1 + kernels.MAX_CHILDREN]


def test_counts_beyond_the_ranks_range() -> None:
    """A count that does not fit the rank is cut, not wrapped round."""
    case = Case([1, 2, 5, 1, 2, 6, 1, 2], no_successors(10))
    nodes = case.automaton.nodes
    nodes[nodes[:, 0] == 5, 3] = kernels.MAX_COUNT + 1
    assert case.tree(Options(limit=2, logits=False)).token.tolist() == [5, 6]


def test_guess_of_both_sources_is_one_node() -> None:
    successors = no_successors(10)
    successors[2, :2] = [5, 3]
    case = Case([1, 2, 3, 4], successors, context=[1, 2])
    tree = case.tree(Options(limit=3))
    assert tree.token.tolist() == [3, 4, 5]
    assert tree.parent.tolist() == [-1, 0, -1]
    assert tree.source.tolist() == [Source.RETRIEVAL | Source.LOGITS, Source.RETRIEVAL, Source.LOGITS]
    assert tree.match_len.tolist() == [2, 2, 0]
    successors[2, :2] = [3, 5]
    chain = case.chain(Options(limit=3))
    assert chain.token.tolist() == [3, 4]
    assert chain.source.tolist() == [Source.RETRIEVAL | Source.LOGITS, Source.RETRIEVAL]


def test_breadth_of_the_logits_tree() -> None:
    """Eight guesses after the root; 4, 2, 1 and then always 1 after each of them."""
    rng = np.random.default_rng(1)
    successors = np.stack([rng.permutation(1000)[:8] for _ in range(1000)]).astype(np.int32)
    tree = Case([1], successors).tree(Options(limit=63, retrieval=False))
    children = [int((tree.parent == i).sum()) for i in range(-1, len(tree))]
    assert children[:9] == [8, 4, 2, 1, 1, 1, 1, 1, 1]
    assert len(tree) == 63
    assert tree.depth.tolist() == sorted(tree.depth.tolist())


def test_retrieval_comes_first_and_leaves_a_share_of_a_large_budget() -> None:
    passage = list(range(10, 90))
    successors = no_successors(100)
    successors[:, 0] = 1
    case = Case(passage, successors, context=passage[:5])
    for limit, retrieved in ((1, 1), (8, 8), (10, 10), (11, 10), (14, 12), (63, 45)):
        tree = case.tree(Options(limit=limit))
        assert tree.token.tolist() == passage[5 : 5 + retrieved] + [1] * (limit - retrieved)
        assert tree.source.tolist() == [Source.RETRIEVAL] * retrieved + [Source.LOGITS] * (limit - retrieved)
        alone = case.tree(Options(limit=limit, logits=False))
        assert alone.token.tolist() == case.chain(Options(limit=limit)).token.tolist() == passage[5 : 5 + limit]


def test_what_retrieval_does_not_need_goes_to_the_logits() -> None:
    successors = no_successors(50)
    successors[:, 0] = 1
    passage = list(range(10, 20))
    case = Case(passage, successors, context=passage[:5])
    for tree in (case.tree(Options(limit=63)), case.chain(Options(limit=63))):
        assert tree.token.tolist() == passage[5:] + [1] * 58
        assert tree.source.tolist() == [Source.RETRIEVAL] * 5 + [Source.LOGITS] * 58


def test_options_of_the_draft_are_those_of_the_project() -> None:
    assert (kernels.MAX_CHILDREN, kernels.MAX_COUNT) == (naive.MAX_CHILDREN, naive.MAX_COUNT)
    assert kernels.UNSHARED == naive.UNSHARED
    assert (draft_layout.RETRIEVAL_BIT, draft_layout.LOGITS_BIT) == (Source.RETRIEVAL, Source.LOGITS)
    assert (naive.RETRIEVAL, naive.LOGITS) == (Source.RETRIEVAL, Source.LOGITS)
