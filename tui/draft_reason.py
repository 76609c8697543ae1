"""Why a draft was made, in one line: what of the context it was copied from, or whose guess it is."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from racer_local.draft_tree import DraftTree
from racer_local.terminal_text import one_line, token_text
from racer_local.tokens import Source

NOTHING_PAYS = "nothing that would pay"


def draft_reason(
    context: Sequence[int] | NDArray[np.int32],
    tree: DraftTree,
    path: Sequence[int],
    piece: Callable[[int], bytes],
    note: str = "",
) -> str:
    """Say why a draft was made: because of its first accepted node that was retrieved, else of its first retrieved one.

    Args:
        context: Ids of all tokens up to and including the root; at least the root.
        tree: The draft.
        path: Its accepted nodes, from the root down.
        piece: Bytes of a token.
        note: Why drafting is off or paused, empty otherwise.
    """
    if not len(tree):
        return one_line(note) or NOTHING_PAYS
    node = first_retrieved(tree, path)
    if node is None:
        return f"the model's own guess when it last read {token_text(piece(int(context[-1])))}"
    match = int(tree.match_len[node])
    guessed = tokens_above(tree, node)
    text = np.concatenate([np.asarray(context, np.int32), np.asarray(guessed, np.int32)])
    back = tokens_back(text, match, int(tree.token[node]))
    before = f"after {_tokens(len(guessed))} of the model's own guess, " if guessed else ""
    last = "the last token" if match == 1 else f"the last {match} tokens"
    if back is None:
        return f"{before}{last} {'was' if match == 1 else 'were'} seen before in this chat"
    return f"{before}{last} stood {_tokens(back)} back in this conversation"


def first_retrieved(tree: DraftTree, path: Sequence[int]) -> int | None:
    """The first retrieved node of a path, else the first of the whole tree; None where logits made all of it."""
    retrieved = (tree.source & Source.RETRIEVAL) != 0
    on_path = (node for node in path if retrieved[node])
    return next(on_path, int(retrieved.argmax()) if retrieved.any() else None)


def tokens_above(tree: DraftTree, node: int) -> list[int]:
    """Tokens of the draft between the root and a node, neither of them included."""
    out: list[int] = []
    while (node := int(tree.parent[node])) >= 0:
        out.append(int(tree.token[node]))
    return out[::-1]


def tokens_back(text: NDArray[np.int32], match: int, token: int) -> int | None:
    """How far back the last `match` tokens of a text stood before, followed by a token: the most recent time.

    Args:
        text: int32[n].
        match: Number of tokens that must be the same.
        token: What must follow them; the text itself has no such token at its end.

    Returns:
        Distance between the two runs in tokens, at least 1; None if there is no earlier one.
    """
    n = len(text)
    if not 0 < match < n:
        return None
    ends = np.flatnonzero(text[match:] == token) + match
    for k in range(1, match + 1):
        ends = ends[text[ends - k] == text[n - k]]
    return n - int(ends[-1]) if len(ends) else None


def _tokens(n: int) -> str:
    return "1 token" if n == 1 else f"{n} tokens"
