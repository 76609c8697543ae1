"""Files of conversations: one window each, text that was not sent, rights, and folders with many of them."""

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
from racer_local.tui import app, session_folder, start  # pyright: ignore[reportMissingImports]
from racer_local.tui.conversation import read  # pyright: ignore[reportMissingImports]
from racer_local.tui.session import Session, delete  # pyright: ignore[reportMissingImports]
from racer_local.tui.session_folder import latest, list_sessions  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets.session_list import SessionList  # pyright: ignore[reportMissingImports]
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from racer_local import locations
from racer_local.errors import RacerError, UsageError
from racer_local.terminal import Look
from tests.tui.chatting import SIZE, ask, chat, command, prompt, ready, screen, wait_until
from tests.tui.scripted import ScriptedRacer

ROOT = Path(__file__).resolve().parents[2]
HOLDER = """
import sys, time
from pathlib import Path
from racer_local.tui.session import Session
session = Session.begin(Path(sys.argv[1]), "m")
session.say("mine")
print(session.conversation.id, flush=True)
time.sleep(60)
"""


def earlier(text: str) -> str:
    """A conversation that was held before; its name."""
    session = Session.begin(locations.sessions_dir(), "m")
    session.say(text)
    session.answer()
    session.part("yes")
    session.end("stop")
    session.close()
    return session.conversation.id


class TestOneWindow:
    def test_a_second_one_is_refused_until_the_first_is_closed(self, tmp_path: Path):
        first = Session.begin(tmp_path, "m")
        first.say("hello")
        name = first.conversation.id
        for work in (lambda: Session.resume(tmp_path, name), lambda: delete(tmp_path, name)):
            with pytest.raises(UsageError, match="open in another window"):
                work()
        first.close()
        second = Session.resume(tmp_path, name)
        with pytest.raises(UsageError, match="another window"):
            Session.resume(tmp_path, name)
        second.say("again")
        second.close()
        delete(tmp_path, name)
        assert list(tmp_path.iterdir()) == []

    def test_a_program_that_was_killed_holds_nothing(self, tmp_path: Path):
        with subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
        ) as other:
            assert other.stdout is not None
            name = other.stdout.readline().strip()
            with pytest.raises(UsageError, match="another window"):
                Session.resume(tmp_path, name)
            other.send_signal(signal.SIGKILL)
        assert Session.resume(tmp_path, name).conversation.turns[0].user == "mine"

    @pytest.mark.parametrize("by_name", [True, False])
    def test_resuming_from_the_command_line_is_refused(self, by_name: bool):
        name = earlier("about fish")
        other = Session.resume(locations.sessions_dir(), name)
        asked = {"title": "m", "system": None, "options": {}, "loading": None, "look": Look({})}
        with pytest.raises(UsageError, match="another window"):
            start.start(lambda _: pytest.fail("it was loaded"), resume=name if by_name else "", **asked)
        other.close()

    async def test_the_chat_says_so(self):
        name = earlier("about fish")
        other = Session.resume(locations.sessions_dir(), name)
        async with chat(ScriptedRacer(["x"])).run_test(size=SIZE) as pilot:
            await ready(pilot)
            for text in (f"/load {name}", f"/delete {name}"):
                await command(pilot, text)
                await wait_until(pilot, lambda: "open in another window" in screen(pilot))
                assert prompt(pilot).text == text
                prompt(pilot).clear()
            other.close()
            await command(pilot, f"/load {name}")
            await wait_until(pilot, lambda: "about fish" in screen(pilot))
            await command(pilot, f"/load {name}")
            await wait_until(pilot, lambda: "the conversation that you are in" in screen(pilot))


