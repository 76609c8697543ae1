"""What is left out of a conversation that is too long: the oldest turns, never the system text or the last turn."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from racer_local.history import ANSWER_SHARE, fit
from racer_local.prompt import Message


def words(messages: Sequence[Message]) -> int:
    """A tokenizer of one token a word, and two a message."""
    return sum(len(m["content"].split()) + 2 for m in messages)


def fitted(messages: Sequence[Message], n_ctx: int, so_far: int = 0) -> tuple[list[Message], int]:
    """What stays and how many turns go, with so many tokens of an answer behind the messages."""
    rendered: list[int] = []

    def tokens_of(kept: Sequence[Message]) -> list[int]:
        rendered.append(len(kept))
        return [0] * (words(kept) + so_far)

    kept, tokens, n = fit(messages, tokens_of, n_ctx)
    assert tokens == [0] * (words(kept) + so_far)
    assert len(rendered) <= 2 + len(messages).bit_length()
    assert n > 0 or len(rendered) == 1
    return kept, n


def chat(*lengths: int, system: int = 0) -> list[Message]:
    """A conversation that ends with the user, of messages of so many words."""
    out: list[Message] = [{"role": "system", "content": "s " * system}] if system else []
    return out + [{"role": ("user", "assistant")[i % 2], "content": f"{i} " * n} for i, n in enumerate(lengths)]


def test_what_has_room_stays() -> None:
    messages = chat(10, 10, 10)
    assert fitted(messages, 1000) == (messages, 0)


def test_oldest_turns_go_until_half_is_free() -> None:
    messages = chat(*[18] * 9, system=3)
    kept, n = fitted(messages, 200)
    assert n == 3
    assert kept == [messages[0], *messages[7:]]
    assert words(kept) <= 100


def test_the_last_turn_stays_whatever_its_length() -> None:
    messages = chat(10, 10, 500, system=4)
    kept, n = fitted(messages, 100)
    assert (kept, n) == ([messages[0], messages[3]], 1)


def test_a_first_message_of_the_assistant_goes_with_nothing() -> None:
    messages = [{"role": "assistant", "content": "hello " * 5}, *chat(90, 5, 5)]
    kept, n = fitted(messages, 100)
    assert n == 1
    assert kept[-1] == messages[-1]


@given(st.lists(st.integers(0, 60), min_size=1, max_size=12), st.integers(0, 30), st.integers(40, 400))
def test_what_must_hold(lengths: list[int], system: int, n_ctx: int) -> None:
    messages = chat(*lengths, system=system)
    if messages[-1]["role"] != "user":
        messages.pop()
    if not messages or messages[-1]["role"] != "user":
        return
    kept, n = fitted(messages, n_ctx)
    assert [m for m in kept if m["role"] == "system"] == [m for m in messages if m["role"] == "system"]
    assert kept[-1] == messages[-1]
    assert kept[len(kept) - 1 :] == messages[len(messages) - 1 :]
    users = [m for m in messages if m["role"] == "user"]
    assert [m for m in kept if m["role"] == "user"] == users[n:]
    room = n_ctx - n_ctx // ANSWER_SHARE
    assert words(kept) <= room or len(users) - n == 1
    if n == 0:
        assert kept == messages


def test_room_is_made_for_an_answer_that_was_begun() -> None:
    messages = chat(10, 10, 10, 10, 10)
    assert fitted(messages, 100) == (messages, 0)
    assert fitted(messages, 100, so_far=40) == (messages[4:], 2)


def test_many_turns_are_left_out_with_few_renderings() -> None:
    messages = chat(*[10] * 1001)
    kept, n = fitted(messages, 200)
    assert words(kept) <= 100
    assert n == 500 - (len(kept) - 1) // 2
