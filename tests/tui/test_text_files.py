"""Text in and out of the chat: `/read`, `/copy`, `/export`, and what files with strange names or contents do to it."""

import json
import os
from pathlib import Path

import pytest
from racer_local.tui.conversation import read  # pyright: ignore[reportMissingImports]
from racer_local.tui.copying import code_blocks  # pyright: ignore[reportMissingImports]
from racer_local.tui.session import Session  # pyright: ignore[reportMissingImports]
from racer_local.tui.text_files import (  # pyright: ignore[reportMissingImports]
    fenced,
    path_of,
    read_file,
    write_new,
)

from racer_local import locations
from racer_local.errors import UsageError
from tests.tui.chatting import SIZE, ask, chat, command, kept, prompt, ready, screen, send, wait_until
from tests.tui.scripted import ScriptedRacer


class TestPaths:
    @pytest.mark.parametrize(
        "typed", ["{}/my notes.txt", "{}/my\\ notes.txt", "'{}/my notes.txt'", '"{}/my notes.txt"']
    )
    def test_as_a_shell_would_read_it(self, tmp_path: Path, typed: str):
        (tmp_path / "my notes.txt").touch()
        assert path_of(typed.format(tmp_path)) == tmp_path / "my notes.txt"

    def test_home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("HOME", str(tmp_path))
        (tmp_path / "a b").touch()
        assert path_of("~/a b") == path_of("~/a\\ b") == tmp_path / "a b"

    @pytest.mark.parametrize("name", ["it's", 'a "b"', "back\\slash", "#1"])
    def test_a_file_that_is_there_is_meant_as_it_stands(self, tmp_path: Path, name: str):
        (tmp_path / name).touch()
        assert path_of(f"{tmp_path}/{name}") == tmp_path / name

    @pytest.mark.parametrize("typed", ["a\0b", "~nobody-of-this-name/x", "x" * 5000])
    def test_what_is_no_path_is_told(self, typed: str):
        with pytest.raises(UsageError):
            read_file(path_of(typed))


async def test_another_model_is_named_as_a_shell_would_read_it(tmp_path: Path) -> None:
    (tmp_path / "my model.gguf").touch()
    racers, asked = [ScriptedRacer(), ScriptedRacer()], []

    def open_model(name: str):
        asked.append(name)
        return lambda _progress: racers.pop(0)

    async with chat(lambda _progress: racers.pop(0), open_model=open_model).run_test(size=SIZE) as pilot:
        await send(pilot, f"/model {tmp_path}/my\\ model.gguf")
        await ready(pilot)
    assert asked == [f"{tmp_path}/my model.gguf"]


class TestReading:
    def test_marks_and_line_ends_of_editors(self, tmp_path: Path):
        (tmp_path / "a").write_bytes(b"\xef\xbb\xbfone\r\ntwo\x1b[2J")
        assert read_file(tmp_path / "a") == "one\ntwo␛[2J"
        (tmp_path / "b").write_text("hello", "utf-16")
        with pytest.raises(UsageError, match="UTF-16"):
            read_file(tmp_path / "b")

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
    def test_pipes_devices_and_folders_are_not_waited_for(self, tmp_path: Path):
        os.mkfifo(tmp_path / "pipe")
        for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
            with pytest.raises(UsageError, match="cannot read"):
                read_file(path)

    @pytest.mark.parametrize("text", ["plain", "```\ncode\n```", "~~~~ and ```", "~~~~~~\n```"])
    def test_nothing_in_a_file_ends_its_block(self, text: str):
        assert code_blocks(fenced("a\x1b.txt", text)) == [text + "\n"]
        assert "\x1b" not in fenced("a\x1b.txt", text)

    async def test_a_second_file_after_the_first(self, tmp_path: Path):
        (tmp_path / "a.txt").write_text("one")
        (tmp_path / "b c.txt").write_text("two")
        racer = ScriptedRacer(["ok"])
        async with chat(racer).run_test(size=SIZE) as pilot:
            await send(pilot, f"/read {tmp_path}/a.txt")
            await wait_until(pilot, lambda: "one" in prompt(pilot).text)
            await command(pilot, f"/read {tmp_path}/none")
            await wait_until(pilot, lambda: "cannot read" in screen(pilot))
            assert prompt(pilot).text == f"``` a.txt\none\n```\n/read {tmp_path}/none"
            prompt(pilot).put("``` a.txt\none\n```\nand")
            await command(pilot, f"\n/read {tmp_path}/b\\ c.txt")
            await wait_until(pilot, lambda: "two" in prompt(pilot).text)
            await ask(pilot, "which?")
        assert racer.asked[0][0]["content"] == "``` a.txt\none\n```\nand\n``` b c.txt\ntwo\n```\nwhich?"

    async def test_names_that_steer_the_terminal_are_not_offered(self, tmp_path: Path):
        for name in ("plain", "pl\x1b]0;x\x07ain", "pl\nain"):
            (tmp_path / name).touch()
        async with chat(ScriptedRacer()).run_test(size=SIZE) as pilot:
            await ready(pilot)
            prompt(pilot).insert(f"/read {tmp_path}/pl")
            await pilot.press("tab")
            assert prompt(pilot).text == f"/read {tmp_path}/plain"

    async def test_a_foreign_history_is_shown_and_never_steers(self):
        folder = locations.sessions_dir()
        session = Session.begin(folder, "m")
        session.say("evil \x1b]52;c;eA==\x07 words")
        session.answer()
        session.part("yes")
        session.end("stop")
        session.unsent("half \x1b[2J")
        session.close()
        again = Session.resume(folder, session.conversation.id)
        async with chat(ScriptedRacer(), session=again).run_test(size=SIZE) as pilot:
            await ready(pilot)
            assert prompt(pilot).text == "half ␛[2J"
            prompt(pilot).clear()
            await pilot.press("up")
            assert prompt(pilot).text == "evil ␛]52;c;eA==␇ words"
            await send(pilot, "")
            prompt(pilot).clear()
            await command(pilot, "/edit")
            await wait_until(pilot, lambda: prompt(pilot).text)
            assert "\x1b" not in prompt(pilot).text


