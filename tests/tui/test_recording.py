"""Recorded runs: what is written comes back as it was, damage is told, and the chat shows it without a model."""

import json
import math
import re
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from racer_local.tui import app as tui_app  # pyright: ignore[reportMissingImports]
from racer_local.tui import picture  # pyright: ignore[reportMissingImports]
from racer_local.tui import replay as tui_replay  # pyright: ignore[reportMissingImports]
from racer_local.tui.app import ChatApp  # pyright: ignore[reportMissingImports]
from racer_local.tui.events import Answerer, Ask  # pyright: ignore[reportMissingImports]
from racer_local.tui.recording import ARRAYS, Recording, check_new  # pyright: ignore[reportMissingImports]
from racer_local.tui.replay import Replayed, WholeDecoder  # pyright: ignore[reportMissingImports]

from racer_local.answers import Step
from racer_local.draft_tree import ROOT, DraftTree
from racer_local.errors import DecodeError, RacerError, UsageError
from racer_local.prompt import Prompt
from racer_local.settings import MAX_BUDGET, SamplingParams
from racer_local.stats import GenerationStats
from racer_local.tokens import N_SOURCES, Source, Token
from tests.tui.chatting import STARTED, ask, chat, is_idle, ready, screen, send, wait_until
from tests.tui.scripted import PROMPT_END, ScriptedRacer, tree_of

HOUR_MS = 3.6e6
ASKED = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why [/b]?"}]


# made-up steps


def trees() -> st.SearchStrategy[DraftTree]:
    """Any tree that a policy could draft, and some that none would."""

    @st.composite
    def build(draw: st.DrawFn) -> DraftTree:
        n = draw(st.integers(0, 12))
        tree = DraftTree.allocate(n)
        for i in range(n):
            tree.token[i] = draw(st.integers(0, 2**31 - 1))
            parent = draw(st.integers(ROOT, i - 1))
            tree.parent[i] = parent
            tree.depth[i] = 1 if parent == ROOT else tree.depth[parent] + 1
            tree.source[i] = draw(st.integers(0, N_SOURCES - 1))
            tree.match_len[i] = draw(st.integers(0, 2**15 - 1))
            tree.p[i] = draw(st.floats(0, 1, width=32) | st.just(math.nan))
        return tree

    return build()


def stats() -> st.SearchStrategy[GenerationStats]:
    """Any counters."""
    counts, seconds = st.integers(0, 2**53), st.floats(0, 1e9)
    values: dict[str, st.SearchStrategy[Any]] = {
        f.name: seconds if isinstance(f.default, float) else counts
        for f in fields(GenerationStats)
        if f.name not in ("source_counts", "accepted_hist")
    }
    values["source_counts"] = st.lists(counts, min_size=N_SOURCES, max_size=N_SOURCES)
    values["accepted_hist"] = st.dictionaries(st.integers(0, MAX_BUDGET - 1), counts, max_size=4).map(
        lambda some: [some.get(i, 0) for i in range(MAX_BUDGET)]
    )
    return st.builds(GenerationStats, **values)


def tokens() -> st.SearchStrategy[Token]:
    """Any token; its text may have what JSON, files and terminals take amiss."""
    number = st.integers(0, 2**31 - 1)
    text = st.text(max_size=5) | st.sampled_from(["\n", "\r\n", "\u2028", "\x1b[31m", '"', "\udc80", "\x00"])
    return st.builds(Token, number, text, st.integers(0, N_SOURCES - 1).map(Source), number, number, number)


@st.composite
def steps(draw: st.DrawFn, finish: str | None = None) -> Step:
    """Any step."""
    said = tuple(draw(st.lists(tokens(), max_size=3)))
    tree = draw(trees())
    path = tuple(draw(st.lists(st.integers(0, len(tree) - 1), max_size=3))) if len(tree) else ()
    note = draw(st.text(max_size=5))
    return Step("".join(t.text for t in said), said, tree, path, draw(st.integers(0, 9)), draw(stats()), finish, note)


