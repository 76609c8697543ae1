"""Sessions on disk: what was said is there again, whatever happened to the program in between."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from racer_local.tui.conversation import read  # pyright: ignore[reportMissingImports]
from racer_local.tui.session import Session, delete  # pyright: ignore[reportMissingImports]
from racer_local.tui.session_folder import SessionIndex, list_sessions  # pyright: ignore[reportMissingImports]

from racer_local.errors import RacerError

ROOT = Path(__file__).resolve().parents[2]


def search(folder: Path, words: str) -> list[tuple[Any, str]]:
    """What is found for words."""
    return [match for match in SessionIndex(folder).find(words) if match is not None]


def held(folder: Path, *turns: tuple[str, str], system: str = "") -> Session:
    """A conversation of questions and answers."""
    session = Session.begin(folder, "model.gguf", system)
    for question, reply in turns:
        session.say(question)
        session.answer()
        for word in reply.split(" "):
            session.part(word + " ")
        session.end("stop", {"predicted_n": 3})
    return session


def test_a_conversation_comes_back(tmp_path: Path) -> None:
    session = held(tmp_path, ("héllo\n[b]", "one two"), ("日本語 👍", "drei"), system="be brief")
    session.close()
    assert session.path is not None
    again = read(session.path)
    assert again == session.conversation
    assert again.messages() == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "héllo\n[b]"},
        {"role": "assistant", "content": "one two "},
        {"role": "user", "content": "日本語 👍"},
        {"role": "assistant", "content": "drei "},
    ]
    assert again.model == "model.gguf"
    assert again.turns[0].reason == "stop"


def test_nothing_is_written_before_something_is_said(tmp_path: Path) -> None:
    session = Session.begin(tmp_path / "sessions", "m")
    session.close()
    assert session.path is None
    assert not (tmp_path / "sessions").exists()


def test_resumed_regenerated_undone_renamed(tmp_path: Path) -> None:
    first = held(tmp_path, ("a", "b"), ("c", "d"))
    first.close()
    session = Session.resume(tmp_path, first.conversation.id)
    session.answer()
    session.part("other")
    session.end("stop")
    session.keep(2)
    session.rename("My  title\nof two lines")
    session.say("e")
    session.keep(1)
    session.set_system("now short")
    session.unsent("half a quest")
    session.close()
    again = Session.resume(tmp_path, first.conversation.id).conversation
    assert again.messages() == [
        {"role": "system", "content": "now short"},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b "},
    ]
    assert again.name == "My title of two lines"
    assert again.unsent == "half a quest"


def test_what_stood_in_the_input_is_gone_once_it_was_sent(tmp_path: Path) -> None:
    session = Session.begin(tmp_path, "m")
    session.unsent("hel")
    session.unsent("hello")
    session.say("hello")
    assert session.path is not None
    assert read(session.path).unsent == ""


def test_two_of_the_same_second_and_words_have_files_of_their_own(tmp_path: Path) -> None:
    sessions = [held(tmp_path, ("Same words?", str(i))) for i in range(4)]
    names = {s.conversation.id for s in sessions}
    assert len(names) == 4
    assert all("same-words" in name for name in names)


@pytest.mark.parametrize("text", ["", "...", "日本語", "a/../../b", "x" * 500, "\x00\x1b[2J", "CON", "\ud800"])
def test_any_first_words_make_a_file_name(tmp_path: Path, text: str) -> None:
    session = held(tmp_path, (text, "ok"))
    session.close()
    assert session.path is not None
    assert session.path.parent == tmp_path
    assert len(session.path.name) < 80
    assert session.path.name.isascii()
    assert read(session.path).turns[0].user == text.replace("\ud800", "?")


def test_list_search_delete(tmp_path: Path) -> None:
    assert list_sessions(tmp_path / "none") == []
    for i, words in enumerate(("about fish", "about birds", "Straße und FISCHE")):
        session = held(tmp_path, (words, f"answer number {i}"))
        session.close()
        assert session.path is not None
        os.utime(session.path, (1000 + i, 1000 + i))
    (tmp_path / "other.jsonl").write_text("not ours\n")
    assert [c.turns[0].user for c in list_sessions(tmp_path)] == ["Straße und FISCHE", "about birds", "about fish"]
    assert [c.name for c, _ in search(tmp_path, "ABOUT")] == ["about birds", "about fish"]
    assert [c.name for c, _ in search(tmp_path, "number fisch")] == ["Straße und FISCHE"]
    assert "about fish" in search(tmp_path, "fish")[0][1]
    assert search(tmp_path, "nowhere") == []
    assert [line for _, line in search(tmp_path, "  ")] == ["Straße und FISCHE", "about birds", "about fish"]
    delete(tmp_path, list_sessions(tmp_path)[0].id)
    assert len(list_sessions(tmp_path)) == 2
    for work in (lambda: delete(tmp_path, "none"), lambda: Session.resume(tmp_path, "none")):
        with pytest.raises(RacerError, match="no session"):
            work()


@settings(derandomize=True, deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.floats(0, 1))
def test_a_file_cut_off_anywhere_can_be_read_and_gone_on_with(tmp_path: Path, cut: float) -> None:
    session = held(tmp_path, ("first", "one two three"), ("zweite", "日本 語"))
    session.close()
    assert session.path is not None
    whole = session.path.read_bytes()
    session.path.write_bytes(whole[: int(cut * len(whole))])
    resumed = Session.resume(tmp_path, session.conversation.id)
    before = [t.user for t in resumed.conversation.turns]
    assert before == ["first", "zweite"][: len(before)]
    resumed.say("third")
    resumed.close()
    assert [t.user for t in read(session.path).turns] == [*before, "third"]
    session.path.unlink()


def test_damaged_lines_are_passed_over(tmp_path: Path) -> None:
    session = held(tmp_path, ("a", "b"))
    session.close()
    assert session.path is not None
    noise = ['{"type": "part"', "[]", "3", "null", '{"type": "future", "x": 1}', '{"no": "type"}', "\x00\xff"]
    with session.path.open("a") as file:
        file.write("\n".join(noise) + "\n")
    assert [(t.user, t.answer) for t in read(session.path).turns] == [("a", "b ")]


def test_where_nothing_can_be_written_the_conversation_goes_on(tmp_path: Path) -> None:
    blocked = tmp_path / "a file"
    blocked.write_text("")
    session = held(blocked / "sessions", ("a", "b"))
    assert session.failed is not None
    assert "no longer saved" in session.failed
    assert session.conversation.messages()[-1]["content"] == "b "


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_said_once_and_the_conversation_goes_on(tmp_path: Path) -> None:
    first = held(tmp_path, ("a", "b"))
    first.close()
    assert first.path is not None
    first.path.unlink()
    first.path.symlink_to("/dev/full")
    session = Session(tmp_path, first.conversation)
    session.say("c")
    session.answer()
    assert session.failed is not None
    assert "space" in session.failed
    assert [t.user for t in session.conversation.turns] == ["a", "c"]


WRITER = """
import sys
from pathlib import Path
from racer_local.tui.session import Session
session = Session.begin(Path(sys.argv[1]), "m")
session.say("count")
session.answer()
for i in range(10**9):
    session.part(f"{i} ")
    print(i, flush=True)
