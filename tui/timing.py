"""What the terminal chat costs: decode speed with the interface against without, and how soon a key is answered.

The real model decodes, greedily and from an empty memory each time, so every run makes the same steps. What it says is
replaced by a made-up text of prose, tables and code, since that is what is dear to draw. The interface runs headless.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from textual import events

from racer_local.answers import Step
from racer_local.api import Racer
from racer_local.errors import RacerError
from racer_local.settings import SamplingParams
from racer_local.tokens import Token

from .app import ChatApp
from .decoder import Decoder
from .session import Session

PLAIN, CALM, PANELS = "no interface", "default view", "all panels"
MODES = (PLAIN, CALM, PANELS)
PROMPT = "Write a very long story about a lighthouse, its keeper and the sea."
SIZE = (120, 40)
KEY_EVERY_S = 0.3
POLL_S = 0.002
N_CTX = 4096
PASSAGE = """The lamp was lit at dusk, and the *sea* answered with a sound like **breathing**. `keep()` returned none.

| hour | wind | light |
|------|------|-------|
| 18   | west | on    |
| 22   | calm | on    |

```python
def keep(lamp, hours):
    for hour in range(hours):
        lamp.turn(hour * 15)
    return lamp
```

1. Trim the wick.
2. Write the log.

"""


@dataclass(frozen=True, slots=True)
class Timing:
    """Runs of one mode.

    Attributes:
        mode: With what on the screen.
        tokens_per_second: Of each run.
        ratio: Median of the ratios to the run without interface of the same round.
        key_ms: Time until a typed key is drawn, median over the keys of one long answer; None without interface.
        slowest_key_ms: The slowest of them.
    """

    mode: str
    tokens_per_second: tuple[float, ...]
    ratio: float
    key_ms: float | None
    slowest_key_ms: float | None


class _Dressed(Racer):
    """A Racer whose answers read like `PASSAGE`.

    Attributes:
        speed: Tokens per second of the last answer.
    """

    def __init__(self, model: Path) -> None:
        super().__init__(model, remember=False, n_ctx=N_CTX)
        self.speed = 0.0

    def stream(self, prompt: Any, **options: Any) -> Generator[Step]:
        """Answer, in other words."""
        words = PASSAGE.split(" ")
        n = 0
        for step in super().stream(prompt, **options):
            tokens = []
            for token in step.tokens:
                tokens.append(Token(token.id, words[n % len(words)] + " ", *token[2:]))
                n += 1
            text = "".join(token.text for token in tokens)
            self.speed = step.stats.predicted_per_second or 0.0
            yield replace(step, text=text, tokens=tuple(tokens))


class _Watched(ChatApp):
    """The chat.

    Attributes:
        drawn: What stood in the input when the screen was last drawn.
    """

    drawn = ""

    def post_display_hook(self) -> None:
        """Textual has drawn."""
        self.drawn = self.views.prompt.text


def measure(
    model: Path, max_tokens: int, key_tokens: int, repeats: int, on_progress: Callable[[int, int], None]
) -> list[Timing]:
    """Run all modes in turns, then each with an interface once more while keys are typed.

    Each run is a process of its own, as in real life: llama.cpp keeps threads for every thread that decodes.

    Args:
        model: The model file.
        max_tokens: Length of each answer.
        key_tokens: Length of the answer during which keys are typed.
        repeats: Rounds.
        on_progress: Called with runs done and to do.
    """
    speeds: dict[str, list[float]] = {mode: [] for mode in MODES}
    keys: dict[str, list[float]] = {mode: [] for mode in MODES}
    for number in range(repeats):
        for place in range(len(MODES)):
            on_progress(number * len(MODES) + place, repeats * len(MODES) + 2)
            mode = MODES[(number + place) % len(MODES)]
            speeds[mode].append(_in_child(model, mode, max_tokens, typing=False)[0])
    for mode in (CALM, PANELS):
        on_progress(repeats * len(MODES), repeats * len(MODES) + 2)
        keys[mode] = _in_child(model, mode, key_tokens, typing=True)[1]
    on_progress(1, 1)
    return [
        Timing(
            mode,
            tuple(round(speed, 2) for speed in speeds[mode]),
            median(a / b for a, b in zip(speeds[mode], speeds[PLAIN], strict=True)),
            median(keys[mode]) * 1e3 if keys[mode] else None,
            max(keys[mode]) * 1e3 if keys[mode] else None,
        )
        for mode in MODES
    ]


def _in_child(model: Path, mode: str, max_tokens: int, *, typing: bool) -> tuple[float, list[float]]:
    """One run in a process of its own: tokens per second, and seconds until each key was answered."""
    command = [sys.executable, "-m", __name__, str(model), mode, str(max_tokens), str(int(typing))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RacerError(f"a run with {mode} failed: {done.stderr.strip().splitlines()[-1:] or 'no reason given'}")
    speed, delays = json.loads(done.stdout)
    return speed, delays


def table(timings: Sequence[Timing]) -> str:
    """For people."""
    lines = [f"{'':14} {'tok/s (median)':>15} {'of no interface':>16} {'key, median':>12} {'slowest':>9}"]
    for t in timings:
        delays = "" if t.key_ms is None else f" {t.key_ms:9.0f} ms {t.slowest_key_ms:6.0f} ms"
        lines.append(f"{t.mode:14} {median(t.tokens_per_second):15.1f} {t.ratio:16.3f}{delays}")
    return "\n".join(lines)


def as_dicts(timings: Sequence[Timing]) -> list[dict[str, Any]]:
    """For JSON."""
    return [asdict(t) for t in timings]


def _run(model: Path, mode: str, max_tokens: int, *, typing: bool) -> tuple[float, list[float]]:
    options: dict[str, Any] = {"sampling": SamplingParams(temperature=0), "max_tokens": max_tokens}
    if mode != PLAIN:
        return asyncio.run(_chat(model, options, panels=mode == PANELS, typing=typing))
    with _Dressed(model) as dressed, open(os.devnull, "w", encoding="utf-8") as nowhere:
        for step in dressed.stream_chat([{"role": "user", "content": PROMPT}], **options):
            nowhere.write(step.text)
            nowhere.flush()
        return dressed.speed, []


async def _chat(model: Path, options: dict[str, Any], *, panels: bool, typing: bool) -> tuple[float, list[float]]:
    delays: list[float] = []
    opened: list[Any] = []

    def load(_progress: object) -> Any:
        opened.append(_Dressed(model))
        return opened[0]

    decoder = Decoder(load)
    with TemporaryDirectory() as folder:
        app = _Watched(decoder, session=Session.begin(Path(folder), "bench"), options=options, title="bench")
        async with app.run_test(size=SIZE) as pilot:
            while not app.is_idle:
                await asyncio.sleep(POLL_S)
            if panels:
                await pilot.press("f2", "f3", "f4")
            app.views.prompt.put(PROMPT)
            await pilot.press("enter")
            while not app.is_idle:
                if typing:
                    delays.append(await _answered(app))
                await asyncio.sleep(KEY_EVERY_S)
        await asyncio.to_thread(decoder.close)
    return opened[0].speed, delays


async def _answered(app: _Watched) -> float:
    """Type a letter; seconds until it is drawn."""
    before = app.views.prompt.text
    started = time.perf_counter()
    app.post_message(events.Key("x", "x"))
    while app.drawn == before:
        await asyncio.sleep(POLL_S)
    return time.perf_counter() - started


if __name__ == "__main__":
    print(json.dumps(_run(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), typing=sys.argv[4] == "1")))