def same(a: Step, b: Step) -> bool:
    """Whether two steps are equal in every field, types of the arrays included, NaN being equal to NaN."""
    for name in ARRAYS:
        x, y = getattr(a.tree, name), getattr(b.tree, name)
        if x.dtype != y.dtype or not np.array_equal(x, y, equal_nan=name == "p"):
            return False
    plain = [f.name for f in fields(Step) if f.name != "tree"]
    return all(getattr(a, name) == getattr(b, name) for name in plain) and all(
        type(x.source) is type(y.source) for x, y in zip(a.tokens, b.tokens, strict=True)
    )


class Fixed(ScriptedRacer):
    """Gives the steps of its making, an answer each call; an exception among them is raised."""

    def __init__(self, *answers: Sequence[Step | Exception]) -> None:
        super().__init__()
        self._answers = list(answers)
        self.n_closed_early = 0

    def stream(self, prompt: Any, **options: Any) -> Iterator[Step]:
        self.asked.append(list(prompt.messages))
        self.options.append(options)
        return self._give(self._answers.pop(0))

    def _give(self, answer: Sequence[Step | Exception]) -> Iterator[Step]:
        try:
            for step in answer:
                if isinstance(step, Exception):
                    raise step
                yield step
        except GeneratorExit:
            self.n_closed_early += 1
            raise

    def _piece(self, token: int) -> bytes:
        return bytes(range(token % 256, 256)) if token % 3 else b""


def play(answerer: Answerer, messages: Any = ASKED, so_far: Any = (), **options: Any) -> list[Step]:
    """One answer, all of it."""
    return list(answerer.stream(answerer.prepare(messages, so_far), **options))


def record(path: Path, racer: ScriptedRacer, *asked: str) -> Path:
    """A run in which this was asked."""
    with Recording(path, racer) as recording:
        for text in asked:
            play(recording, [{"role": "user", "content": text}], on_prefill=lambda *_: None)
    return path


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The lines of a file, which are JSON to the letter: it knows no NaN."""
    return [json.loads(line, parse_constant=pytest.fail) for line in path.read_text("ascii").splitlines()]


def write(path: Path, lines: Sequence[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "ascii")
    return path


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with two questions, drafts and all sources."""
    both = Source.RETRIEVAL | Source.LOGITS
    racer = ScriptedRacer(
        [
            ("prefill", 512, 700),
            "Hello",
            [(" **bold", Source.RETRIEVAL), ("**", both), (" [/x]", Source.LOGITS)],
            [(" end", Source.RETRIEVAL), (".", Source.MODEL)],
        ],
        ["Second", " answer"],
        pieces={0: b" x[/b]", 1: "é".encode()[:1], 2: b"\n"},
    )
    racer.tree = tree_of((0, ROOT, Source.LOGITS, 0), (1, ROOT, Source.RETRIEVAL, 4), (2, 1, both, 5))
    racer.tree.p[1] = 0.5
    racer.path = (1, 2)
    racer.notes.append("no chat template in the file")
    return record(tmp_path / "run.jsonl", racer, "first [question]", "/second")


