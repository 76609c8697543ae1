"""A prompt: the tokens that ask for an answer, made once and handed to whoever needs them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Message = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Prompt:
    """What `Racer.prepare` makes and `Racer.stream` answers.

    Attributes:
        tokens: Token ids, those of an answer that is gone on with at the end.
        messages: The messages that stand in it.
        n_left_out: Oldest turns that the context has no room for.
        n_begun: Tokens at its end that are the beginning of an answer.
    """

    tokens: list[int] = field(repr=False)
    messages: Sequence[Message] = ()
    n_left_out: int = 0
    n_begun: int = 0

    @property
    def goes_on(self) -> bool:
        """Whether it asks for the rest of an answer."""
        return self.n_begun > 0
