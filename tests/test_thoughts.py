"""Thought and answer, however the text is cut into pieces, in every format."""

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from racer_local.thoughts import (
    FORMATS,
    THINK,
    ThoughtFormat,
    ThoughtSplitter,
    choose,
    named,
    split,
    starts_inside,
)

HARMONY = named("harmony")
A, F, M, E, S = "<|channel|>analysis", "<|channel|>final", "<|message|>", "<|end|>", "<|start|>assistant"
TEXTS = [
    ("<think>a\nb</think>\n\nc", False, "a\nb", "c"),
    ("  <think>a</think>c", False, "a", "c"),
    ("<think></think>c", False, "", "c"),
    ("<think>\n\n</think>\n\nc", False, "", "c"),
    ("<think>\n a\n\n b \n</think>c", False, "a\n\n b", "c"),
    ("a</think>\n\nc</think>d", True, "a", "c</think>d"),
    ("no tags", False, "", "no tags"),
    ("\n blanks ", False, "", "\n blanks "),
    (" ", False, "", " "),
    ("late <think>a</think>", False, "", "late <think>a</think>"),
    ("<thin", False, "", "<thin"),
    ("<think>never closed </thi", False, "never closed </thi", ""),
    ("<think>never closed \n", False, "never closed", ""),
    ("", True, "", ""),
    ("<b>x", False, "", "<b>x"),
    ("a < b </think>", True, "a < b", ""),
    ("<think>a</think> \n", False, "a", " \n"),
]
OTHERS = [
    ("harmony", f"{A}{M}a{E}{S}{F}{M}c", False, "a", "c"),
    ("harmony", f"{A}{M}a{E}{S}{A}{M}b{E}{S}{F}{M}c", False, "a\n\nb", "c"),
    ("harmony", f"{F}{M}c", False, "", "c"),
    ("harmony", f"{S}{F}{M}c", False, "", "c"),
    ("harmony", f"{A}{M}cut", False, "cut", ""),
    ("harmony", f"{A}{M}a{E}{S}<|channel|>fin", False, "a", ""),
    ("harmony", f"{A}{M}a{F}{M}c", False, "a", "c"),
    ("harmony", f"a{E}{S}{F}{M}c", True, "a", "c"),
    ("harmony", f"<|channel|>commentary{M}I look.{E}{S}{F}{M}c", False, "", "I look.\n\nc"),
    ("harmony", f"{F} <|constrain|>json{M}{{}}", False, "", "{}"),
    ("harmony", f"{A}{M}a{E}{S}{F}{M}say {A}{M}x", False, "a", f"say {A}{M}x"),
    ("harmony", "plain <|channel|>", False, "", "plain <|channel|>"),
    ("harmony", "<think>a</think>c", False, "", "<think>a</think>c"),
    ("magistral", "[THINK]a[/THINK]\nc", False, "a", "c"),
    ("command", "<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>c<|END_RESPONSE|>", False, "a", "c"),
    ("command", "<|START_RESPONSE|>c<|END_RESPONSE|>", False, "", "c"),
    ("granite", "<think>a</think>\n<response>c\n</response>", False, "a", "c\n"),
    ("granite", "<think>a</think>c</response>", False, "a", "c</response>"),
    ("gemma", "<|channel>thought\na\n<channel|>c", False, "a", "c"),
    ("gemma", "<|channel>thought\n<channel|>c", False, "", "c"),
]
CASES = [("think", *case) for case in TEXTS] + OTHERS


@pytest.mark.parametrize(("name", "text", "opened", "thought", "answer"), CASES)
def test_whole_texts(name: str, text: str, opened: bool, thought: str, answer: str) -> None:
    assert split(text, named(name), opened=opened) == (thought, answer)


def in_pieces(text: str, cuts: list[int], known: ThoughtFormat, *, opened: bool) -> tuple[str, str]:
    """Thought and answer of a text that comes in pieces."""
    splitter = ThoughtSplitter(known, opened=opened)
    got = ["", ""]
    borders = [0, *sorted(min(c, len(text)) for c in cuts), len(text)]
    for a, b in pairwise(borders):
        for i, part in enumerate(splitter.feed(text[a:b])):
            got[i] += part
    for i, part in enumerate(splitter.feed("", last=True)):
        got[i] += part
    return got[0], got[1]


