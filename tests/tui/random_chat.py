"""The chat driven at random: keys, commands, pastes, other models, stops, answers that end and that fail, no model.

    python -m tests.tui.random_chat --count 2000 --seed 0

A sequence is some actions in a row, whatever is in progress. After each it must hold that the file has exactly what the
conversation has; after all of them that Enter sends, and that the answer is, letter by letter, what the engine gave.
Sequences are given by their number: `--first N --count 1` repeats one (with those of the same application before it).
"""

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from racer_local.tui import app as tui_app  # pyright: ignore[reportMissingImports]
from racer_local.tui.app import ChatApp  # pyright: ignore[reportMissingImports]
from racer_local.tui.commands.registry import COMMANDS  # pyright: ignore[reportMissingImports]
from racer_local.tui.conversation import Turn, read  # pyright: ignore[reportMissingImports]
from textual.pilot import Pilot

from racer_local.answers import Step
from racer_local.draft_tree import ROOT
from racer_local.errors import DecodeError, ModelError
from racer_local.tokens import Source
from tests.tui.chatting import STARTED, chat, wait_until
from tests.tui.scripted import Gate, ScriptedRacer, tree_of

PER_APP = 20
"""Sequences that one run of the application has, each in a conversation of its own."""
MOST_ACTIONS = 14
KEYS = (
    *("enter", "escape", "f2", "f3", "f4", "f5", "ctrl+t", "up", "down", "tab", "pageup", "pagedown"),
    *("backspace", "ctrl+j", "ctrl+r", "home", "space", "slash", "a", "left", "delete"),
)
TEXTS = (
    *("hello", "/usr/bin/python fails, why?", "//help", "/1", " /help", "\n/stats", "/", "/nope", "/help me", "   "),
    *("a `b` *c*\n\n| t |\n|---|\n", "[/x] [bold]", "\x1b[31mred", "\\(x\\) &lt;", "日本語 \U0001f98a", "x" * 300),
)
ARGUMENTS = ("", "x", "on", "off", "auto", "8", "nope", "temperature 0.5", "max_tokens none", "md", "two", "1", "-")
QUIET = ("quit", "export", "delete")
"""Commands that leave, or whose files are of no interest here."""
PIECES = ("Well, ", "one ", "two\n", "```py\nx = 1\n```\n", "<think>", "hm</think>", "&amp; \\_ ", "**b", "** ", "é")


class Endless:
    """Scripts without end, drawn at random."""

    def __init__(self, rng: random.Random, gates: list[Gate]) -> None:
        self._rng, self._gates = rng, gates

    def pop(self, _at: int) -> list[Any]:
        """The next one: some pieces, a place to wait at, an end of some kind."""
        rng = self._rng
        script: list[Any] = [rng.choice(PIECES) for _ in range(rng.randrange(6))]
        if rng.random() < 0.5:
            gate = Gate()
            self._gates.append(gate)
            script.insert(rng.randrange(len(script) + 1), gate)
        if rng.random() < 0.2:
            script.insert(0, ("prefill", 3, 10))
        script += rng.choices([[], ["=length"], ["=context"], [DecodeError("out of luck")]], [6, 1, 1, 2])[0]
        return script


class Witness(ScriptedRacer):
    """A scripted engine that remembers what it gave.

    Attributes:
        gave: Text of the last answer, piece by piece.
    """

    def __init__(self, scripts: Endless) -> None:
        super().__init__()
        self._scripts: Any = scripts
        self.tree, self.path = tree_of((1, ROOT, Source.RETRIEVAL, 2), (2, 0, Source.LOGITS, 0)), (0,)
        self.gave: list[str] = []

    def _play(self, script: Sequence[Any], on_prefill: Any) -> Iterator[Step]:
        self.gave = []
        for step in super()._play(script, on_prefill):
            self.gave.append(step.text)
            yield step