class TestThoughts:
    ANSWER = "<think>\n```\nno\n```\n</think>\n\nSay\n\n```\nyes\n```\n"

    async def test_copies_and_documents_are_of_what_was_said(self, tmp_path: Path):
        async with chat(ScriptedRacer([self.ANSWER])).run_test(size=SIZE) as pilot:
            await ask(pilot, "what?")
            await send(pilot, "/copy")
            await wait_until(pilot, lambda: pilot.app.clipboard == "Say\n\n```\nyes\n```")
            await send(pilot, "/copy 1")
            await wait_until(pilot, lambda: pilot.app.clipboard == "yes\n")
            await send(pilot, f"/export md {tmp_path}/a.md")
            await wait_until(pilot, lambda: (tmp_path / "a.md").exists())
            await send(pilot, f"/export json {tmp_path}/a.json")
            await wait_until(pilot, lambda: (tmp_path / "a.json").exists())
        text = (tmp_path / "a.md").read_text()
        assert "no" not in text
        assert "think" not in text
        assert json.loads((tmp_path / "a.json").read_text())["messages"][-1] == {
            "role": "assistant",
            "content": "Say\n\n```\nyes\n```",
            "reasoning_content": "```\nno\n```",
        }
        assert read(kept()).turns[0].answer == self.ANSWER

    async def test_an_answer_that_is_only_a_thought(self):
        async with chat(ScriptedRacer(["<think>hm"])).run_test(size=SIZE) as pilot:
            await ask(pilot, "what?")
            await send(pilot, "/copy")
            await wait_until(pilot, lambda: "only a thought" in screen(pilot))


class TestWriting:
    def test_what_is_there_stays(self, tmp_path: Path):
        write_new(tmp_path / "a", "one")
        assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
        for path in (tmp_path / "a", tmp_path, tmp_path / "none" / "a"):
            with pytest.raises(UsageError):
                write_new(path, "two")
        assert (tmp_path / "a").read_text() == "one"

    async def test_export_never_overwrites_and_takes_quotes(self, tmp_path: Path):
        mine = tmp_path / "my talk.md"
        async with chat(ScriptedRacer(["yes"])).run_test(size=SIZE) as pilot:
            await ask(pilot, "what?")
            await send(pilot, f'/export md "{mine}"')
            await wait_until(pilot, mine.exists)
            mine.write_text("mine")
            await send(pilot, f"/export md {mine}")
            await wait_until(pilot, lambda: "there already" in screen(pilot))
        assert mine.read_text() == "mine"

    async def test_a_copy_is_for_the_owner_alone(self):
        path = locations.cache_dir() / "copied.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o755)
        path.touch(0o644)
        async with chat(ScriptedRacer(["yes"])).run_test(size=SIZE) as pilot:
            await ask(pilot, "what?")
            await send(pilot, "/copy")
            await wait_until(pilot, lambda: path.read_text() == "yes")
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
