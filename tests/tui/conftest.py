"""Fixtures: the interface looks often and leaves no thread behind; a recorded run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from racer_local.tui import app as tui_app  # pyright: ignore[reportMissingImports]

from racer_local.draft_tree import ROOT
from racer_local.tokens import Source
from tests.tui.chatting import STARTED
from tests.tui.made_up_runs import record
from tests.tui.scripted import ScriptedRacer, tree_of


@pytest.fixture(autouse=True)
def quick_and_clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tests do not wait for a slow tick, and leave no decoding thread behind."""
    monkeypatch.setattr(tui_app, "TICK_S", 0.02)
    monkeypatch.setattr(tui_app, "UNSENT_EVERY_S", 0.05)
    yield
    while STARTED:
        assert STARTED.pop().close(timeout=5)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with two questions, drafts and all sources."""
    both = Source.RETRIEVAL | Source.LOGITS
    racer = ScriptedRacer(
        [
            ("prefill", 512, 700),
            "Hello",
            [(" **bold", Source.RETRIEVAL), ("**", both), (" [/x]", Source.LOGITS)],
            [(" end", Source.RETRIEVAL), (".", Source.MODEL)],
        ],
        ["Second", " answer"],
        pieces={0: b" x[/b]", 1: "é".encode()[:1], 2: b"\n"},
    )
    racer.tree = tree_of((0, ROOT, Source.LOGITS, 0), (1, ROOT, Source.RETRIEVAL, 4), (2, 1, both, 5))
    racer.tree.p[1] = 0.5
    racer.path = (1, 2)
    racer.notes.append("no chat template in the file")
    return record(tmp_path / "run.jsonl", racer, "first [question]", "/second")
