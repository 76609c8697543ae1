"""Thought and answer, however the text is cut into pieces."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from racer_local.tui.thinking import ThoughtSplitter, opens_thought, split  # pyright: ignore[reportMissingImports]

TEXTS = [
    ("<think>a\nb</think>\n\nc", False, "a\nb", "c"),
    ("  <think>a</think>c", False, "a", "c"),
    ("<think></think>c", False, "", "c"),
    ("a</think>\n\nc</think>d", True, "a", "c</think>d"),
    ("no tags", False, "", "no tags"),
    ("late <think>a</think>", False, "", "late <think>a</think>"),
    ("<thin", False, "", "<thin"),
    ("<think>never closed </thi", False, "never closed </thi", ""),
    ("", True, "", ""),
    ("<b>x", False, "", "<b>x"),
    ("a < b </think>", True, "a < b ", ""),
]


@pytest.mark.parametrize(("text", "opened", "thought", "answer"), TEXTS)
def test_whole_texts(text: str, opened: bool, thought: str, answer: str) -> None:
    assert split(text, opened=opened) == (thought, answer)


@given(st.sampled_from(TEXTS), st.lists(st.integers(0, 40), max_size=8))
def test_any_pieces_give_the_same(case: tuple[str, bool, str, str], cuts: list[int]) -> None:
    text, opened, thought, answer = case
    splitter = ThoughtSplitter(opened=opened)
    got = ["", ""]
    borders = [0, *sorted(min(c, len(text)) for c in cuts), len(text)]
    for a, b in pairwise(borders):
        for i, part in enumerate(splitter.feed(text[a:b])):
            got[i] += part
    for i, part in enumerate(splitter.finish()):
        got[i] += part
    assert got == [thought, answer]


def test_prompts_that_open_a_thought() -> None:
    assert opens_thought("<|assistant|>\n<think>\n")
    assert not opens_thought("<think>\n\n</think>\n\n")
