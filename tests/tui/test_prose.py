"""Markdown that grows: blocks, their lines, and the widget that draws them."""

import io
import re
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from racer_local.tui.blocks import MAX_DEPTH, GrowingBlocks, is_too_deep, parse, split  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets.prose import MARKS, ParsedMarkdown, Prose, draw, loses  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets.streaming_lines import STEPS  # pyright: ignore[reportMissingImports]
from rich.console import Console
from rich.segment import Segment
from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.geometry import Offset
from textual.selection import SELECT_ALL, Selection
from textual.strip import Strip

from racer_local.terminal_text import readable

PARTS = (
    *("word", "and more", "1. one", "2. two", "12) x", "- a", "* b", "  - c", "   4. d", "> q", ">> r", "    code"),
    *("```py", "```", "~~~", "| a | b |", "|---|:-:|", "| c |", "# head", "## h2", "===", "---", "***", "[r]: there"),
    *("**bold**", "*em", "`code`", "[text](http://u.v)", "![img](u)", "<b>html</b>", "<!-- no -->", "~~old~~", "&amp;"),
    *(
        r"D:\proj\data\_scratch",
        r"\(x_1\)",
        r"\[ a \]",
        r"\*no\*",
        "&lt;br&gt;",
        "&#42;",
        "<http://u.v?a&copy=b>",
        "<m@n.op>",
    ),
    *(
        '[t](</u v> "a &amp; b")',
        r"[a](b\)c)",
        "[^1]",
        "[^1]: note",
        r"| a \| b | c |",
        "| a | b | c |",
        "- [x] done",
        "007. z",
    ),
    *(
        "```js title=one",
        "``a ` b``",
        "a\\\n",
        "* * *",
        "<div>\nx\n</div>",
        "\u2400",
        "é",
        "ｗ",
        "\U0001f600",
        "\u0301",
    ),
    *("\\", "  ", "\t", "a  \nb", "http://x.y", "[x", "](y", "$", "日本語", "👩‍👩‍👧", "\u200b", "- [ ] do"),
)
TEXTS = st.lists(st.tuples(st.sampled_from(PARTS), st.sampled_from(("", " ", "\n", "\n", "\n\n"))), max_size=14).map(
    lambda parts: "".join(a + b for a, b in parts)
)

