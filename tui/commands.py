"""Slash commands: what there is, what a line means, and how it can be completed. Knows nothing of the screen."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from racer_local.errors import UsageError


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command.

    Attributes:
        name: Without the slash; the app's method for it is `do_` and the name.
        arguments: What follows, for people; empty for nothing.
        help: What it does.
        choices: Name of the list that its first argument is completed from; empty for none.
        busy: Whether it may be given while an answer is in progress.
    """

    name: str
    arguments: str
    help: str
    choices: str = ""
    busy: bool = False


COMMANDS = (
    Command("help", "", "list the commands and keys", busy=True),
    Command("new", "", "begin a new conversation; this one is kept"),
    Command("clear", "", "forget what was said here and stay in this conversation"),
    Command("regen", "", "answer the last message once more"),
    Command("edit", "", "take the last message back into the input"),
    Command("continue", "", "go on with an answer that was stopped or cut off"),
    Command("undo", "", "take back the last message and its answer"),
    Command("system", "[TEXT]", "show or change the system prompt; '-' removes it"),
    Command("set", "[NAME VALUE]", "show or change how tokens are picked, and their bound", "settings"),
    Command("draft", "[on|off|auto|N]", "how drafts are made; N is a fixed budget", "draft", busy=True),
    Command("model", "[NAME|FILE]", "show or change the model", "models"),
    Command("load", "[NAME]", "go on with an earlier conversation; without a name choose from a list", "sessions"),
    Command("save", "TITLE", "give this conversation a title", busy=True),
    Command("delete", "[NAME]", "delete a conversation, this one without a name", "sessions"),
    Command("search", "WORDS", "find conversations in which all words occur"),
    Command("read", "FILE", "put a text file into the input", "files", busy=True),
    Command("copy", "[N]", "copy the last answer, or its N-th code block", busy=True),
    Command("export", "md|json [FILE]", "write the conversation to a file", "export", busy=True),
    Command("compare", "", "answer the last message with drafting off, and compare speed and text"),
    Command("stats", "", "show or hide the statistics", busy=True),
    Command("tree", "", "show or hide the last draft as a tree", busy=True),
    Command("tokens", "", "colour tokens by where they came from, or not", busy=True),
    Command("think", "", "show or hide what the model thought before it answered", busy=True),
    Command("quit", "", "leave", busy=True),
)
BY_NAME = {command.name: command for command in COMMANDS}


def parse(text: str) -> tuple[Command, str] | None:
    """The command that a text gives, with its argument; None where it is a message.

    A command is a slash and letters, alone or before a space. Two slashes begin a message with one.

    Raises:
        UsageError: There is no such command.
    """
    first, _, rest = text.strip().partition(" ")
    name = first[1:]
    if not first.startswith("/") or not name.isalpha() or "\n" in first:
        return None
    command = BY_NAME.get(name.lower())
    if command is None:
        close = get_close_matches(name.lower(), BY_NAME, 1)
        hint = f"; did you mean /{close[0]}?" if close else "; /help lists all"
        raise UsageError(f"there is no command /{name}{hint}")
    if rest.strip() and not command.arguments:
        raise UsageError(f"/{command.name} takes nothing after it")
    return command, rest.strip()


def message_of(text: str) -> str:
    """A message as it is sent: two slashes at its beginning stand for one."""
    return text[1:] if text.startswith("//") else text


def complete(text: str, choices: Mapping[str, Callable[[str], Sequence[str]]]) -> list[str]:
    """Whole lines that a line could become.

    Args:
        text: What stands in the input, a single line.
        choices: By name of a list, its entries that begin with a text.
    """
    if not text.startswith("/") or "\n" in text:
        return []
    first, space, rest = text.partition(" ")
    if not space:
        return [f"/{c.name}{' ' if c.arguments else ''}" for c in COMMANDS if c.name.startswith(first[1:].lower())]
    command = BY_NAME.get(first[1:].lower())
    if command is None or not command.choices:
        return []
    return [f"/{command.name} {entry}" for entry in choices[command.choices](rest.lstrip())]


def common_beginning(lines: Sequence[str]) -> str:
    """What all lines begin with."""
    if not lines:
        return ""
    low, high = min(lines), max(lines)
    n = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return low[:n]


def usage(command: Command) -> str:
    """A command with its arguments."""
    return f"/{command.name} {command.arguments}".rstrip()
