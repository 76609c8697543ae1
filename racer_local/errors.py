"""Errors that a user can act on. Each message is one line that says what to do; each class fixes an exit code."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What the programs of this package return to the shell."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    MODEL = 3
    CONTEXT_FULL = 4
    INTERRUPTED = 130


class RacerError(Exception):
    """Base of all errors that this package raises on purpose."""

    exit_code = ExitCode.FAILED


class UsageError(RacerError, ValueError):
    """A wrong option, name or value: the caller has to change the call."""

    exit_code = ExitCode.USAGE


class ModelError(RacerError):
    """The model cannot be found, loaded or used for text generation."""

    exit_code = ExitCode.MODEL


class ContextFullError(RacerError):
    """The prompt leaves no room in the context for an answer."""

    exit_code = ExitCode.CONTEXT_FULL


class DecodeError(RacerError):
    """llama.cpp refused or failed a decode; the cache holds what it says it holds."""


class Cancelled(RacerError):
    """Work was stopped because the caller asked for it; the cache holds what it says it holds."""

    exit_code = ExitCode.INTERRUPTED
