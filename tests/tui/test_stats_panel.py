"""The statistics panel: its numbers, its figures, and when it draws."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from racer_local.tui.widgets.panel import PanelScroll  # pyright: ignore[reportMissingImports]
from racer_local.tui.widgets.stats import (  # pyright: ignore[reportMissingImports]
    BAR,
    FILLS,
    LEVELS,
    MAX_ROWS,
    Sums,
    figures,
    histogram_rows,
    share_by_depth,
    shared_out,
)
from racer_local.tui.widgets.steady_text import SteadyText  # pyright: ignore[reportMissingImports]
from textual.widgets import Static

from racer_local.answers import Step
from racer_local.draft_tree import DraftTree
from racer_local.settings import MAX_BUDGET
from racer_local.stats import GenerationStats
from racer_local.tokens import Source
from tests.tui.panel_stage import DRAFTS, QUICK, SIZES, Bench, answer, drawn, screen, styles_of, summed
from tests.tui.scripted import tree_of


class TestNumbers:
    @QUICK
    @given(DRAFTS)
    def test_share_by_depth_is_what_counting_each_draft_gives(self, drafts: list[tuple[int, int]]):
        deepest, reached = [0] * MAX_BUDGET, [0] * MAX_BUDGET
        for depth, accepted in drafts:
            deepest[depth] += 1
            reached[accepted] += 1
        slow = []
        for depth in range(1, max((d for d, _ in drafts), default=0) + 1):
            outcomes = [accepted >= depth for d, accepted in drafts if d >= depth]
            slow.append(sum(outcomes) / len(outcomes))
        assert share_by_depth(deepest, reached) == slow

    @QUICK
    @given(st.lists(st.integers(0, MAX_BUDGET - 1)))
    def test_histogram_rows_count_every_draft_once(self, accepted: list[int]):
        rows = histogram_rows([accepted.count(i) for i in range(MAX_BUDGET)])
        assert sum(n for _, n in rows) == len(accepted)
        for label, n in rows:
            if label.endswith("+"):
                assert n == sum(a >= MAX_ROWS for a in accepted) > 0
                assert label == f"{MAX_ROWS}+"
            else:
                assert n == accepted.count(int(label))
        labels = [str(i) for i in range(min(max(accepted, default=-1) + 1, MAX_ROWS))]
        assert [label for label, _ in rows if "+" not in label] == labels

    @QUICK
    @given(st.lists(st.integers(0, 10_000), min_size=1, max_size=5), st.integers(0, 200))
    def test_cells_are_shared_out_in_proportion(self, counts: list[int], cells: int):
        out = shared_out(counts, cells)
        total = sum(counts)
        assert sum(out) == (cells if total else 0)
        for n, has in zip(counts, out, strict=True):
            if n == 0:
                assert has == 0
            elif cells >= len(counts):
                assert has >= 1
                assert n * cells / total - len(counts) < has < n * cells / total + 1.0001

    def test_a_few_steps_by_hand(self):
        two, one = (tree_of(*((i, i - 1, Source.RETRIEVAL, 3) for i in range(n))) for n in (2, 1))
        stats = GenerationStats()
        steps = [Step("", (), tree, path, 1, stats) for tree, path in ((two, (0, 1)), (two, ()), (one, (0,)))]
        steps.append(Step("", (), DraftTree.empty(), (), 1, stats, note="the last"))
        sums = summed(steps)
        assert share_by_depth(sums.deepest, sums.reached) == [2 / 3, 1 / 2]
        assert sums.note == "the last"
        assert sums.stats is stats


class TestHeadline:
    def test_what_the_comparison_rests_on(self):
        stats = GenerationStats(predicted_n=240, predicted_s=2.314, steps=100, weighed_s=2.314, plain_s=2.8)
        text = figures(Sums(stats), 200)
        assert text.plain.split("\n")[:2] == [
            "2.40 tokens/step  240 tokens in 100 steps",
            "1.21× plain decoding: 240 tokens in 2.31 s, "
            "plain decoding would have taken 2.80 s (from timed plain steps)",
        ]
        assert "$text-warning" not in styles_of(text, "1.21×")

    def test_a_part_of_the_time_is_not_said_to_be_all_of_it(self):
        stats = GenerationStats(predicted_n=240, predicted_s=2.6, steps=100, weighed_s=2.31, plain_s=2.8)
        line = figures(Sums(stats), 200).plain.split("\n")[1]
        assert line.startswith("1.21× plain decoding: 2.31 s of 2.60 s could be compared, ")
        assert "240" not in line

    def test_no_number_before_plain_steps_were_timed(self):
        lines = figures(summed(answer(5, plain_per_token=None)), 44).plain.split("\n")
        assert lines[1] == "— ×: too few plain steps timed yet"

    @pytest.mark.parametrize(("plain_s", "warned"), [(0.9, True), (0.994, True), (0.996, False), (1.3, False)])
    def test_slower_than_plain_is_a_warning(self, plain_s: float, warned: bool):
        stats = GenerationStats(predicted_n=9, predicted_s=1, steps=9, weighed_s=1, plain_s=plain_s)
        text = figures(Sums(stats), 80)
        assert ("$text-warning" in styles_of(text, "× plain")) == warned

    def test_a_note_stands_as_it_is(self):
        note = "drafting paused: it would make 0.91 of [plain] speed here[/x]"
        text = figures(summed(answer(4, note=note)), 80)
        assert text.plain.split("\n")[2] == note
        assert "$text-warning" in styles_of(text, note)

    def test_nothing_yet(self):
        assert figures(Sums(), 44).plain == "no step yet\n— ×: too few plain steps timed yet"


class TestFigures:
    @pytest.mark.parametrize("width", [24, 44, 78, 160])
    def test_lines_that_are_laid_out_fit(self, width: int):
        lines = figures(summed(answer(300, seed=3)), width).split("\n")
        bars = [line for line in lines if set(line.plain) & set("".join(FILLS.values()) + BAR + LEVELS)]
        assert len(bars) > MAX_ROWS
        assert all(line.cell_length <= width for line in bars), [line.plain for line in bars]

    def test_bar_is_as_wide_as_there_is_room_and_coloured_by_source(self):
        text = figures(summed(answer(60)), 44)
        bar = text.plain.split("\n")[3]
        assert len(bar) == 44
        assert [mark for mark, after in zip(bar, bar[1:] + " ", strict=True) if mark != after] == list(FILLS.values())
        colours = [min(styles_of(text, mark)) for mark in FILLS.values()]
        assert len(set(colours)) == len(FILLS)

    def test_histogram_in_full(self):
        stats = GenerationStats(drafts=13, steps=13)
        stats.accepted_hist[0], stats.accepted_hist[2], stats.accepted_hist[3] = 10, 2, 1
        rows = figures(Sums(stats), 45).plain.split("\n")[-4:]
        assert rows == [f"0 {BAR * 40} 10", "1 0", f"2 {BAR * 8} 2", f"3 {BAR * 4} 1"]

    def test_a_rare_number_still_has_a_bar(self):
        stats = GenerationStats(drafts=1001, steps=1001)
        stats.accepted_hist[0], stats.accepted_hist[1] = 1000, 1
        assert figures(Sums(stats), 44).plain.split("\n")[-1] == f"1 {BAR} 1"

    def test_depths_in_full(self):
        deep = tree_of(*((i, i - 1, Source.RETRIEVAL, 3) for i in range(3)))
        stats = GenerationStats(drafts=4, steps=4)
        steps = [Step("", (), deep, path, 1, stats) for path in ((0, 1, 2), (0, 1), (0, 1), ())]
        lines = figures(summed(steps), 44).plain.split("\n")
        assert lines[lines.index("accepted by depth") + 1] == "▆▆▃ 1: 75 % 2: 75 % 3: 25 %"

    def test_of_many_depths_the_first_are_shown(self):
        tree = tree_of(*((i, i - 1, Source.RETRIEVAL, 3) for i in range(MAX_BUDGET - 1)))
        steps = [Step("", (), tree, (0,), 1, GenerationStats(drafts=1, steps=1))]
        lines = figures(summed(steps), 44).plain.split("\n")
        assert lines[lines.index("accepted by depth") + 1] == f"█{'▁' * 20}… 1: 100 % 2: 0 %"

    def test_own_names_and_shares(self):
        stats = GenerationStats(
            predicted_n=30,
            predicted_s=2.0,
            steps=10,
            drafts=8,
            draft_n=50,
            draft_n_accepted=20,
            propose_s=0.02,
            commit_s=0.006,
        )
        assert (
            "50 nodes drafted, 20 accepted · mean_acceptance_length 3.50 · own work 1.3 % of the time"
            in figures(Sums(stats), 100).plain
        )

    def test_length_of_the_answer_changes_nothing_in_size(self):
        short, long = summed(answer(300)), summed(answer(3000))
        for name in ("deepest", "reached"):
            assert len(getattr(short, name)) == len(getattr(long, name)) == MAX_BUDGET
        assert len(figures(long, 44).split("\n")) <= MAX_ROWS + 20


class TestStatsPanel:
    @pytest.mark.parametrize("size", SIZES)
    async def test_numbers_add_up(self, size: tuple[int, int]):
        steps = answer(90, seed=1)
        stats = steps[-1].stats
        app = Bench()
        async with app.run_test(size=size) as pilot:
            app.stats_panel.toggle()
            app.stats_panel.begin()
            for at in range(0, len(steps), 7):
                app.stats_panel.add(steps[at : at + 7])
            await pilot.pause()
            lines = drawn(app.stats_panel)
            text = " ".join(lines)
            by_source = {label: int(n) for label, n in re.findall(r"(model|retrieval|logits|both) (\d+)", text)}
            assert by_source == stats.by_source
            total = re.search(r"(\d+) tokens(?!/| in)", text)
            assert total is not None
            assert int(total[1]) == sum(by_source.values()) == stats.predicted_n
            assert f"{stats.predicted_n} tokens in {stats.steps} steps" in text
            rows = [re.fullmatch(rf" *(\d+\+?) (?:{BAR}+ )?(\d+)", line) for line in lines]
            hist = [(row[1], int(row[2])) for row in rows if row]
            assert sum(n for _, n in hist) == stats.drafts
            assert hist[-1][0] == f"{MAX_ROWS}+"
            assert sum(int(label) * n for label, n in hist[:-1]) <= stats.draft_n_accepted
            assert f"{stats.draft_n} nodes drafted, {stats.draft_n_accepted} accepted" in text
            assert lines[0] in screen(pilot)

    @pytest.mark.parametrize("size", [*SIZES, (20, 8)])
    async def test_nothing_is_wider_than_the_screen(self, size: tuple[int, int]):
        app = Bench()
        async with app.run_test(size=size) as pilot:
            app.stats_panel.toggle()
            app.stats_panel.add(answer(90, seed=1, note="drafting paused: it would make 0.91 of plain speed here"))
            await pilot.pause()
            region, inner = app.stats_panel.region, app.stats_panel.query_one(Static)
            assert region.right <= size[0]
            assert region.bottom <= size[1]
            assert region.width == (48 if size[0] >= 110 else size[0])
            assert inner.region.right <= region.right - 2
            assert app.stats_panel.query_one(PanelScroll).max_scroll_x == 0
            words = [
                word
                for line in figures(app.stats_panel._sums, inner.size.width).plain.split("\n")
                for word in line.split()
            ]
            if size[0] > 20:
                assert [word for line in drawn(app.stats_panel) for word in line.split()] == words

    async def test_hidden_panel_draws_nothing_and_catches_up(self):
        steps = answer(30)
        app = Bench()
        async with app.run_test(size=(130, 40)) as pilot:
            assert not app.stats_panel.display
            app.stats_panel.begin()
            app.stats_panel.add(steps[:10])
            await pilot.pause()
            assert str(app.stats_panel.query_one(Static).content) == ""
            app.stats_panel.toggle()
            await pilot.pause()
            assert f"{steps[9].stats.predicted_n} tokens in 10 steps" in screen(pilot)
            app.stats_panel.toggle()
            before = app.stats_panel.query_one(Static).content
            app.stats_panel.add(steps[10:])
            await pilot.pause()
            assert app.stats_panel.query_one(Static).content is before
            assert "steps" not in screen(pilot)
            app.stats_panel.toggle()
            await pilot.pause()
            assert f"{steps[-1].stats.predicted_n} tokens in 30 steps" in screen(pilot)

    async def test_many_steps_are_drawn_once(self, monkeypatch: pytest.MonkeyPatch):
        drawings: list[object] = []
        app = Bench()
        async with app.run_test(size=(130, 40)) as pilot:
            app.stats_panel.toggle()
            await pilot.pause()
            monkeypatch.setattr(
                app.stats_panel.query_one(SteadyText), "set", lambda content, **_: drawings.append(content)
            )
            app.stats_panel.add(answer(500))
            assert len(drawings) == 1

    async def test_a_new_answer_begins_at_nothing(self):
        app = Bench()
        async with app.run_test(size=(130, 40)) as pilot:
            app.stats_panel.toggle()
            app.stats_panel.add(answer(30))
            app.stats_panel.begin()
            await pilot.pause()
            assert "no step yet" in screen(pilot)
            app.stats_panel.add(answer(3, seed=5))
            await pilot.pause()
            assert "in 3 steps" in screen(pilot)

    async def test_before_it_is_mounted_it_counts(self):
        app = Bench()
        app.stats_panel.begin()
        app.stats_panel.add(answer(3))
        async with app.run_test(size=(80, 24)) as pilot:
            app.stats_panel.toggle()
            await pilot.pause()
            assert "in 3 steps" in screen(pilot)

    async def test_another_width_is_filled(self):
        app = Bench()
        async with app.run_test(size=(80, 24)) as pilot:
            app.stats_panel.toggle()
            app.stats_panel.add(answer(30))
            await pilot.pause()
            for width in (60, 130, 90):
                await pilot.resize_terminal(width, 24)
                await pilot.pause()
                bar = next(line for line in drawn(app.stats_panel) if line.startswith(FILLS["model"] * 2))
                assert len(bar) == app.stats_panel.query_one(Static).size.width == (44 if width == 130 else width - 3)

    async def test_brackets_in_a_note_survive(self):
        app = Bench()
        async with app.run_test(size=(80, 24)) as pilot:
            app.stats_panel.toggle()
            app.stats_panel.add(answer(3, note="paused: a[0] = b[/x] [bold]c"))
            await pilot.pause()
            assert "paused: a[0] = b[/x] [bold]c" in screen(pilot)