ANY_TEXTS = st.lists(
    st.one_of(TEXTS, st.text(max_size=20), st.text("\\`*_~#>|-[]()<>&;!: \n1.a日", max_size=30)), max_size=4
).map("".join)


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

    @given(ANY_TEXTS, st.data())
    @settings(max_examples=300)
    def test_pieces_of_any_size_give_the_blocks_of_the_whole(self, text, data):
        text = readable(text)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
        blocks, settled, rest = GrowingBlocks(), [], []
        for a, b in pairwise([0, *cuts, len(text)]):
            new, rest = blocks.append(text[a:b])
            settled += new
        assert settled + rest == split(text)

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
        for part in ("<div>[/z]</div>", "![pic](http://u.v/w)", "[ref]: there", "see [ref] &lt;"):
            assert part in shown

    @pytest.mark.parametrize(
        "text",
        [
            r"D:\proj\data\_scratch",
            r"\(x_1\) and \[y\]",
            r"\*no em\* \_nor\_ here \`nor code\`",
            "&lt;br&gt; &amp; &#42; &copy; &nbsp;",
            "<http://u.v/?a=1&copy=2> <m@n.op>",
            'see [a](http://u.v/日本_x?b=%20&amp;c "a \\" title"), ![i](u)',
            r"[a\]b](c\)d)",
            "[^1] and [^2]: note",
            "a line that ends\\\nin a backslash\\",
            "<div class='x'>\n<!-- no -->\n</div>",
            "a ~ b ~~c ** d __ e ` f [ g ] ( h | i > j # k",
            "\u2400 \u241b[31m 日本 👩‍👩‍👧 é e\u0301",
            r"\# none" "\n" r"1\. none" "\n" r"\- none",
        ],
    )
    def test_what_is_no_mark_stands_as_written(self, text):
        assert drawn(text, 200) == text

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("a **b** *c* ~~d~~ `e\\*` **f\\*g**", "a b c d e\\* f\\*g"),
            ("[**b** `c`](u)", "[b c](u)"),
            (r"# a \# b #", r"a \# b"),
            ("```c\\+\\+ &amp; x\n&lt;\\*\n```", " c\\+\\+ &amp; x\n &lt;\\*"),
            ("7) a\n9) b\n0010) c", "    7) a\n    9) b\n 0010) c"),
            ("1. a\n1. b", " 1. a\n 1. b"),
            ("- [ ] a\n- [x] b", " • [ ] a\n • [x] b"),
            ("> a\n> - b", "▌ a\n▌  • b"),
        ],
    )
    def test_only_marks_vanish(self, text, shown):
        assert drawn(text).rstrip() == shown

    def test_a_pipe_in_a_cell(self):
        shown = drawn("| a | b |\n|---|---|\n| `c \\| d` | e \\| f \\\\ |\n")
        assert r"c \| d" in shown
        assert r"e \| f \\" in shown

    def test_cells_that_the_head_has_no_room_for(self):
        assert "third" in drawn("| a | b |\n|---|---|\n| c | d | third |\n")

    @pytest.mark.parametrize("width", [8, 12, 20])
    def test_a_narrow_table_is_whole(self, width):
        text = "| incomprehensible | b | c | d |\n|---|:-:|--:|---|\n| supercalifragilistic | 日本 | e | f |\n"
        assert not loses(text, [Strip([Segment(drawn(text, width))])])

    @given(ANY_TEXTS, st.integers(8, 90))
    @settings(max_examples=500, deadline=None)
    def test_every_visible_character_is_shown(self, text, width):
        shown = Counter(drawn(readable(text), width))
        needed = Counter(c for c in readable(text) if not c.isspace() and c not in MARKS)
        assert not needed - shown

    @given(st.lists(st.sampled_from(("word", "\\", "\\*", "\\_", "&amp;", "[a](b)", "<http://c.d>", "$", "(", "]"))))
    @settings(max_examples=300, deadline=None)
    def test_a_line_without_marks_is_shown_as_written(self, parts):
        text = " ".join(["text", *parts])
        assert drawn(text, 1000) == text

    @given(ANY_TEXTS)
    @settings(max_examples=200, deadline=None)
    def test_little_has_to_be_shown_as_source(self, text):
        """What is drawn as Markdown loses nothing by itself, but for cells without a column."""
        text = re.sub(r"\|", "/", readable(text))
        for block in split(text):
            tokens = parse(block)
            if not is_too_deep(tokens):
                options = console().options.update(width=200, height=None)
                lines = console().render_lines(ParsedMarkdown(tokens, "monokai"), options, pad=False)
                assert not loses(block, [Strip(line) for line in lines])

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
        assert "".join("".join(line.text for line in lines).split()) == "python" + "".join(code.split())
        assert [bool(line.text.strip()) for line in lines[-2:]] == [True, False]
        assert [line.text.rstrip() for line in lines[:4]] == [" python", " if x:", "", '     return f"{x} a long line']

    def test_a_list_keeps_its_numbers(self):
        assert [line.strip() for line in drawn("7. a\n8. b").split("\n")] == ["7. a", "8. b"]

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

    @pytest.mark.parametrize(
        "text", [r"D:\proj\data\_scratch", r"\(x_1\) \[", "&lt;br&gt;", "[a](http://u.v)", "<http://u.v>"]
    )
    async def test_what_is_copied_is_what_was_written(self, text):
        app = Stage()
        async with app.run_test(size=(60, 20)) as pilot:
            app.prose.append(text)
            app.prose.finish()
            await pilot.pause()
            assert app.prose.get_selection(SELECT_ALL) == (text, "\n")

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

    async def test_taken_from_the_screen_it_may_go_on(self):
        app = Stage()
        async with app.run_test(size=(60, 20)) as pilot:
            prose = app.prose
            prose.append("one **b**")
            await pilot.pause()
            await prose.remove()
            prose.finish()
