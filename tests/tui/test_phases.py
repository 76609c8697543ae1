"""The one gate of the chat: what is sent while something is in progress, and an answer that is another model's."""

import pytest
from racer_local.tui.conversation import read  # pyright: ignore[reportMissingImports]
from racer_local.tui.phase import Phase  # pyright: ignore[reportMissingImports]
from racer_local.tui.session import Session  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets import transcript  # pyright: ignore[reportMissingImports]

from racer_local import locations
from racer_local.draft_tree import ROOT
from racer_local.tokens import Source
from tests.tui.chatting import SIZE, ask, chat, command, is_idle, kept, prompt, ready, screen, send, wait_until
from tests.tui.scripted import Gate, ScriptedRacer, tree_of

NO_COMMANDS = ("/usr/bin/python fails, why?", "//help", "/1", "/", " /usr/bin", "\n//x", "hello")


@pytest.mark.parametrize("text", NO_COMMANDS)
async def test_a_message_during_an_answer_stays_in_the_input(text: str) -> None:
    gate = Gate()
    racer = ScriptedRacer(["Half", gate, " done"], ["fine"])
    async with chat(racer).run_test(size=SIZE) as pilot:
        await send(pilot, "go")
        await wait_until(pilot, lambda: "Half" in screen(pilot))
        await command(pilot, text)
        assert prompt(pilot).text == text
        assert "an answer is in progress" in screen(pilot)
        gate.open()
        await ready(pilot)
        assert "Half done" in screen(pilot)
        assert [(t.user, t.answer) for t in read(kept()).turns] == [("go", "Half done")]
        await pilot.press("enter")
        await wait_until(pilot, lambda: "fine" in screen(pilot))
    assert len(read(kept()).turns) == 2


@pytest.mark.parametrize("text", NO_COMMANDS)
async def test_a_message_while_the_model_loads_stays_in_the_input(text: str) -> None:
    gate = Gate()

    def load(_progress: object) -> ScriptedRacer:
        gate.wait()
        return ScriptedRacer(["fine"])

    async with chat(load).run_test(size=SIZE) as pilot:
        await command(pilot, text)
        assert prompt(pilot).text == text
        gate.open()
        await ready(pilot)
        await pilot.press("enter")
        await wait_until(pilot, lambda: "fine" in screen(pilot))


@pytest.mark.parametrize("text", [" /help", "\n/help", "/help ", "\t/help\n"])
async def test_blanks_around_a_command_change_nothing(text: str) -> None:
    async with chat(ScriptedRacer(["fine"])).run_test(size=(100, 60)) as pilot:
        await send(pilot, text)
        await wait_until(pilot, lambda: "/export" in screen(pilot))
        assert prompt(pilot).text == ""
        await ask(pilot, "and on")
        assert "fine" in screen(pilot)


async def test_a_command_that_has_to_wait_stays_in_the_input() -> None:
    gate = Gate()
    async with chat(ScriptedRacer(["Half", gate])).run_test(size=SIZE) as pilot:
        await send(pilot, "go")
        await wait_until(pilot, lambda: "Half" in screen(pilot))
        await command(pilot, "/undo")
        assert prompt(pilot).text == "/undo"
        assert "/undo has to wait, an answer is in progress; Esc stops it" in screen(pilot)
        gate.open()
        await ready(pilot)
        await pilot.press("enter")
        await wait_until(pilot, lambda: "Half" not in screen(pilot))


async def test_two_messages_at_once_are_one_answer_and_a_refusal() -> None:
    gate = Gate()
    racer = ScriptedRacer([gate, "one"], ["two"])
    async with chat(racer).run_test(size=SIZE) as pilot:
        await ready(pilot)
        prompt(pilot).insert("a")
        await pilot.press("enter", "b", "enter", "c")
        assert prompt(pilot).text == "bc"
        gate.open()
        await ready(pilot)
    assert [(t.user, t.answer) for t in read(kept()).turns] == [("a", "one")]


def another_model(*racers: ScriptedRacer) -> object:
    """A function that loads these one after the other."""
    left = list(racers)
    return lambda _progress: left.pop(0)