class Driver:
    """Drives one run of the application."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._gates: list[Gate] = []
        self._scripts = Endless(rng, self._gates)
        self.app: ChatApp = chat(self._load, open_model=self._open_model)

    def _load(self, _progress: object) -> Witness:
        return Witness(self._scripts)

    def _open_model(self, name: str) -> Callable[[object], Witness]:
        if name == "nope":
            raise ModelError("there is no such model")

        is_broken = self._rng.random() < 0.3  # what could be loaded once can be loaded again

        def load(progress: object) -> Witness:
            if is_broken:
                raise ModelError("it cannot be loaded")
            return self._load(progress)

        return load

    async def sequence(self, pilot: Pilot) -> None:
        """One sequence, checked after every action and at its end."""
        actions = [self._key, self._key, self._text, self._sent, self._sent, self._command, self._command, self._wait]
        for _ in range(self._rng.randrange(2, MOST_ACTIONS)):
            await self._rng.choice(actions)(pilot)
            self._check()
        await self._settle(pilot)
        self._check()
        await self._enter_works(pilot)

    async def _key(self, pilot: Pilot) -> None:
        await pilot.press(self._rng.choice(KEYS))

    async def _text(self, _pilot: Pilot) -> None:
        self._prompt.insert(self._rng.choice(TEXTS))

    async def _sent(self, pilot: Pilot) -> None:
        self._prompt.insert(self._rng.choice(TEXTS))
        await pilot.press("enter")

    async def _command(self, pilot: Pilot) -> None:
        name = self._rng.choice([name for name in COMMANDS if name not in QUIET])
        self._prompt.put(f"/{name} {self._rng.choice(ARGUMENTS)}".rstrip())
        await pilot.press("enter")

    async def _wait(self, pilot: Pilot) -> None:
        if self._gates and self._rng.random() < 0.7:
            self._gates.pop().open()
        await pilot.pause(0.03)

    @property
    def _prompt(self) -> Any:
        return self.app.views.prompt

    def _check(self) -> None:
        """The file holds what the conversation holds, and the last answer is what the engine gave."""
        session = self.app.controller.chat.session
        assert self.app.return_code is None, "nobody has left"
        if session.path is None or not self.app.is_idle:
            return
        turns: list[Turn] = session.conversation.turns
        assert [(t.user, t.answer, t.reason) for t in read(session.path).turns] == [
            (t.user, t.answer, t.reason) for t in turns
        ]

    async def _settle(self, pilot: Pilot) -> None:
        """Let everything come to rest: screens above, answers, models that load."""
        while len(self.app.screen_stack) > 1:
            self.app.pop_screen()
            await pilot.pause()
        end = time.monotonic() + 20

        def at_rest() -> bool:
            while self._gates:
                self._gates.pop().open()
            assert time.monotonic() < end, f"still {self.app.controller.phase}"
            return self.app.is_idle

        await wait_until(pilot, at_rest, 30)

    async def _enter_works(self, pilot: Pilot) -> None:
        chat_, racer = self.app.controller.chat, self.app.controller.racer
        self._prompt.put("still there?")
        n = len(chat_.turns)
        asked = len(racer.asked)  # pyright: ignore[reportOptionalMemberAccess, reportAttributeAccessIssue]
        await pilot.press("enter")
        await self._settle(pilot)
        assert isinstance(racer, Witness)
        assert len(racer.asked) == asked + 1, "Enter sends when nothing runs"
        given = "".join(racer.gave)
        if not given and len(chat_.turns) == n:
            assert self._prompt.text.startswith("still there?"), "what got no answer is back in the input"
        else:
            assert (chat_.turns[-1].user, chat_.turns[-1].answer) == ("still there?", given)
        self._check()
        self._prompt.put("/new")
        await pilot.press("enter")
        await wait_until(pilot, lambda: not chat_.turns)
        assert isinstance(self._prompt.text, str)


async def run(first: int, count: int, seed: int, say: Callable[[str], None] = lambda _text: None) -> None:
    """Run sequences by their numbers."""
    for start in range(first - first % PER_APP, first + count, PER_APP):
        driver = Driver(random.Random(f"{seed}/{start}"))
        async with driver.app.run_test(size=(100, 30)) as pilot:
            await driver._settle(pilot)
            for number in range(start, min(start + PER_APP, first + count)):
                try:
                    await driver.sequence(pilot)
                except BaseException as error:
                    raise AssertionError(f"sequence {number} of seed {seed}: {error}") from error
        while STARTED:
            assert STARTED.pop().close(timeout=5)
        say(f"{min(start + PER_APP, first + count) - first} of {count}")


def main() -> None:
    """Run what the command line asks for, in a folder of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            patch.setenv(name, str(Path(folder) / name))
        patch.setattr(tui_app, "TICK_S", 0.02)
        asyncio.run(run(args.first, args.count, args.seed, lambda text: print(text, flush=True)))


if __name__ == "__main__":
    main()
