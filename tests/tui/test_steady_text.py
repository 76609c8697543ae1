"""Text that changes all the time keeps its room."""

from typing import Any

from racer_local.tui.widgets.steady_text import SteadyText  # pyright: ignore[reportMissingImports]
from textual.app import App, ComposeResult
from textual.content import Content

from tests.tui.panel_stage import screen


class Shelf(App[None]):
    """A steady text."""

    def compose(self) -> ComposeResult:
        yield SteadyText()


async def test_a_steady_text_keeps_its_room_until_it_is_asked_to_give_it_back() -> None:
    async with Shelf().run_test(size=(20, 10)) as pilot:
        steady: Any = pilot.app.query_one(SteadyText)
        for text, shrink, height in (("a\nb\nc", False, 3), ("a", False, 3), ("a b " * 9, False, 3), ("a", True, 1)):
            steady.set(Content(text), shrink=shrink)
            await pilot.pause()
            assert steady.size.height == height
            assert text.split("\n")[0][:9] in screen(pilot)
