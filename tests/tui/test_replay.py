"""Recorded runs played again: at their own pace, and in the chat without a model."""

import math
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from racer_local.tui import replay as tui_replay  # pyright: ignore[reportMissingImports]
from racer_local.tui.app import ChatApp  # pyright: ignore[reportMissingImports]
from racer_local.tui.events import Ask  # pyright: ignore[reportMissingImports]
from racer_local.tui.recording import Recording  # pyright: ignore[reportMissingImports]
from racer_local.tui.replay import Replayed, WholeDecoder  # pyright: ignore[reportMissingImports]

from racer_local.answers import Step
from racer_local.errors import UsageError
from racer_local.prompt import Prompt
from tests.tui.chatting import STARTED, ask, chat, is_idle, ready, screen, send, wait_until
from tests.tui.made_up_runs import ASKED, HOUR_MS, lines_of, play, write
from tests.tui.scripted import ScriptedRacer


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


def over(answerer: Any) -> ChatApp:
    """The application over a recorded run."""
    return chat(lambda _progress: answerer)


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
