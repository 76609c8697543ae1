"""What of a conversation goes to the model when the context has no room for all of it."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import cache

from racer_local.prompt import Message

ANSWER_SHARE = 8
"""One part in so many of the context is left for the answer,"""
ANSWER_TOKENS = 512
"""and no more than this."""
KEPT_SHARE = 2
"""What is left out makes room until one part in so many is used, so that not every turn has to be read anew."""


def fit(
    messages: Sequence[Message], tokens_of: Callable[[Sequence[Message]], list[int]], n_ctx: int
) -> tuple[list[Message], list[int], int]:
    """Leave out the oldest turns until the rest, and an answer, have room. System messages and the last turn stay.

    A conversation that has room is made into tokens once; of one that has not, the turns to leave out are found by
    bisection.

    Args:
        messages: The conversation; a turn begins with a message of the user.
        tokens_of: Makes the prompt of messages, with all that follows them.
        n_ctx: Tokens that the context holds.

    Returns:
        The messages that stay, their prompt, and the number of turns left out. If even the last turn has no room, it
        is all that stays, and answering it will say so.
    """
    kept = list(messages)
    tokens = tokens_of(kept)
    if len(tokens) <= n_ctx - min(n_ctx // ANSWER_SHARE, ANSWER_TOKENS):
        return kept, tokens, 0
    turns = _turns(messages)
    if len(turns) < 2:
        return kept, tokens, 0

    @cache
    def without(n: int) -> tuple[list[Message], list[int]]:
        kept = [m for i, m in enumerate(messages) if not turns[0] <= i < turns[n] or m["role"] == "system"]
        return kept, tokens_of(kept)

    n = 1 + bisect_left(range(1, len(turns) - 1), True, key=lambda n: len(without(n)[1]) <= n_ctx // KEPT_SHARE)
    return *without(n), n


def _turns(messages: Sequence[Message]) -> list[int]:
    """Where turns begin; what stands in front of the first belongs to none."""
    return [i for i, m in enumerate(messages) if m["role"] == "user"]
