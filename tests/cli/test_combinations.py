"""Options that have no effect together are refused, every pair of them; what a configuration file says is not."""

import itertools
from pathlib import Path

import pytest

from racer_local import cli, locations
from racer_local.cli.combinations import NOT_TAKEN, TAKEN, check, option, purpose
from racer_local.cli.parser import build_parser
from racer_local.errors import ExitCode, UsageError

GIVEN = {
    "model": ["model.gguf"],
    "prompt": ["-p", "x"],
    "no_stdin": ["--no-stdin"],
    "system": ["-s", "x"],
    "max_tokens": ["-n", "3"],
    "resume": ["--resume"],
    "sessions": ["--sessions"],
    "temperature": ["--temp", "1"],
    "top_k": ["--top-k", "3"],
    "top_p": ["--top-p", "0.5"],
    "min_p": ["--min-p", "0.1"],
    "repeat_penalty": ["--repeat-penalty", "1.1"],
    "seed": ["--seed", "1"],
    "stop": ["--stop", "x"],
    "n_ctx": ["-c", "256"],
    "n_gpu_layers": ["-ngl", "0"],
    "n_threads": ["-t", "1"],
    "flash_attn": ["-fa", "on"],
    "raw": ["--raw"],
    "chat_template": ["--chat-template", "t.jinja"],
    "template_args": ["--template-arg", "enable_thinking=false"],
    "draft": ["--draft", "auto"],
    "draft_budget": ["--draft-budget", "4"],
    "draft_temp": ["--draft-temp", "1.5"],
    "chain": ["--chain"],
    "json": ["--json"],
    "jsonl": ["--jsonl"],
    "show_thoughts": ["--show-thoughts"],
    "record": ["--record", "run.jsonl"],
    "replay": ["--replay", "run.jsonl"],
    "speed": ["--speed", "2"],
    "doctor": ["--doctor"],
    "list_models": ["--list-models"],
    "paths": ["--paths"],
    "verbose": ["-v"],
}
"""How each option is given."""
INFORMATION = ("paths", "sessions", "list_models")
ANSWERING = ("system", "max_tokens", "temperature", "top_k", "top_p", "min_p", "repeat_penalty", "seed", "stop")
REFUSED = {
    *(frozenset({a, b}) for a in INFORMATION for b in GIVEN if b not in ("verbose", a)),
    *(frozenset({"replay", b}) for b in GIVEN if b not in ("verbose", "replay", "speed")),
    *(frozenset({"doctor", b}) for b in (*ANSWERING, "prompt", "no_stdin", "raw", "jsonl", "record", "resume")),
    *(frozenset({"speed", b}) for b in GIVEN if b not in ("speed", "replay")),
    *(frozenset({"resume", b}) for b in ("prompt", "json", "jsonl", "raw")),
    *(frozenset({"raw", b}) for b in ("system", "chat_template", "template_args", "record")),
    *(frozenset({"show_thoughts", b}) for b in ("json", "jsonl", "raw", "resume", "doctor")),
    frozenset({"json", "jsonl"}),
}
"""Pairs of which one has no effect. `--no-stdin` alone with an option of the chat is looked at by itself."""
PAIRS = [pair for pair in itertools.combinations(GIVEN, 2) if "no_stdin" not in pair]


def refused(*names: str) -> str:
    """What is said of options given together; empty where nothing is."""
    args = build_parser().parse_args([word for name in names for word in GIVEN[name]])
    try:
        check(args, frozenset(vars(args)), purpose(args))
    except UsageError as error:
        return str(error)
    return ""


def test_every_option_is_in_the_table() -> None:
    known = {"model", *(action.dest for action in build_parser().options.values())} - {"version"}
    assert known == set(GIVEN)


def test_every_pair_of_options_has_an_effect_or_is_refused() -> None:
    wrong = [pair for pair in PAIRS if bool(refused(*pair)) != (frozenset(pair) in REFUSED)]
    assert wrong == []


def test_what_is_said_names_an_option_of_the_pair() -> None:
    for pair in PAIRS:
        if said := refused(*pair):
            assert any(option(name) in said for name in pair), (pair, said)


def test_an_option_is_named_as_it_is_typed() -> None:
    long = {action.dest: action.option_strings for action in build_parser().options.values()}
    for name in GIVEN:
        assert name == "model" or option(name) in long[name]


def test_every_name_of_the_tables_is_an_option() -> None:
    for names in (*TAKEN.values(), *NOT_TAKEN.values(), TAKEN):
        assert set(names) <= set(GIVEN)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--draft", "off", "--draft-budget", "4"], "--draft-budget"),
        (["--draft", "off", "--chain"], "--chain"),
        (["--draft", "racer", "--draft-temp", "2"], "--draft-temp"),
        (["-p", "-", "--no-stdin"], "--no-stdin"),
        (["--no-stdin", "--resume"], "--no-stdin"),
        (["--resume", "-p", "x"], "leave out the prompt"),
        (["--speed", "2", "-p", "x"], "--replay"),
    ],
)
def test_what_has_no_effect_ends_with_two(arguments: list[str], what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(arguments) == ExitCode.USAGE
    assert what in capsys.readouterr().err


def test_what_the_file_says_is_refused_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = locations.config_file()
    file.parent.mkdir(parents=True)
    file.write_text('[options]\nsystem = "Be brief."\ntemp = 0.5\ndraft-budget = 4\n', "utf-8")
    assert cli.main(["--list-models"]) == ExitCode.DONE
    assert cli.main(["none.gguf", "--raw", "-p", "x"]) == ExitCode.MODEL
    assert cli.main(["none.gguf", "--draft", "off", "-p", "x"]) == ExitCode.MODEL
    assert "no such file" in capsys.readouterr().err


def test_a_file_that_says_raw_and_a_system_prompt_on_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RACER_RAW", "1")
    assert cli.main(["none.gguf", "-s", "x", "-p", "x"]) == ExitCode.USAGE
    assert "--system" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["model.gguf", "MODEL.GGUF", "demo", "folder/model.gguf"])
def test_resume_takes_no_model_for_a_conversation(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from racer_local.cli import program

    args = build_parser().parse_args(["--resume", name])
    program._take_model_from_resume(args)
    assert (args.model, args.resume) == (name, "")


@pytest.mark.parametrize("arguments", [["--resume", "2026-01-01-lamps"], ["model.gguf", "--resume", "demo"]])
def test_resume_keeps_the_name_of_a_conversation(arguments: list[str]) -> None:
    from racer_local.cli import program

    args = build_parser().parse_args(arguments)
    program._take_model_from_resume(args)
    assert args.resume == arguments[-1]
