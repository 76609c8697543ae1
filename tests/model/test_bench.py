"""racer-bench on the demo model: a short run, a trace and its simulation, an interruption."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from racer_local.bench.cli import main
from racer_local.bench.questions import OWN
from racer_local.errors import ExitCode
from tests.tiny_kinds import KINDS

pytestmark = pytest.mark.model


def test_short_run_prints_the_table_and_writes_the_report(
    demo_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run.json"
    lines = OWN.read_text("utf-8").splitlines()
    few = tmp_path / "few.jsonl"
    few.write_text("\n".join([lines[0], lines[-1]]), "utf-8")
    wanted = ["run", "--limit", "1", "--max-tokens", "32", "--methods", "off,off,bare,racer", "-c", "2048"]
    assert main([*wanted, "--questions", str(few), "--out", str(out)]) == ExitCode.DONE
    shown = capsys.readouterr().out
    for word in ("× median", "tok/step", "overall", "off#2", "same text", "llama-cpp-python"):
        assert word in shown
    report = json.loads(out.read_text("utf-8"))
    overall = report["summary"]["overall"]
    assert report["complete"]
    assert overall["off"]["ratio"] == overall["off"]["total_ratio"] == 1.0
    assert overall["bare"]["own_share"] == 0
    assert overall["racer"]["drafted_per_step"] > 0
    assert report["same"]["off#2"] == report["compared"]["off#2"]
    assert {"cpu", "packages", "threads"} <= set(report["machine"])
    assert len(report["rows"]) == 4 * 2
    assert all(d["gap"] <= 1.0 for d in report["differences"])


def test_simulation_of_a_traced_run_makes_the_same_steps(
    demo_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, out = tmp_path / "t.npz", tmp_path / "r.json"
    lines = OWN.read_text("utf-8").splitlines()
    few = tmp_path / "few.jsonl"
    few.write_text("\n".join([lines[5], lines[6], lines[-2]]), "utf-8")
    options = ["--budget", "12", "--questions", str(few), "--max-tokens", "48"]
    assert main(["trace", *options, "-c", "2048", "--out", str(trace)]) == ExitCode.DONE
    assert main(["run", *options, "-c", "2048", "--methods", "racer", "--out", str(tmp_path / "m.json")]) == 0
    assert main(["simulate", str(trace), "--methods", "racer@12,off", "--out", str(out)]) == ExitCode.DONE
    capsys.readouterr()
    measured = json.loads((tmp_path / "m.json").read_text("utf-8"))["summary"]["overall"]["racer"]
    simulated = json.loads(out.read_text("utf-8"))["summary"]["overall"]["racer@12"]
    assert simulated["tokens_per_step"] == measured["tokens_per_step"]
    assert simulated["drafted_per_step"] == measured["drafted_per_step"]
    assert measured["tokens_per_step"] > 1.2


def test_a_run_of_policy_auto_can_be_traced(
    demo_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = tmp_path / "few.jsonl"
    few.write_text(OWN.read_text("utf-8").splitlines()[6], "utf-8")
    options = ["--draft", "auto", "--questions", str(few), "--max-tokens", "12", "-c", "512"]
    assert main(["trace", *options, "--out", str(tmp_path / "t.npz")]) == ExitCode.DONE
    assert main(["simulate", str(tmp_path / "t.npz"), "--methods", "off,auto"]) == ExitCode.DONE
    assert "auto" in capsys.readouterr().out


def test_fresh_memories_and_a_context_that_fills_up(
    demo_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = tmp_path / "few.jsonl"
    few.write_text('{"category": "a", "turns": ["Count from 1 to 500."]}\n' * 2, "utf-8")
    wanted = ["run", "--questions", str(few), "--max-tokens", "400", "--methods", "off,bare,lookup", "-c", "128"]
    seen = {}
    for name, more in (("kept", []), ("fresh", ["--fresh"])):
        assert main([*wanted, *more, "--out", str(tmp_path / "r.json")]) == ExitCode.DONE
        report = json.loads((tmp_path / "r.json").read_text("utf-8"))
        turns = [(r["method"], r["turns"][0]) for r in report["rows"]]
        assert {len(t["tokens"]) for m, t in turns if m != "lookup"} == {len(turns[0][1]["tokens"])}
        assert all(t["steps"] == len(t["tokens"]) for m, t in turns if m == "bare")
        seen[name] = [t["drafted"] for m, t in turns if m == "lookup"]
    capsys.readouterr()
    assert seen["fresh"][0] == seen["fresh"][1]


def test_interrupted_run_reports_what_it_has(demo_path: Path, tmp_path: Path) -> None:
    out = tmp_path / "run.json"
    command = [sys.executable, "-m", "racer_local.bench.cli", "run", "--methods", "off", "-c", "2048"]
    with subprocess.Popen(
        [*command, "--max-tokens", "64", "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        time.sleep(14)
        process.send_signal(signal.SIGINT)
        shown, errors = process.communicate(timeout=60)
    assert process.returncode == ExitCode.INTERRUPTED, errors
    assert "interrupted" in shown
    report = json.loads(out.read_text("utf-8"))
    assert not report["complete"]
    assert 0 < len(report["rows"]) < 40


def test_cost_of_a_few_sizes(demo_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "cost.json"
    assert main(["cost", "--contexts", "64", "--sizes", "1,2,4", "--out", str(out)]) == ExitCode.DONE
    shown = capsys.readouterr().out
    curves = json.loads(out.read_text("utf-8"))["curves"]
    assert [c["flash_attn"] for c in curves] == [False, True]
    assert all(c["ratio"][0] == 1.0 and c["n"] == [1, 2, 4] for c in curves)
    assert "no flash, 64" in shown


def test_cost_of_a_model_that_verifies_one_path(tmp_path: Path) -> None:
    """It is asked for no tree, and for no more than it can take back."""
    (kind,) = [kind for kind in KINDS if kind.arch == "lfm2"]
    out, file = tmp_path / "cost.json", kind.write(tmp_path / "kind.gguf")
    assert main(["cost", str(file), "--contexts", "16", "--sizes", "1,2,9,64", "--out", str(out)]) == ExitCode.DONE
    assert [curve["n"] for curve in json.loads(out.read_text())["curves"]] == [[1, 2, 9], [1, 2, 9]]
