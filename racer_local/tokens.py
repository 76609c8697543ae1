"""A token of an answer, and where it came from."""

from enum import IntFlag
from typing import NamedTuple


class Source(IntFlag):
    """Where a token came from; a drafted one may have several sources, none means the model alone."""

    MODEL = 0
    RETRIEVAL = 1
    LOGITS = 2

    @property
    def label(self) -> str:
        """Name for people: `model`, `retrieval`, `logits`, `both`."""
        return LOOKS[self].label


class Look(NamedTuple):
    """How tokens of a source are told from others.

    Attributes:
        label: Name for people.
        colour: Role of their colour; empty for that of plain text.
        attributes: What they have besides the colour, for screens without.
        fill: What their share of a bar is made of, so that it can be told without colours.
    """

    label: str
    colour: str
    attributes: str
    fill: str


LOOKS = {
    Source.MODEL: Look("model", "", "", "░"),
    Source.RETRIEVAL: Look("retrieval", "success", "underline", "█"),
    Source.LOGITS: Look("logits", "warning", "italic", "▒"),
    Source.RETRIEVAL | Source.LOGITS: Look("both", "primary", "bold", "▓"),
}
"""Of every combination of the bits of `Source`, in the order in which they are listed for people."""
N_SOURCES = len(LOOKS)
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