class TestRoundTrip:
    @settings(deadline=None, max_examples=60)
    @given(st.lists(steps(), max_size=3), steps("stop"), st.lists(steps(), max_size=2), steps("length"))
    def test_every_field_comes_back(self, early: list[Step], end: Step, more: list[Step], last: Step):
        answers = [*early, end], [*more, last]
        racer = Fixed(*answers)
        with tempfile.TemporaryDirectory() as folder:
            recording = Recording(Path(folder) / "run.jsonl", racer)
            given_on = [play(recording), play(recording)]
            recording.close()
            replayed = Replayed(Path(folder) / "run.jsonl", speed=math.inf)
        for answer, passed, played in zip(answers, given_on, (play(replayed), play(replayed)), strict=True):
            assert all(a is b for a, b in zip(answer, passed, strict=True))
            assert all(same(a, b) for a, b in zip(answer, played, strict=True))
            for token in {t for step in answer for t in (*step.tree.token.tolist(), *(s.id for s in step.tokens))}:
                assert replayed.model.piece(token) == racer.model.piece(token)

    def test_head(self, run: Path):
        replayed = Replayed(run)
        assert replayed.model.description == "llama 135M Q4_1"
        assert replayed.model.device == "CPU"
        assert replayed.engine.n_ctx == 2048
        assert replayed.drafting("off") == ScriptedRacer().drafting()
        assert replayed.notes == ["no chat template in the file"]
        assert replayed.questions == ["first [question]", "/second"]
        prepared = replayed.prepare(ASKED, make_room=True)
        assert (prepared.messages, prepared.n_left_out) == (ASKED, 0)
        assert replayed.model.piece(99) == b""
        head = lines_of(run)[0]
        assert head["version"] == 1
        assert {"created", "racer_local", "llama_cpp_python"} <= head.keys()

    def test_pieces_are_written_once(self, run: Path):
        told = [int(token) for line in lines_of(run) for token in line.get("pieces", {})]
        assert sorted(told) == [0, 1, 2, PROMPT_END]

    def test_only_what_has_changed_is_written(self, run: Path):
        by_answer = [line for line in lines_of(run) if line["type"] == "step"]
        assert by_answer[0]["stats"] == {
            "prompt_tokens": 10,
            "predicted_n": 1,
            "predicted_s": 0.01,
            "steps": 1,
            "source_counts": [[0, 1]],
        }
        assert "stats" not in by_answer[3]

    def test_answers_begin_anew_after_the_last(self, run: Path):
        replayed = Replayed(run, speed=0)
        assert replayed.next_answer.typed == "first [question]"
        said = ["".join(s.text for s in play(replayed)) for _ in range(5)]
        assert replayed.next_answer.typed == "//second"
        assert said == ["Hello **bold** [/x] end.", "Second answer"] * 2 + ["Hello **bold** [/x] end."]

    def test_prefill_is_played(self, run: Path):
        seen: list[tuple[int, int]] = []
        play(Replayed(run, speed=0), on_prefill=lambda done, todo: seen.append((done, todo)))
        assert seen == [(0, 700), (512, 700)]

    def test_prompt(self, run: Path):
        assert Replayed(run).prepare(ASKED).tokens == [PROMPT_END]

    def test_answer_that_goes_on_with_one(self, tmp_path: Path):
        racer = ScriptedRacer(["a"], ["b"], ["c"])
        with Recording(tmp_path / "run.jsonl", racer) as recording:
            play(recording, on_prefill=None)
            play(recording, on_prefill=None, so_far=[4, 5])
            play(recording, on_prefill=None, so_far="begun")
        assert racer.so_far == [(), [4, 5], "begun"]
        replayed = Replayed(tmp_path / "run.jsonl")
        assert [answer.goes_on for answer in replayed.answers] == [False, True, True]
        assert [answer.typed for answer in replayed.answers] == ["Why [/b]?", "/continue", "/continue"]

    def test_message_with_a_slash_is_typed_with_two(self, run: Path):
        assert [answer.typed for answer in Replayed(run).answers] == ["first [question]", "//second"]

    def test_error_is_played(self, tmp_path: Path):
        racer = Fixed([Step("a", (), DraftTree.empty(), (), 1, GenerationStats()), DecodeError("it broke")])
        recording = Recording(tmp_path / "run.jsonl", racer)
        with pytest.raises(DecodeError):
            play(recording)
        recording.close()
        steps = Replayed(tmp_path / "run.jsonl", speed=0).stream(Prompt([]))
        assert next(steps).n_committed == 1
        with pytest.raises(RacerError, match="it broke"):
            next(steps)

    @pytest.mark.model
    def test_the_demo_model(self, racer: Any, tmp_path: Path):
        recording = Recording(tmp_path / "run.jsonl", racer)
        messages = [{"role": "user", "content": "Count: one, two, one, two, one,"}]
        made = play(recording, messages, max_tokens=24, draft="racer", sampling=SamplingParams(temperature=0))
        recording._end_file()
        replayed = Replayed(tmp_path / "run.jsonl", speed=0)
        assert all(same(a, b) for a, b in zip(made, play(replayed), strict=True))
        assert any(len(step.tree) for step in made)
        for token in {t for step in made for t in step.tree.token.tolist()}:
            assert replayed.model.piece(token) == racer.model.piece(token)
        assert replayed.drafting() == racer.drafting()


