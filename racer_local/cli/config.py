"""The user's own defaults: environment variables `RACER_...` and config.toml, for what the command line leaves out.

    [options]            # any option of racer-chat that says how to answer, by its long name
    temp = 0.7
    system = "Be brief."

    [keys]               # what the chat's keys do, by name: stop, leave, tokens, tree, stats, ...
    stats = "f9"

    [look]
    theme = "nord"

The command line comes first, then the environment (`RACER_TEMP=0.7`; an empty variable is none), then the file.
"""

import argparse
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from racer_local import locations
from racer_local.cli.command import Parser
from racer_local.errors import UsageError
from racer_local.terminal import Look
from racer_local.text_file import read_text

REPEATABLE = ("stop",)
"""Options that may be given more than once, each time with one value more."""
SECTIONS = ("options", "keys", "look")
TRUE, FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True, slots=True)
class Config:
    """What config.toml says.

    Attributes:
        options: Values of options by long name.
        look: Keys and theme of the chat.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    look: Look = field(default_factory=lambda: Look({}))


def load() -> Config:
    """Read the file; without one, everything is as it comes.

    Raises:
        UsageError: The file cannot be read, or holds what is not known.
    """
    file = locations.config_file()
    try:
        data = tomllib.loads(read_text(file)) if file.exists() else {}
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file} is no valid TOML: {error}") from error
    unknown = [name for name in data if name not in SECTIONS]
    if unknown or not all(isinstance(section, dict) for section in data.values()):
        raise UsageError(
            f"{file}: known are {', '.join(f'[{s}]' for s in SECTIONS)}, not {', '.join(unknown) or 'values'}"
        )
    keys, look = data.get("keys", {}), data.get("look", {})
    if not all(isinstance(key, str) for key in keys.values()):
        raise UsageError(f"{file}: each of [keys] is a name and a key, both text")
    if set(look) - {"theme"} or not isinstance(look.get("theme", ""), str):
        raise UsageError(f"{file}: [look] knows theme, a text")
    return Config(data.get("options", {}), Look(keys, look.get("theme")))


def fill(args: argparse.Namespace, parser: Parser, names: Iterable[str], config: Config) -> None:
    """Fill in what the command line has left out.

    Args:
        args: What it says; absent where it says nothing.
        parser: Its parser.
        names: Long names of the options that may be filled in, without the hyphens.
        config: The file.

    Raises:
        UsageError: A value is not what the option takes, or the file names an option that is none of these.
    """
    allowed = {name: parser.options[f"--{name}"] for name in names}
    for name in config.options:
        if name not in allowed:
            raise UsageError(f"{locations.config_file()}: [options] knows {', '.join(allowed)}, not {name!r}")
    for name, action in allowed.items():
        if hasattr(args, action.dest):
            continue
        variable = f"RACER_{name.upper().replace('-', '_')}"
        if os.environ.get(variable):
            setattr(args, action.dest, _value(action, os.environ[variable], variable))
        elif name in config.options:
            where = f"{locations.config_file()}: {name}"
            setattr(args, action.dest, _value(action, config.options[name], where))


def _value(action: argparse.Action, value: Any, where: str) -> Any:
    """A value as the command line would have given it."""
    if action.nargs == 0:  # a switch
        text = str(value).lower()
        if text not in (*TRUE, *FALSE):
            raise UsageError(f"{where} must be true or false, not {value!r}")
        return text in TRUE
    values = value if isinstance(value, list) else [value]
    if any(isinstance(v, bool | dict | list) for v in values):
        raise UsageError(f"{where} cannot be {value!r}")
    try:
        typed = [action.type(str(v)) if callable(action.type) else str(v) for v in values]
    except ValueError as error:
        raise UsageError(f"{where} cannot be {value!r}") from error
    if action.choices is not None and any(v not in action.choices for v in typed):
        raise UsageError(f"{where} must be one of {', '.join(map(str, action.choices))}, not {value!r}")
    if action.dest in REPEATABLE:
        return typed
    if len(typed) != 1:
        raise UsageError(f"{where} takes one value")
    return typed[0]