class TestUnsent:
    def test_of_a_new_conversation_it_is_offered_and_nothing_is_left_when_it_goes(self, tmp_path: Path):
        session = Session.begin(tmp_path, "m", "be brief")
        session.unsent("half a")
        session.unsent("half a thought")
        session.close()
        name = latest(tmp_path)
        assert name is not None
        assert [c.name for c in list_sessions(tmp_path)] == ["half a thought"]
        again = Session.resume(tmp_path, name)
        assert again.conversation.unsent == "half a thought"
        assert again.conversation.system == "be brief"
        again.unsent("")
        assert list(tmp_path.iterdir()) == []
        again.say("after all")
        again.close()
        (path,) = tmp_path.iterdir()
        assert path.stem.endswith("after-all")
        assert read(path).messages()[0] == {"role": "system", "content": "be brief"}

    def test_what_is_sent_has_one_file_named_after_it(self, tmp_path: Path):
        session = Session.begin(tmp_path, "m")
        session.unsent("wh")
        session.say("what is a fish?")
        session.close()
        (path,) = tmp_path.iterdir()
        assert path.stem.endswith("what-is-a-fish")
        assert read(path).unsent == ""

    def test_a_long_one_is_kept_once(self, tmp_path: Path):
        session = Session.begin(tmp_path, "m")
        session.say("hello")
        for i in range(50):
            session.unsent("x" * 100_000 + str(i))
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 110_000
        session.close()
        assert list_sessions(tmp_path)[0].unsent == "x" * 100_000 + "49"

    def test_it_survives_a_kill_and_is_for_the_owner_alone(self, tmp_path: Path):
        code = HOLDER.replace('session.say("mine")', 'session.unsent("typed [b]\\r\\n日本")')
        with subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
        ) as other:
            assert other.stdout is not None
            name = other.stdout.readline().strip()
            other.send_signal(signal.SIGKILL)
        assert latest(tmp_path) == name
        assert Session.resume(tmp_path, name).conversation.unsent == "typed [b]\r\n日本"
        assert all(path.stat().st_mode & 0o077 == 0 for path in tmp_path.iterdir())

    def test_a_line_of_an_older_program_is_read_and_goes(self, tmp_path: Path):
        session = Session.begin(tmp_path, "m")
        session.say("hello")
        session.close()
        assert session.path is not None
        with session.path.open("a") as file:
            file.write(json.dumps({"type": "unsent", "text": "old words"}) + "\n")
        again = Session.resume(tmp_path, session.conversation.id)
        assert again.conversation.unsent == "old words"
        again.unsent("")
        again.close()
        assert read(session.path).unsent == ""

    def test_a_title_or_a_system_prompt_alone_makes_no_file(self, tmp_path: Path):
        session = Session.begin(tmp_path, "m")
        session.rename("Fish")
        session.set_system("be brief")
        session.keep(0)
        assert list(tmp_path.iterdir()) == []
        session.say("hello")
        session.close()
        (conversation,) = list_sessions(tmp_path)
        assert (conversation.title, conversation.system) == ("Fish", "be brief")

    async def test_a_message_like_a_command_is_kept_a_command_is_not(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(app, "UNSENT_EVERY_S", 0.05)
        async with chat(ScriptedRacer()).run_test(size=SIZE) as pilot:
            await ready(pilot)
            prompt(pilot).insert("/load some")
            await pilot.pause(0.2)
            assert list_sessions(locations.sessions_dir()) == []
            prompt(pilot).clear()
            prompt(pilot).insert("/usr/bin/python fails")
            await wait_until(pilot, lambda: list_sessions(locations.sessions_dir()))
        assert list_sessions(locations.sessions_dir())[0].unsent == "/usr/bin/python fails"

    def test_when_the_turns_were_taken_back_the_file_stays(self, tmp_path: Path):
        session = Session.begin(tmp_path, "m")
        session.say("hello")
        session.keep(0)
        session.unsent("hm")
        session.close()
        again = Session.resume(tmp_path, session.conversation.id)
        again.unsent("")
        again.close()
        assert session.path is not None
        assert "hello" in session.path.read_text()


def test_an_older_file_that_all_could_read_is_closed_to_them(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    session = Session.begin(folder, "m")
    session.say("hello")
    session.close()
    assert session.path is not None
    session.path.chmod(0o644)
    folder.chmod(0o755)
    Session.resume(folder, session.conversation.id).close()
    assert session.path.stat().st_mode & 0o777 == 0o600
    Session.begin(folder, "m").say("another")
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    assert list_sessions(tmp_path) == []
    for name in ("pipe", "folder"):
        with pytest.raises(RacerError):
            Session.resume(tmp_path, name)
        with pytest.raises(RacerError):
            read(tmp_path / f"{name}.jsonl")


class TestList:
    @pytest.mark.parametrize("how", ["vanished", "unreadable"])
    async def test_a_conversation_that_cannot_be_opened_any_more_is_told(self, how: str):
        name = earlier("about fish")
        path = locations.sessions_dir() / f"{name}.jsonl"
        async with chat(ScriptedRacer(["x"], ["y"])).run_test(size=SIZE) as pilot:
            await ask(pilot, "first")
            await pilot.press("ctrl+r")
            await wait_until(pilot, lambda: "about fish" in screen(pilot))
            path.unlink()
            if how == "unreadable":
                path.mkdir()
            await pilot.press("down", "enter")
            await wait_until(pilot, lambda: "there is no session" in screen(pilot))
            await ask(pilot, "second")

    async def test_enter_right_after_the_words_takes_what_they_find(self):
        earlier("about fish")
        earlier("about birds")
        async with chat(ScriptedRacer()).run_test(size=SIZE) as pilot:
            await ready(pilot)
            await pilot.press("ctrl+r", *"fish", "enter")
            await wait_until(pilot, lambda: not isinstance(pilot.app.screen, SessionList))
            await wait_until(pilot, lambda: "about fish" in screen(pilot))

    def test_the_last_one_is_found_by_reading_one_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        fill(tmp_path, 30)
        opened: list[Path] = []
        monkeypatch.setattr(session_folder, "read", lambda path: opened.append(path) or read(path))
        assert latest(tmp_path) == "0029"
        assert len(opened) == 1

    async def test_no_key_waits_for_two_thousand_conversations(self):
        fill(locations.sessions_dir(), 2000, 200)
        async with chat(ScriptedRacer()).run_test(size=SIZE) as pilot:
            await ready(pilot)
            await pilot.press("ctrl+r")
            times = [await timed(pilot, letter) for letter in "quince"]
            options = pilot.app.screen.query_one(OptionList)
            await wait_until(pilot, lambda: options.option_count == 1, seconds=60)
            assert "a quince" in str(options.get_option_at_index(0).prompt)
            times += [await timed(pilot, letter) for letter in " a"]
            await pilot.press("escape")
        assert statistics.median(times) < 0.1, times
        assert max(times) < 1.0, times  # on machines that do other things too


def fill(folder: Path, n: int, parts: int = 3) -> None:
    """Conversations of about 50 bytes for each part; number 77 is about a quince."""
    folder.mkdir(parents=True, exist_ok=True)
    answer = "".join(json.dumps({"type": "part", "text": f" word{i} and more"}) + "\n" for i in range(parts))
    for i in range(n):
        text = "a quince" if i == 77 else f"question {i}"
        lines = [{"type": "session", "id": f"{i:04}"}, {"type": "user", "text": text}, {"type": "answer"}]
        path = folder / f"{i:04}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines) + answer)
        os.utime(path, (1000 + i, 1000 + i))


async def timed(pilot: Pilot, letter: str) -> float:
    """Seconds until a letter stands in the search line."""
    line = pilot.app.screen.query_one(Input)
    before = line.value
    began = time.perf_counter()
    line.post_message(Key(letter, letter))
    while line.value == before:
        await asyncio.sleep(0)
        assert time.perf_counter() - began < 10
    return time.perf_counter() - began
