"""What the terminal chat costs: decode speed with the interface against without, and how soon a key is answered.

The real model decodes, greedily and from an empty memory each time, so every run makes the same steps. What it says is
replaced by a made-up text of prose, tables and code, since that is what is dear to draw. The interface runs headless.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from textual import events

from racer_local.api import Racer
from racer_local.records import Step, Token
from racer_local.settings import SamplingParams

from .app import ChatApp
from .engine import Decoder
from .sessions import Session

PLAIN, CALM, PANELS = "no interface", "default view", "all panels"
MODES = (PLAIN, CALM, PANELS)
PROMPT = "Write a very long story about a lighthouse, its keeper and the sea."
SIZE = (120, 40)
KEY_EVERY_S = 0.5
POLL_S = 0.002
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
        key_ms: Time until a typed key stands in the input, median over all keys of all runs; None without interface.
        slowest_key_ms: The slowest of them.
    """

    mode: str
    tokens_per_second: tuple[float, ...]
    ratio: float
    key_ms: float | None
    slowest_key_ms: float | None


class _Dressed:
    """A Racer whose answers read like `PASSAGE`, and that outlives the interface."""

    def __init__(self, racer: Racer) -> None:
        self._racer = racer
        self.last: Step | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._racer, name)

    @property
    def drafts_wanted(self) -> bool:
        """See `Racer`."""
        return self._racer.drafts_wanted

    def close(self) -> None:
        """Nothing: the next run goes on with it."""

    def stream_chat(self, messages: Sequence[Any], **options: Any) -> Iterator[Step]:
        """Answer, in other words."""
        words = PASSAGE.split(" ")
        n = 0
        for step in self._racer.stream_chat(messages, **options):
            tokens = []
            for token in step.tokens:
                tokens.append(Token(token.id, words[n % len(words)] + " ", *token[2:]))
                n += 1
            text = "".join(token.text for token in tokens)
            self.last = Step(
                text, tuple(tokens), step.tree, step.path, step.n_committed, step.stats, step.finish_reason, step.note
            )
            yield self.last


def measure(racer: Racer, max_tokens: int, repeats: int, on_progress: Callable[[int, int], None]) -> list[Timing]:
    """Run all modes in turns.

    Args:
        racer: The loaded model.
        max_tokens: Length of each answer.
        repeats: Rounds; the first one warms up and does not count.
        on_progress: Called with runs done and to do.
    """
    speeds: dict[str, list[float]] = {mode: [] for mode in MODES}
    keys: dict[str, list[float]] = {mode: [] for mode in MODES}
    for number in range(repeats + 1):
        for place in range(len(MODES)):
            on_progress(number * len(MODES) + place, (repeats + 1) * len(MODES))
            mode = MODES[(number + place) % len(MODES)]
            racer.forget()
            speed, delays = _run(racer, mode, max_tokens if number else max_tokens // 8)
            if number:
                speeds[mode].append(speed)
                keys[mode] += delays
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


def _run(racer: Racer, mode: str, max_tokens: int) -> tuple[float, list[float]]:
    """One answer; returns tokens per second, and seconds until each key was answered."""
    dressed = _Dressed(racer)
    options: dict[str, Any] = {"sampling": SamplingParams(temperature=0), "max_tokens": max_tokens}
    delays: list[float] = []
    if mode == PLAIN:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:
            for step in dressed.stream_chat([{"role": "user", "content": PROMPT}], **options):
                nowhere.write(step.text)
                nowhere.flush()
    else:
        delays = asyncio.run(_chat(dressed, options, panels=mode == PANELS))
    assert dressed.last is not None
    return dressed.last.stats.predicted_per_second or 0.0, delays


async def _chat(dressed: _Dressed, options: dict[str, Any], *, panels: bool) -> list[float]:
    delays: list[float] = []
    answerer: Any = dressed  # a Racer but for its words
    decoder = Decoder(lambda _progress: answerer)
    with TemporaryDirectory() as folder:
        app = ChatApp(decoder, session=Session.begin(Path(folder), "bench"), options=options, title="bench")
        async with app.run_test(size=SIZE) as pilot:
            while not app.prompt.ready:
                await asyncio.sleep(POLL_S)
            if panels:
                await pilot.press("f2", "f3", "f4")
            app.prompt.put(PROMPT)
            await pilot.press("enter")
            while not app.prompt.ready:
                before = app.prompt.text
                started = time.perf_counter()
                app.post_message(events.Key("x", "x"))
                while app.prompt.text == before:
                    await asyncio.sleep(POLL_S)
                delays.append(time.perf_counter() - started)
                await asyncio.sleep(KEY_EVERY_S)
        await asyncio.to_thread(decoder.close)
    return delays
