"""Why a draft was made, and the panel that shows its tree."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from racer_local.tui.draft_reason import (  # pyright: ignore[reportMissingImports]
    NOTHING_PAYS,
    draft_reason,
    tokens_above,
    tokens_back,
)

from racer_local.draft_tree import ROOT, DraftMode, DraftTree
from racer_local.drafting.cost import StepCost
from racer_local.drafting.policies import DraftConfig, make_drafter, make_memory
from racer_local.terminal_text import token_text
from racer_local.tokens import Source
from tests.tui.panel_stage import QUICK, SIZES, Bench, screen
from tests.tui.scripted import tree_of


def piece(token: int) -> bytes:
    return b" t%d[/b]" % token


def slow_tokens_back(text: Sequence[int], match: int, token: int) -> int | None:
    """Try one place after the other, from the end."""
    for back in range(1, len(text)):
        start = len(text) - match - back
        if start >= 0 and [*text[start : start + match + 1]] == [*text[len(text) - match :], token]:
            return back
    return None


class TestWhy:
    @QUICK
    @given(st.lists(st.integers(0, 2), min_size=1, max_size=40), st.integers(1, 6), st.integers(0, 2))
    def test_most_recent_place_is_found(self, text: list[int], match: int, token: int):
        found = tokens_back(np.array(text, np.int32), match, token)
        assert found == slow_tokens_back(text, match, token)

    @pytest.mark.parametrize("match", [0, 3, 4])
    def test_no_room_for_a_match(self, match: int):
        assert tokens_back(np.array([1, 1, 1], np.int32), match, 1) is None

    TEXT = (1, 2, 3, 4, 5, 1, 2, 3, 9, 1, 2, 3)

    def test_copied_from_the_conversation(self):
        tree = tree_of((4, ROOT, Source.RETRIEVAL, 3), (5, 0, Source.RETRIEVAL, 3))
        assert (
            draft_reason(self.TEXT, tree, (0,), piece) == "the last 3 tokens stood 9 tokens back in this conversation"
        )
        assert (
            draft_reason(list(self.TEXT), tree, (), piece)
            == "the last 3 tokens stood 9 tokens back in this conversation"
        )
        ids = np.array(self.TEXT, np.int32)
        assert draft_reason(ids, tree, (0, 1), piece) == "the last 3 tokens stood 9 tokens back in this conversation"

    def test_one_token(self):
        tree = tree_of((3, ROOT, Source.RETRIEVAL, 1))
        assert draft_reason((3, 3), tree, (), piece) == "the last token stood 1 token back in this conversation"
        assert draft_reason((3,), tree, (), piece) == "the last token was seen before in this chat"

    def test_accepted_node_goes_before_the_first(self):
        tree = tree_of((4, ROOT, Source.RETRIEVAL, 3), (9, ROOT, Source.RETRIEVAL | Source.LOGITS, 2))
        assert (
            draft_reason(self.TEXT, tree, (1,), piece) == "the last 2 tokens stood 4 tokens back in this conversation"
        )

    def test_rejected_retrieved_node_where_the_path_has_none(self):
        tree = tree_of((7, ROOT, Source.LOGITS, 0), (9, ROOT, Source.RETRIEVAL, 2))
        assert (
            draft_reason(self.TEXT, tree, (0,), piece) == "the last 2 tokens stood 4 tokens back in this conversation"
        )

    def test_match_that_ends_within_the_draft(self):
        tree = tree_of((3, ROOT, Source.LOGITS, 0), (4, 0, Source.RETRIEVAL, 2))
        text = (1, 2, 3, 4, 5, 2)
        expected = "after 1 token of the model's own guess, the last 2 tokens stood 4 tokens back in this conversation"
        assert draft_reason(text, tree, (0, 1), piece) == expected

    def test_not_in_the_given_context(self):
        tree = tree_of((4, ROOT, Source.RETRIEVAL, 7))
        assert draft_reason((8, 8), tree, (0,), piece) == "the last 7 tokens were seen before in this chat"

    def test_logits_alone(self):
        tree = tree_of((4, ROOT, Source.LOGITS, 0))
        expected = f"the model's own guess when it last read {token_text(piece(3))}"
        assert (
            draft_reason(self.TEXT, tree, (0,), piece) == expected == "the model's own guess when it last read ␣t3[/b]"
        )

    def test_no_draft(self):
        assert draft_reason(self.TEXT, DraftTree.empty(), (), piece) == NOTHING_PAYS
        note = "drafting paused: it would make 0.91 of plain speed here"
        assert draft_reason(self.TEXT, DraftTree.empty(), (), piece, note) == note

    @pytest.mark.parametrize("policy", ["racer", "retrieval", "auto", "lookup"])
    @pytest.mark.parametrize("mode", ["tree", "chain"])
    def test_what_real_drafters_retrieve_is_found_in_the_context(self, policy: str, mode: str):
        """The matched length is taken to end at the node's parent; were it not so, some place would not be found."""
        rng = np.random.default_rng(7)
        config = DraftConfig(policy, budget=16)
        n_retrieved = n_deeper = 0
        for _ in range(20):
            memory = make_memory(config, 30, 256)
            memory.successors.ids[:] = np.argsort(rng.random((30, 30)), axis=1)[:, :8]
            drafter = make_drafter(config, DraftMode(mode, "", 20), memory, StepCost({1: 1.0, 2: 1.001, 64: 1.02}))
            phrases = rng.integers(0, 30, (6, 5))
            cut = int(rng.integers(1, 5))
            context = [*phrases[rng.integers(0, 6, 12)].ravel().tolist(), *phrases[0, :cut].tolist()]
            drafter.begin(context)
            tree = drafter.propose(20)
            for node in range(len(tree)):
                ancestors = []
                above = node
                while (above := int(tree.parent[above])) >= 0:
                    ancestors.append(above)
                if not tree.source[node] & Source.RETRIEVAL or any(
                    tree.source[a] & Source.RETRIEVAL for a in ancestors
                ):
                    continue
                n_retrieved += 1
                n_deeper += bool(ancestors)
                assert tokens_above(tree, node) == [int(tree.token[a]) for a in reversed(ancestors)]
                assert "in this conversation" in draft_reason(context, tree, (*reversed(ancestors), node), piece)
        assert n_retrieved >= 10
        if policy == "auto" and mode == "tree":
            assert n_deeper > 0


