"""No file steers the terminal through the command lines; programs that read a pipe get what there is, exactly."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from racer_local import cli, locations
from racer_local.bench import commands, report
from racer_local.bench.output import Progress
from racer_local.cli.command import Parser, report_errors
from racer_local.errors import ExitCode, UsageError
from racer_local.llama import library

EVIL = "\x1b]0;owned\x07\x9b2J"


def list_models() -> None:
    file = locations.user_models_file()
    file.parent.mkdir(parents=True)
    text = json.dumps(f"x{EVIL}")
    file.write_text(f'[models.{text}]\ndescription = {text}\nfiles = ["x.none"]\nneeds = {text}\n', "utf-8")
    assert cli.main(["--list-models"]) == ExitCode.DONE


def list_sessions() -> None:
    folder = locations.sessions_dir()
    folder.mkdir(parents=True)
    lines = [{"type": "session", "version": 1, "model": "m"}, {"type": "user", "text": EVIL}]
    (folder / f"x{EVIL}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    assert cli.main(["--sessions"]) == ExitCode.DONE


def list_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locations, "all_paths", lambda: {"config": Path(EVIL)})
    assert cli.main(["--paths"]) == ExitCode.DONE


def fail() -> None:
    def work() -> int:
        raise UsageError(EVIL)

    assert report_errors("racer-chat", work, verbose=True) == ExitCode.USAGE


def mistake() -> None:
    with pytest.raises(SystemExit):
        Parser("racer-chat").error(EVIL)


def echo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_echo", True)
    library._on_log(2, f"general.name = {EVIL}".encode(), None)


def bench() -> None:
    cell = report.Cell(1.0, None, None, None, None, 1.0, 1.0, 0.0, 1)
    commands.say(report.table({EVIL: {"off": cell}}))


@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "pipe"])
@pytest.mark.parametrize("show", [list_models, list_sessions, list_paths, fail, mistake, echo, bench])
def test_nothing_steers_a_terminal(
    show: Callable[..., None],
    is_terminal: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: is_terminal)
    show(*([monkeypatch] if show.__code__.co_argcount else []))
    said = "".join(capsys.readouterr())
    assert "owned" in said
    assert ("\x1b]" in said) is not is_terminal
    assert ("\x9b" in said) is not is_terminal


def test_progress_names_a_method_that_steers_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    Progress(EVIL).say("1/2")
    assert "\x1b]" not in capsys.readouterr().err
