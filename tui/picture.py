"""Pictures of the chat over a recorded run: the same recording gives the same picture, and nobody's hand is in it."""

import asyncio
import math
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from racer_local.errors import RacerError, UsageError

from .app import ChatApp
from .replay import Replayed, WholeDecoder
from .session import Session
from .widgets.prompt import Prompt
from .widgets.status import StatusLine

TITLE = "racer-chat"
SIZE = (100, 34)
SMALLEST, LARGEST = (20, 8), (400, 200)
PATIENCE_S = 60.0
LOOK_EVERY_S = 0.1
STILL_LOOKS = 3
"""The screen is at rest once this many looks have found it as it was."""
FONTS = re.compile(r"@font-face\s*\{[^}]*\}\s*")


def draw(
    recording: Path,
    out: Path,
    *,
    size: tuple[int, int] = SIZE,
    keys: Sequence[str] = (),
    until: float | None = None,
    questions: int = 1,
) -> None:
    """Have the recorded questions asked in the chat, and draw its screen.

    Args:
        recording: File that `tui.recording` has written.
        out: Picture to write, an SVG that needs nothing from the network.
        size: Columns and lines of the terminal.
        keys: Keys that are pressed at the end, `f2` say.
        until: Steps of the last answer after which it is drawn, for a picture of an answer in the making; a number
            below 1 is that part of its steps. None draws the finished answer.
        questions: How many of the recorded questions are asked.

    Raises:
        UsageError: The file is no recording, or what is asked for is not to be had.
        RacerError: The picture cannot be written.
    """
    if out.suffix.lower() != ".svg":
        raise UsageError(f"a picture of the chat is an SVG; {out} should end with .svg")
    for n, low, high in zip(size, SMALLEST, LARGEST, strict=True):
        if not low <= n <= high:
            raise UsageError(f"a size of {size[0]}x{size[1]} is not between {SMALLEST} and {LARGEST}")
    replayed = Replayed(recording, speed=0)
    if not 1 <= questions <= len(replayed.answers):
        raise UsageError(f"{recording} has {len(replayed.answers)} questions; {questions} cannot be asked")
    steps = replayed.answers[questions - 1].steps
    n_steps = None if until is None else _n_steps(until, len(steps))
    with _in_colour(), TemporaryDirectory() as folder:
        svg = asyncio.run(_screenshot(replayed, size, keys, n_steps, questions, Path(folder)))
    try:
        out.write_text(FONTS.sub("", svg), "utf-8")
    except OSError as error:
        raise RacerError(f"cannot write {out}: {error.strerror or error}") from error


def _n_steps(until: float, of: int) -> int:
    n = math.ceil(until * of) if 0 < until < 1 else until
    if not 1 <= n < of:
        raise UsageError(f"the answer has {of} steps; a picture of it in the making needs fewer, and at least one")
    return int(n)


def parse_size(text: str) -> tuple[int, int]:
    """Columns and lines from a text such as 100x34."""
    match = re.fullmatch(r"([0-9]{1,4})x([0-9]{1,4})", text)
    if match is None:
        raise UsageError(f"a size is columns and lines, 100x34 say, not {text!r}")
    return int(match[1]), int(match[2])


@contextmanager
def _in_colour() -> Iterator[None]:
    """NO_COLOR is about terminals; a picture has its colours whatever terminal it is made from."""
    kept = os.environ.pop("NO_COLOR", None)
    try:
        yield
    finally:
        if kept is not None:
            os.environ["NO_COLOR"] = kept


async def _screenshot(
    replayed: Replayed, size: tuple[int, int], keys: Sequence[str], n_steps: int | None, questions: int, folder: Path
) -> str:
    """The screen as an SVG, when all is asked, answered and pressed; the conversation is kept in a folder."""
    decoder = WholeDecoder(replayed)
    session = Session.begin(folder, replayed.model.description)
    app = ChatApp(decoder, session=session, options={}, title=TITLE)
    app.animation_level = "none"
    try:
        async with app.run_test(size=size) as pilot:
            prompt, status = app.query_one(Prompt), app.query_one(StatusLine)
            prompt.cursor_blink = False
            await _wait(pilot, lambda: app.is_idle)
            for i, answer in enumerate(replayed.answers[:questions]):
                held = n_steps if i == questions - 1 else None
                replayed.hold = held
                prompt.insert(answer.typed)
                await pilot.press("enter")
                if held is None:
                    await _wait(pilot, lambda n=i + 1: app.is_idle and replayed.n_asked == n)
                else:
                    reached = answer.steps[held - 1].stats
                    await _wait(pilot, lambda reached=reached: status.status.stats == reached)
            for key in keys:
                await pilot.press(key)
            await _rest(pilot)
            if app.return_code is not None:
                raise UsageError("these keys leave the chat, so there is nothing to be seen")
            return app.export_screenshot(title=TITLE)
    finally:
        decoder.close()
        session.close()


async def _wait(pilot: Any, condition: Callable[[], bool]) -> None:
    """Let the chat run until something is true."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > end:
            raise RacerError(f"the chat has not come so far in {PATIENCE_S:.0f} s; is the machine very busy?")
        await pilot.pause(LOOK_EVERY_S)


async def _rest(pilot: Any) -> None:
    """Let the chat run until its screen does not change any more."""
    seen, n_same = "", 0

    def still() -> bool:
        nonlocal seen, n_same
        last, seen = seen, pilot.app.export_screenshot()
        n_same = n_same + 1 if seen == last else 0
        return n_same == STILL_LOOKS

    await _wait(pilot, still)
