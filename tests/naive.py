"""Obvious, slow twins of the kernels: plain Python over dictionaries and lists, nothing shared with the originals."""

import codecs
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

Ngram = tuple[int, ...]

MAX_CHILDREN = 16
"""Most recent children that retrieval looks at."""
MAX_COUNT = 2**20 - 1
UNSHARED = 8
"""Nodes that retrieval may fill alone; a third of a limit beyond that is kept for the logits tree."""
RETRIEVAL, LOGITS = 1, 2


class Automaton:
    """All n-grams of a text up to length `n`, at most `capacity - 1` of them, the least recently used going first.

    Attributes:
        count: How often each n-gram was seen since it was added.
        touched: Time of its last use.
        children: Continuations that are n-grams themselves, by n-gram, most recently followed first.
        window: The last 0..n tokens, None where they are no n-gram.
        evicted: n-grams that had to go.
    """

    def __init__(self, capacity: int, n: int) -> None:
        self.capacity = capacity
        self.n = n
        self.count: dict[Ngram, int] = {}
        self.touched: dict[Ngram, int] = {}
        self.children: dict[Ngram, list[Ngram]] = {(): []}
        self.window: list[Ngram | None] = [()] + [None] * n
        self.evicted = 0
        self._clock = 0

    def observe(self, tokens: Iterable[int]) -> None:
        """Add the n-grams that end at each token."""
        for token in tokens:
            ending: list[Ngram | None] = [()]
            for before in self.window[:-1]:
                ending.append(None if before is None else self._follow(before, token))
            self.window = ending
            self._touch_window()

    def seek(self, tokens: Sequence[int]) -> None:
        """Put the window at the end of tokens, adding nothing; what is in the window counts as used."""
        self.window = [()]
        for length in range(1, self.n + 1):
            end = tuple(tokens[-length:])
            self.window.append(end if len(tokens) >= length and end in self.count else None)
        self._touch_window()

    def _follow(self, before: Ngram, token: int) -> Ngram:
        ngram = (*before, token)
        if ngram not in self.count:
            if len(self.count) == self.capacity - 1:
                self._evict(min(self.touched, key=self.touched.__getitem__))
            self.count[ngram] = 0
            self.children[ngram] = []
        else:
            self.children[before].remove(ngram)
        self.children[before].insert(0, ngram)
        self.count[ngram] += 1
        self._touch(ngram)
        return ngram

    def _touch_window(self) -> None:
        """Touch every n-gram of the window, long ones first."""
        for length in range(self.n, 0, -1):
            for whole in self.window[length:]:
                if whole is not None:
                    self._touch(whole[:length])

    def _touch(self, ngram: Ngram) -> None:
        self._clock += 1
        self.touched[ngram] = self._clock

    def _evict(self, ngram: Ngram) -> None:
        assert not self.children[ngram], "only a leaf may go"
        self.children[ngram[:-1]].remove(ngram)
        del self.count[ngram], self.touched[ngram], self.children[ngram]
        self.evicted += 1


@dataclass
class Node:
    """A drafted node."""

    token: int
    parent: int
    depth: int
    source: int
    match: int


@dataclass
class Draft:
    """A draft in the making."""

    nodes: list[Node] = field(default_factory=list)

    def child(self, parent: int, token: int) -> int | None:
        """Index of the child of `parent` with this token."""
        for i, node in enumerate(self.nodes):
            if node.parent == parent and node.token == token:
                return i
        return None

    def add(self, token: int, parent: int, source: int, match: int) -> int:
        """Add a node; returns its index."""
        depth = 1 if parent < 0 else self.nodes[parent].depth + 1
        self.nodes.append(Node(token, parent, depth, source, match))
        return len(self.nodes) - 1


@dataclass(frozen=True)
class Options:
    """Options of a draft."""

    limit: int
    min_match: int = 2
    breadth: int = 8
    retrieval: bool = True
    logits: bool = True


def _with_children(trie: Automaton, ngram: Ngram, min_match: int) -> Ngram | None:
    """The n-gram or its longest end that has continuations; None if that is too short."""
    while ngram and not trie.children[ngram]:
        ngram = ngram[1:]
    return ngram if len(ngram) >= min_match else None


def propose_tree(trie: Automaton, successors: Sequence[Sequence[int]], root: int, options: Options) -> list[Node]:
    """Retrieved nodes by rank, then the logits tree level by level."""
    draft = Draft()
    if options.retrieval:
        kept = max(0, options.limit - UNSHARED) // 3 if options.logits else 0
        _retrieve(trie, replace(options, limit=options.limit - kept), draft)
    if options.logits:
        _extrapolate(successors, root, options, draft)
    return draft.nodes


