"""Markdown of an answer, block by block: what streams grows at its last block only, so the others are drawn once.

The parser leaves everything in the text that is no mark of a construct: escapes, entities, HTML, links and images stand
as they were written. An answer must show all that the model wrote, and so must what is copied from it.
"""

import re
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.autolink import autolink
from markdown_it.rules_inline.link import link
from markdown_it.token import Token

MAX_DEPTH = 12
"""Levels of nesting that are drawn as such; a parser gives up, and drops what is inside, a few levels deeper."""
LINK, TARGET = "link", "link_url"
"""Tags of inline tokens, besides HTML's own: the text of a link, and where it leads."""


def _escape(state: StateInline, silent: bool) -> bool:
    """A backslash stays; what it escapes is no mark."""
    if state.src[state.pos] != "\\":
        return False
    n = 1 if state.src[state.pos + 1 : state.pos + 2] in ("", "\n") else 2
    if not silent:
        state.pending += state.src[state.pos : state.pos + n]
    state.pos += n
    return True


def _link(state: StateInline, silent: bool) -> bool:
    """A link as it is written, brackets and target included."""
    start, end = state.pos, state.posMax
    if not link(state, True):
        return False
    if not silent:
        after = state.pos
        label_end = state.md.helpers.parseLinkLabel(state, start, True)
        state.pending += "["
        state.pos, state.posMax = start + 1, label_end
        state.push(f"{LINK}_text", LINK, 1)
        state.linkLevel += 1
        state.md.inline.tokenize(state)
        state.linkLevel -= 1
        state.push(f"{LINK}_text", LINK, -1)
        state.pending += "]("
        _push_target(state, state.src[label_end + 2 : after - 1])
        state.pending += ")"
        state.pos, state.posMax = after, end
    return True


def _autolink(state: StateInline, silent: bool) -> bool:
    """An address in angle brackets, with these."""
    start = state.pos
    if not autolink(state, True):
        return False
    if not silent:
        _push_target(state, state.src[start : state.pos])
    return True


def _push_target(state: StateInline, text: str) -> None:
    state.push(TARGET, TARGET, 1)
    state.pending += text
    state.push(TARGET, TARGET, -1)


def _write_pipes(state: StateCore) -> None:
    """A pipe within a cell was written with a backslash."""
    for cell, inline in pairwise(state.tokens):
        if cell.type in ("td_open", "th_open"):
            inline.content = inline.content.replace("|", r"\|")


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    # these would be swallowed
    return parser.disable(["html_block", "html_inline", "image", "reference", "entity"])


_OUTLINE = _parser().disable(["inline", "text_join"])
"""Finds blocks only."""
_PARSER = _parser()
_PARSER.inline.ruler.at("escape", _escape)
_PARSER.inline.ruler.at("link", _link)
_PARSER.inline.ruler.at("autolink", _autolink)
_PARSER.core.ruler.before("inline", "write_pipes", _write_pipes)


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
    starts = [token.map[0] for token in _OUTLINE.parse(text) if token.level == 0 and token.map and token.nesting >= 0]
    lines = re.split("(?<=\n)", text)
    return ["".join(lines[a:b]) for a, b in pairwise([0, *starts[1:], len(lines)])]


class GrowingBlocks:
    """The blocks of a text that grows at its end."""

    def __init__(self) -> None:
        self._growing = ""
        """The block that grows, and whatever of the next has begun."""

    def append(self, text: str) -> tuple[list[str], list[str]]:
        """Add to the text; returns the blocks that are settled by it, and those that come after and can change."""
        self._growing += text
        end = self._growing.rfind("\n") + 1
        *settled, last = split(self._growing[:end])
        self._growing = last + self._growing[end:]
        return settled, split(self._growing)
