"""The conversation that the chat holds: what is asked of the model next, and what becomes of the answer.

Knows nothing of the screen. The session's file is written as things are said.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from racer_local.answers import Step
from racer_local.drafting.policies import DEFAULT_POLICY, FIXED_POLICY, DraftConfig
from racer_local.errors import UsageError
from racer_local.settings import MAX_BUDGET, SamplingParams
from racer_local.stats import GenerationStats
from racer_local.tokens import Token

from .conversation import Turn
from .events import Ask, Compare
from .session import Session

SEEDS = 2**31
SETTABLE = (*(f.name for f in fields(SamplingParams) if f.name != "logit_bias"), "max_tokens")
"""What `/set` knows."""
EXACT = ("cancelled", "length", "context")
"""Ends after which an answer's tokens are its text, so that going on from them is exact."""


class Chat:
    """A conversation and how it is answered.

    Attributes:
        session: What was said so far, and its file.
        sampling: How tokens are picked.
        draft: How drafts are made.
        max_tokens: Bound of an answer, None for none.
        tokens: Tokens of the last answer, or of the one in progress, those that it goes on from included.
    """

    def __init__(self, session: Session, options: Mapping[str, Any]) -> None:
        """Begin; `options` are those of `Racer.stream`."""
        self.session = session
        options = dict(options)
        self.sampling: SamplingParams = options.pop("sampling", None) or SamplingParams()
        self.draft: DraftConfig = options.pop("draft", None) or DraftConfig()
        self.max_tokens: int | None = options.pop("max_tokens", None)
        self._others = options
        self.tokens: list[Token] = []
        self._asked: Ask | None = None
        self._stats: GenerationStats | None = None
        self._is_others = False
        """Whether the last answer is that of a model from before."""
        self._before: Turn | None = None
        """The answer that is being replaced, to come back if nothing replaces it."""

    @property
    def turns(self) -> list[Turn]:
        """All turns so far."""
        return self.session.conversation.turns

    @property
    def speed(self) -> float | None:
        """Tokens per second of the last answer."""
        return self._stats.predicted_per_second if self._stats is not None else None

    def last_answer(self) -> str:
        """What the last answer says, without what was thought before.

        Raises:
            UsageError: There is none.
        """
        turn = next((turn for turn in reversed(self.turns) if turn.answer), None)
        if turn is None:
            raise UsageError("there is no answer yet")
        thought, said = turn.split()
        if not said.strip():
            raise UsageError("the last answer has only a thought so far")
        return said.strip() if thought.strip() else said

    def hold(self, session: Session) -> None:
        """Go over to another conversation."""
        self.session = session
        self.tokens, self._asked, self._stats, self._before, self._is_others = [], None, None, None, False

    def change_model(self) -> None:
        """Go over to another model: the tokens of the last answer are none of its own."""
        self._is_others = self._asked is not None
        self.tokens, self._asked, self._stats = [], None, None

    # asking

    def ask(self, text: str) -> Ask:
        """Say something and ask for the answer."""
        self.session.say(text)
        return self._begin()

    def again(self) -> Ask:
        """Ask once more for the answer to the last message.

        Raises:
            UsageError: Nothing was asked yet.
        """
        turn = self._last_turn()
        self._before = None if turn.answer is None else replace(turn)
        return self._begin()

    def go_on(self) -> Ask:
        """Ask for the rest of the last answer, exactly where its tokens are known.

        Raises:
            UsageError: There is no answer to go on with.
        """
        turn = self._last_turn()
        if turn.answer is None:
            raise UsageError("there is no answer to go on with; /regen answers the last message")
        known = [token.id for token in self._whole_tokens()]
        exact = turn.reason in EXACT and known and self._text() == turn.answer
        messages = self.session.conversation.messages()[:-1]
        return self._asking(messages, known if exact else turn.answer)

    def compare(self) -> Compare:
        """Ask for the last answer without drafts.

        Raises:
            UsageError: There is no answer of this program's run to compare with.
        """
        if self._is_others:
            raise UsageError("the last answer is another model's; /regen has this one answer")
        if self._asked is None or self._stats is None or not self.tokens:
            raise UsageError("there is no answer to compare with yet; ask something first")
        begun = len(self._asked.so_far) if not isinstance(self._asked.so_far, str) else 0
        tokens = [token.id for token in self.tokens[begun:]]
        options = {**self._asked.options, "max_tokens": len(tokens)}
        return Compare(replace(self._asked, options=options, journal=None), tokens, self._stats)

    def _begin(self) -> Ask:
        messages = self.session.conversation.messages()
        if self.turns[-1].answer is not None:
            messages.pop()
        self.session.answer()
        self.tokens = []
        return self._asking(messages, ())

    def _asking(self, messages: list[dict[str, str]], so_far: Sequence[int] | str) -> Ask:
        seed = self.sampling.seed if self.sampling.seed is not None else random.randrange(SEEDS)
        options: dict[str, Any] = {
            **self._others,
            "sampling": replace(self.sampling, seed=seed),
            "draft": self.draft,
            "max_tokens": self.max_tokens,
        }
        self.tokens = [] if isinstance(so_far, str) else self.tokens[: len(so_far)]
        self._is_others = False
        self._asked = Ask(messages, options, so_far, self._note_down)
        return self._asked

    def _note_down(self, step: Step) -> None:
        """Write a step to the session's file; called in the decoding thread."""
        self.session.part(step.text)

    # answering

    def add(self, steps: Sequence[Step]) -> None:
        """Take in what steps have brought."""
        for step in steps:
            self.tokens += step.tokens
            self._stats = step.stats

    def end(self, reason: str) -> str | None:
        """The answer has ended.

        Returns:
            The user's message, if there is no answer to it and it is taken back; else None.
        """
        timings = self._stats.timings() if self._stats is not None else None
        turn = self.turns[-1]
        if turn.answer or reason not in ("failed", "cancelled"):
            self.session.end(reason, timings)
            self._before = None
            return None
        before, self._before = self._before, None
        if before is not None:
            self.session.answer()
            self.session.part(before.answer or "")
            self.session.mark_thoughts(before.thoughts, opened=before.opened)
            self.session.end(before.reason)
            return None
        return self.undo()

    # changing what was said

    def undo(self) -> str:
        """Take back the last message and its answer; returns the message.

        Raises:
            UsageError: There is none.
        """
        text = self._last_turn().user
        self.session.keep(len(self.turns) - 1)
        self.tokens, self._asked = [], None
        return text

    def clear(self) -> None:
        """Forget all turns."""
        self.session.keep(0)
        self.tokens, self._asked = [], None

    # settings

    def set(self, name: str, value: str) -> str:
        """Change how tokens are picked, or the bound of an answer; returns what holds now.

        Raises:
            UsageError: There is no such setting, or it cannot have this value.
        """
        if name not in SETTABLE:
            raise UsageError(f"there is no setting {name!r}; /set shows all")
        number = _number(name, value)
        if name == "max_tokens":
            if number is not None and (not isinstance(number, int) or number < 1):
                raise UsageError("max_tokens must be 1 or more, or 'none'")
            self.max_tokens = number
        else:
            self.sampling = replace(self.sampling, **{name: number})
        return f"{name} is {value}"

    def settings(self) -> dict[str, Any]:
        """What `/set` can change, with its values."""
        return {name: getattr(self.sampling, name, self.max_tokens) for name in SETTABLE}

    def set_draft(self, value: str) -> str:
        """Change how drafts are made; returns what holds now.

        Raises:
            UsageError: It is none of on, off, auto, a policy or a budget.
        """
        word = value.lower()
        if word.isdecimal():
            if not 1 <= int(word) <= MAX_BUDGET:
                raise UsageError(f"a draft budget must lie between 1 and {MAX_BUDGET}")
            self.draft = replace(self.draft, policy=FIXED_POLICY, budget=int(word))
        else:
            self.draft = replace(self.draft, policy=DEFAULT_POLICY if word == "on" else word, budget=None)
        budget = f", {self.draft.budget} tokens in a decode" if self.draft.budget is not None else ""
        return f"drafting: {self.draft.policy}{budget}"

    # inside

    def _last_turn(self) -> Turn:
        if not self.turns:
            raise UsageError("nothing was said yet")
        return self.turns[-1]

    def _whole_tokens(self) -> list[Token]:
        """Tokens of the last answer without those at its end that are part of a character."""
        n = len(self.tokens)
        while n and not self.tokens[n - 1].text:
            n -= 1
        return self.tokens[:n]

    def _text(self) -> str:
        return "".join(token.text for token in self.tokens)


def _number(name: str, value: str) -> Any:
    """A value as it is typed: a number, or none."""
    word = value.strip().lower()
    if word in ("none", "-", ""):
        return None
    try:
        return int(word)
    except ValueError:
        pass
    try:
        return float(word)
    except ValueError as error:
        raise UsageError(f"{name} must be a number, not {value!r}") from error
