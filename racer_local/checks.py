"""Checks of settings: each raises a UsageError that names the setting and says what it may be."""

from collections.abc import Collection
from typing import Any

from racer_local.errors import UsageError


def check_number(name: str, value: Any, kind: type, low: float, high: float, *, optional: bool = False) -> None:
    """Raise UsageError unless `value` is a `kind` (int passes for float) within [low, high]."""
    if value is None and optional:
        return
    allowed = (int,) if kind is int else (int, float)
    if isinstance(value, bool) or not isinstance(value, allowed) or value != value:
        what = "a whole number" if kind is int else "a number"
        raise UsageError(f"{name} must be {what}, not {value!r}")
    if not low <= value <= high:
        raise UsageError(f"{name} must lie between {low} and {high}, not {value}")


def check_switch(name: str, value: Any, *, optional: bool = False) -> None:
    """Raise UsageError unless `value` is true or false."""
    if not (isinstance(value, bool) or (optional and value is None)):
        raise UsageError(f"{name} must be true or false, not {value!r}")


def check_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """Raise UsageError unless `value` is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise UsageError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
