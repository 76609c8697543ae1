"""What of a conversation goes to the model when the context has no room for all of it."""

from collections.abc import Callable, Mapping, Sequence

Message = Mapping[str, str]
ANSWER_SHARE = 8
"""One part in so many of the context is left for the answer,"""
ANSWER_TOKENS = 512
"""and no more than this."""
KEPT_SHARE = 2
"""What is left out makes room until one part in so many is used, so that not every turn has to be read anew."""


def fit(
    messages: Sequence[Message], n_tokens: Callable[[Sequence[Message]], int], n_ctx: int
) -> tuple[list[Message], int]:
    """Leave out the oldest turns until the rest, and an answer, have room. System messages and the last turn stay.

    Args:
        messages: The conversation; a turn begins with a message of the user.
        n_tokens: Length of the prompt that messages make.
        n_ctx: Tokens that the context holds.

    Returns:
        The messages that stay, and the number of turns left out. If even the last turn has no room, it is all that
        stays, and answering it will say so.
    """
    kept = list(messages)
    if n_tokens(kept) <= n_ctx - min(n_ctx // ANSWER_SHARE, ANSWER_TOKENS):
        return kept, 0
    n_left_out = 0
    while (turns := _turns(kept)) and len(turns) > 1 and (not n_left_out or n_tokens(kept) > n_ctx // KEPT_SHARE):
        begin, end = turns[0]
        kept[begin:end] = [m for m in kept[begin:end] if m["role"] == "system"]
        n_left_out += 1
    return kept, n_left_out


def _turns(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """Where turns begin and end; system messages in front belong to none."""
    starts = [i for i, m in enumerate(messages) if m["role"] == "user"]
    return list(zip(starts, [*starts[1:], len(messages)], strict=True))
