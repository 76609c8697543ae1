"""Commands that carry text in and out: files, clipboard, documents."""

import json
from pathlib import Path

from racer_local.errors import UsageError

from .copying import code_blocks, keep_copy
from .export import as_json, as_markdown
from .tuning import Tuning

READ_BYTES = 1 << 20
"""Largest file that `/read` takes."""


class Carrying(Tuning):
    """Commands `/read`, `/copy`, `/export`."""

    async def do_read(self, argument: str) -> None:
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
        self.prompt.put(f"{self.prompt.text}{fence} {path.name}\n{text.rstrip()}\n{fence}\n")

    async def do_copy(self, argument: str) -> None:
        """Copy the answer or one of its code blocks."""
        text = self.chat.last_answer()
        if argument:
            blocks = code_blocks(text)
            if not argument.isdecimal() or not 1 <= int(argument) <= len(blocks):
                raise UsageError(f"the answer has {len(blocks) or 'no'} code blocks; /copy copies all of it")
            text = blocks[int(argument) - 1]
        self.copy_to_clipboard(text)
        path = keep_copy(text)
        self.notice(f"copied {len(text)} characters" + (f", also to {path}" if path else ""))

    async def do_export(self, argument: str) -> None:
        """Write the conversation to a file."""
        kind, _, name = argument.partition(" ")
        if kind not in ("md", "json"):
            raise UsageError("say how: /export md [FILE] or /export json [FILE]")
        conversation = self.chat.session.conversation
        if not conversation.turns:
            raise UsageError("nothing was said yet")
        path = Path(name.strip() or f"{conversation.id}.{kind}").expanduser()
        if path.exists() and not name.strip():
            raise UsageError(f"{path} is there already; name another file")
        text = (
            as_markdown(conversation)
            if kind == "md"
            else json.dumps(as_json(conversation), ensure_ascii=False, indent=1)
        )
        try:
            path.write_text(text + "\n", "utf-8", errors="replace")
        except OSError as error:
            raise UsageError(f"cannot write {path}: {error.strerror}") from error
        self.notice(f"written to {path.resolve()}")
