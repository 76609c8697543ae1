"""Text of users and models, made fit to be drawn: nothing in it steers the terminal, breaks a line count or hides."""

from racer_local.display import neutral

LINE_ENDS = str.maketrans({"\r": None, "\u2028": "\n", "\u2029": "\n"})
VISIBLE_SPACE = str.maketrans({" ": "␣", "\n": "↵", "\t": "⇥"})


def readable(text: str) -> str:
    """Text to read: lines end with a newline only, control characters are made visible.

    Works on any piece of a text, so that pieces joined give what the whole text gives.
    """
    return neutral(text.translate(LINE_ENDS))


def one_line(text: str) -> str:
    """Text for a single line, white space folded."""
    return neutral(" ".join(text.split()))


def token_text(piece: bytes) -> str:
    """A token by itself, on one line, with white space and half characters visible."""
    return neutral(piece.decode("utf-8", "replace").translate(VISIBLE_SPACE)).replace("\u2028", "↵") or "(no text)"
