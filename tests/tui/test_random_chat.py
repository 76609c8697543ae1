"""A short run of `random_chat`; its command makes longer ones."""

import pytest
from racer_local.tui import app as tui_app  # pyright: ignore[reportMissingImports]

from tests.tui import random_chat


async def test_no_order_of_keys_and_commands_breaks_the_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tui_app, "TICK_S", 0.02)
    await random_chat.run(first=0, count=40, seed=1)
