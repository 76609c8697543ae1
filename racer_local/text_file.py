"""Text of files and pipes that people make with any editor: UTF-8 with or without a byte order mark."""

import codecs
from pathlib import Path

from racer_local.errors import UsageError

UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_text(path: Path, what: str = "") -> str:
    """The text of a file; lines end with a newline only.

    Args:
        path: The file.
        what: What it is, for the message.

    Raises:
        UsageError: It cannot be read, or is no UTF-8.
    """
    named = f"{what} {path}" if what else str(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {named}: {error.strerror or error}") from error
    return decode(data, named)


def decode(data: bytes, named: str, errors: str = "strict") -> str:
    """Bytes as text; lines end with a newline only.

    Args:
        data: Bytes in UTF-8; a byte order mark before them is none of the text.
        named: Where they are from, for the message.
        errors: As of `bytes.decode`.

    Raises:
        UsageError: They are something else.
    """
    if data.startswith(UTF_16_MARKS):
        raise UsageError(f"{named} is in UTF-16; save it as UTF-8")
    try:
        text = data.decode("utf-8-sig", errors)
    except UnicodeDecodeError as error:
        raise UsageError(f"{named} is no text in UTF-8 (byte {error.start + 1})") from error
    return text.replace("\r\n", "\n").replace("\r", "\n")