"""


def test_killed_in_the_middle_of_an_answer_only_the_last_step_is_lost(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    while int(process.stdout.readline()) < 300:
        pass
    process.send_signal(signal.SIGKILL)
    said = [int(line) for line in process.stdout.read().split("\n")[:-1]] or [300]
    process.wait()
    time.sleep(0.01)
    (conversation,) = list_sessions(tmp_path)
    numbers = [int(n) for n in (conversation.turns[0].answer or "").split()]
    assert numbers == list(range(len(numbers)))
    assert numbers[-1] >= said[-1]
    assert conversation.turns[0].reason == ""


def test_only_the_owner_can_read(tmp_path: Path) -> None:
    session = held(tmp_path / "sessions", ("a", "b"))
    assert session.path is not None
    assert session.path.stat().st_mode & 0o077 == 0
    assert session.path.parent.stat().st_mode & 0o077 == 0


def test_lines_are_json_that_grep_finds(tmp_path: Path) -> None:
    session = held(tmp_path, ("where is Zürich?", "there"))
    assert session.path is not None
    lines = session.path.read_text("utf-8").splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["session", "user", "answer", "part", "end"]
    assert any("Zürich" in line for line in lines)


@pytest.mark.parametrize("name", ["x" * 300, "a\0b", "é" * 200])
def test_a_name_that_can_be_none_is_the_name_of_no_session(tmp_path: Path, name: str) -> None:
    with pytest.raises(RacerError, match="there is no session"):
        Session.resume(tmp_path, name)
    with pytest.raises(RacerError, match="there is no session"):
        delete(tmp_path, name)
    assert list(tmp_path.iterdir()) == []
