"""Prompt lookup, the usual baseline: find the last n tokens earlier in the context and copy what followed."""

from collections.abc import Sequence


class NgramIndex:
    """Where each n-gram of the context ended last, so that a look-up takes constant time."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._context: list[int] = []
        self._ends: dict[tuple[int, ...], int] = {}
        self._match = -1

    def reset(self, context: Sequence[int]) -> None:
        """Start over with a context."""
        self._context.clear()
        self._ends.clear()
        self._match = -1
        self.observe(context)

    def observe(self, tokens: Sequence[int]) -> None:
        """Add tokens to the context."""
        for token in tokens:
            self._context.append(token)
            end = len(self._context)
            if end >= self._n:
                key = tuple(self._context[end - self._n :])
                self._match = self._ends.get(key, -1)
                self._ends[key] = end

    def continuation(self, limit: int) -> list[int]:
        """What followed the last earlier occurrence of the last n tokens: at most `limit` tokens, perhaps none."""
        if self._match < 0:
            return []
        return self._context[self._match : self._match + limit]
