"""Prompts that come on stdin: all of it, a pause is told once, and a loop's list may be left alone."""

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from racer_local.cli import prompt_input
from racer_local.cli.parser import build_parser
from racer_local.errors import ExitCode, UsageError
from tests.tiny import write_llama


class Pipe:
    """Stdin from a pipe that the test writes to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        reader, self._writer = os.pipe()
        self._stdin = os.fdopen(reader, "r", encoding="utf-8")
        monkeypatch.setattr("sys.stdin", self._stdin)

    def feed(self, *pieces: bytes, every_s: float = 0.0) -> None:
        """Write pieces with pauses before each, and end."""

        def write() -> None:
            for piece in pieces:
                time.sleep(every_s)
                os.write(self._writer, piece)
            time.sleep(every_s)
            os.close(self._writer)

        threading.Thread(target=write, daemon=True).start()

    def close(self) -> None:
        """End the test's side."""
        self._stdin.close()


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Pipe:
    monkeypatch.setattr(prompt_input, "WAIT_S", 0.2)
    return Pipe(monkeypatch)


def found(*arguments: str) -> str | None:
    return prompt_input.find_prompt(build_parser().parse_args(arguments))


@pytest.mark.parametrize(
    ("pieces", "arguments", "prompt"),
    [
        ([b"one ", b"two"], ["-p", "-"], "one two"),
        ([b"one"], [], "one"),
        ([b"one"], ["-p", "two"], "two\n\none"),
        ([], ["-p", "two"], "two"),
        ([b" \n"], ["-p", "two"], "two"),
        ([b"\xef\xbb\xbfone\r\ntwo"], [], "one\ntwo"),
        ([b"\xc3", b"\xa9\xff"], [], "é\ufffd"),
    ],
)
def test_all_of_it_is_taken(
    pipe: Pipe, pieces: list[bytes], arguments: list[str], prompt: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pipe.feed(*pieces)
    assert found(*arguments) == prompt
    assert capsys.readouterr().err == ""
    pipe.close()


@pytest.mark.parametrize("pieces", [[b"x"], [b"x", b"y", b"z"]])
def test_a_pause_is_told_once(pipe: Pipe, pieces: list[bytes], capsys: pytest.CaptureFixture[str]) -> None:
    pipe.feed(*pieces, every_s=0.4)
    assert found("-p", "go") == "go\n\n" + b"".join(pieces).decode()
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "stdin" in said.err
    assert "--no-stdin" in said.err
    pipe.close()


def test_utf_16_is_named(pipe: Pipe) -> None:
    pipe.feed("one".encode("utf-16"))
    with pytest.raises(UsageError, match="stdin is in UTF-16"):
        found("-p", "-")
    pipe.close()


def test_it_may_be_left_alone(pipe: Pipe) -> None:
    assert found("-p", "go", "--no-stdin") == "go"
    with pytest.raises(UsageError, match="no prompt"):
        found("--no-stdin")
    pipe.feed()
    pipe.close()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("cut") / "tiny model.gguf")


def test_a_loop_keeps_its_list(tiny: Path, tmp_path: Path) -> None:
    call = f'{sys.executable} -m racer_local.cli "{tiny}" -c 128 -n 2 --raw --no-stdin --json -p "$line"'
    script = f"while read -r line; do {call} || exit 1; done"
    done = subprocess.run(
        ["bash", "-c", script], input="a\nb\nc\n", capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == ExitCode.DONE, done.stderr
    assert len([json.loads(line) for line in done.stdout.splitlines()]) == 3