class TestRecording:
    def test_passes_everything_through(self, tmp_path: Path):
        racer = ScriptedRacer([("prefill", 5, 9), "a"])
        racer.n_left_out = 2
        seen: list[tuple[int, int]] = []
        with Recording(tmp_path / "run.jsonl", racer) as recording:
            assert recording.model is racer.model
            assert recording.engine is racer.engine
            assert recording.prepare(ASKED, make_room=True) == Prompt([PROMPT_END], ASKED, 2)
            assert recording.drafting("off") == racer.mode
            assert recording.asked is racer.asked
            play(recording, on_prefill=lambda *done: seen.append(done), max_tokens=7)
            assert racer.asked == [ASKED]
            assert racer.options[0]["max_tokens"] == 7
            assert seen == [(5, 9)]
            racer.notes.append("a note")
            assert recording.notes == ["a note"]
            recording.drafts_wanted = False
            assert not racer.drafts_wanted
            assert not recording.drafts_wanted
            recording.cancel()
            assert racer._cancelled.is_set()
            assert not racer.closed
        assert racer.closed
        assert lines_of(tmp_path / "run.jsonl")[1]["messages"] == ASKED

    def test_each_step_is_in_the_file_when_it_is_given(self, tmp_path: Path):
        path = tmp_path / "run.jsonl"
        recording = Recording(path, ScriptedRacer(["a", "b"]))
        for n, _ in enumerate(recording.stream(recording.prepare(ASKED), on_prefill=None), 1):
            assert len(lines_of(path)) == 2 + n

    def test_answer_that_nobody_wanted_to_the_end(self, tmp_path: Path):
        last = Step("a", (Token(1, "a", Source.MODEL, 0, 0, 1),), DraftTree.empty(), (), 1, GenerationStats(steps=1))
        racer = Fixed([last, last])
        recording = Recording(tmp_path / "run.jsonl", racer)
        steps = recording.stream(recording.prepare(ASKED))
        next(steps)
        steps.close()  # type: ignore[attr-defined]
        assert racer.n_closed_early == 1
        recording.close()
        first, end = play(Replayed(tmp_path / "run.jsonl", speed=0))
        assert same(first, last)
        assert (end.finish_reason, end.n_committed, end.stats) == ("cancelled", 0, last.stats)

    def test_file_that_exists_is_left_alone(self, tmp_path: Path):
        path = tmp_path / "model.gguf"
        path.write_text("precious")
        racer = ScriptedRacer()
        with pytest.raises(UsageError, match="exists already"):
            Recording(path, racer)
        assert racer.closed
        with pytest.raises(UsageError, match="exists already"):
            check_new(path)
        assert path.read_text() == "precious"

    def test_folder_that_does_not_exist(self, tmp_path: Path):
        path = tmp_path / "no" / "run.jsonl"
        with pytest.raises(UsageError, match="cannot write"):
            Recording(path, ScriptedRacer())
        with pytest.raises(UsageError, match="folder must exist"):
            check_new(path)
        check_new(tmp_path / "run.jsonl")
        assert not (tmp_path / "run.jsonl").exists()

    def test_only_the_owner_may_read_it(self, run: Path):
        assert run.stat().st_mode & 0o077 == 0

    def test_full_disk_does_not_end_the_answer(self, tmp_path: Path):
        resource = pytest.importorskip("resource")
        assert signal.getsignal(signal.SIGXFSZ) == signal.SIG_IGN
        path = tmp_path / "run.jsonl"
        recording = Recording(path, ScriptedRacer(["a", "b", "c", "d"], ["e"]))
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        limit = path.stat().st_size + 900
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        try:
            said = [s.text for s in play(recording)]
            notes = list(recording.notes)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert said == ["a", "b", "c", "d", ""]
        assert len(notes) == 1
        assert re.search(r"run\.jsonl ends here: File too large", notes[0])
        play(recording)
        recording.close()
        assert path.stat().st_size == limit
        replayed = play(Replayed(path, speed=0))
        assert "".join(s.text for s in replayed) in ("a", "ab", "abc")
        assert replayed[-1].finish_reason == "cancelled"


