"""racer-chat: one answer on stdout, or the terminal chat when there is a terminal and no prompt."""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from racer_local import locations, registry
from racer_local.cli import combinations, config, one_shot
from racer_local.cli.command import report_errors, say
from racer_local.cli.console import Interrupt, Progress
from racer_local.cli.door import terminal
from racer_local.cli.parser import FILLED_IN, build_parser, given, settings
from racer_local.cli.prompt_input import find_prompt
from racer_local.errors import ExitCode, RacerError, UsageError
from racer_local.llama.versions import version_note
from racer_local.text_file import read_text

if TYPE_CHECKING:
    from racer_local.api import Racer


def main(argv: list[str] | None = None) -> int:
    """Run racer-chat; returns the exit code."""
    parser = build_parser()
    args = parser.parse_args(argv)

    def work() -> int:
        named = frozenset(vars(args))
        config.fill(args, parser, FILLED_IN, own := config.load())
        return _run(args, named, own)

    return report_errors("racer-chat", work, verbose=bool(given(args, "verbose")))


def _run(args: argparse.Namespace, named: frozenset[str], own: config.Config) -> int:
    doing = combinations.purpose(args)
    _take_model_from_resume(args)
    combinations.check(args, named, doing)
    combinations.drop_unused(args, named, doing)
    if doing in combinations.INFORMATION:
        {"paths": _list_paths, "sessions": _list_sessions, "list_models": _list_models}[doing]()
        return ExitCode.DONE
    record = given(args, "record")
    if record:
        terminal().check_recording(record)
    params, draft, options = settings(args)
    prompt = None if doing == "doctor" else find_prompt(args)
    if prompt is not None and not prompt.strip():
        raise UsageError("the prompt is empty; write something after -p or on stdin")
    if doing == "replay":
        if prompt is not None:
            raise UsageError("--replay is the chat without a model; it takes no prompt")
        return terminal().play(args.replay, getattr(args, "speed", 1.0), look=own.look)
    if prompt is not None and doing == "chat":
        combinations.check(args, named, "answer")
    path = registry.find_model(given(args, "model"))
    template = given(args, "chat_template")
    template = None if template is None else read_text(Path(template), "the chat template")

    def open_racer(on_progress: Callable[[float], bool]) -> "Racer":
        try:
            from racer_local.api import Racer
            from racer_local.llama import library
        except (ImportError, AttributeError) as error:  # names that another version has not
            if note := version_note():
                raise RacerError(note) from error
            raise
        library.load(echo_log=bool(given(args, "verbose")))
        racer = Racer(path, draft=draft, chat_template=template, on_progress=on_progress, **params)
        return terminal().record(record, racer) if record else racer

    if doing == "doctor":
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


def _take_model_from_resume(args: argparse.Namespace) -> None:
    """`--resume model.gguf` goes on with the last conversation, with that model: no conversation is called so."""
    name = given(args, "resume")
    if name and given(args, "model") is None and (name.lower().endswith(".gguf") or name in registry.entries()):
        args.model, args.resume = name, ""


def _list_paths() -> None:
    for name, path in locations.all_paths().items():
        say(f"{name:15} {path}")


def _list_sessions() -> None:
    for line in terminal().session_lines():
        say(line)


def _list_models() -> None:
    for entry in registry.entries().values():
        path = registry.locate(entry)
        say(f"{entry.name:12} {entry.description}; needs {entry.needs or '?'}")
        say(f"{'':12} {path or 'not found: ' + ', '.join(entry.files)}")


def _doctor(args: argparse.Namespace, open_racer: one_shot.Opener) -> int:
    from racer_local.cli import doctor

    interrupt = Interrupt()
    with interrupt, Progress(interrupt) as progress:
        opened = open_racer(progress)
    with opened as racer:
        report = doctor.examine(racer)
        if given(args, "json"):
            print(json.dumps(report.as_dict(), ensure_ascii=False))
        else:
            say(report.text())
    return ExitCode.DONE
