"""Fixtures: the interface looks often and leaves no thread behind."""

from collections.abc import Iterator

import pytest
from racer_local.tui import app as tui_app  # pyright: ignore[reportMissingImports]

from tests.tui.chatting import STARTED


@pytest.fixture(autouse=True)
def quick_and_clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tests do not wait for a slow tick, and leave no decoding thread behind."""
    monkeypatch.setattr(tui_app, "TICK_S", 0.02)
    monkeypatch.setattr(tui_app, "UNSENT_EVERY_S", 0.05)
    yield
    while STARTED:
        assert STARTED.pop().close(timeout=5)