def _retrieve(trie: Automaton, options: Options, draft: Draft) -> None:
    waiting: list[tuple[tuple[int, int, int, int], Ngram, int, int]] = []
    n_pushed = 0

    def push(ngram: Ngram, parent: int, match: int, depth: int) -> None:
        nonlocal n_pushed
        for child in trie.children[ngram][:MAX_CHILDREN]:
            rank = (min(trie.count[child], MAX_COUNT), match, -min(depth, 31), -n_pushed)
            waiting.append((rank, child, parent, match))
            n_pushed += 1

    for length in range(trie.n, options.min_match - 1, -1):
        ngram = trie.window[length]
        if ngram is not None:
            push(ngram, -1, length, 1)
    while waiting and len(draft.nodes) < options.limit:
        best = max(waiting)
        waiting.remove(best)
        _, ngram, parent, match = best
        twin = draft.child(parent, ngram[-1])
        if twin is not None:
            draft.nodes[twin].match = max(draft.nodes[twin].match, match)
            continue
        at = draft.add(ngram[-1], parent, RETRIEVAL, match)
        following = _with_children(trie, ngram, options.min_match)
        if following is not None:
            push(following, at, match, draft.nodes[at].depth + 1)


def _extrapolate(successors: Sequence[Sequence[int]], root: int, options: Options, draft: Draft) -> None:
    level = [(-1, options.breadth)]
    depth = 0
    while level:
        below: list[tuple[int, int]] = []
        for parent, breadth in level:
            token = root if parent < 0 else draft.nodes[parent].token
            share = breadth if depth == 1 else breadth // 2
            for guess in successors[token][:breadth]:
                if guess < 0:
                    break
                at = draft.child(parent, guess)
                if at is not None:
                    draft.nodes[at].source |= LOGITS
                elif len(draft.nodes) < options.limit:
                    at = draft.add(guess, parent, LOGITS, 0)
                if at is not None:
                    below.append((at, max(share, 1)))
                share //= 2
        level = below
        depth += 1


def propose_chain(trie: Automaton, successors: Sequence[Sequence[int]], root: int, options: Options) -> list[Node]:
    """The most frequent continuation of the longest match, then the best guess after the last token."""
    draft = Draft()
    if options.retrieval:
        _retrieve_chain(trie, options, draft)
    if options.logits:
        token = root
        for node in draft.nodes:
            if successors[token][0] == node.token:
                node.source |= LOGITS
            token = node.token
        while len(draft.nodes) < options.limit and successors[token][0] >= 0:
            token = successors[token][0]
            draft.add(token, len(draft.nodes) - 1, LOGITS, 0)
    return draft.nodes


def _retrieve_chain(trie: Automaton, options: Options, draft: Draft) -> None:
    matches = [w for w in trie.window if w is not None and len(w) >= options.min_match and trie.children[w]]
    following = max(matches, key=len, default=None)
    match = len(following) if following is not None else 0
    while following is not None and len(draft.nodes) < options.limit:
        best = max(trie.children[following][:MAX_CHILDREN], key=trie.count.__getitem__)
        draft.add(best[-1], len(draft.nodes) - 1, RETRIEVAL, match)
        following = _with_children(trie, best, options.min_match)


def scan_row(row: Sequence[float], k: int) -> tuple[list[int], list[float]]:
    """The k largest numbers of a row by a full sort: ids and gaps to the best; -1 and inf where there are fewer."""
    usable = [i for i, x in enumerate(row) if not math.isnan(x) and x > -math.inf]
    best = sorted(usable, key=lambda i: -row[i])[:k]
    gaps = [float(np.float32(row[best[0]]) - np.float32(row[i])) for i in best]
    missing = k - len(best)
    return best + [-1] * missing, gaps + [math.inf] * missing


def walk_greedy(best: Sequence[int], tokens: Sequence[int], parents: Sequence[int]) -> tuple[list[int], list[int]]:
    """Follow the best token of each row (root first) down a tree; returns picked tokens and accepted nodes."""
    children = {(parent, token): node for node, (parent, token) in enumerate(zip(parents, tokens, strict=True))}
    picks, path = [best[0]], []
    while (path[-1] if path else -1, picks[-1]) in children:
        node = children[(path[-1] if path else -1, picks[-1])]
        path.append(node)
        picks.append(best[node + 1])
    return picks, path


def leaves_below(parents: Sequence[int]) -> list[set[int]]:
    """For the root and every node of a tree: the leaves at or below it, numbered as rows (0 is the root)."""
    rows = len(parents) + 1
    children: list[list[int]] = [[] for _ in range(rows)]
    for node, parent in enumerate(parents):
        children[parent + 1].append(node + 1)
    found: list[set[int]] = [set() for _ in range(rows)]
    for row in reversed(range(rows)):
        found[row] = set().union(*(found[c] for c in children[row])) if children[row] else {row}
    return found


def decode_text(pieces: Iterable[bytes]) -> str:
    """The text of byte pieces; an unfinished character at the end is left out."""
    return codecs.getincrementaldecoder("utf-8")("replace").decode(b"".join(pieces))


def cut_text(pieces: Sequence[bytes], stop: Sequence[str]) -> tuple[str, bool]:
    """Text before the stop string that is complete first (of several at once, the one that begins first)."""
    for n in range(1, len(pieces) + 1):
        text = decode_text(pieces[:n])
        found = [text.find(s) for s in stop if s and s in text]
        if found:
            return text[: min(found)], True
    return decode_text(pieces), False


def decode_plainly(
    row_after: Callable[[Sequence[int]], NDArray[np.float32]],
    prompt: Sequence[int],
    n_tokens: int,
) -> list[int]:
    """Greedy decoding, a token at a time, without any cache or draft."""
    context = list(prompt)
    for _ in range(n_tokens):
        context.append(int(np.argmax(row_after(context))))
    return context[len(prompt) :]
