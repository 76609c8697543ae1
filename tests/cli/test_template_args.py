"""Variables of the chat template on the command line."""

from pathlib import Path

import pytest

from racer_local import cli
from racer_local.cli.parser import build_parser, settings
from racer_local.errors import ExitCode, UsageError
from tests.tiny import write_llama


def variables(*texts: str) -> object:
    args = build_parser().parse_args([part for text in texts for part in ("--template-arg", text)])
    return settings(args)[0].get("chat_template_kwargs")


def test_values_are_json_or_text() -> None:
    given = ("enable_thinking=false", "effort=high", "n = 3", "date=a=b", 'list=["x"]', "empty=")
    expected = {"enable_thinking": False, "effort": "high", "n": 3, "date": "a=b", "list": ["x"], "empty": ""}
    assert variables(*given) == expected
    assert variables() is None


@pytest.mark.parametrize("wrong", ["enable_thinking", "=false", ""])
def test_what_has_no_name_or_value_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="NAME=VALUE"):
        variables(wrong)


def test_the_template_has_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = "{{ messages[-1].content }}{% if enable_thinking is not false %}{{ 'the' * 300 }}{% endif %}"
    call = [str(write_llama(tmp_path / "tiny.gguf", template=template)), "-p", "a", "--no-stdin", "-c", "64", "-n", "1"]
    assert cli.main(call) == ExitCode.CONTEXT_FULL
    assert cli.main([*call, "--template-arg", "enable_thinking=false"]) == ExitCode.DONE
    assert cli.main([*call, "--template-arg", "messages=[]"]) == ExitCode.USAGE
    assert "cannot set messages" in capsys.readouterr().err