class TestAnotherModel:
    TREE = tree_of((7, ROOT, Source.RETRIEVAL, 3))

    def racers(self, *second: object) -> tuple[ScriptedRacer, ScriptedRacer]:
        first = ScriptedRacer(["Half of ", "=length"], pieces={7: b"seven"})
        first.tree, first.path = self.TREE, (0,)
        return first, ScriptedRacer(*second)  # pyright: ignore[reportArgumentType]

    async def test_its_vocabulary_never_meets_ids_of_the_one_before(self) -> None:
        first, second = self.racers()
        seen: list[int] = []
        second.model.piece = lambda token: seen.append(token) or b""
        app = chat(another_model(first, second), open_model=lambda _name: another_model(second))
        async with app.run_test(size=(150, 30)) as pilot:
            await ask(pilot, "go")
            await pilot.press("f3")
            await wait_until(pilot, lambda: "seven" in screen(pilot))
            await ask(pilot, "/model two")
            await pilot.press("f3", "f3", "f2")
            await pilot.pause()
            assert "seven" not in screen(pilot).split("│")[-1]
            assert "no draft yet" in screen(pilot)
        assert 7 not in seen

    async def test_the_panel_may_be_opened_while_it_loads(self) -> None:
        first, second = self.racers()
        gate = Gate()

        def load(_progress: object) -> ScriptedRacer:
            gate.wait()
            return second

        app = chat(first, open_model=lambda _name: load)
        async with app.run_test(size=(150, 30)) as pilot:
            await ask(pilot, "go")
            await send(pilot, "/model two")
            first.model.piece = None  # a closed model's vocabulary is freed memory
            assert app.controller.phase is Phase.CHANGING_MODEL
            await pilot.press("f3", "f4", "f2", "f3", "f3", "f5")
            gate.open()
            await ready(pilot)

    async def test_going_on_goes_from_the_text(self) -> None:
        first, second = self.racers(["the rest"])
        app = chat(first, open_model=lambda _name: lambda _progress: second)
        async with app.run_test(size=SIZE) as pilot:
            await ask(pilot, "go")
            await ask(pilot, "/model two")
            await ask(pilot, "/continue")
            assert "Half of the rest" in screen(pilot)
        assert second.so_far == ["Half of "]

    async def test_its_own_answer_alone_is_compared(self) -> None:
        first, second = self.racers(["Mine"])
        app = chat(first, open_model=lambda _name: lambda _progress: second)
        async with app.run_test(size=SIZE) as pilot:
            await ask(pilot, "go")
            await ask(pilot, "/model two")
            await command(pilot, "/compare")
            assert "another model's" in screen(pilot)
            assert is_idle(pilot)
            await ask(pilot, "/regen")
            assert "Mine" in screen(pilot)


@pytest.fixture
def few_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript, "SHOWN_TURNS", 4)
    monkeypatch.setattr(transcript, "MOST_TURNS", 6)


@pytest.mark.usefixtures("few_drawn")
async def test_more_turns_are_taken_back_than_are_drawn() -> None:
    session = Session.begin(locations.sessions_dir(), "m")
    for i in range(7):
        session.say(f"question {i}")
        session.answer()
        session.part(f"reply {i}")
        session.end("stop")
    app = chat(ScriptedRacer(), session=session)
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot)
        assert "3 earlier turns are not shown" in screen(pilot)
        for _ in range(7):
            await ask(pilot, "/undo")
        assert app.controller.chat.turns == []
        await command(pilot, "/undo")
        assert "nothing was said yet" in screen(pilot)


@pytest.mark.usefixtures("few_drawn")
async def test_of_very_many_turns_the_last_are_drawn_and_all_are_kept() -> None:
    app = chat(ScriptedRacer(*[[f"reply {i}"] for i in range(9)]))
    async with app.run_test(size=SIZE) as pilot:
        for i in range(9):
            await ask(pilot, f"question {i}")
        drawn = app.views.transcript.query_children(transcript.Question)
        assert 4 <= len(drawn) <= 6
        (left_out,) = app.views.transcript.query("#left_out")
        assert str(left_out.content).startswith(f"{9 - len(drawn)} earlier turns are not shown")
        assert app.views.transcript.children[0] is left_out
        assert "reply 8" in screen(pilot)
    assert len(read(kept()).turns) == 9