class TestFiles:
    def test_file_that_was_cut_off_anywhere(self, run: Path, tmp_path: Path):
        whole = run.read_bytes()
        first = play(Replayed(run, speed=0))
        begins = whole.index(b'"type": "step"')
        cut = tmp_path / "cut.jsonl"
        n_read: set[int] = set()
        for end in (*range(whole.index(b"\n", begins), len(whole), 7), len(whole)):
            cut.write_bytes(whole[:end])
            answers = Replayed(cut, speed=0).answers
            assert all(same(a, b) for a, b in zip(first, answers[0].steps, strict=False))
            n_read.add(sum(len(answer.steps) for answer in answers))
        assert n_read == set(range(1, 8))

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "no recording"),
            (b"GGUF\x03\x00\x00\n\xff" * 99, "no recording"),
            (b"\xff\xfe", "no recording"),
            (b"[" * 10**5, "no recording"),
            (b"{}\n", "no recording"),
            (b"17\n", "no recording"),
            (b'{"type": "session", "version": 1}\n', "no recording"),
            (b'{"type": "recording"}\n', "no recording"),
            (b'{"type": "recording", "version": 2}\n', "version 2; this program plays version 1"),
            (b'{"type": "recording", "version": 1}\n', "damaged in line 1: 'model' is missing"),
        ],
    )
    def test_foreign_files(self, tmp_path: Path, content: bytes, message: str):
        (tmp_path / "x").write_bytes(content)
        with pytest.raises(UsageError, match=message) as caught:
            Replayed(tmp_path / "x")
        assert len(str(caught.value).splitlines()) == 1

    def test_files_that_cannot_be_read(self, tmp_path: Path):
        for path in (tmp_path, tmp_path / "none"):
            with pytest.raises(UsageError, match="cannot read"):
                Replayed(path)

    def test_a_run_without_answers(self, tmp_path: Path):
        path = record(tmp_path / "run.jsonl", ScriptedRacer())
        with pytest.raises(UsageError, match="no answer in it"):
            Replayed(path)

    @pytest.mark.parametrize(
        ("damage", "message"),
        [
            (lambda line: line.pop("ms"), "'ms' is missing"),
            (lambda line: line.update(ms=-1), "no time"),
            (lambda line: line.update(ms=math.nan), "no time"),
            (lambda line: line.pop("n_committed"), "'n_committed' is missing"),
            (lambda line: line.update(note=3), "3 is no text"),
            (lambda line: line["stats"].update(bogus=3), "no counter 'bogus'"),
            (lambda line: line["stats"].update(steps=3.5), "no whole number"),
            (lambda line: line["stats"].update(accepted_hist=[[MAX_BUDGET, 1]]), "none of"),
            (lambda line: line["stats"].update(accepted_hist=[[-1, 1]]), "none of"),
            (lambda line: line["tokens"][0].pop(), "missing 1 required"),
            (lambda line: line["tokens"][0].__setitem__(2, N_SOURCES), "none of"),
            (lambda line: line["tree"].pop("p"), "'p' is missing"),
            (lambda line: line["tree"]["p"].pop(), "several lengths"),
            (lambda line: line["tree"]["parent"].__setitem__(1, 1), "before its parent"),
            (lambda line: line["tree"]["parent"].__setitem__(1, -2), "before its parent"),
            (lambda line: line["tree"]["source"].__setitem__(1, N_SOURCES), "unknown source"),
            (lambda line: line["tree"]["token"].__setitem__(1, 2**31), ""),
            (lambda line: line.update(path=[3]), "none of"),
            (lambda line: line.update(pieces={"1": "€"}), ""),
        ],
    )
    def test_damaged_lines(self, run: Path, damage: Callable[[Any], None], message: str):
        lines = lines_of(run)
        damage(lines[4])
        write(run, lines)
        with pytest.raises(UsageError, match=rf"run\.jsonl is damaged in line 5: .*{re.escape(message)}"):
            Replayed(run)

    @settings(deadline=None, max_examples=150)
    @given(st.data())
    def test_any_damage_is_told_or_harmless(self, data: st.DataObject):
        """Whatever stands in the place of a value: one clear error, or a run that can be played."""
        with tempfile.TemporaryDirectory() as folder:
            racer = ScriptedRacer([("prefill", 1, 2), "a", [("b", Source.LOGITS)]])
            racer.tree, racer.path = tree_of((0, ROOT, Source.LOGITS, 0)), (0,)
            path = record(Path(folder) / "run.jsonl", racer, "q")
            lines = lines_of(path)
            at: Any = lines[data.draw(st.integers(0, len(lines) - 1))]
            while True:
                key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
                if not isinstance(at[key], dict | list) or not at[key] or data.draw(st.booleans()):
                    break
                at = at[key]
            some = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
            some |= st.lists(some, max_size=3) | st.dictionaries(st.text(max_size=3), some, max_size=2)
            at[key] = data.draw(some)
            write(path, lines)
            try:
                replayed = Replayed(path, speed=0)
            except UsageError as error:
                told = str(error)
            else:
                told = "none"
                for _ in replayed.answers:
                    assert play(replayed)[-1].finish_reason
            assert len(told.splitlines()) == 1