@st.composite
def marked(draw: st.DrawFn) -> tuple[str, ThoughtFormat]:
    """A text with marks whole and in part, of one format and of others."""
    known = draw(st.sampled_from(FORMATS))
    marks = [*known.marks, known.opens, "analysis", "final", "<think>", "</"]
    part = st.one_of(
        st.sampled_from(marks), st.sampled_from(marks).map(lambda m: m[:-1]), st.text("a <\n|", max_size=3)
    )
    return "".join(draw(st.lists(part, max_size=10))), known


@given(marked(), st.booleans(), st.lists(st.integers(0, 80), max_size=8))
@settings(max_examples=500)
def test_any_pieces_give_the_same(case: tuple[str, ThoughtFormat], opened: bool, cuts: list[int]) -> None:
    text, known = case
    assert in_pieces(text, cuts, known, opened=opened) == split(text, known, opened=opened)
    assert in_pieces(text, list(range(len(text))), known, opened=opened) == split(text, known, opened=opened)


def slow_twin(text: str, known: ThoughtFormat, *, opened: bool) -> tuple[str, str]:
    """The same for tags, by a regular expression over the whole text."""
    o, so = re.escape(known.opens), re.escape(known.answer_opens)
    thought = ""
    found = re.match(r"(?s)(.*)" if opened else rf"(?s)\s*{o}(.*)", text)
    if found:
        thought, closed, text = found[1].partition(known.closes)
        if not closed:
            return thought.strip(), ""
    said = re.match(rf"\s*{so}", text) if so else None
    if said:
        text = text[said.end() :].lstrip("\n")
        before, closed, after = text.partition(known.answer_closes)
        after = after.lstrip("\n")
        return thought.strip(), before + ("\n\n" if before and after else "") + after
    return thought.strip(), text.lstrip("\n") if found else text


@given(marked(), st.booleans())
@settings(max_examples=500)
def test_tags_are_found_as_a_plain_search_finds_them(case: tuple[str, ThoughtFormat], opened: bool) -> None:
    text, known = case
    if not known.has_channels:
        assert split(text, known, opened=opened) == slow_twin(text, known, opened=opened)


@given(st.text(), st.sampled_from(FORMATS))
def test_a_text_without_marks_is_the_answer(text: str, known: ThoughtFormat) -> None:
    if not any(mark in text for mark in known.marks):
        assert split(text, known) == ("", text)
        assert "".join("".join(split(text, known, opened=True)).split()) == "".join(text.split())


def test_prompts_that_open_a_thought() -> None:
    assert THINK.is_opened_by("<|assistant|>\n<think>\n")
    assert not THINK.is_opened_by("<think>\n\n</think>\n\n")
    assert HARMONY.is_opened_by(f"{S}{A}{M}")
    assert not HARMONY.is_opened_by(S)
    assert not THINK.is_opened_by("")


@pytest.mark.parametrize(
    ("template", "tokens", "name"),
    [
        ("", "", "think"),
        ("{{ m.content.split('</think>')[-1] }}<think>", "", "think"),
        ("", "[THINK] [/THINK] <think> </think>", "magistral"),
        ("", "[THINK]", "think"),
        ("<think> </think>", "[THINK] [/THINK]", "think"),
        (f"{A}{M} {E} {S}", "", "harmony"),
        ("", "<|channel|> <|message|> <|start|> <|end|>", "harmony"),
        ("<|end|>", "<|end|>", "think"),
        ("<think></think> <response></response>", "", "granite"),
        ("{{ '<|channel>thought\\n' }}<channel|>", "", "gemma"),
        ("", "<|START_THINKING|> <|END_THINKING|> <|START_RESPONSE|> <|END_RESPONSE|>", "command"),
        ("", "<seed:think> </seed:think>", "seed"),
    ],
)
def test_the_format_is_read_off_template_and_vocabulary(template: str, tokens: str, name: str) -> None:
    assert choose(template, tokens.split().__contains__).name == name


def test_names_are_unique_and_known() -> None:
    assert [named(known.name) for known in FORMATS] == list(FORMATS)
    assert named("no such format") is THINK


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("a\n</think>\n\nc", True),
        ("a</think>", True),
        ("<think>a</think>\nc", False),
        ("write </think> to end it", False),
        ("", False),
    ],
)
def test_texts_of_prompts_that_had_opened_a_thought(text: str, inside: bool) -> None:
    assert starts_inside(text) is inside
