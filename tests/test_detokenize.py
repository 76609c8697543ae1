"""From bytes of tokens to text: whole characters, nothing of a stop string, nothing lost."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from racer_local.detokenize import TextStream
from racer_local.tokens import Source, Token
from tests import naive

QUICK = settings(derandomize=True, deadline=None, max_examples=200)
CHARACTERS = st.characters(exclude_categories=["Cs"])
LETTERS = st.text(alphabet="abé€😀", max_size=24)
STOPS = st.lists(st.text(alphabet="abé€", max_size=4), max_size=3)


def token(i: int) -> Token:
    """Token `i`, which carries marks of its own."""
    return Token(i, "", Source.RETRIEVAL, i % 5, i % 3, i + 1)


@st.composite
def split(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> tuple[str, list[bytes]]:
    """A text and its bytes in pieces that respect no character."""
    text = draw(texts)
    data = text.encode()
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=12)))
    edges = [0, *cuts, len(data)]
    return text, [data[a:b] for a, b in pairwise(edges)]


def run(pieces: Sequence[bytes], stop: Sequence[str] = ()) -> tuple[list[list[Token]], bool]:
    """Push pieces until a stop string is found; returns what each push and the end released."""
    stream = TextStream(lambda i: pieces[i], stop)
    released = []
    for i in range(len(pieces)):
        released.append(stream.push(token(i)))
        if stream.stopped:
            break
    released.append(stream.finish())
    return released, stream.stopped


def joined(released: Sequence[Sequence[Token]]) -> str:
    """Text of released tokens."""
    return "".join(t.text for tokens in released for t in tokens)


@QUICK
@given(split(st.text(alphabet=CHARACTERS)))
def test_any_split_of_any_text_gives_that_text(case: tuple[str, list[bytes]]) -> None:
    text, pieces = case
    released, stopped = run(pieces)
    assert not stopped
    assert joined(released) == text
    assert [t.id for tokens in released for t in tokens] == list(range(len(pieces)))
    assert released[-1] == [], "without stop strings nothing is held"
    for i in range(len(pieces)):
        shown = joined(released[: i + 1])
        assert shown == naive.decode_text(pieces[: i + 1]), "each whole character is shown at once"


@QUICK
@given(st.lists(st.binary(max_size=4), max_size=12))
def test_invalid_bytes_are_replaced_not_raised(pieces: list[bytes]) -> None:
    released, _ = run(pieces)
    assert joined(released) == naive.decode_text(pieces)


def test_half_a_character_at_the_end_is_dropped() -> None:
    released, _ = run([b"a", b"\xe2\x82"])
    assert joined(released) == "a"
    assert [t.id for tokens in released for t in tokens] == [0, 1]
    released, _ = run([b"a", b"\xe2\x82"], ["xyz"])
    assert joined(released) == "a"


def test_a_character_belongs_to_the_token_that_completes_it() -> None:
    released, _ = run([b"a\xe2", b"\x82", b"\xacb"])
    assert [[t.text for t in tokens] for tokens in released] == [["a"], [""], ["€b"], []]


def test_marks_of_a_token_are_kept() -> None:
    released, _ = run([b"a", b"b"], ["bx"])
    assert [t for tokens in released for t in tokens] == [
        Token(0, "a", Source.RETRIEVAL, 0, 0, 1),
        Token(1, "b", Source.RETRIEVAL, 1, 1, 2),
    ]


@settings(derandomize=True, deadline=None, max_examples=500)
@given(split(LETTERS), STOPS)
def test_text_ends_before_the_stop_string(case: tuple[str, list[bytes]], stop: list[str]) -> None:
    _, pieces = case
    expected, stops = naive.cut_text(pieces, stop)
    released, stopped = run(pieces, stop)
    assert stopped == stops
    assert joined(released) == expected
    ids = [t.id for tokens in released for t in tokens]
    assert ids == list(range(len(ids))), "tokens are released in order, each once"
    if not stopped:
        assert len(ids) == len(pieces)
    for i in range(len(released)):
        assert expected.startswith(joined(released[: i + 1])), "what was shown is never taken back"


@settings(derandomize=True, deadline=None, max_examples=300)
@given(split(LETTERS), STOPS)
def test_no_more_is_held_than_could_begin_a_stop_string(case: tuple[str, list[bytes]], stop: list[str]) -> None:
    _, pieces = case
    stream = TextStream(lambda i: pieces[i], stop)
    shown = ""
    for i in range(len(pieces)):
        shown += "".join(t.text for t in stream.push(token(i)))
        if stream.stopped:
            return
        text = naive.decode_text(pieces[: i + 1])
        begun = max((n for s in stop for n in range(1, len(s)) if text.endswith(s[:n])), default=0)
        # whole tokens are held: all that end within what has begun
        ends = [len(naive.decode_text(pieces[:n])) for n in range(i + 2)]
        assert len(shown) == max(end for end in ends if end <= len(text) - begun)


@pytest.mark.parametrize(
    ("pieces", "stop", "texts"),
    [
        ([b"one", b" two", b" three"], ["two"], ["one", " "]),
        ([b"one", b" t", b"wo", b" three"], ["two"], ["one", " "]),
        ([b"a", b"b", b"c"], ["abc"], []),
        ([b"a", b"b", b"x", b"c"], ["abc"], ["a", "b", "x", "c"]),
        ([b"a", b"a", b"a", b"b"], ["aab"], ["a"]),
        ([b"x", b"\n", b"\n", b"y"], ["\n\n"], ["x"]),
        ([b"caf", b"\xc3", b"\xa9!"], ["é"], ["caf", ""]),
        ([b"ab"], ["b", "ab"], []),
        ([b"ab"], ["", "b"], ["a"]),
    ],
)
def test_cut_at_stop_strings(pieces: list[bytes], stop: list[str], texts: list[str]) -> None:
    released, stopped = run(pieces, stop)
    assert [t.text for tokens in released for t in tokens] == texts
    assert stopped == (texts != ["a", "b", "x", "c"])


def test_nothing_may_follow_a_stop_string() -> None:
    stream = TextStream(lambda i: b"a", ["a"])
    stream.push(token(0))
    with pytest.raises(AssertionError):
        stream.push(token(1))


def test_nothing_is_released_twice() -> None:
    stream = TextStream(lambda i: b"a", ["ab"])
    assert stream.push(token(0)) == []
    assert [t.text for t in stream.finish()] == ["a"]
    assert stream.finish() == []
