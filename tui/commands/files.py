"""Commands that carry text in and out: files, clipboard, documents."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from racer_local.errors import UsageError
from racer_local.terminal_text import path_text

from ..copying import code_blocks, keep_copy
from ..export import as_json, as_markdown
from ..text_files import fenced, path_of, read_file, write_new
from .context import Context
from .registry import among, command


def file_choices(_context: Context, begun: str) -> Sequence[str]:
    """Paths that begin like this."""
    head, _, tail = begun.rpartition("/")
    try:
        folder = Path(head or ("/" if begun.startswith("/") else ".")).expanduser()
        # what cannot be shown as it is cannot be typed either
        names = sorted(name for name in os.listdir(folder) if name.startswith(tail) and name.isprintable())
    except (OSError, RuntimeError, ValueError):
        return []  # there is no such folder, or no such user
    lead = f"{head}/" if "/" in begun else ""
    names = [name for name in names if tail or not name.startswith(".")][:100]
    return [f"{lead}{name}{'/' if (folder / name).is_dir() else ''}" for name in names]


@command("read", "FILE", "put a text file into the input", choices=file_choices, any_time=True)
async def read(context: Context, argument: str) -> None:
    """Put a file into the input."""
    if not argument:
        raise UsageError("name a file: /read FILE")
    path = path_of(argument)
    prompt = context.views.prompt
    before = prompt.text if prompt.text.endswith("\n") or not prompt.text else prompt.text + "\n"
    prompt.put(before + fenced(path.name, read_file(path)))


@command("copy", "[N]", "copy the last answer, or its N-th code block", any_time=True)
async def copy(context: Context, argument: str) -> None:
    """Copy the answer or one of its code blocks."""
    text = context.chat.last_answer()
    if argument:
        blocks = code_blocks(text)
        if not argument.isdecimal() or not 1 <= int(argument) <= len(blocks):
            raise UsageError(f"the answer has {len(blocks) or 'no'} code blocks; /copy copies all of it")
        text = blocks[int(argument) - 1]
    context.host.copy_to_clipboard(text)
    path = keep_copy(text)
    context.host.notice(f"copied {len(text)} characters" + (f", also to {path_text(path)}" if path else ""))


@command("export", "md|json [FILE]", "write the conversation to a file", choices=among(("md", "json")), any_time=True)
async def export(context: Context, argument: str) -> None:
    """Write the conversation to a file."""
    kind, _, name = argument.partition(" ")
    if kind not in ("md", "json"):
        raise UsageError("say how: /export md [FILE] or /export json [FILE]")
    conversation = context.chat.session.conversation
    if not conversation.turns:
        raise UsageError("nothing was said yet")
    path = path_of(name.strip()) if name.strip() else Path(f"{conversation.id}.{kind}")
    text = (
        as_markdown(conversation) if kind == "md" else json.dumps(as_json(conversation), ensure_ascii=False, indent=1)
    )
    write_new(path, text + "\n")
    context.host.notice(f"written to {path_text(path.resolve())}")
