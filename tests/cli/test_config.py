"""The user's own defaults: what comes first, and what is said of a wrong one."""

from typing import Any

import pytest

from racer_local import cli, locations
from racer_local.cli import config
from racer_local.cli.parser import FILLED_IN, build_parser
from racer_local.errors import ExitCode, UsageError
from racer_local.terminal import Look


def write(text: str) -> None:
    """Write config.toml."""
    locations.config_file().parent.mkdir(parents=True, exist_ok=True)
    locations.config_file().write_text(text, "utf-8")


def filled(*arguments: str) -> dict[str, Any]:
    """What the command line has in the end."""
    parser = build_parser()
    args = parser.parse_args(arguments)
    config.fill(args, parser, FILLED_IN, config.load())
    return vars(args)


def test_without_a_file_nothing_is_filled_in() -> None:
    assert config.load() == config.Config()
    assert filled("-p", "x") == {"prompt": "x"}


def test_command_line_then_environment_then_file(monkeypatch: pytest.MonkeyPatch) -> None:
    write('[options]\ntemp = 0.1\ntop-k = 1\nseed = 1\nchain = true\nstop = ["a", "b"]\nsystem = "file"\n')
    monkeypatch.setenv("RACER_TEMP", "0.2")
    monkeypatch.setenv("RACER_TOP_K", "2")
    monkeypatch.setenv("RACER_CHAIN", "0")
    got = filled("--temp", "0.3")
    assert got == {
        "temperature": 0.3,
        "top_k": 2,
        "seed": 1,
        "chain": False,
        "stop": ["a", "b"],
        "system": "file",
    }


def test_every_option_that_is_filled_in_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"flash-attn": "on", "draft": "off", "raw": "true", "chain": "true", "system": "s", "stop": "x"}
    for name in FILLED_IN:
        monkeypatch.setenv(f"RACER_{name.upper().replace('-', '_')}", values.get(name, "1"))
    assert len(filled()) == len(FILLED_IN)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[options", "no valid TOML"),
        ("[option]\n", "known are"),
        ("options = 3", "known are"),
        ("[options]\ntempo = 1", "not 'tempo'"),
        ("[options]\njson = true", "not 'json'"),
        ("[options]\ntemp = 'warm'", "cannot be 'warm'"),
        ("[options]\ntemp = true", "cannot be True"),
        ("[options]\ntemp = [1, 2]", "one value"),
        ("[options]\nchain = 'perhaps'", "true or false"),
        ("[options]\ndraft = 'best'", "must be one of"),
        ("[keys]\nstop = 3", "[keys]"),
        ("[look]\ncolour = 'red'", "[look]"),
    ],
)
def test_what_is_wrong_is_one_line(text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    write(text)
    assert cli.main(["--list-models"]) == ExitCode.USAGE
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_wrong_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RACER_TEMP", "hot")
    with pytest.raises(UsageError, match="RACER_TEMP cannot be 'hot'"):
        filled()


def test_keys_and_theme() -> None:
    write('[keys]\nstats = "f9"\n[look]\ntheme = "nord"\n')
    assert config.load() == config.Config({}, Look({"stats": "f9"}, "nord"))
