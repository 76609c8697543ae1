"""Driving the terminal chat in tests: a scripted engine behind it, and what is on its screen."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from racer_local.tui import app  # pyright: ignore[reportMissingImports]
from racer_local.tui.decoder import Decoder  # pyright: ignore[reportMissingImports]
from racer_local.tui.session import Session  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets.prompt import Prompt  # pyright: ignore[reportMissingImports]
from textual.pilot import Pilot

from racer_local import locations
from tests.tui.scripted import ScriptedRacer

SIZE = (80, 24)
STARTED: list[Decoder] = []
"""Decoding threads to be ended with the test."""


class ChatApp(app.ChatApp):
    """The application, which lets go of its conversation when it ends, as `app.run` does."""

    def on_unmount(self) -> None:
        """Free the file for the next one."""
        self.controller.chat.session.close()


def decoder(load: Any, difference: Any = None) -> Decoder:
    """A decoding thread that ends with the test."""
    STARTED.append(Decoder(load, difference))
    return STARTED[-1]


def chat(
    load: Any,
    system: str | None = None,
    *,
    session: Session | None = None,
    open_model: Any = None,
    difference: Any = None,
    **options: Any,
) -> ChatApp:
    """The application over a scripted engine, or over a function that loads one."""
    engine = decoder((lambda _progress: load) if isinstance(load, ScriptedRacer) else load, difference)
    session = session or Session.begin(locations.sessions_dir(), "scripted", system or "")
    return ChatApp(engine, session=session, options=options, title="scripted", open_model=open_model)


def kept(name: str | None = None) -> Path:
    """The file of the session of this name, or of the only one."""
    (path,) = locations.sessions_dir().glob(f"{name or '*'}.jsonl")
    return path


async def wait_until(pilot: Pilot, condition: Callable[[], object], seconds: float = 8.0) -> None:
    """Let the application run until something is true."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            pytest.fail(f"it never came true; the screen is\n{screen(pilot)}")
        await pilot.pause(0.02)


def screen(pilot: Pilot) -> str:
    """All the text on the screen."""
    strips = pilot.app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips)


def prompt(pilot: Pilot) -> Prompt:
    """The input."""
    return pilot.app.screen_stack[0].query_one(Prompt)


def is_idle(pilot: Pilot) -> bool:
    """Whether nothing is in progress."""
    assert isinstance(pilot.app, ChatApp)
    return pilot.app.is_idle  # pyright: ignore[reportAttributeAccessIssue]


async def ready(pilot: Pilot) -> None:
    """Wait until a message can be sent."""
    await wait_until(pilot, lambda: is_idle(pilot))


async def send(pilot: Pilot, text: str) -> None:
    """Send a message or a command."""
    await ready(pilot)
    prompt(pilot).insert(text)
    await pilot.press("enter")


async def ask(pilot: Pilot, text: str) -> None:
    """Send and wait for the whole answer."""
    await send(pilot, text)
    await ready(pilot)


async def command(pilot: Pilot, text: str) -> None:
    """Give a command at any time and let it work."""
    prompt(pilot).insert(text)
    await pilot.press("enter")
    await pilot.pause()


def earlier(*turns: tuple[str, str], title: str = "") -> str:
    """An earlier conversation; returns its name."""
    session = Session.begin(locations.sessions_dir(), "m")
    for question, reply in turns:
        session.say(question)
        session.answer()
        session.part(reply)
        session.end("stop")
    if title:
        session.rename(title)
    session.close()
    return session.conversation.id
