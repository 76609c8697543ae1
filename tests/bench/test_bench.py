"""racer-bench without a model: questions, tables, curves, traces, a server to ask, pictures, wrong input."""

import contextlib
import json
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from racer_local.bench import curves, output, questions, report
from racer_local.bench.cli import main
from racer_local.bench.results import Answer, Result, load_results
from racer_local.errors import ExitCode, UsageError
from tests.bench.made_up import fails, made_up, write_lines

# questions


def test_kinds_take_turns_and_are_named(tmp_path: Path) -> None:
    spec = write_lines(
        tmp_path / "spec.jsonl",
        {"question_id": 1, "category": "writing", "turns": ["a", "b"]},
        {"question_id": 2, "category": "writing", "turns": ["c", "d"]},
        {"question_id": 3, "category": "qa", "turns": ["e"]},
        {"question_id": 4, "category": "math", "turns": ["f", "g"]},
    )
    code = write_lines(tmp_path / "human_eval.jsonl", {"question_id": 0, "category": "coding", "turns": ["h"]})
    loaded = questions.load([spec, code])
    assert [(q.id, q.kind) for q in loaded] == [
        ("1", "multi-turn"),
        ("3", "qa"),
        ("0", "human_eval"),
        ("2", "multi-turn"),
        ("4", "multi-turn"),
    ]
    assert [q.id for q in questions.load([spec, code], limit=1)] == ["1", "3", "0"]
    assert [q.id for q in questions.load([spec, code], limit=1, skip=1)] == ["2"]
    with pytest.raises(UsageError, match="more than 9"):
        questions.load([spec, code], skip=9)


def test_questions_without_ids_or_with_taken_ones_are_told_apart(tmp_path: Path) -> None:
    a = write_lines(tmp_path / "a.jsonl", *[{"category": "qa", "turns": [t]} for t in "xy"])
    b = write_lines(tmp_path / "b.jsonl", *[{"question_id": 1, "category": "qa", "turns": [t]} for t in "zw"])
    assert [q.id for q in questions.load([a, b])] == ["a.jsonl:1", "a.jsonl:2", "1", "b.jsonl:2"]


def test_own_questions_are_of_many_kinds() -> None:
    own = questions.load([questions.OWN])
    assert len(own) == 40
    assert len({q.kind for q in own}) >= 8
    assert any(len(q.turns) > 2 for q in own)
    assert len({q.id for q in own}) == len(own)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("not json\n", "line 1"),
        ('{"question_id": 1, "category": "qa", "turns": ["x"]}\n[]\n', "line 2"),
        ('{"question_id": 1, "category": "qa"}\n', "turns"),
        ('{"question_id": 1, "category": "qa", "turns": []}\n', "turns"),
        ('{"question_id": 1, "category": "qa", "turns": [3]}\n', "turns"),
        ('{"question_id": 1, "turns": ["x"]}\n', "category"),
        ("\n", "no questions"),
    ],
)
def test_wrong_question_files(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, why: str) -> None:
    file = tmp_path / "q.jsonl"
    file.write_text(content)
    assert why in fails(capsys, ExitCode.USAGE, "run", "--questions", str(file))


def test_wrong_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "cannot read" in fails(capsys, ExitCode.USAGE, "run", "--questions", str(tmp_path / "none"))
    assert "unknown method" in fails(capsys, ExitCode.USAGE, "run", "--methods", "off,best")
    assert "at least one" in fails(capsys, ExitCode.USAGE, "run", "--methods", ",")
    assert "limit" in fails(capsys, ExitCode.USAGE, "run", "--limit", "0")
    assert "skip" in fails(capsys, ExitCode.USAGE, "run", "--skip", "-1")
    assert "max-tokens" in fails(capsys, ExitCode.USAGE, "run", "--max-tokens", "0")
    assert "budget" in fails(capsys, ExitCode.USAGE, "run", "--budget", "65")
    assert "no such file" in fails(capsys, ExitCode.MODEL, "run", str(tmp_path / "none.gguf"))
    assert "--sizes" in fails(capsys, ExitCode.USAGE, "cost", "--sizes", "2,4")
    assert "--contexts" in fails(capsys, ExitCode.USAGE, "cost", "--contexts", "x")
    assert "-c" in fails(capsys, ExitCode.USAGE, "cost", "-c", "100", "--contexts", "256")
    assert "--out" in fails(capsys, ExitCode.USAGE, "trace")
    for policy in ("auto", "off"):
        said = fails(capsys, ExitCode.USAGE, "trace", "--out", "t.npz", "--draft", policy, "--budget", "4")
        assert "--budget has no effect" in said
    for methods in ("off,auto", "bare", "racer@4,off"):
        assert "--budget has no effect" in fails(capsys, ExitCode.USAGE, "run", "--methods", methods, "--budget", "4")
    assert "folder" in fails(capsys, ExitCode.USAGE, "run", "--out", str(tmp_path / "no" / "x.json"))
    for name in ("racer@", "racer/", "racer@\u00b2", "racer@8/tree"):
        assert "unknown method" in fails(capsys, ExitCode.USAGE, "run", "--methods", name)
    assert "invalid choice" in fails(capsys, ExitCode.USAGE, "nonsense")


