"""An answer that ended before the model ended it says so, with the reason."""

import json
from pathlib import Path

import pytest

from racer_local import cli
from racer_local.errors import ExitCode
from tests.tiny import write_llama


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("cut") / "tiny.gguf")


def answer(tiny: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[str, str]:
    """Stdout and stderr of one answer."""
    assert cli.main([str(tiny), "--no-stdin", "-p", "ab", "--temp", "0", *more]) == ExitCode.DONE
    said = capsys.readouterr()
    return said.out, said.err


@pytest.mark.parametrize("raw", [[], ["--raw"]])
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["-c", "128", "-n", "3"], "as many tokens as -n allows"),
        (["-c", "128", "-n", "0"], "as many tokens as -n allows"),
        (["-c", "128"], "the context of 128 tokens is full; raise it with -c"),
        (["-c", "128", "-n", "500"], "the context of 128 tokens is full; raise it with -c"),
    ],
)
def test_the_reason_is_on_stderr(
    tiny: Path, capsys: pytest.CaptureFixture[str], options: list[str], reason: str, raw: list[str]
) -> None:
    out, err = answer(tiny, capsys, *options, *raw)
    assert [reason in line for line in err.splitlines() if "was cut" in line] == [True]
    assert "cut" not in out


def test_json_has_it_as_a_field(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("--json", "--jsonl"):
        out, err = answer(tiny, capsys, "-c", "128", "-n", "3", kind)
        assert json.loads(out.splitlines()[-1])["finish_reason"] == "length"
        assert "cut" not in err


def test_an_answer_that_ended_by_itself_says_nothing(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = answer(tiny, capsys, "-c", "128", "-n", "30", "--json", "--raw")
    stop = json.loads(out)["text"][2:4]
    _, err = answer(tiny, capsys, "-c", "128", "-n", "30", "--stop", stop, "--raw")
    assert "cut" not in err
