"""Only the template's own text gives control tokens: those that a message writes out are read as text.

Before a template is rendered, control text in the messages gives way to stand-ins, one private-use character each, so
that the template may trim, join and compare as ever. In the rendered text all control text is then the template's. It
is cut out as llama.cpp cuts it, stand-ins become text again, and what lies between is tokenised without control tokens.
Where no message has control text, the prompt is tokenised in one piece.
"""

import itertools
import re
from collections.abc import Collection, Iterable
from functools import cached_property
from typing import Any

import llama_cpp

from racer_local.llama.model import Model

FIRST_STAND_IN, LAST_STAND_IN = 0xF0000, 0xFFFFD
"""A plane of private use; characters of it that occur in messages are passed over."""
CONTROL = llama_cpp.LLAMA_TOKEN_ATTR_CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_UNKNOWN
SPACES = " \t\n\v\f\r"
"""What tokens that strip their neighbours strip."""
NOT_CONTENT = ("role", "type")
"""Fields of a message that only have values of a fixed set."""


class ControlText:
    """The control text of a model and its template: texts of control tokens, and of user-defined tokens that the
    template writes. Other user-defined tokens are words of the vocabulary.

    Attributes:
        template: Source of the template.
    """

    def __init__(self, model: Model, template: str) -> None:
        """Note whose control text it is; the vocabulary is looked through when that is first needed."""
        self._model = model
        self.template = template

    @cached_property
    def marks(self) -> dict[str, tuple[int, int]]:
        """Token and attributes of each text, the longest first, as llama.cpp looks for them."""
        found: dict[str, tuple[int, int]] = {}
        with self._model.handle:
            vocab = self._model.vocab
            for token in range(self._model.n_vocab):
                attr = llama_cpp.llama_vocab_get_attr(vocab, token)
                if not attr & (CONTROL | llama_cpp.LLAMA_TOKEN_ATTR_USER_DEFINED):
                    continue
                text = (llama_cpp.llama_vocab_get_text(vocab, token) or b"").decode("utf-8", "replace")
                if text.strip() and (attr & CONTROL or (len(text) > 1 and text in self.template)):
                    found[text] = (token, attr)
        return dict(sorted(found.items(), key=lambda item: -len(item[0].encode("utf-8", "replace"))))

    def split(self, text: str) -> list[str | int]:
        """A text as text and control tokens in turns, without empty texts."""
        parts: list[str | int] = [text]
        for mark, (token, attr) in self.marks.items():
            if mark not in text:
                continue
            out: list[str | int] = []
            for part in parts:
                if isinstance(part, int):
                    out.append(part)
                    continue
                for n, piece in enumerate(pieces := part.split(mark)):
                    if n:
                        out.append(token)
                    if n and attr & llama_cpp.LLAMA_TOKEN_ATTR_RSTRIP:
                        piece = piece.lstrip(SPACES)
                    if n < len(pieces) - 1 and attr & llama_cpp.LLAMA_TOKEN_ATTR_LSTRIP:
                        piece = piece.rstrip(SPACES)
                    out.append(piece)
            parts = out
        return [part for part in parts if part != ""]

    def tokens(self, text: str) -> list[int]:
        """Tokens of a text none of which is a control token."""
        out: list[int] = []
        for piece in self._uncontrolled(text):
            out += self._model.tokenize(piece, add_special=False, parse_special=False).tolist()
        return out

    def _uncontrolled(self, text: str) -> Iterable[str]:
        """Cuts user-defined tokens, which llama.cpp always finds, in two."""
        cuts = [0]
        for mark, (_, attr) in self.marks.items():
            if not attr & CONTROL and mark in text:
                cuts += [found.start() + 1 for found in re.finditer(re.escape(mark), text)]
        cuts = [*sorted(set(cuts)), len(text)]
        return [text[a:b] for a, b in itertools.pairwise(cuts) if a < b]


class Shield:
    """Stand-ins of one prompt for the control text of its messages."""

    def __init__(self, control: ControlText, messages: Iterable[Any]) -> None:
        """Choose characters that do not occur in the messages."""
        self._control = control
        taken: set[str] = set()
        _collect([*messages, control.template], taken)
        self._free = (chr(c) for c in range(FIRST_STAND_IN, LAST_STAND_IN + 1) if chr(c) not in taken)
        self._stand_ins: dict[str, str] = {}

    def cover(self, value: Any, own: Collection[str] = ()) -> Any:
        """Put stand-ins into all texts of a value.

        Args:
            value: A message or a part of one.
            own: Control text that may stay.
        """
        if isinstance(value, str):
            return self._covered(value, own)
        if isinstance(value, dict):
            return {k: v if k in NOT_CONTENT else self.cover(v, own) for k, v in value.items()}
        return [self.cover(v, own) for v in value] if isinstance(value, list) else value

    def _covered(self, text: str, own: Collection[str]) -> str:
        marks = [mark for mark in self._control.marks if mark not in own]
        found = [mark for mark in marks if mark in text]
        if found:
            text = re.sub("|".join(map(re.escape, found)), lambda match: self._stand_in(match[0]), text)
        core = text.strip()
        begin = text.index(core)
        if not (core and marks):
            return text
        head, tail = self._halves(core, marks)
        end = begin + len(core)
        if head + tail >= len(core):
            return text[:begin] + self._stand_in(core) + text[end:]
        middle = text[begin + head : end - tail]
        first = self._stand_in(core[:head]) if head else ""
        last = self._stand_in(core[len(core) - tail :]) if tail else ""
        return text[:begin] + first + middle + last + text[end:]

    def _halves(self, core: str, marks: list[str]) -> tuple[int, int]:
        """How many characters at the beginning and at the end of a text may be part of control text that goes on
        in the text beside it.
        """
        longest = max(map(len, marks))
        if len(core) < longest and any(core in mark for mark in marks):
            return len(core), 0
        lasts, firsts = {mark[-1] for mark in marks}, {mark[0] for mark in marks}
        near = range(1, min(longest, len(core)))
        head = [n for n in near if core[n - 1] in lasts and any(mark.endswith(core[:n]) for mark in marks)]
        tail = [n for n in near if core[-n] in firsts and any(mark.startswith(core[-n:]) for mark in marks)]
        return max(head, default=0), max(tail, default=0)

    def _stand_in(self, text: str) -> str:
        if text not in self._stand_ins:
            self._stand_ins[text] = next(self._free)
        return self._stand_ins[text]

    def text(self, rendered: str) -> str:
        """A rendered prompt as it would be without stand-ins."""
        if not self._stand_ins:
            return rendered
        texts = {char: covered for covered, char in self._stand_ins.items()}
        return re.sub(f"[{''.join(texts)}]", lambda match: texts[match[0]], rendered)

    def tokens(self, rendered: str) -> list[int] | None:
        """Tokens of a rendered prompt; None if it may be tokenised in one piece, see `text`."""
        if not self._stand_ins:
            return None
        parts = [p if isinstance(p, int) else self.text(p) for p in self._control.split(rendered)]
        if parts == self._control.split(self.text(rendered)):
            return None
        out: list[int] = []
        for part in parts:
            out += [part] if isinstance(part, int) else self._control.tokens(part)
        return out


def _collect(value: Any, taken: set[str]) -> None:
    """Characters of the plane of the stand-ins in all texts of a value."""
    if isinstance(value, str):
        taken.update(re.findall(f"[{chr(FIRST_STAND_IN)}-{chr(LAST_STAND_IN)}]", value))
    elif isinstance(value, dict):
        for part in value.values():
            _collect(part, taken)
    elif isinstance(value, list):
        for part in value:
            _collect(part, taken)
