"""The report of --doctor: complete, the same as text and as JSON, and honest about what is missing."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from racer_local.api import Racer
from racer_local.cli import doctor, main
from tests.tiny import write_llama


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("doctor") / "tiny.gguf")


def test_text_and_json_say_the_same(
    tiny: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # costs of an earlier start have no times of today
    assert main([str(tiny), "--doctor", "--json", "-c", "256"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert main([str(tiny), "--doctor", "-c", "256"]) == 0
    text = capsys.readouterr().out
    assert list(data) == [
        *("model", "context", "device", "drafting", "cost of a decode", "paths", "versions", "advice"),
    ]
    assert data["context"]["tokens"] == 256
    assert data["context"]["kv buffer MiB"] > 0
    assert data["drafting"]["model can verify"].startswith("tree: ")
    assert data["cost of a decode"]["one token ms"] > 0
    for heading, facts in data.items():
        if heading != "advice":
            assert all(name in text for name in (heading, *facts))
    # another start measures other costs, and may advise otherwise
    with Racer(tiny, n_ctx=256, remember=False) as racer:
        report = doctor.examine(racer)
    assert all(line in report.text() for line in report.as_dict()["advice"])


def test_it_reads_no_prompt_and_starts_no_chat(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Untouched:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"stdin.{name} was asked for")

        encoding = "utf-8"
        reconfigure = staticmethod(lambda **_: None)

    monkeypatch.setattr("sys.stdin", Untouched())
    assert main([str(tiny), "--doctor", "-c", "256"]) == 0
    assert "what would make it faster" in capsys.readouterr().out


def advice(racer: Any) -> list[str]:
    return doctor.examine(racer).advice


def test_advice_names_what_holds_it_back(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Racer(tiny, n_ctx=512, n_threads=1, flash_attn=True, remember=False) as racer:
        monkeypatch.setattr(doctor, "default_threads", lambda: 4)
        monkeypatch.setattr(doctor, "_has_gpu", lambda: True)
        racer.model.repacked = False
        racer.step_cost().set_curve({1: 1.0, 2: 1.97, 4: 3.9})
        racer.engine.n_ctx = 4096
        lines = "\n".join(advice(racer))
        racer.engine.n_ctx = 512
    for part in ("GPU", "1 of 4 CPUs", "flash attention", "AMX", "almost twice", "trained for"):
        assert part in lines


def test_nothing_to_say_is_said(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Racer(tiny, n_ctx=256, remember=False) as racer:
        monkeypatch.setattr(doctor, "_has_gpu", lambda: False)
        racer.model.repacked = True
        racer.step_cost().set_curve({1: 1.0, 2: 1.1, 4: 1.3})
        report = doctor.examine(racer)
    assert report.advice == []
    assert report.text().endswith("nothing that is known")


def test_a_model_that_cannot_draft_has_no_costs(tiny: Path) -> None:
    with Racer(tiny, n_ctx=256, remember=False) as racer:
        racer.engine.mode = SimpleNamespace(name="off", reason="it forgets", max_depth=None)  # type: ignore[assignment]
        report = doctor.examine(racer)
    assert "not measured" in report.facts["cost of a decode"]
    assert any("it forgets" in line for line in report.advice)
