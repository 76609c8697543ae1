"""Recorded runs: what is written comes back as it was, and damage is told."""

import math
import re
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from racer_local.tui.recording import Recording, check_new  # pyright: ignore[reportMissingImports]
from racer_local.tui.replay import Replayed  # pyright: ignore[reportMissingImports]

from racer_local.answers import Step
from racer_local.draft_tree import ROOT, DraftTree
from racer_local.errors import DecodeError, RacerError, UsageError
from racer_local.prompt import Prompt
from racer_local.settings import MAX_BUDGET, SamplingParams
from racer_local.stats import GenerationStats
from racer_local.tokens import N_SOURCES, Source, Token
from tests.tui.made_up_runs import ASKED, Fixed, lines_of, play, record, same, steps, write
from tests.tui.scripted import PROMPT_END, ScriptedRacer, tree_of


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
        with pytest.raises(UsageError, match="name too long"):
            check_new(tmp_path / ("x" * 300))
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