class TestTime:
    def slow(self, run: Path) -> Path:
        """The run, with an hour between any two things."""
        lines = lines_of(run)
        for i, line in enumerate(lines):
            if "ms" in line:
                line["ms"] = i * HOUR_MS
        return write(run, lines)

    @pytest.mark.parametrize("speed", [0, math.inf])
    def test_without_waiting(self, run: Path, speed: float):
        assert len(play(Replayed(self.slow(run), speed=speed))) == 4

    @pytest.mark.parametrize("speed", [0.5, 1.0, 8.0])
    def test_time_is_divided_by_the_speed(self, run: Path, monkeypatch: pytest.MonkeyPatch, speed: float):
        now = 1000.0
        replayed = Replayed(self.slow(run), speed=speed)

        def wait(seconds: float) -> bool:
            nonlocal now
            assert 0 < seconds <= tui_replay.PIECE_S
            now += seconds
            return False

        monkeypatch.setattr(tui_replay, "PIECE_S", 1e9)
        monkeypatch.setattr(tui_replay, "time", SimpleNamespace(monotonic=lambda: now))
        monkeypatch.setattr(replayed._cancelled, "wait", wait)
        came = [now for _ in replayed.stream(Prompt([]))]
        lines = [i for i, line in enumerate(lines_of(run)) if line["type"] == "step"][:4]
        assert came == pytest.approx([1000 + i * HOUR_MS / 1000 / speed for i in lines])

    def test_cancel_ends_a_long_wait(self, run: Path):
        lines = lines_of(self.slow(run))
        del lines[2]  # the prefill
        lines[2]["ms"], lines[3]["ms"] = 0, 1e300
        write(run, lines)
        replayed, got = Replayed(run), []
        begun = threading.Event()

        def work() -> None:
            for step in replayed.stream(Prompt([])):
                got.append(step)
                begun.set()

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        assert begun.wait(10)
        replayed.cancel()
        thread.join(10)
        assert not thread.is_alive()
        assert [s.text for s in got] == ["Hello", ""]
        assert got[1].finish_reason == "cancelled"
        assert got[1].stats == got[0].stats
        assert got[1].stats is not got[0].stats

    def test_cancel_of_the_past_is_forgotten(self, run: Path):
        replayed = Replayed(run, speed=0)
        replayed.cancel()
        assert play(replayed)[-1].finish_reason == "stop"

    @pytest.mark.parametrize("speed", [-1, math.nan, -math.inf])
    def test_no_such_speed(self, run: Path, speed: float):
        with pytest.raises(UsageError, match="speed"):
            Replayed(run, speed=speed)

    def test_times_are_those_of_the_answer(self, run: Path):
        for kind in ("step", "prefill"):
            times = [line["ms"] for line in lines_of(run) if line["type"] == kind]
            assert all(0 <= ms < HOUR_MS for ms in times)


