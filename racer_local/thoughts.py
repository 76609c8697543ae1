"""Telling what a model thinks from what it answers, by the marks that models write around their thoughts.

Works on decoded text, the marks included, as it comes or whole. Which format a model has is read off its chat template
and its vocabulary. Knows nothing of models, screens and files.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import cache

CHANNEL, MESSAGE, START, END = "<|channel|>", "<|message|>", "<|start|>", "<|end|>"
THINKING_CHANNEL = "analysis"


@dataclass(frozen=True, slots=True)
class ThoughtFormat:
    """How thoughts are marked in an answer: a tag before and one after, at its beginning.

    Attributes:
        name: For files.
        opens: Begins a thought.
        closes: Ends it.
        answer_opens: May stand between thought and answer; empty if nothing does.
        answer_closes: Ends an answer that was begun so.
        tokens: Marks that tell the format and that a vocabulary may have as control tokens; the tags if none are given.
        has_channels: Whether instead each part of an answer begins with its channel, as in OpenAI's Harmony.
    """

    name: str
    opens: str
    closes: str
    answer_opens: str = ""
    answer_closes: str = ""
    tokens: tuple[str, ...] = ()
    has_channels: bool = False

    @property
    def marks(self) -> tuple[str, ...]:
        """What tells the format; where these are control tokens, they must be part of the decoded text."""
        tags = (self.opens, self.closes, self.answer_opens, self.answer_closes)
        return self.tokens or tuple(tag for tag in tags if tag)

    def is_opened_by(self, prompt_end: str) -> bool:
        """Whether a prompt has begun a thought, so that the answer starts inside of it."""
        return prompt_end.rstrip().endswith(self.opens.rstrip())


THINK = ThoughtFormat("think", "<think>", "</think>")
"""DeepSeek R1, Qwen 3 and most others; also taken where neither template nor vocabulary says anything."""
FORMATS = (
    ThoughtFormat(
        "harmony",  # gpt-oss
        f"{CHANNEL}{THINKING_CHANNEL}{MESSAGE}",
        END,
        tokens=(CHANNEL, MESSAGE, START, END),
        has_channels=True,
    ),
    ThoughtFormat("magistral", "[THINK]", "[/THINK]"),
    ThoughtFormat("seed", "<seed:think>", "</seed:think>"),
    ThoughtFormat("command", "<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    ThoughtFormat("gemma", "<|channel>thought\n", "<channel|>", tokens=("<|channel>", "<channel|>")),
    ThoughtFormat("kimi", "◁think▷", "◁/think▷"),
    ThoughtFormat("apertus", "<|inner_prefix|>", "<|inner_suffix|>"),
    ThoughtFormat("granite", "<think>", "</think>", "<response>", "</response>"),
    ThoughtFormat("hunyuan", "<think>", "</think>", "<answer>", "</answer>"),
    THINK,
    ThoughtFormat("thought", "<thought>", "</thought>"),  # EXAONE Deep
    ThoughtFormat("thinking", "<thinking>", "</thinking>"),
    ThoughtFormat("reasoning", "<reasoning>", "</reasoning>"),
)
"""All formats; of two that fit, the first is taken."""
_BY_NAME = {known.name: known for known in FORMATS}


def choose(template: str, is_token: Callable[[str], bool]) -> ThoughtFormat:
    """The format of a model.

    Args:
        template: Its chat template, empty for none.
        is_token: Whether a text is one token of its vocabulary.
    """
    for has in (template.__contains__, is_token):
        for known in FORMATS:
            if all(has(mark) for mark in known.marks):
                return known
    return THINK


def split_earlier(text: str, known: ThoughtFormat) -> tuple[str, str]:
    """Thought and answer of a whole text whose marks were control tokens: a mark is no accident then.

    If the first of them ends a thought, the prompt had begun it.
    """
    first = next((part for part in cut(text, known.marks) if part in known.marks), "")
    return split(text, known, opened=first == known.closes)


def cut(text: str, marks: Iterable[str]) -> list[str]:
    """A text cut before and after each of the marks."""
    pattern = "|".join(map(re.escape, marks))
    return [part for part in re.split(f"({pattern})", text) if part] if pattern else [text]


def named(name: str) -> ThoughtFormat:
    """The format of a name; `THINK` where no format has it."""
    return _BY_NAME.get(name, THINK)


def split(text: str, known: ThoughtFormat = THINK, *, opened: bool = False) -> tuple[str, str]:
    """Thought and answer of a whole text; `opened` where the prompt had begun the thought."""
    return ThoughtSplitter(known, opened=opened).feed(text, last=True)


def starts_inside(text: str, known: ThoughtFormat = THINK) -> bool:
    """Whether a whole text ends, at the end of a line, a thought that it has not begun: then the prompt had."""
    before, mark, after = text.partition(known.closes)
    return bool(mark) and not known.has_channels and known.opens not in before and after[:1] in ("", "\n")


class _State(Enum):
    BEGIN = auto()
    """Nothing but blanks yet."""
    HEADER = auto()
    """Name of a channel."""
    THOUGHT = auto()
    AFTER = auto()
    """Behind a part that has ended, before the next."""
    SAID = auto()
    """An answer that has an end mark of its own."""
    ANSWER = auto()


Rules = Mapping[_State, Mapping[str, _State]]


@cache
def _rules(known: ThoughtFormat) -> Rules:
    """Where marks lead to from each state; elsewhere they are text."""
    begins = _State.HEADER
    if known.has_channels:
        heads = {START: begins, CHANNEL: begins}
        return {
            _State.BEGIN: heads,
            _State.HEADER: {**heads, MESSAGE: _State.SAID},
            _State.THOUGHT: {**heads, END: _State.AFTER},
            _State.AFTER: heads,
            _State.SAID: {END: _State.AFTER},
            _State.ANSWER: {},
        }
    says = {known.answer_opens: _State.SAID} if known.answer_opens else {}
    return {
        _State.BEGIN: {known.opens: _State.THOUGHT, **says},
        _State.HEADER: {},
        _State.THOUGHT: {known.closes: _State.AFTER},
        _State.AFTER: says,
        _State.SAID: {known.answer_closes: _State.ANSWER} if known.answer_closes else {},
        _State.ANSWER: {},
    }


class ThoughtSplitter:
    """Splits an answer that comes in pieces of any size. Blanks around a thought belong to neither part."""

    def __init__(self, known: ThoughtFormat = THINK, *, opened: bool = False) -> None:
        """Begin an answer.

        Args:
            known: How thoughts are marked.
            opened: Whether the prompt has begun the thought.
        """
        self._rules = _rules(known)
        self._state = _State.THOUGHT if opened else _State.BEGIN
        self._held = ""
        """Text that may become a mark, and blanks that may be those around a thought."""
        self._channel = ""
        self._follows_mark = opened
        """Whether no text has come since the last mark."""
        self._parts = _Part(), _Part()

    @property
    def thinking(self) -> bool:
        """Whether the end of a thought is still to come."""
        return self._state is _State.THOUGHT

    def feed(self, piece: str, *, last: bool = False) -> tuple[str, str]:
        """Take in a piece; returns what it adds to the thought and to the answer.

        A text that may become a mark is held back until that is clear, or nothing follows after the `last` piece.
        """
        self._held += piece
        while self._advance():
            pass
        if last:
            held, self._held = self._held, ""
            self._put(held.rstrip() if self.thinking else held)
        thought, answer = self._parts
        return thought.taken(), answer.taken()

    def _advance(self) -> bool:
        """Come to the next mark; returns whether there may be another."""
        if self._state in (_State.BEGIN, _State.AFTER):
            return self._look_for_part()
        rules, held = self._rules[self._state], self._held
        at, mark = min(((i, m) for m in rules if (i := held.find(m)) >= 0), default=(-1, ""))
        if mark:
            text, self._held = held[:at], held[at + len(mark) :]
            self._put(text.rstrip() if self.thinking else text)
            self._enter(rules[mark])
            return True
        end = len(held) - max((_overlap(held, m) for m in rules), default=0)
        if self.thinking:
            end = len(held[:end].rstrip())
        text, self._held = held[:end], held[end:]
        self._put(text)
        return False

    def _look_for_part(self) -> bool:
        """Outside of all parts: a mark stands first, or there will be none."""
        rules, text = self._rules[self._state], self._held.lstrip()
        mark = next((m for m in rules if text.startswith(m)), "")
        if mark:
            self._held = text[len(mark) :]
            self._enter(rules[mark])
        elif text and not any(m.startswith(text) for m in rules):
            self._state = _State.ANSWER
        else:
            return False
        return True

    def _enter(self, state: _State) -> None:
        if state is _State.SAID and self._channel.strip() == THINKING_CHANNEL:
            state = _State.THOUGHT
        self._state, self._channel, self._follows_mark = state, "", True

    def _put(self, text: str) -> None:
        """Take text without marks."""
        if self._state is _State.HEADER:
            self._channel += text
            return
        if self._follows_mark:
            text = text.lstrip() if self.thinking else text.lstrip("\n")
        if text:
            thought, answer = self._parts
            (thought if self.thinking else answer).add(text, anew=self._follows_mark)
            self._follows_mark = False


class _Part:
    """Thought or answer in the making."""

    def __init__(self) -> None:
        self._new: list[str] = []
        self._has_begun = False

    def add(self, text: str, *, anew: bool) -> None:
        """Add text; `anew` where something else came between."""
        if anew and self._has_begun:
            self._new.append("\n\n")
        self._new.append(text)
        self._has_begun = True

    def taken(self) -> str:
        """What was added since the last call."""
        text = "".join(self._new)
        self._new.clear()
        return text


def _overlap(text: str, mark: str) -> int:
    """Length of the longest end of a text that begins a mark."""
    return next((n for n in range(min(len(mark) - 1, len(text)), 0, -1) if mark.startswith(text[-n:])), 0)
