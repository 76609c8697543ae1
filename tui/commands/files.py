"""Commands that carry text in and out: files, clipboard, documents."""

import json
from collections.abc import Sequence
from pathlib import Path

from racer_local.errors import UsageError

from ..copying import code_blocks, keep_copy
from ..export import as_json, as_markdown
from .context import Context
from .registry import among, command

READ_BYTES = 1 << 20
"""Largest file that `/read` takes."""


def file_choices(_context: Context, begun: str) -> Sequence[str]:
    """Paths that begin like this."""
    head, _, tail = begun.rpartition("/")
    folder = Path(head or ("/" if begun.startswith("/") else ".")).expanduser()
    found = sorted(folder.glob(f"{tail}*")) if folder.is_dir() and "*" not in tail else []
    lead = f"{head}/" if "/" in begun else ""
    return [f"{lead}{path.name}{'/' if path.is_dir() else ''}" for path in found[:100]]


@command("read", "FILE", "put a text file into the input", choices=file_choices, any_time=True)
async def read(context: Context, argument: str) -> None:
    """Put a file into the input."""
    if not argument:
        raise UsageError("name a file: /read FILE")
    path = Path(argument).expanduser()
    try:
        with path.open("rb") as file:
            data = file.read(READ_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    if len(data) > READ_BYTES:
        raise UsageError(f"{path} is larger than {READ_BYTES >> 20} MiB")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text in UTF-8") from error
    fence = "```" if "```" not in text else "~~~~"
    prompt = context.views.prompt
    prompt.put(f"{prompt.text}{fence} {path.name}\n{text.rstrip()}\n{fence}\n")


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
    context.host.notice(f"copied {len(text)} characters" + (f", also to {path}" if path else ""))


@command("export", "md|json [FILE]", "write the conversation to a file", choices=among(("md", "json")), any_time=True)
async def export(context: Context, argument: str) -> None:
    """Write the conversation to a file."""
    kind, _, name = argument.partition(" ")
    if kind not in ("md", "json"):
        raise UsageError("say how: /export md [FILE] or /export json [FILE]")
    conversation = context.chat.session.conversation
    if not conversation.turns:
        raise UsageError("nothing was said yet")
    path = Path(name.strip() or f"{conversation.id}.{kind}").expanduser()
    if path.exists() and not name.strip():
        raise UsageError(f"{path} is there already; name another file")
    text = (
        as_markdown(conversation) if kind == "md" else json.dumps(as_json(conversation), ensure_ascii=False, indent=1)
    )
    try:
        path.write_text(text + "\n", "utf-8", errors="replace")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    context.host.notice(f"written to {path.resolve()}")
