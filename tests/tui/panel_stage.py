"""A body with both panels, made-up answers to fill them, and what is drawn of them."""

from collections.abc import Sequence

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from racer_local.tui.widgets.stats import (  # pyright: ignore[reportMissingImports]
    StatsPanel,
    Sums,
)
from racer_local.tui.widgets.tree import StepTree  # pyright: ignore[reportMissingImports]
from textual.app import App, ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.pilot import Pilot
from textual.widgets import Static

from racer_local.answers import Step
from racer_local.settings import MAX_BUDGET
from racer_local.stats import GenerationStats
from racer_local.tokens import Source, Token
from tests.tui.scripted import tree_of

SIZES = [(60, 15), (80, 24), (130, 40)]
SOURCES = [Source.MODEL, Source.RETRIEVAL, Source.LOGITS, Source.RETRIEVAL | Source.LOGITS]
QUICK = settings(derandomize=True, deadline=None)


class Bench(App[None]):
    """A body with both panels, laid out as in the chat."""

    CSS = """
    #body { height: 1fr; layout: vertical; }
    Screen.-wide #body { layout: horizontal; }
    #transcript { width: 1fr; height: 1fr; }
    """
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]  # noqa: RUF012 (declared in the base)

    def __init__(self) -> None:
        super().__init__()
        self.stats_panel = StatsPanel()
        self.tree_panel = StepTree()

    def compose(self) -> ComposeResult:
        with Container(id="body"):
            yield Static(id="transcript")
            yield self.tree_panel
            yield self.stats_panel


def screen(pilot: Pilot) -> str:
    """All the text on the screen."""
    return "\n".join(strip.text.rstrip() for strip in pilot.app.screen._compositor.render_strips())


def drawn(panel: StatsPanel) -> list[str]:
    """The panel's lines as they are drawn in its width, those that are scrolled out of sight too."""
    text = panel.query_one(Static)
    return [text.render_line(y).text.rstrip() for y in range(text.size.height)]


def answer(
    n_steps: int, seed: int = 0, plain_per_token: float | None = 0.012, note: str = "", most: int = 20
) -> list[Step]:
    """Steps of an answer as a loop counts them: every third without a draft, drafts that are partly accepted."""
    rng = np.random.default_rng(seed)
    stats = GenerationStats(prompt_tokens=10)
    steps: list[Step] = []
    for i in range(n_steps):
        depth = 0 if i % 3 == 2 else int(rng.integers(1, most))
        drafted = [SOURCES[int(rng.integers(1, len(SOURCES)))] for _ in range(depth)]
        tree = tree_of(*((d, d - 1, source, 3) for d, source in enumerate(drafted)))
        path = tuple(range(int(rng.integers(0, depth + 1)))) if depth else ()
        stats.steps += 1
        stats.propose_s += 0.0002
        stats.decode_s += 0.0195
        stats.verify_s += 0.0002
        stats.commit_s += 0.0001
        stats.predicted_s += 0.02
        tokens = [Token(d, "x", drafted[d], 3, d + 1, stats.steps) for d in path]
        tokens.append(Token(0, "y", Source.MODEL, 0, 0, stats.steps))
        if depth:
            stats.drafts += 1
            stats.draft_n += depth
            stats.accepted_hist[len(path)] += 1
        if plain_per_token is not None:
            stats.weighed_s += 0.02
            stats.plain_s += plain_per_token * len(tokens)
        stats.count(tokens)
        text = "".join(t.text for t in tokens)
        steps.append(Step(text, tuple(tokens), tree, path, len(tokens), stats.snapshot(), note=note))
    return steps


def summed(steps: Sequence[Step]) -> Sums:
    sums = Sums()
    sums.take(steps)
    return sums


def styles_of(content: Content, word: str) -> set[str]:
    """Styles of the part of a content where a word begins."""
    at = content.plain.index(word)
    return {part for span in content.spans if span.start <= at < span.end for part in str(span.style).split()}


DRAFTS = st.lists(st.integers(1, MAX_BUDGET - 1).flatmap(lambda d: st.tuples(st.just(d), st.integers(0, d))))