# tables


def row(question: str, kind: str, method: str, n: int, seconds: float, **more: Any) -> Result:
    answer = Answer((1,) * n, "x", seconds, 0.1, **{"steps": n, "drafted": 0, "accepted": 0, "own_s": 0.0, **more})
    return Result(question, kind, method, (answer,))


def test_table_figures() -> None:
    rows = [
        row("1", "a", "off", 10, 1.0),
        row("1", "a", "racer", 20, 1.0, steps=10, drafted=30, own_s=0.02),
        row("2", "b", "off", 10, 1.0),
        row("2", "b", "racer", 10, 2.0, steps=5, drafted=20),
    ]
    cells = report.summarise(rows, "off")
    assert list(cells) == ["a", "b", "overall"]
    assert all(by["off"].ratio == by["off"].total_ratio == 1.0 for by in cells.values())
    racer = cells["a"]["racer"]
    assert (racer.ratio, racer.tokens_per_step, racer.drafted_per_step, racer.own_share) == (2.0, 2.0, 3.0, 0.02)
    overall = cells["overall"]["racer"]
    assert overall.ratio == 1.25
    assert overall.total_ratio == pytest.approx((30 / 3) / (20 / 2))
    assert (overall.low, overall.high, overall.n) == (0.875, 1.625, 2)
    text = report.table(cells)
    assert "overall" in text
    assert "1.25" in text


def test_totals_compare_the_same_questions() -> None:
    rows = [row("1", "a", "off", 10, 1.0), row("1", "a", "peer", 10, 1.0), row("2", "a", "peer", 10, 9.0)]
    cell = report.summarise(rows, "off")["a"]["peer"]
    assert cell.ratio == cell.total_ratio == 1.0


def test_table_without_a_baseline() -> None:
    cells = report.summarise([row("1", "a", "racer", 5, 1.0)], "off")
    assert cells["a"]["racer"].ratio is None
    assert "-" in report.table(cells)


# curves


def test_built_in_curves_rise_from_one() -> None:
    for name in curves.BUILT_IN:
        curve = curves.load(name)
        assert curve.ratio[1] == 1.0
        assert curve.ratio[64] > curve.ratio[2] > 1.0
        assert curve.source
    assert curves.load("smollm2-q4_1").ratio[8] == 4.04
    assert curves.load("smollm2-q4_1").ratio[10] == pytest.approx((4.04 + 5.60) / 2)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({"n": [1, 2, 64], "ratio": [1, 2, 9]}, "gaps"),
        ({"n": [1, 2, 4, 8, 16, 32], "ratio": [1, 2, 3, 4, 5, 6]}, "gaps"),
        ({"n": [2, 4, 8, 16, 32, 64], "ratio": [1, 2, 3, 4, 5, 6]}, "gaps"),
        ({"n": [1, 2, 4], "ratio": [1, 2]}, "one ratio"),
        ({"n": [1, "x"], "ratio": [1, 2]}, "numbers"),
        ({"curves": []}, "no cost curve"),
        ([1, 2], "no cost curve"),
    ],
)
def test_cost_files_with_gaps(tmp_path: Path, data: object, why: str) -> None:
    file = tmp_path / "cost.json"
    file.write_text(json.dumps(data))
    with pytest.raises(UsageError, match=why):
        curves.load(str(file))


def test_cost_file_of_the_cost_command(tmp_path: Path) -> None:
    n = [1, 2, 4, 8, 16, 32, 64]
    file = tmp_path / "cost.json"
    file.write_text(json.dumps({"curves": [{"n": n, "ratio": n, "ms": n, "context": 256, "flash_attn": False}]}))
    assert curves.load(str(file)).ratio[48] == 48
    with pytest.raises(UsageError, match="built in"):
        curves.load(str(tmp_path / "none.json"))


# interruption


