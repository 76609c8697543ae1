"""Text of users, models and files, made fit for a terminal: it steers nothing, breaks no line and hides nothing."""

import unicodedata
from pathlib import Path

KEPT = "\n\t"
LINE_ENDS = str.maketrans({"\r": None, "\u2028": "\n", "\u2029": "\n"})
VISIBLE_SPACE = str.maketrans({" ": "␣", "\n": "↵", "\t": "⇥"})
ONE_LINE_LIMIT = 400
"""Characters of a line that says what is wrong."""


def neutral(text: str) -> str:
    """The text with control characters made visible, so that none of them reaches a terminal as a command.

    C0 controls become Unicode's control pictures; other controls, line separators, bidirectional overrides and lone
    surrogates become U+FFFD.
    """
    if text.isprintable():
        return text
    return "".join(c if c in KEPT or not _steers(c) else _picture(c) for c in text)


def _steers(char: str) -> bool:
    return (
        unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")
        or "\u202a" <= char <= "\u202e"
        or "\u2066" <= char <= "\u2069"
    )


def _picture(char: str) -> str:
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


def readable(text: str) -> str:
    """Text to read: lines end with a newline only, control characters are made visible.

    Works on any piece of a text, so that pieces joined give what the whole text gives.
    """
    return neutral(text.translate(LINE_ENDS))


def one_line(text: str, limit: int | None = None) -> str:
    """Text for a single line: white space folded, control characters made visible, cut to `limit` characters."""
    if limit is not None:
        text = text[: 4 * limit]
    line = neutral(" ".join(text.split()))
    return line if limit is None or len(line) <= limit else line[: limit - 1] + "…"


def path_text(path: Path) -> str:
    """A path for people: on one line, otherwise as it is."""
    return neutral(str(path)).replace("\n", "␊").replace("\t", "␉")


def token_text(piece: bytes) -> str:
    """A token by itself, on one line, with white space and half characters visible."""
    return neutral(piece.decode("utf-8", "replace").translate(VISIBLE_SPACE)).replace("\u2028", "↵") or "(no text)"
