"""Markdown that grows: blocks, their lines, and the widget that draws them."""

import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from racer_local.tui.blocks import MAX_DEPTH, split  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets.prose import Prose, draw  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets.streaming_lines import STEPS  # pyright: ignore[reportMissingImports]
from rich.console import Console
from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.geometry import Offset
from textual.selection import Selection

PARTS = (
    *("word", "and more", "1. one", "2. two", "12) x", "- a", "* b", "  - c", "   4. d", "> q", ">> r", "    code"),
    *("```py", "```", "~~~", "| a | b |", "|---|:-:|", "| c |", "# head", "## h2", "===", "---", "***", "[r]: there"),
    *("**bold**", "*em", "`code`", "[text](http://u.v)", "![img](u)", "<b>html</b>", "<!-- no -->", "~~old~~", "&amp;"),
    *("\\", "  ", "\t", "a  \nb", "http://x.y", "[x", "](y", "$", "日本語", "👩‍👩‍👧", "\u200b", "- [ ] do"),
)
TEXTS = st.lists(st.tuples(st.sampled_from(PARTS), st.sampled_from(("", " ", "\n", "\n", "\n\n"))), max_size=14).map(
    lambda parts: "".join(a + b for a, b in parts)
)


def console() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=80)


def drawn(text: str, width: int = 60) -> str:
    lines = [line.text.rstrip() for block in split(text) for line in draw(block, console(), width, "monokai")]
    return "\n".join(lines)


class TestSplit:
    @given(TEXTS)
    def test_blocks_are_the_text(self, text):
        assert "".join(split(text)) == text

    @given(TEXTS, st.data())
    @settings(max_examples=400)
    def test_what_is_settled_stays_as_it_is(self, text, data):
        lines = re.split("(?<=\n)", text)
        at = data.draw(st.integers(0, len(lines)))
        *settled, last = split("".join(lines[:at]))
        assert (settled + split(last + "".join(lines[at:])))[: len(settled)] == split(text)[: len(settled)]
        assert settled + split(last + "".join(lines[at:])) == split(text)

    def test_a_line_that_grows_can_join_the_block_before(self):
        assert split("1. a\n\n2") == ["1. a\n\n", "2"]
        assert split("1. a\n\n2. b") == ["1. a\n\n2. b"]


