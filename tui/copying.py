"""Copying out of an answer: its code blocks, and a file for terminals that take no clipboard."""

from pathlib import Path

from markdown_it import MarkdownIt

from racer_local import locations, private_files


def code_blocks(text: str) -> list[str]:
    """Contents of the fenced and indented code blocks of a Markdown text, in order, as they stand."""
    return [token.content for token in MarkdownIt("commonmark").parse(text) if token.type in ("fence", "code_block")]


def keep_copy(text: str) -> Path | None:
    """Write what was copied to a file as well; None where that is not possible."""
    path = locations.cache_dir() / "copied.txt"
    try:
        private_files.make_folder(path.parent)
        private_files.replace(path, text)
    except OSError:
        return None  # the clipboard may have it all the same
    return path
