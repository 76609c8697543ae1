"""racer-chat as a program: what goes to stdout and stderr, and its exit codes."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from racer_local.errors import ExitCode

pytestmark = pytest.mark.model

PROMPT = "Write a Python function that reverses a list."


def chat(*args: str, stdin: str | None = None, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "racer_local.cli", *args],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def refused(code: ExitCode, *args: str, stdin: str | None = None) -> str:
    """Run a wrong call: nothing on stdout, one line on stderr."""
    done = chat(*args, stdin=stdin)
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("racer-chat: ")
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.parametrize("policy", ["auto", "racer", "retrieval", "logits", "lookup", "off"])
def test_json_answer(demo_path: Path, policy: str) -> None:
    done = chat("-p", PROMPT, "--temp", "0", "-n", "24", "--json", "--draft", policy)
    assert done.returncode == ExitCode.DONE, done.stderr
    assert done.stderr == ""
    reply = json.loads(done.stdout)
    assert set(reply) == {"model", "text", "finish_reason", "usage", "timings", "draft"}
    assert reply["text"].startswith("```python")
    assert reply["finish_reason"] == "length"
    assert reply["usage"]["completion_tokens"] == 24
    assert set(reply["usage"]["completion_tokens_details"]) == {
        "accepted_prediction_tokens",
        "rejected_prediction_tokens",
    }
    assert set(reply["timings"]) == {
        "prompt_n",
        "cached_n",
        "prompt_ms",
        "predicted_n",
        "predicted_ms",
        "predicted_per_second",
        "steps",
        "draft_n",
        "draft_n_accepted",
        "tokens_per_step",
        "mean_acceptance_length",
        "propose_ms",
        "decode_ms",
        "verify_ms",
        "commit_ms",
        "speedup",
    }
    assert reply["draft"]["policy"] == policy
    assert reply["draft"]["mode"] == {"off": "off", "lookup": "chain"}.get(policy, "tree")
    assert reply["draft"]["budget"] == (64 if policy == "auto" else 8)
    note = reply["draft"]["note"]
    assert note == ("drafting is switched off" if policy == "off" else "") or (policy == "auto" and "paused" in note)


def test_answer_alone_on_stdout(demo_path: Path) -> None:
    done = chat("-p", "Say hi.", "--temp", "0", "-n", "8")
    assert done.returncode == 0
    assert done.stdout.strip()
    assert "tokens/s" in done.stderr
    assert "tokens/s" not in done.stdout
    assert done.stdout.endswith("\n")


def test_prompt_from_stdin_alone_and_below_the_given_one(demo_path: Path) -> None:
    options = ("--raw", "--temp", "0", "-n", "1", "--json")
    alone = json.loads(chat("-p", "-", *options, stdin="one two").stdout)
    piped = json.loads(chat(*options, stdin="one two").stdout)
    assert alone["usage"] == piped["usage"]
    both = json.loads(chat("-p", "one two", *options, stdin="three four").stdout)
    whole = json.loads(chat("-p", "one two\n\nthree four", *options).stdout)
    assert both["usage"] == whole["usage"]
    assert both["usage"]["prompt_tokens"] > alone["usage"]["prompt_tokens"]


def test_jsonl_has_a_line_a_step_and_totals_last(demo_path: Path) -> None:
    done = chat("-p", PROMPT, "--temp", "0", "-n", "24", "--jsonl")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    steps, totals = lines[:-1], lines[-1]
    assert "".join(s["text"] for s in steps) == totals["text"]
    assert sum(len(s["tokens"]) for s in steps) == 24
    assert [s["finish_reason"] for s in steps][-1] == "length"
    assert {t["source"] for s in steps for t in s["tokens"]} <= {"model", "retrieval", "logits", "both"}


def test_stop_system_and_seed(demo_path: Path) -> None:
    one = chat("-p", "List colours.", "-s", "Answer in French.", "--seed", "3", "-n", "30", "--json")
    two = chat("-p", "List colours.", "-s", "Answer in French.", "--seed", "3", "-n", "30", "--json")
    assert json.loads(one.stdout)["text"] == json.loads(two.stdout)["text"]
    stop = json.loads(one.stdout)["text"][3:6]
    cut = chat("-p", "List colours.", "-s", "Answer in French.", "--seed", "3", "-n", "30", "--stop", stop, "--json")
    assert stop not in json.loads(cut.stdout)["text"]


def test_every_sampling_and_drafting_option_is_taken(demo_path: Path) -> None:
    options = ("--top-k", "5", "--top-p", "0.9", "--min-p", "0.1", "--repeat-penalty", "1.1", "--temp", "0.5")
    more = ("--seed", "1", "--chain", "-fa", "on", "-t", "1", "-ngl", "0", "-c", "256", "--draft-temp", "1.2")
    reply = json.loads(chat("-p", PROMPT, "-n", "12", "--json", *options, *more).stdout)
    assert reply["usage"]["completion_tokens"] == 12
    assert (reply["draft"]["policy"], reply["draft"]["mode"]) == ("auto", "chain")


def test_a_template_that_fails_is_named(demo_path: Path, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.jinja", tmp_path / "bad.jinja"
    good.write_text("{{ messages[-1].content }}")
    bad.write_text("{{ raise_exception('nope') }}")
    assert "template" not in chat("-p", "Say hi.", "-n", "2", "--chat-template", str(good)).stderr
    assert "nope" in chat("-p", "Say hi.", "-n", "2", "--chat-template", str(bad)).stderr


def test_an_interrupt_while_the_model_is_prepared_is_not_forgotten(
    demo_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from racer_local import cli, loading

    find_mode = loading.find_mode

    def slow(engine: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return find_mode(engine)

    monkeypatch.setattr(loading, "find_mode", slow)
    assert cli.main(["-p", "Write a story.", "-n", "30", "-c", "512"]) == ExitCode.INTERRUPTED
    assert capsys.readouterr().out.strip() == ""


def test_what_cannot_be_a_file_or_be_written_is_one_line() -> None:
    assert "cannot be a file" in refused(ExitCode.MODEL, "~nosuchuser/x.gguf", "-p", "x")
    assert "cannot be a file" in refused(ExitCode.MODEL, "x" * 300, "-p", "x")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "racer_local.cli", "--list-models"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == ExitCode.FAILED
    assert "Traceback" not in done.stderr


def test_wrong_options_say_what_is_wrong() -> None:
    assert "--nope" in refused(ExitCode.USAGE, "demo", "--nope", "-p", "x")
    assert "invalid int" in refused(ExitCode.USAGE, "demo", "-n", "x", "-p", "x")
    assert "max-tokens" in refused(ExitCode.USAGE, "demo", "-n", "-1", "-p", "x")
    assert "temperature" in refused(ExitCode.USAGE, "--temp", "-1", "-p", "x")
    assert "temperature" in refused(ExitCode.USAGE, "--temp", "nan", "-p", "x")
    assert "top_p" in refused(ExitCode.USAGE, "--top-p", "2", "-p", "x")
    assert "seed" in refused(ExitCode.USAGE, "--seed", "-5", "-p", "x")
    assert "budget" in refused(ExitCode.USAGE, "--draft-budget", "65", "-p", "x")
    assert "n_ctx" in refused(ExitCode.USAGE, "-c", "0", "-p", "x")
    assert "n_threads" in refused(ExitCode.USAGE, "-t", "0", "-p", "x")
    assert "--draft" in refused(ExitCode.USAGE, "--draft", "best", "-p", "x")
    assert "draft_temperature" in refused(ExitCode.USAGE, "--draft-temp", "0", "-p", "x")
    assert "exclude" in refused(ExitCode.USAGE, "--json", "--jsonl", "-p", "x")
    assert "--raw" in refused(ExitCode.USAGE, "--raw", "-s", "x", "-p", "x")
    assert "template" in refused(ExitCode.USAGE, "--chat-template", "/none", "-p", "x")
    assert "--stop" in refused(ExitCode.USAGE, "--stop", "", "-p", "x")
    assert "empty" in refused(ExitCode.USAGE, "-p", "  ")
    assert "empty" in refused(ExitCode.USAGE, "-p", "-", stdin="")
    assert "terminal" in refused(ExitCode.USAGE, "demo")


def test_wrong_models_say_what_to_do(tmp_path: Path) -> None:
    assert "known names" in refused(ExitCode.MODEL, "nonesuch", "-p", "x")
    assert "no such file" in refused(ExitCode.MODEL, "nonesuch.gguf", "-p", "x")
    assert "directory" in refused(ExitCode.MODEL, str(tmp_path), "-p", "x")
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF\x03\x00\x00\x00" + b"\xff" * 64)
    assert "broken.gguf" in refused(ExitCode.MODEL, str(broken), "-p", "x")


def test_prompt_larger_than_the_context(demo_path: Path) -> None:
    assert "-c" in refused(ExitCode.CONTEXT_FULL, "-c", "32", "-p", "word " * 100)


def test_verbose_shows_the_library_and_the_trace(demo_path: Path) -> None:
    done = chat("-v", "-c", "32", "-p", "word " * 100)
    assert done.returncode == ExitCode.CONTEXT_FULL
    assert "Traceback" in done.stderr
    assert "load_tensors" in done.stderr


def test_information_options() -> None:
    paths = chat("--paths")
    assert paths.returncode == 0
    assert "models.toml" in paths.stdout
    listed = chat("--list-models")
    assert listed.stdout.startswith("demo")
    assert chat("--version").stdout.startswith("racer-local ")
    shown = chat("--help").stdout
    for option in ("--prompt", "--system", "--max-tokens", "--draft-budget", "--jsonl", "--chat-template", "-ngl"):
        assert option in shown


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_keeps_the_text_and_sets_the_exit_code(demo_path: Path, number: str, code: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "racer_local.cli", "-p", "Write a very long story.", "-c", "4096", "--seed", "1"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        first = process.stdout.read(40)
        process.send_signal(getattr(signal, number))
        rest, stderr = process.communicate(timeout=60)
    assert process.returncode == code
    assert len(first) == 40
    assert rest.endswith("\n")
    assert "Traceback" not in stderr


def test_reader_that_leaves_is_no_error_message(demo_path: Path) -> None:
    command = f"{sys.executable} -m racer_local.cli -p 'Count to one hundred.' -n 60 </dev/null | head -c 3"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, check=False)
    assert len(done.stdout) == 3
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


def test_control_characters_reach_no_terminal(demo_path: Path) -> None:
    """A prompt completed by the model itself may hold escape sequences; on a terminal they are made visible."""
    from racer_local.terminal_text import neutral

    assert neutral("a\x1b[31mb\x07\x9b\u202ec\n\t") == "a␛[31mb␇\ufffd\ufffdc\n\t"
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "racer_local.cli", "-p", "Say hi.", "-n", "4", "--temp", "0"],
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=subprocess.DEVNULL,
    )
    os.close(slave)
    seen = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            data = os.read(master, 1024)
        except OSError:
            break
        if not data:
            break
        seen += data
    os.close(master)
    assert process.wait(60) == 0
    assert seen.strip()
    assert b"\x1b" not in seen