class TestDraw:
    @given(TEXTS, st.integers(1, 70))
    @settings(max_examples=300, deadline=None)
    def test_any_text_can_be_drawn_at_any_width(self, text, width):
        for block in split(text):
            for line in draw(block, console(), width, "monokai"):
                assert "\n" not in line.text

    @given(TEXTS)
    @settings(max_examples=300, deadline=None)
    def test_no_word_is_lost(self, text):
        shown = re.sub(r"\s+", "", drawn(text, 200))
        for word in re.findall(r"[a-z]{2,}|日本語", re.sub(r"```.*|~~~.*|&amp;", "", text)):
            assert word in shown

    def test_html_images_and_references_are_shown(self):
        shown = drawn("<div>[/z]</div>\n\n![pic](http://u.v/w)\n\n[ref]: there\n\nsee [ref] &lt;\n")
        for part in ("<div>[/z]</div>", "!pic (http://u.v/w)", "[ref]: there", "see [ref] <"):
            assert part in shown

    def test_lines_stay_lines(self):
        assert drawn("roses\nare\n\nred") == "roses\nare\nred"

    @pytest.mark.parametrize("coloured", [False, True])
    def test_code_is_whole_and_fills_its_ground(self, coloured):
        code = 'if x:\n\n\treturn f"{x} a long line that goes on and on 日本" + ' + "y" * 40 + "  # done"
        lines = draw(f"```python\n{code}\n```\n", console(), 30, "monokai", coloured=coloured)
        assert {line.cell_length for line in lines} == {30}
        grounds = {style.bgcolor if style else None for line in lines for text, style, _ in line if text}
        assert len(grounds) == 1
        assert None not in grounds
        assert "".join("".join(line.text for line in lines).split()) == "".join(code.split())
        assert [bool(line.text.strip()) for line in lines[-2:]] == [True, False]
        assert [line.text.rstrip() for line in lines[:4]] == ["", " if x:", "", '     return f"{x} a long line']

    def test_a_list_keeps_its_numbers(self):
        assert [line.strip() for line in drawn("7. a\n8. b").split("\n")] == ["7 a", "8 b"]

    @pytest.mark.parametrize("depth", [MAX_DEPTH // 2, MAX_DEPTH, 30, 300])
    def test_deep_nesting_loses_nothing(self, depth):
        for text in (">" * depth + " deep", "".join(f"{'  ' * i}- i{i}\n" for i in range(depth))):
            shown = drawn(text, 40)
            assert re.findall(r"[a-z]+\d*", text) == re.findall(r"[a-z]+\d*", shown)


class Stage(App[None]):
    """A text on a screen."""

    def __init__(self) -> None:
        super().__init__()
        self.prose = Prose()

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield self.prose


async def whole(text: str) -> str:
    """How a text looks that comes at once."""
    app = Stage()
    async with app.run_test(size=(60, 20)) as pilot:
        app.prose.append(text)
        app.prose.finish()
        await pilot.pause()
        return app.prose.text


LONG = """# Keeping a lamp

The lamp was *lit* at dusk, and the sea answered.

1. Trim the `wick`.

2. Write the log.

| hour | wind |
|------|------|
| 18   | west |

```python
def keep(lamp):
    return lamp
```

> said he
"""


class TestProse:
    @pytest.mark.parametrize("size", [1, 2, 7, 50])
    async def test_what_comes_in_pieces_looks_as_if_it_came_at_once(self, size):
        app = Stage()
        async with app.run_test(size=(60, 20)) as pilot:
            for i in range(0, len(LONG), size):
                app.prose.append(LONG[i : i + size])
                if i % 3 == 0:
                    await pilot.pause()
            app.prose.finish()
            await pilot.pause()
            assert app.prose.text == await whole(LONG)
            assert app.prose.size.height == app.prose.text.count("\n") + 1

    async def test_another_width(self):
        app = Stage()
        async with app.run_test(size=(60, 20)) as pilot:
            app.prose.append("word " * 30)
            await pilot.pause()
            at_60 = app.prose.text.count("\n")
            await pilot.resize_terminal(30, 20)
            await pilot.pause()
            assert app.prose.text.count("\n") > at_60
            assert app.prose.text.split() == ["word"] * 30

    async def test_hidden_it_waits(self):
        app = Stage()
        async with app.run_test(size=(60, 20)) as pilot:
            app.prose.append("one")
            app.prose.display = False
            app.prose.append(" two\n\nthree")
            app.prose.display = True
            await pilot.pause()
            assert app.prose.text == "one two\n\nthree"

    async def test_there_is_room_for_more_until_it_is_finished(self):
        app = Stage()
        async with app.run_test(size=(60, 20)) as pilot:
            app.prose.append("one")
            await pilot.pause()
            assert app.prose.size.height == 20 // STEPS
            app.prose.finish()
            await pilot.pause()
            assert app.prose.size.height == 1

    async def test_lines_that_fit_lay_nothing_out(self, monkeypatch: pytest.MonkeyPatch):
        app = Stage()
        async with app.run_test(size=(60, 40)) as pilot:
            app.prose.append("one\n")
            await pilot.pause()
            layouts: list[object] = []
            lay_out = app.screen._refresh_layout
            monkeypatch.setattr(app.screen, "_refresh_layout", lambda *a, **k: (layouts.append(a), lay_out(*a, **k)))
            for i in range(2, 40 // STEPS * 2):
                app.prose.append(f"{i}\n")
                await pilot.pause()
                assert f"{i}" in app.prose.text
            assert len(layouts) == 1

    async def test_nothing_is_selected_in_the_room_for_more(self):
        app = Stage()
        async with app.run_test(size=(60, 20)) as pilot:
            app.prose.append("one")
            await pilot.pause()
            assert app.prose.get_selection(Selection(Offset(0, 1), Offset(2, 3))) is None
            assert app.prose.get_selection(Selection(Offset(1, 0), Offset(2, 3))) == ("ne", "\n")

    async def test_selected_text(self):
        app = Stage()
        async with app.run_test(size=(60, 20)) as pilot:
            app.prose.append("*one* two\n\nthree 日本 four")
            app.prose.finish()
            await pilot.pause()
            selection = Selection(Offset(4, 0), Offset(8, 2))
            assert app.prose.get_selection(selection) == ("two\n\nthree 日本"[:14], "\n")
            app.screen.selections = {app.prose: selection}
            await pilot.pause()
            style = app.screen.get_component_rich_style("screen--selection")
            marked = "".join(s.text for s in app.prose.render_line(2) if s.style and s.style.bgcolor == style.bgcolor)
            assert marked == "three 日本"[:8]

    async def test_a_theme_changes_its_colours(self):
        app = Stage()
        async with app.run_test(size=(60, 20)) as pilot:
            app.prose.append("# one")
            await pilot.pause()
            before = list(app.prose.render_line(0))
            app.theme = "textual-light"
            await pilot.pause()
            assert [s.text for s in app.prose.render_line(0)] == [s.text for s in before]
            assert [s.style for s in app.prose.render_line(0)] != [s.style for s in before]
