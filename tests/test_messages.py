"""Messages and options as OpenAI's users write them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from racer_local.errors import UsageError
from racer_local.messages import checked
from racer_local.openai import options_of
from racer_local.settings import stops_of

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.binary(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "type", "text", "name", "tool_calls", "x"]), inner)
    ),
    max_leaves=8,
)


def message(content: Any, role: Any = "user", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **more}


def test_parts_of_text_are_one_text() -> None:
    parts = [{"type": "text", "text": "What is"}, "this?"]
    assert checked([message(parts)]) == [message("What is\nthis?")]


def test_developer_is_system() -> None:
    assert checked([message("Be kind.", "developer")]) == [message("Be kind.", "system")]


def test_an_assistant_that_only_calls_tools_needs_no_content() -> None:
    calls = [{"type": "function", "function": {"name": "f", "arguments": "{}"}}]
    assert checked([message(None, "assistant", tool_calls=calls)])[0]["content"] == ""
    assert checked([{"role": "assistant", "tool_calls": calls}])[0]["content"] == ""
    with pytest.raises(UsageError, match="content"):
        checked([message(None, "assistant")])


@pytest.mark.parametrize(
    ("kind", "word"), [("image_url", "picture"), ("input_audio", "audio"), ("video_url", "video"), ("file", "file")]
)
def test_what_is_no_text_is_refused_by_name(kind: str, word: str) -> None:
    with pytest.raises(UsageError, match=f"{word} .*{kind}"):
        checked([message([{"type": "text", "text": "What is this?"}, {"type": kind, kind: {"url": "x"}}])])


@pytest.mark.parametrize(
    "wrong",
    [
        *(None, 5, "text", b"text", {}, [], [None], ["text"], [{}], [message(5)], [message([])], [message([5])]),
        *([message("a", None)], [message("a", [])], [message("a", "robot")], [message([{"type": []}])]),
        *([message([{"type": "text"}])], [message([{"type": "text", "text": 5}])], [message(b"a")]),
        *([message("a", name=5)], [message("a", "assistant", tool_calls="f")], [message("a", tool_calls=[1])]),
    ],
)
def test_what_is_no_conversation_is_a_line(wrong: Any) -> None:
    with pytest.raises(UsageError) as error:
        checked(wrong)
    assert "\n" not in str(error.value)


@given(VALUES)
def test_nothing_else_than_a_usage_error(value: Any) -> None:
    for messages in (value, [value], [message(value)], [message("a", value)], [message([value])]):
        try:
            for one in checked(messages):
                assert isinstance(one["content"], str)
        except UsageError:
            pass


def test_no_stop() -> None:
    assert stops_of(None) == ()
    assert stops_of(["a", "b"]) == ("a", "b")
    for wrong in (5, {"a": 1}, [None], [""], "", b"a"):
        with pytest.raises(UsageError):
            stops_of(wrong)  # type: ignore[arg-type]


def test_options_of_openai() -> None:
    given_all = {"max_completion_tokens": 5, "model": "x", "n": 1, "temperature": None, "stop": None, "top_p": 0.5}
    assert options_of(given_all) == {"max_tokens": 5, "top_p": 0.5}
    assert options_of({"tools": [], "response_format": {"type": "text"}, "logprobs": False}) == {}
    for wrong in ({"n": 2}, {"tools": [{}]}, {"logprobs": True}, {"max_tokens": 1, "max_completion_tokens": 2}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            options_of(wrong)