class TestTreeHead:
    @pytest.mark.parametrize("size", SIZES)
    async def test_reason_is_shown_whole(self, size: tuple[int, int]):
        app = Bench()
        async with app.run_test(size=size) as pilot:
            app.tree_panel.set_model(piece, "tree: ordinary attention")
            app.tree_panel.toggle()
            tree = tree_of((4, ROOT, Source.RETRIEVAL, 3))
            reason = "the last 3 tokens [/x] stood 1234 tokens back in this conversation"
            app.tree_panel.show(tree, (0,), 12, lambda: reason)
            await pilot.pause()
            shown = " ".join(screen(pilot).replace("│", " ").split())
            assert "step 12: 1 drafted, 1 accepted · tree: ordinary attention" in shown
            assert "the last 3 tokens [/x] stood 1234 tokens back in this conversation" in shown
            assert "␣t4[/b] retrieval match 3" in shown
            app.tree_panel.show(tree, (0,), 13)
            await pilot.pause()
            assert "the last" not in screen(pilot)

    async def test_panel_stands_at_the_side_of_a_wide_screen(self):
        app = Bench()
        async with app.run_test(size=(130, 40)) as pilot:
            app.tree_panel.toggle()
            await pilot.pause()
            assert (app.tree_panel.region.x, app.tree_panel.region.width, app.tree_panel.region.height) == (82, 48, 40)
