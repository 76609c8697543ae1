"""Whole screens at fixed sizes, against what was found good. To accept a change, delete the file and run this twice."""

import re
from pathlib import Path

import pytest
from racer_local.tui.app import ChatApp  # pyright: ignore[reportMissingImports]
from textual.pilot import Pilot

from racer_local.draft_tree import ROOT
from racer_local.tokens import Source
from tests.tui.chatting import ask, chat, command, screen, send, wait_until
from tests.tui.scripted import Gate, Line, ScriptedRacer, tree_of

SCREENS = Path(__file__).parent / "screens"
BOTH = Source.RETRIEVAL | Source.LOGITS
ANSWER: list[Line] = [
    "# Reversing\n\nA list is reversed ",
    [("by ", Source.LOGITS), ("*slicing*", Source.LOGITS), (": `xs[::-1]`.\n\n", Source.MODEL)],
    "```python\ndef reverse(xs):\n",
    [("    return ", Source.RETRIEVAL), ("xs", BOTH), ("[::-1]\n", Source.MODEL)],
    "```\n\n| way | copies |\n|---|---|\n| slice | yes |\n| `reverse` | no |\n\n1. Slice it.\n2. Return it.\n",
]
TREE = tree_of(
    (0, ROOT, BOTH, 3),
    (1, 0, Source.RETRIEVAL, 4),
    (2, 0, Source.LOGITS, 0),
    (3, ROOT, Source.LOGITS, 0),
)
PIECES = {0: b" return", 1: b" xs", 2: b" list", 3: b" yield"}


def scripted(*scripts: list[Line]) -> ChatApp:
    racer = ScriptedRacer(*scripts, pieces=dict(PIECES))
    racer.tree, racer.path = TREE, (0, 1)
    return chat(racer, max_tokens=200)


def as_accepted(name: str, pilot: Pilot) -> None:
    """Compare the screen with the file of this name."""
    file = SCREENS / f"{name}.txt"
    found = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "2001-01-01 12:00", f"{screen(pilot)}\n")
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        file.write_text(found, encoding="utf-8")
        pytest.fail(f"{file} was missing and is written; look at it")
    assert found == file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "size", "keys"),
    [
        ("narrow", (60, 15), ()),
        ("usual", (80, 24), ()),
        ("wide", (130, 40), ()),
        ("usual_tokens", (80, 24), ("f2",)),
        ("narrow_stats", (60, 15), ("f4",)),
        ("wide_panels", (160, 40), ("f2", "f3", "f4")),
    ],
)
async def test_answer(name: str, size: tuple[int, int], keys: tuple[str, ...]) -> None:
    async with scripted(ANSWER).run_test(size=size) as pilot:
        await ask(pilot, "How do I reverse a list?")
        await pilot.press(*keys)
        await pilot.pause(0.1)
        as_accepted(name, pilot)


async def test_answer_in_the_making() -> None:
    gate = Gate()
    async with scripted([*ANSWER[:4], gate, ANSWER[4]]).run_test(size=(80, 24)) as pilot:
        await send(pilot, "How do I reverse a list?")
        await wait_until(pilot, lambda: "return xs[::-1]" in screen(pilot))
        as_accepted("usual_answering", pilot)
        gate.open()


async def test_earlier_conversations() -> None:
    async with scripted(["one"], ["two"]).run_test(size=(80, 24)) as pilot:
        await ask(pilot, "the first of them")
        await command(pilot, "/save A title")
        await command(pilot, "/new")
        await ask(pilot, "the second")
        await pilot.press("ctrl+r")
        await wait_until(pilot, lambda: "A title" in screen(pilot))
        as_accepted("usual_sessions", pilot)


async def test_help() -> None:
    async with scripted().run_test(size=(130, 40)) as pilot:
        await wait_until(pilot, lambda: "llama 135M" in screen(pilot))
        await command(pilot, "/help")
        await wait_until(pilot, lambda: "/quit" in screen(pilot))
        as_accepted("wide_help", pilot)
