"""What slash commands there are, what a line means, and how it can be completed.

A command is a function that takes a `Context` and what follows the command's name. It is registered where it is
written: by `@command(...)`, with what `/help`, the palette and completion say of it.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from racer_local.errors import UsageError

from .context import Context

Run = Callable[[Context, str], Awaitable[None]]
Choices = Callable[[Context, str], Sequence[str]]
"""Entries that an argument which has begun like this could become."""


@dataclass(frozen=True, slots=True)
class Command:
    """A slash command.

    Attributes:
        name: Without the slash.
        arguments: What follows, for people; empty for nothing.
        help: What it does.
        run: Does it.
        choices: Completes its argument; None where there is nothing to complete.
        any_time: Whether it may be given while something is in progress.
    """

    name: str
    arguments: str
    help: str
    run: Run
    choices: Choices | None
    any_time: bool

    @property
    def usage(self) -> str:
        """The command with its arguments."""
        return f"/{self.name} {self.arguments}".rstrip()

    @property
    def needs_argument(self) -> bool:
        """Whether it does nothing without an argument."""
        return bool(self.arguments) and not self.arguments.startswith("[")


COMMANDS: dict[str, Command] = {}
"""All commands by name, in the order of registration."""


def command(
    name: str, arguments: str, help_text: str, *, choices: Choices | None = None, any_time: bool = False
) -> Callable[[Run], Run]:
    """Register a function as a command; the arguments are fields of `Command`."""

    def register(run: Run) -> Run:
        assert name not in COMMANDS, f"/{name} is registered twice"
        COMMANDS[name] = Command(name, arguments, help_text, run, choices, any_time)
        return run

    return register


def among(names: Sequence[str]) -> Choices:
    """Completes from a fixed list."""
    return lambda _context, begun: [name for name in names if name.startswith(begun)]


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
    found = COMMANDS.get(name.lower())
    if found is None:
        close = get_close_matches(name.lower(), COMMANDS, 1)
        hint = f"; did you mean /{close[0]}?" if close else "; /help lists all"
        raise UsageError(f"there is no command /{name}{hint}")
    if rest.strip() and not found.arguments:
        raise UsageError(f"/{found.name} takes nothing after it")
    return found, rest.strip()


def message_of(text: str) -> str:
    """A message as it is sent: two slashes at its beginning stand for one."""
    return text[1:] if text.startswith("//") else text


def complete(text: str, context: Context) -> list[str]:
    """Whole lines that a line could become; `text` is what stands in the input."""
    if not text.startswith("/") or "\n" in text:
        return []
    first, space, rest = text.partition(" ")
    begun = first[1:].lower()
    if not space:
        return [f"/{c.name}{' ' if c.arguments else ''}" for c in COMMANDS.values() if c.name.startswith(begun)]
    found = COMMANDS.get(begun)
    if found is None or found.choices is None:
        return []
    return [f"/{found.name} {entry}" for entry in found.choices(context, rest.lstrip())]


def common_beginning(lines: Sequence[str]) -> str:
    """What all lines begin with."""
    if not lines:
        return ""
    low, high = min(lines), max(lines)
    n = next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return low[:n]
