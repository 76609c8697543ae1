"""A token of an answer, and where it came from."""

from enum import IntFlag
from typing import NamedTuple


class Source(IntFlag):
    """Where a token came from; a drafted one may have several sources, none means the model alone."""

    MODEL = 0
    RETRIEVAL = 1
    LOGITS = 2
    CORPUS = 4

    @property
    def label(self) -> str:
        """Name for people: `model`, `retrieval`, `logits`, `both`, `corpus`."""
        if self & Source.CORPUS:
            return "corpus"
        if self == Source.RETRIEVAL | Source.LOGITS:
            return "both"
        return (self.name or "model").lower()


N_SOURCES = 8
"""Combinations of the bits of `Source`."""


class Token(NamedTuple):
    """One token of an answer as it reached the user.

    Attributes:
        id: Token id.
        text: What it adds to the text; empty while a character is incomplete, cut at a stop string.
        source: Who guessed it; `Source.MODEL` when nobody had.
        match_len: Tokens of context that retrieval matched to guess it.
        depth: Depth in its draft tree, 0 for the token that the model added itself.
        step: Number of the decode that committed it, from 1.
    """

    id: int
    text: str
    source: Source
    match_len: int
    depth: int
    step: int

    @property
    def drafted(self) -> bool:
        """Whether the token had been guessed and was then accepted."""
        return self.depth > 0
