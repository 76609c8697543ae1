"""racer-chat: one answer on stdout, or the terminal chat when there is a terminal and no prompt."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from racer_local import locations, registry
from racer_local.cli import config, one_shot
from racer_local.cli.command import report_errors
from racer_local.cli.console import Interrupt, Progress
from racer_local.cli.door import terminal
from racer_local.cli.parser import FILLED_IN, build_parser, given, settings
from racer_local.cli.prompt_input import find_prompt
from racer_local.errors import ExitCode, UsageError
from racer_local.terminal_text import neutral

if TYPE_CHECKING:
    from racer_local.api import Racer

NOT_REPLAYED = ("record", "json", "jsonl", "doctor", "resume", "model")


def main(argv: list[str] | None = None) -> int:
    """Run racer-chat; returns the exit code."""
    parser = build_parser()
    args = parser.parse_args(argv)

    def work() -> int:
        config.fill(args, parser, FILLED_IN, own := config.load())
        return _run(args, own)

    return report_errors("racer-chat", work, verbose=bool(given(args, "verbose")))


def _run(args: argparse.Namespace, own: config.Config) -> int:
    if given(args, "paths"):
        for name, path in locations.all_paths().items():
            print(f"{name:15} {path}")
        return ExitCode.DONE
    if given(args, "sessions"):
        sys.stdout.writelines(f"{line}\n" for line in terminal().session_lines())
        return ExitCode.DONE
    if given(args, "list_models"):
        _list_models()
        return ExitCode.DONE
    if given(args, "json") and given(args, "jsonl"):
        raise UsageError("--json and --jsonl exclude each other")
    if given(args, "raw") and (given(args, "system") or given(args, "chat_template")):
        raise UsageError("--raw uses no chat template, so --system and --chat-template have no place")
    if given(args, "replay"):
        if find_prompt(args) is not None or any(given(args, name) is not None for name in NOT_REPLAYED):
            raise UsageError("--replay is the chat without a model; it takes no prompt and no other output")
        return terminal().play(args.replay, getattr(args, "speed", 1.0), look=own.look)
    record = given(args, "record")
    if record and (given(args, "raw") or given(args, "doctor")):
        raise UsageError("--record writes down a chat; --raw and --doctor are none")
    if record:
        terminal().check_recording(record)
    params, draft, options = settings(args)
    prompt = None if given(args, "doctor") else find_prompt(args)
    if prompt is not None and not prompt.strip():
        raise UsageError("the prompt is empty; write something after -p or on stdin")
    path = registry.find_model(given(args, "model"))
    template = _read_template(given(args, "chat_template"))

    def open_racer(on_progress: Callable[[float], bool]) -> "Racer":
        from racer_local.api import Racer
        from racer_local.llama import library

        library.load(echo_log=bool(given(args, "verbose")))
        racer = Racer(path, draft=draft, chat_template=template, on_progress=on_progress, **params)
        return terminal().record(record, racer) if record else racer

    if given(args, "doctor"):
        return _doctor(args, open_racer)
    if prompt is None:
        return terminal().start(
            open_racer,
            title=path.name,
            system=given(args, "system"),
            resume=given(args, "resume"),
            options={**options, "draft": draft},
            loading=None if record else {"draft": draft, **params},
            look=own.look,
        )
    return one_shot.answer(args, open_racer, prompt, options)


def _read_template(name: str | None) -> str | None:
    if name is None:
        return None
    try:
        return Path(name).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the chat template {name}: {error}") from error


def _list_models() -> None:
    for entry in registry.entries().values():
        path = registry.locate(entry)
        print(f"{entry.name:12} {entry.description}; needs {entry.needs or '?'}")
        print(f"{'':12} {path or 'not found: ' + ', '.join(entry.files)}")


def _doctor(args: argparse.Namespace, open_racer: one_shot.Opener) -> int:
    from racer_local.cli import doctor

    interrupt = Interrupt()
    with interrupt, Progress(interrupt) as progress:
        opened = open_racer(progress)
    with opened as racer:
        report = doctor.examine(racer)
        print(json.dumps(report.as_dict(), ensure_ascii=False) if given(args, "json") else neutral(report.text()))
    return ExitCode.DONE