# the interface


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The interface looks often, and decoding threads end with the test."""
    monkeypatch.setattr(tui_app, "TICK_S", 0.02)
    yield
    while STARTED:
        assert STARTED.pop().close(timeout=5)


def over(answerer: Any) -> ChatApp:
    """The application over a recorded run."""
    return chat(lambda _progress: answerer)


@pytest.mark.usefixtures("quick")
class TestInterface:
    async def test_text_tokens_tree_and_status(self, run: Path):
        async with over(Replayed(run, speed=0)).run_test(size=(80, 30)) as pilot:
            await ask(pilot, "anything")
            assert "anything" in screen(pilot)
            assert "Hello bold [/x] end." in screen(pilot)
            for part in ("llama 135M Q4_1", "CPU", "racer tree", "16/2048", "2.00 tok/step", "no chat template"):
                assert part in screen(pilot)
            await pilot.press("f2")
            await wait_until(pilot, lambda: "model 2 · retrieval 2 · logits 1 · both 1" in screen(pilot))
            assert "Hello▏ **bold** [/x]▏ end." in screen(pilot)
            await pilot.press("f3")
            await wait_until(pilot, lambda: "3 drafted, 2 accepted" in screen(pilot))
            assert "✓ ├ � retrieval match 4 50%" in screen(pilot)
            assert "␣x[/b] logits" in screen(pilot)

    async def test_token_colours(self, run: Path):
        async with over(Replayed(run, speed=0)).run_test(size=(80, 30)) as pilot:
            await ask(pilot, "go")
            await pilot.press("f2")
            await wait_until(pilot, lambda: "6 tokens in 3 steps" in screen(pilot))
            styles = {
                part.text.strip(): part.style
                for strip in pilot.app.screen._compositor.render_strips()
                for part in strip
                if part.text.strip() in ("Hello", "**bold", "**", "[/x]", "end")
            }
            assert len({str(style) for style in styles.values()}) == 4
            assert styles["**bold"].underline
            assert styles["[/x]"].italic

    async def test_second_question_gets_the_second_answer(self, run: Path):
        async with over(Replayed(run, speed=0)).run_test(size=(80, 30)) as pilot:
            await ask(pilot, "one")
            assert "Second answer" not in screen(pilot)
            await ask(pilot, "two")
            assert "Second answer" in screen(pilot)

    async def test_escape_stops_it(self, run: Path):
        replayed = Replayed(run, speed=0)
        replayed.hold = 2
        async with over(replayed).run_test(size=(80, 30)) as pilot:
            await send(pilot, "go")
            await wait_until(pilot, lambda: "Hello bold [/x]" in screen(pilot))
            assert not is_idle(pilot)
            await pilot.press("escape")
            await ready(pilot)
            assert "stopped" in screen(pilot)
            assert "end." not in screen(pilot)

    async def test_the_end_of_a_recording_is_told(self, tmp_path: Path):
        """A chat that is recorded says once that the disk is full, and goes on."""
        recording = Recording(tmp_path / "run.jsonl", ScriptedRacer(["one"], ["two"]))
        assert recording._file is not None
        recording._file.write = self.full  # type: ignore[method-assign]
        async with over(recording).run_test(size=(80, 30)) as pilot:
            await ask(pilot, "go")
            await ask(pilot, "on")
            assert screen(pilot).count("ends here: No space left") == 1
            assert "two" in screen(pilot)

    @staticmethod
    def full(_text: str) -> int:
        raise OSError(28, "No space left on device")

    def test_whole_answers_are_handed_over_at_once(self, run: Path):
        lines = lines_of(run)
        for i, line in enumerate(lines):
            if "ms" in line:
                line["ms"] = 40 * i
        replayed = Replayed(write(run, lines))
        replayed.hold = 2
        decoder = WholeDecoder(replayed)
        STARTED.append(decoder)
        decoder.start()
        decoder.ask(Ask(ASKED, {}))
        steps: list[Step] = []
        end = time.monotonic() + 8
        while not steps and time.monotonic() < end:
            steps = [event for event in decoder.poll() if isinstance(event, Step)]
        assert [step.text for step in steps] == ["Hello", " **bold** [/x]"]


# pictures


def drawn(path: Path) -> str:
    """The text of a picture, line by line."""
    lines: dict[float, list[tuple[float, str]]] = {}
    for node in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text"):
        place = lines.setdefault(float(node.attrib.get("y", 0)), [])
        place.append((float(node.attrib.get("x", 0)), (node.text or "").replace("\xa0", " ")))
    return "\n".join("".join(text for _, text in sorted(parts)).rstrip() for _, parts in sorted(lines.items()))


class TestPicture:
    def test_finished_answer(self, run: Path, tmp_path: Path):
        out = tmp_path / "chat.svg"
        picture.draw(run, out, keys=["f2", "f3"])
        text = drawn(out)
        for part in ("first [question]", "Hello▏ **bold** [/x]▏ end.", "6 tokens in 3 steps", "3 drafted, 2 accepted"):
            assert part in text
        assert "racer-chat" in text
        assert "Second" not in text
        assert "16/2048" in text

    def test_nothing_is_fetched(self, run: Path, tmp_path: Path):
        picture.draw(run, tmp_path / "chat.svg")
        svg = (tmp_path / "chat.svg").read_text("utf-8")
        assert not re.search(r"url\(\s*[\"']?\s*(?!#)", svg)
        assert "@font-face" not in svg
        assert "@import" not in svg
        assert "cdnjs" not in svg
        assert re.search(r"font-family:[^;]*monospace", svg)

    def test_same_recording_same_picture(self, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        for name, keys, until in (("a", ("f2",), None), ("b", (), 2)):
            monkeypatch.delenv("NO_COLOR", raising=False)
            picture.draw(run, tmp_path / f"{name}.svg", keys=keys, until=until)
            monkeypatch.setenv("NO_COLOR", "1")
            monkeypatch.setattr(tui_app, "TICK_S", 0.31)
            picture.draw(run, tmp_path / f"{name}2.svg", keys=keys, until=until)
            assert (tmp_path / f"{name}.svg").read_bytes() == (tmp_path / f"{name}2.svg").read_bytes()

    @pytest.mark.parametrize("until", [2, 0.5])
    def test_answer_in_the_making(self, run: Path, tmp_path: Path, until: float):
        picture.draw(run, tmp_path / "chat.svg", keys=["f2"], until=until, size=(80, 24))
        text = drawn(tmp_path / "chat.svg")
        assert "Hello▏ **bold** [/x]" in text
        assert "4 tokens in 2 steps" in text
        assert "end." not in text
        assert "Esc stop" in text

    def test_several_questions(self, run: Path, tmp_path: Path):
        picture.draw(run, tmp_path / "chat.svg", questions=2)
        text = drawn(tmp_path / "chat.svg")
        assert text.index("first [question]") < text.index("/second") < text.index("Second answer")
        picture.draw(run, tmp_path / "chat.svg", questions=2, until=1)
        text = drawn(tmp_path / "chat.svg")
        assert "Hello bold [/x] end." in text
        assert "Second" in text
        assert "Second answer" not in text

    def test_size(self, run: Path, tmp_path: Path):
        boxes = []
        for size in ((60, 20), (120, 40)):
            picture.draw(run, tmp_path / "chat.svg", size=size)
            box = ElementTree.parse(tmp_path / "chat.svg").getroot().attrib["viewBox"].split()
            boxes.append([float(n) for n in box[2:]])
        assert boxes[1][0] > 1.8 * boxes[0][0]
        assert boxes[1][1] > 1.8 * boxes[0][1]
        assert picture.parse_size("100x34") == (100, 34)

    @pytest.mark.parametrize("text", ["", "100", "100x", "x34", "100x34x5", "-1x5", "100 x 34", "٣x٣"])
    def test_no_such_size(self, text: str):
        with pytest.raises(UsageError, match="columns and lines"):
            picture.parse_size(text)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"out": "chat.png"}, "should end with .svg"),
            ({"size": (10, 34)}, "not between"),
            ({"size": (100, 1000)}, "not between"),
            ({"questions": 0}, "has 2 questions"),
            ({"questions": 3}, "has 2 questions"),
            ({"until": 0}, "has 4 steps"),
            ({"until": -1}, "has 4 steps"),
            ({"until": 4}, "has 4 steps"),
            ({"until": math.nan}, "has 4 steps"),
            ({"until": math.inf}, "has 4 steps"),
            ({"keys": ["ctrl+q"]}, "leave the chat"),
            ({"recording": "none.jsonl"}, "cannot read"),
        ],
    )
    def test_what_is_not_to_be_had(self, run: Path, options: dict[str, Any], message: str):
        recording = run.parent / options.pop("recording", run.name)
        out = run.parent / options.pop("out", "chat.svg")
        with pytest.raises(UsageError, match=message):
            picture.draw(recording, out, **options)
        assert not out.exists()

    def test_picture_that_cannot_be_written(self, run: Path, tmp_path: Path):
        (tmp_path / "chat.svg").mkdir()
        with pytest.raises(RacerError, match="cannot write"):
            picture.draw(run, tmp_path / "chat.svg")