def test_an_interrupt_that_a_callback_has_lost_ends_the_work_at_the_next_progress() -> None:
    done: list[int] = []

    def work() -> None:
        progress = output.Progress("steps")
        for i in range(10):
            progress(i, 10)
            done.append(i)
            if i == 3:
                with contextlib.suppress(KeyboardInterrupt):  # as ctypes does in a callback
                    signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    outcome = output.interruptible(work, done)
    assert not outcome.complete
    assert done == [0, 1, 2, 3]
    assert signal.getsignal(signal.SIGINT) is before
    assert output.interruptible(lambda: output.Progress("x")(0, 1), done).complete, "it is forgotten afterwards"


# a server to ask


class Server(BaseHTTPRequestHandler):
    """A server with timings, or without when asked at /bad."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        timings = {"predicted_n": 6, "predicted_ms": 60.0, "prompt_ms": 5.0, "draft_n": 10, "draft_n_accepted": 2}
        reply = {"choices": [{"message": {"content": f"turn {len(body['messages'])}"}}], "timings": timings}
        if self.path.startswith("/bad"):
            del reply["timings"]
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(reply).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


@pytest.fixture
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Server) as httpd:
        thread = threading.Thread(target=httpd.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{httpd.server_port}"
        httpd.shutdown()
        thread.join()


def test_peer_beside_an_earlier_run(server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_lines(tmp_path / "q.jsonl", {"question_id": 1, "category": "writing", "turns": ["a", "b"]})
    mine = tmp_path / "mine.json"
    rows = [row("1", "multi-turn", "off", 10, 0.2)]
    mine.write_text(json.dumps({"rows": [{**vars_of(r)} for r in rows]}))
    out = tmp_path / "both.json"
    wanted = ["peer", server, "--questions", str(file), "--label", "theirs", "--beside", str(mine), "--out", str(out)]
    assert main(wanted) == 0
    assert "theirs" in capsys.readouterr().out
    cell = json.loads(out.read_text())["summary"]["overall"]["theirs"]
    assert cell["tokens_per_second"] == pytest.approx(100)
    assert cell["ratio"] == pytest.approx(2.0)
    assert cell["tokens_per_step"] == pytest.approx(12 / 8)
    assert [r.method for r in load_results(out)] == ["off", "theirs"]
    assert "already" in fails(capsys, ExitCode.USAGE, "peer", server, "--label", "off", "--beside", str(mine))


def vars_of(r: Result) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(r)


def test_peer_that_is_not_there_or_gives_no_timings(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "does not answer" in fails(capsys, ExitCode.FAILED, "peer", "http://127.0.0.1:9")
    assert "timings" in fails(capsys, ExitCode.FAILED, "peer", f"{server}/bad")
    assert "no report" in fails(capsys, ExitCode.USAGE, "peer", server, "--beside", __file__)
    assert "does not answer" in fails(capsys, ExitCode.FAILED, "peer", "localhost")


def test_a_failure_in_mid_run_keeps_what_was_measured(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = 0

    def failing(handler: Server) -> None:
        nonlocal served
        served += 1
        if served > 2:
            handler.path = "/bad"
        answer(handler)

    answer = Server.do_POST
    monkeypatch.setattr(Server, "do_POST", failing)
    out = tmp_path / "p.json"
    assert main(["peer", server, "--limit", "1", "--out", str(out)]) == ExitCode.FAILED
    shown = capsys.readouterr()
    assert "timings" in shown.err
    assert "peer" in shown.out
    saved = json.loads(out.read_text())
    assert not saved["complete"]
    assert len(saved["rows"]) == 1


# pictures


def test_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    made_up(length=100).save(tmp_path / "t.npz")
    main(["simulate", str(tmp_path / "t.npz"), "--out", str(tmp_path / "r.json")])
    n = [1, 2, 4, 8]
    cost = {"model": "m", "curves": [{"n": n, "ratio": n, "ms": n, "context": 256, "flash_attn": False}]}
    (tmp_path / "c.json").write_text(json.dumps(cost))
    for name in ("out.svg", "out.png"):
        assert main(["plot", str(tmp_path / "r.json"), str(tmp_path / "c.json"), "-o", str(tmp_path / name)]) == 0
        assert (tmp_path / name).stat().st_size > 5000
    capsys.readouterr()
    (tmp_path / "empty.json").write_text("{}")
    assert "no report" in fails(capsys, ExitCode.USAGE, "plot", str(tmp_path / "empty.json"), "-o", "x.svg")
    assert "cannot read" in fails(capsys, ExitCode.USAGE, "plot", str(tmp_path / "none.json"), "-o", "x.svg")
    assert "cannot write" in fails(
        capsys, ExitCode.USAGE, "plot", str(tmp_path / "c.json"), "-o", str(tmp_path / "no" / "x.svg")
    )
