"""Slash commands: what a line means, the last answer, and conversations."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from racer_local.tui.commands import registry as commands  # pyright: ignore[reportMissingImports]
from racer_local.tui.conversation import read  # pyright: ignore[reportMissingImports]
from racer_local.tui.session import Session  # pyright: ignore[reportMissingImports]
from racer_local.tui.session_folder import list_sessions  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets.session_list import SessionList  # pyright: ignore[reportMissingImports]
from textual.widgets import OptionList

from racer_local import locations
from racer_local.errors import DecodeError, RacerError, UsageError
from tests.tui.chatting import SIZE, ask, chat, command, earlier, is_idle, kept, prompt, ready, screen, send, wait_until
from tests.tui.scripted import Gate, ScriptedRacer


class TestParsing:
    def test_commands_and_messages(self):
        parsed = commands.parse("/set top_k 3")
        assert parsed is not None
        assert (parsed[0].name, parsed[1]) == ("set", "top_k 3")
        for message in ("hello", "/usr/bin/python fails", "//set is a command", "/1", "/", "a /help", "/help\nme", ""):
            assert commands.parse(message) is None
        assert commands.message_of("//set") == "/set"
        assert commands.message_of("/usr") == "/usr"

    def test_mistakes_say_what_to_do(self):
        with pytest.raises(UsageError, match="did you mean /regen"):
            commands.parse("/regn")
        with pytest.raises(UsageError, match="/help lists"):
            commands.parse("/xyzzy")
        with pytest.raises(UsageError, match="takes nothing"):
            commands.parse("/undo now")

    @given(st.text(max_size=20))
    def test_any_text_is_a_command_a_message_or_a_mistake(self, text: str):
        try:
            parsed = commands.parse(text)
        except RacerError:
            return
        assert parsed is None or parsed[0] in commands.COMMANDS.values()

    def test_completion(self):
        nowhere: Any = None
        assert commands.complete("/re", nowhere) == ["/regen", "/read "]
        assert commands.complete("/set to", nowhere) == ["/set top_k", "/set top_p"]
        assert commands.complete("hello", nowhere) == commands.complete("/nope x", nowhere) == []
        assert commands.common_beginning(["/regen", "/read "]) == "/re"
        assert commands.common_beginning([]) == ""

    async def test_every_command_is_in_the_help(self):
        async with chat(ScriptedRacer()).run_test(size=(100, 60)) as pilot:
            await send(pilot, "/help")
            await wait_until(pilot, lambda: "/export" in screen(pilot))
            shown = screen(pilot)
            assert all(f"/{name}" in shown for name in commands.COMMANDS)


class TestConversation:
    async def test_regenerate_replaces_the_answer(self):
        racer = ScriptedRacer(["one"], ["two"])
        async with chat(racer).run_test(size=SIZE) as pilot:
            await ask(pilot, "hi")
            await ask(pilot, "/regen")
            await wait_until(pilot, lambda: "two" in screen(pilot))
            assert "one" not in screen(pilot)
        assert racer.asked[0] == racer.asked[1]
        assert [(t.user, t.answer) for t in read(kept()).turns] == [("hi", "two")]

    async def test_regenerate_that_fails_keeps_the_answer_from_before(self):
        racer = ScriptedRacer(["one"], [DecodeError("out of luck")])
        async with chat(racer).run_test(size=SIZE) as pilot:
            await ask(pilot, "hi")
            await ask(pilot, "/regen")
            await wait_until(pilot, lambda: "out of luck" in screen(pilot))
            assert "one" in screen(pilot)
        assert read(kept()).turns[0].answer == "one"

    async def test_undo_and_edit(self):
        racer = ScriptedRacer(["one"], ["two"], ["three"])
        async with chat(racer).run_test(size=SIZE) as pilot:
            await ask(pilot, "first")
            await ask(pilot, "second")
            await ask(pilot, "/undo")
            await wait_until(pilot, lambda: "two" not in screen(pilot))
            await ask(pilot, "/edit")
            assert prompt(pilot).text == "first"
            await pilot.press("!", "enter")
            await wait_until(pilot, lambda: "three" in screen(pilot))
        assert racer.asked[2] == [{"role": "user", "content": "first!"}]
        assert [t.user for t in read(kept()).turns] == ["first!"]

    async def test_continue_goes_on_from_the_tokens(self):
        gate = Gate()
        racer = ScriptedRacer(["Half of ", gate], ["the rest"])
        async with chat(racer).run_test(size=SIZE) as pilot:
            await send(pilot, "go")
            await wait_until(pilot, lambda: "Half" in screen(pilot))
            await pilot.press("escape")
            await ready(pilot)
            assert "/continue" in screen(pilot)
            await ask(pilot, "/continue")
            await wait_until(pilot, lambda: "Half of the rest" in screen(pilot))
        assert racer.so_far == [(), [0]], "the token that the script gave"
        assert racer.asked[1] == [{"role": "user", "content": "go"}]
        turn = read(kept()).turns[0]
        assert (turn.answer, turn.reason) == ("Half of the rest", "stop")

    async def test_continue_after_a_restart_goes_on_from_the_text(self):
        name = earlier(("go", "Half of "))
        racer = ScriptedRacer(["the rest"])
        session = Session.resume(locations.sessions_dir(), name)
        async with chat(racer, session=session).run_test(size=SIZE) as pilot:
            await ask(pilot, "/continue")
            await wait_until(pilot, lambda: "Half of the rest" in screen(pilot))
        assert racer.so_far == ["Half of "]

    async def test_new_clear_system(self):
        racer = ScriptedRacer(["one"], ["two"], ["three"])
        async with chat(racer, system="Be brief.").run_test(size=SIZE) as pilot:
            await ask(pilot, "first")
            await ask(pilot, "/clear")
            await wait_until(pilot, lambda: "first" not in screen(pilot))
            await send(pilot, "/system Be long.")
            await ask(pilot, "second")
            await ask(pilot, "/new")
            await wait_until(pilot, lambda: "second" not in screen(pilot))
            await ask(pilot, "third")
        assert [m["content"] for m in racer.asked[1]] == ["Be long.", "second"]
        assert [m["content"] for m in racer.asked[2]] == ["Be long.", "third"]
        assert sorted(c.turns[0].user for c in list_sessions(locations.sessions_dir())) == ["second", "third"]

    async def test_nothing_to_work_on_says_so_and_keeps_the_line(self):
        async with chat(ScriptedRacer()).run_test(size=SIZE) as pilot:
            for line in (
                "/regen",
                "/undo",
                "/edit",
                "/continue",
                "/compare",
                "/copy",
                "/export md",
                "/save",
                "/delete",
            ):
                await send(pilot, line)
                await wait_until(pilot, lambda line=line: prompt(pilot).text == line)
                prompt(pilot).put("")

    async def test_what_has_to_wait_says_so(self):
        gate = Gate()
        async with chat(ScriptedRacer(["a", gate])).run_test(size=SIZE) as pilot:
            await send(pilot, "go")
            await wait_until(pilot, lambda: not is_idle(pilot))
            await command(pilot, "/regen")
            await wait_until(pilot, lambda: "has to wait" in screen(pilot))
            assert prompt(pilot).text == "/regen"
            gate.open()


class TestSessions:
    async def test_a_resumed_conversation_is_shown_and_gone_on_with(self):
        name = earlier(("who?", "**me**"), ("why?", "because"))
        racer = ScriptedRacer(["indeed"])
        session = Session.resume(locations.sessions_dir(), name)
        async with chat(racer, session=session).run_test(size=SIZE) as pilot:
            await wait_until(pilot, lambda: "because" in screen(pilot))
            assert "who?" in screen(pilot)
            assert "**" not in screen(pilot)
            await ask(pilot, "really?")
        assert [m["content"] for m in racer.asked[0]] == ["who?", "**me**", "why?", "because", "really?"]

    async def test_choosing_from_the_list(self):
        earlier(("about fish", "blub"))
        earlier(("about [b]irds[/b]", "tweet"), title="Birds")
        async with chat(ScriptedRacer(["x"])).run_test(size=SIZE) as pilot:
            await ready(pilot)
            await pilot.press("ctrl+r")
            await wait_until(pilot, lambda: "about fish" in screen(pilot))
            assert "Birds" in screen(pilot)
            await pilot.press(*"blub")
            await wait_until(pilot, lambda: "Birds" not in screen(pilot))
            await pilot.press("enter")
            await wait_until(pilot, lambda: not isinstance(pilot.app.screen, SessionList))
            await wait_until(pilot, lambda: "blub" in screen(pilot))
            await pilot.press("ctrl+r")
            await wait_until(pilot, lambda: isinstance(pilot.app.screen, SessionList))
            await pilot.press("down", "up", "escape")
            await wait_until(pilot, lambda: "blub" in screen(pilot))

    async def test_search_save_load_delete(self):
        fish = earlier(("about fish", "blub"))
        async with chat(ScriptedRacer(["x"])).run_test(size=SIZE) as pilot:
            await ask(pilot, "hello")
            await send(pilot, "/save My talk")
            await wait_until(pilot, lambda: "My talk" in screen(pilot))
            await send(pilot, "/search talk")
            await wait_until(pilot, lambda: isinstance(pilot.app.screen, SessionList))
            options = pilot.app.screen.query_one(OptionList)
            assert options.option_count == 1
            await pilot.press("escape")
            await send(pilot, f"/load {fish}")
            await wait_until(pilot, lambda: "blub" in screen(pilot))
            await send(pilot, "/delete")
            await wait_until(pilot, lambda: "is deleted" in screen(pilot))
            assert "blub" not in screen(pilot)
            await send(pilot, "/load ../../etc/passwd")
            await wait_until(pilot, lambda: "no name" in screen(pilot))
        assert [c.title for c in list_sessions(locations.sessions_dir())] == ["My talk"]

    async def test_what_stood_in_the_input_is_there_again(self):
        async with chat(ScriptedRacer(["x"])).run_test(size=SIZE) as pilot:
            await ask(pilot, "hello")
            prompt(pilot).insert("half a tho")
            await wait_until(pilot, lambda: read(kept()).unsent == "half a tho")
        session = Session.resume(locations.sessions_dir(), kept().stem)
        async with chat(ScriptedRacer(), session=session).run_test(size=SIZE) as pilot:
            await wait_until(pilot, lambda: prompt(pilot).text == "half a tho")

    async def test_a_conversation_is_not_left_in_the_middle_of_an_answer(self):
        earlier(("about fish", "blub"))
        gate = Gate()
        async with chat(ScriptedRacer(["part", gate, "whole"])).run_test(size=SIZE) as pilot:
            await send(pilot, "go")
            await wait_until(pilot, lambda: "part" in screen(pilot))
            await pilot.press("ctrl+r")
            await wait_until(pilot, lambda: "has to wait" in screen(pilot))
            gate.open()
            await ready(pilot)
        assert [t.answer for c in list_sessions(locations.sessions_dir()) for t in c.turns if t.user == "go"] == [
            "partwhole"
        ]

    async def test_a_disk_that_takes_nothing_is_said_once(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        blocked = tmp_path / "file"
        blocked.write_text("")
        monkeypatch.setenv("XDG_DATA_HOME", str(blocked))
        async with chat(ScriptedRacer(["one"], ["two"])).run_test(size=SIZE) as pilot:
            await ask(pilot, "hi")
            await ask(pilot, "again")
            assert screen(pilot).count("no longer saved") == 1
            assert "two" in screen(pilot)
