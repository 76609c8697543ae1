"""Traces and the simulation of drafting over them: deterministic, equal to what was traced, and damage is told."""

import json
from pathlib import Path

import numpy as np
import pytest

from racer_local.bench import curves, simulate
from racer_local.bench.cli import main
from racer_local.bench.trace import Trace
from racer_local.drafting import beliefs
from racer_local.drafting.policies import DraftConfig
from racer_local.errors import ExitCode, RacerError
from racer_local.kernels import candidates
from tests.bench.made_up import fails, made_up

LABELS = ("off", "auto", "bound", "racer")


def test_trace_comes_back_as_it_was(tmp_path: Path) -> None:
    trace = made_up()
    trace.save(tmp_path / "t.npz")
    again = Trace.load(tmp_path / "t.npz")
    assert again.info == trace.info
    for a, b in zip(trace.answers, again.answers, strict=True):
        assert (a.kind, a.question, a.ended) == (b.kind, b.question, b.ended)
        for name in ("prompt", "tokens", "ids", "gaps"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        assert a.off_path.keys() == b.off_path.keys()
        for key, (ids, gaps) in a.off_path.items():
            np.testing.assert_array_equal(ids, b.off_path[key][0])
            np.testing.assert_array_equal(gaps, b.off_path[key][1])


def test_wrong_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "t.npz"
    assert "cannot read" in fails(capsys, ExitCode.USAGE, "simulate", str(file))
    file.write_bytes(b"")
    assert "no trace" in fails(capsys, ExitCode.USAGE, "simulate", str(file))
    np.save(tmp_path / "a.npy", np.zeros(3))
    assert "no trace" in fails(capsys, ExitCode.USAGE, "simulate", str(tmp_path / "a.npy"))
    file.write_bytes(b"PK nonsense")
    assert "no trace" in fails(capsys, ExitCode.USAGE, "simulate", str(file))
    np.savez(file, version=np.int32(1))
    assert "no trace" in fails(capsys, ExitCode.USAGE, "simulate", str(file))
    monkeypatch.setattr("racer_local.bench.trace.VERSION", 99)
    made_up().save(file)
    monkeypatch.undo()
    assert "version 99" in fails(capsys, ExitCode.USAGE, "simulate", str(file))
    trace = made_up()
    trace.info["n_vocab"] = 20
    trace.save(file)
    assert "vocabulary" in fails(capsys, ExitCode.USAGE, "simulate", str(file))
    made_up().save(file)
    assert "bare" in fails(capsys, ExitCode.USAGE, "simulate", str(file), "--methods", "bare")
    assert "built in" in fails(capsys, ExitCode.USAGE, "simulate", str(file), "--cost", "none")


@pytest.mark.parametrize("ended", [False, True])
def test_simulation_of_plain_decoding_costs_a_step_a_token(ended: bool) -> None:
    rows = simulate.simulate(
        made_up(ended=ended), "off", DraftConfig(policy="off"), curves.load("gpu-like"), lambda *_: None
    )
    for r in rows:
        assert r.n_tokens == 80
        assert r.total("steps") == r.total("seconds") == 80 + ended, "an end token takes a step too"


def test_simulation_drafts_pay_on_a_repeating_text() -> None:
    trace, curve = made_up(length=200), curves.load("gpu-like")
    for policy in ("racer", "retrieval", "logits", "lookup"):
        rows = simulate.simulate(trace, policy, DraftConfig(policy=policy, budget=16), curve, lambda *_: None)
        assert sum(r.n_tokens for r in rows) == 800
        assert sum(r.total("steps") for r in rows) < 700, policy
        assert rows == simulate.simulate(trace, policy, DraftConfig(policy=policy, budget=16), curve, lambda *_: None)


@pytest.mark.parametrize("name", curves.BUILT_IN)
def test_what_is_expected_to_pay_does_and_stays_below_the_bound(name: str) -> None:
    trace, curve = made_up(length=200), curves.load(name)
    seconds = {
        label: sum(
            r.total("seconds") for r in simulate.simulate(trace, label, DraftConfig(policy), curve, lambda *_: None)
        )
        for label, policy in (("off", "off"), ("auto", "auto"), ("bound", "auto"), ("racer", "racer"))
    }
    assert seconds["bound"] < seconds["auto"] < seconds["off"] == 800
    assert seconds["auto"] < seconds["racer"]


def test_priors_count_what_a_simulation_teaches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_up(length=200).save(tmp_path / "t.npz")
    out = tmp_path / "p.json"
    assert main(["priors", str(tmp_path / "t.npz"), str(tmp_path / "t.npz"), "--out", str(out)]) == 0
    assert "1600 tokens" in capsys.readouterr().out
    data = json.loads(out.read_text())
    assert data["layout"] == beliefs.layout()
    assert len(data["chance"]) == candidates.N_CLASSES
    # the made-up model is sure of itself: what followed a long match always does
    flat = beliefs.flat_prior()
    assert max(data["chance"]) > 0.97 > flat.max()


def test_the_bound_can_only_be_simulated(capsys: pytest.CaptureFixture[str]) -> None:
    assert "simulated" in fails(capsys, ExitCode.USAGE, "run", "--methods", "off,bound")


def test_simulated_turns_of_a_question_make_one_row() -> None:
    trace = made_up()
    for answer in trace.answers[:2]:
        answer.kind, answer.question = "kind0", "0"
    rows = simulate.simulate(trace, "off", DraftConfig(policy="off"), curves.load("gpu-like"), lambda *_: None)
    assert [(r.question, r.n_tokens) for r in rows] == [("0", 160), ("2", 80), ("3", 80)]


def test_simulation_notices_a_text_that_is_not_the_models() -> None:
    trace = made_up()
    trace.answers[1].tokens[40] += 1
    with pytest.raises(RacerError, match="damaged"):
        simulate.simulate(trace, "off", DraftConfig(policy="off"), curves.load("gpu-like"), lambda *_: None)


def test_simulation_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_up(length=200).save(tmp_path / "t.npz")
    out = tmp_path / "r.json"
    assert main(["simulate", str(tmp_path / "t.npz"), "--methods", "off,racer@16,racer/chain", "--out", str(out)]) == 0
    shown = capsys.readouterr()
    assert "racer@16" in shown.out
    assert "tokens/s" in shown.err
    assert set(json.loads(out.read_text())["summary"]["overall"]) == {"off", "racer@16", "racer/chain"}
