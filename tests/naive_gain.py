"""Slow twin of the candidates that drafting by expected gain weighs: plain Python over the naive automaton."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from racer_local.kernels import candidates as kernels
from tests.naive import LOGITS, RETRIEVAL, Automaton, Ngram


@dataclass
class Candidate:
    """A token that may follow a context, with its n-gram (None if it has none) and its class by description."""

    token: int
    source: int
    match: int
    ngram: Ngram | None
    kind: int


def match_bin(length: int) -> int:
    """Bins of the matched length: up to 2, 3, 4 and 5, 6 to 9, 10 and more."""
    return next(i for i, top in enumerate((2, 3, 5, 9, 10**9)) if length <= top)


def share_bin(count: int, total: int) -> int:
    """Bins of a continuation's share of its context's: below 1/4, 0.6, 0.95, and above."""
    return sum(count / max(total, 1) >= edge for edge in (0.25, 0.6, 0.95))


def gap_bin(gap: float) -> int:
    """Bins of the distance between two logits."""
    return bisect_left((0.25, 0.6, 1.1, 1.8, 2.8, 4.3, 6.5), gap)


def state_after(trie: Automaton, context: Sequence[int]) -> Ngram:
    """The longest n-gram that a context ends with."""
    for length in range(min(trie.n, len(context)), 0, -1):
        if tuple(context[-length:]) in trie.count:
            return tuple(context[-length:])
    return ()


def candidates(
    trie: Automaton,
    state: Ngram,
    at_end: bool,
    ids: Sequence[int],
    gaps: Sequence[float],
    min_match: int,
    temperature: float = 1.0,
) -> list[Candidate]:
    """What may follow a context, retrieved ones first."""
    out: list[Candidate] = []
    details: list[tuple[int, int]] = []
    contexts = 0
    context = state
    while len(context) >= max(min_match, 1) and contexts < kernels.MAX_CONTEXTS and len(out) < kernels.MAX_RETRIEVED:
        if trie.children[context]:
            total = trie.count[context] - at_end
            for rank, child in enumerate(trie.children[context][: kernels.MAX_RETRIEVED]):
                if len(out) == kernels.MAX_RETRIEVED:
                    break
                if child[-1] in [c.token for c in out]:
                    continue
                match, share = match_bin(len(context)), share_bin(trie.count[child], total)
                parts = (contexts > 0, match, min(trie.count[child], 3) - 1, share, rank > 0)
                kind = 0
                for size, part in zip(
                    (2, kernels.MATCH_BINS, kernels.COUNT_BINS, kernels.SHARE_BINS, 2), parts, strict=True
                ):
                    kind = kind * size + part
                out.append(Candidate(child[-1], RETRIEVAL, len(context), child, kind))
                details.append((match, share))
            contexts += 1
        context = context[1:]
    retrieved = len(out)
    for rank, (token, gap) in enumerate(zip(ids[: kernels.RANKS], gaps, strict=False)):
        if token < 0:
            break
        width = gap_bin((gap if rank else (gaps[1] if len(gaps) > 1 else 9.0)) / temperature)
        same = [i for i in range(retrieved) if out[i].token == token]
        if same:
            match, share = details[same[0]]
            lead = 0 if rank == 0 else 1 if rank < 3 else 2
            out[same[0]].source |= LOGITS
            place = ((match * kernels.SHARE_BINS + share) * 3 + lead) * 4 + width // 2
            out[same[0]].kind = kernels.N_RETRIEVED + kernels.N_LOGITS + place
        elif len(out) < kernels.MAX_CANDIDATES:
            place = ((retrieved > 0) * kernels.RANKS + rank) * kernels.GAP_BINS + width
            out.append(Candidate(token, LOGITS, 0, None, kernels.N_RETRIEVED + place))
    return out
