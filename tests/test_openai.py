"""Answers in OpenAI's shapes: thoughts have a field of their own, whole and as they come."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer_local import openai
from racer_local.answers import Step, collect
from racer_local.draft_tree import DraftTree
from racer_local.stats import GenerationStats
from racer_local.thoughts import THINK, ThoughtSplitter
from racer_local.tokens import Source, Token


def steps_of(*texts: str) -> list[Step]:
    """An answer in these pieces."""
    return [
        Step(
            text,
            (Token(i, text, Source.MODEL, 0, 0, i),),
            DraftTree.empty(),
            (),
            1,
            GenerationStats(),
            "stop" if i == len(texts) - 1 else None,
        )
        for i, text in enumerate(texts)
    ]


def whole(*texts: str, opened: bool = False) -> dict[str, Any]:
    """The message of an answer in one object."""
    done = openai.completion("m", collect(steps_of(*texts)), ThoughtSplitter(THINK, opened=opened))
    return done["choices"][0]["message"]


def joined(*texts: str, opened: bool = False) -> dict[str, Any]:
    """The message that chunks make up."""
    message: dict[str, Any] = {}
    for chunk in openai.chunks("m", iter(steps_of(*texts)), ThoughtSplitter(THINK, opened=opened)):
        for field, text in chunk["choices"][0]["delta"].items():
            message[field] = message.get(field, "") + text
    return message


@pytest.mark.parametrize("form", [whole, joined])
def test_a_thought_has_its_own_field(form: Any) -> None:
    assert form("<think>so", " it</th", "ink>\n\n42") == {
        "role": "assistant",
        "content": "42",
        "reasoning_content": "so it",
    }
    assert form("so</think>42", opened=True)["reasoning_content"] == "so"
    assert form("42 <think>") == {"role": "assistant", "content": "42 <think>"}


def test_what_waits_comes_before_the_end() -> None:
    chunks = list(openai.chunks("m", iter(steps_of("a", "<thin")), ThoughtSplitter(THINK, opened=True)))
    assert chunks[-2]["choices"][0]["delta"] == {"reasoning_content": "<thin"}
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"


@given(
    st.lists(st.sampled_from(("<think>", "</think>", "a", "\n", "<", "/think>")), min_size=1, max_size=8), st.booleans()
)
def test_chunks_make_up_the_whole(texts: list[str], opened: bool) -> None:
    message = whole(*texts, opened=opened)
    assert {"content": "", **joined(*texts, opened=opened)} == message
