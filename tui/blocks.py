"""Markdown of an answer, block by block: what streams grows at its last block only, so the others are drawn once."""

import re
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

MAX_DEPTH = 12
"""Levels of nesting that are drawn as such; a parser gives up, and drops what is inside, a few levels deeper."""

# HTML, images and reference definitions would be swallowed; an answer must show all of its text
_PARSER = (
    MarkdownIt("commonmark", {"html": False})
    .enable(["table", "strikethrough"])
    .disable(["html_block", "html_inline", "image", "reference"])
)


def parse(text: str) -> list[Token]:
    """Tokens of a Markdown text; a line that the model has ended stays a line."""
    tokens = _PARSER.parse(text)
    for token in tokens:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"
    return tokens


def is_too_deep(tokens: list[Token]) -> bool:
    """Whether a block is nested so deeply that it is better shown as it stands."""
    return any(token.level > MAX_DEPTH for token in tokens)


def split(text: str) -> list[str]:
    """The top-level blocks of a Markdown text. Joined they are the text; only the last can still change.

    Args:
        text: Whole lines: the last line, as long as it grows, can take back where a block before it has ended.
    """
    starts = [token.map[0] for token in _PARSER.parse(text) if token.level == 0 and token.map and token.nesting >= 0]
    lines = re.split("(?<=\n)", text)
    return ["".join(lines[a:b]) for a, b in pairwise([0, *starts[1:], len(lines)])]
