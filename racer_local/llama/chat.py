"""Messages to prompt text, by the model's own chat template in llama-cpp-python's Jinja sandbox."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jinja2
import numpy as np
from llama_cpp.llama_chat_format import Jinja2ChatFormatter
from numpy.typing import NDArray

from racer_local.errors import UsageError
from racer_local.llama.control_text import ControlText, Shield
from racer_local.llama.model import Model
from racer_local.messages import checked
from racer_local.prompt import Message
from racer_local.thoughts import ThoughtFormat, choose, split_earlier

THOUGHT_FIELDS = ("reasoning_content", "thinking")
"""What templates call the thought of an earlier answer; most leave it out."""
FIXED = {"messages", "eos_token", "bos_token", "raise_exception", "add_generation_prompt", "strftime_now"}
"""Variables that are not the caller's."""
NO_TEMPLATE = "no chat template in the file: the text is completed as it stands"


class ChatFormat:
    """Renders conversations for one model.

    Attributes:
        note: Why the template is not used as it stands, empty if it is.
        thoughts: How the model marks its thoughts; the marks become part of the text of its tokens.
    """

    def __init__(self, model: Model, template: str | None = None) -> None:
        """Read the template.

        Args:
            model: The model; its own template is used unless `template` is given.
            template: Jinja text that replaces it.

        Raises:
            UsageError: A given template is not valid Jinja. (A model's own broken one falls back to plain text.)
        """
        self._model = model
        self.note = ""
        self._formatter: Jinja2ChatFormatter | None = None
        source = template if template is not None else model.chat_template
        self.thoughts: ThoughtFormat = choose(source or "", lambda mark: model.token_of(mark) is not None)
        tokens = [token for mark in self.thoughts.marks if (token := model.token_of(mark)) is not None]
        # llama.cpp makes text of some of gpt-oss's control tokens; its template refuses them in a message
        self._takes_thoughts_apart = self.thoughts.has_channels or any(map(model.is_control, tokens))
        model.show(tokens)
        self._control = ControlText(model, source or "")
        if not source:
            self.note = NO_TEMPLATE
            return
        bos, eos = model.written(model.bos), model.written(model.eos)
        try:
            self._formatter = Jinja2ChatFormatter(source, eos_token=eos, bos_token=bos)
        except jinja2.TemplateError as error:
            if template is not None:
                raise UsageError(f"the chat template is not valid Jinja: {error}") from error
            self.note = f"the file's chat template is not valid Jinja ({error}): the text is completed as it stands"

    def prompt(self, messages: Sequence[Message], template_args: Mapping[str, Any] | None = None) -> NDArray[np.int32]:
        """Token ids that ask the model for the next answer, int32[n]. Control tokens are the template's alone, but for
        marks of thoughts in the model's own answers.

        Args:
            messages: The conversation.
            template_args: Variables of the template.

        Raises:
            UsageError: A message or a variable is malformed, or there is no message.
        """
        args = checked_args(template_args)
        if self._formatter is not None:
            self.note = ""
        asked = [self._with_thought_apart(m) for m in checked(messages)]
        shield = Shield(self._control, asked)
        text = self._render([shield.cover(m, self._own(m)) for m in asked], args)
        tokens = shield.tokens(text)
        if tokens is None:
            return self._model.tokenize(shield.text(text), add_special=True)
        return np.asarray(self._model.with_begin(tokens), np.int32)

    def _with_thought_apart(self, message: dict[str, Any]) -> dict[str, Any]:
        """An earlier answer with its thought in fields of its own, where its marks would mean nothing as text.

        Other answers stay whole: their templates look for the marks themselves.
        """
        if message["role"] != "assistant" or not self._takes_thoughts_apart:
            return message
        thought, said = split_earlier(message["content"], self.thoughts)
        return {**message, "content": said, **(dict.fromkeys(THOUGHT_FIELDS, thought) if thought else {})}

    def _own(self, message: Mapping[str, Any]) -> Collection[str]:
        """Control text that the model itself may have written."""
        return () if message["role"] != "assistant" or self._takes_thoughts_apart else self.thoughts.marks

    def _render(self, messages: list[dict[str, Any]], args: dict[str, Any]) -> str:
        if self._formatter is None:
            return _plain(messages)
        first_error: Exception | None = None
        for attempt in (messages, _merged(_without_system(messages))):
            try:
                return self._formatter(messages=attempt, **args).prompt  # type: ignore[arg-type]
            # a template is foreign code: besides Jinja's own errors it may fail in any Python expression it holds
            except Exception as error:
                first_error = first_error or error
        self.note = f"the chat template failed ({first_error}): the text is completed as it stands"
        return _plain(messages)


def checked_args(args: Any) -> dict[str, Any]:
    """Variables of a template by name.

    Raises:
        UsageError: They are none, or one that every template is given anyway.
    """
    if args is None:
        return {}
    if not isinstance(args, Mapping) or any(not isinstance(name, str) for name in args):
        raise UsageError("chat_template_kwargs must be a mapping from names of the template's variables to values")
    for name in FIXED & set(args):
        raise UsageError(f"chat_template_kwargs cannot set {name}, which every template is given")
    return dict(args)


def _without_system(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """System texts moved in front of the first user message, for templates that know no system role."""
    system = "\n\n".join(m["content"] for m in messages if m["role"] == "system")
    rest = [dict(m) for m in messages if m["role"] != "system"]
    if system:
        first = next((m for m in rest if m["role"] == "user"), None)
        if first is None:
            rest.insert(0, {"role": "user", "content": system})
        else:
            first["content"] = f"{system}\n\n{first['content']}"
    return rest


def _merged(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbours of one role joined, for templates that demand alternation."""
    out: list[dict[str, Any]] = []
    for message in messages:
        if out and out[-1]["role"] == message["role"]:
            out[-1] = {**out[-1], "content": f"{out[-1]['content']}\n\n{message['content']}"}
        else:
            out.append(message)
    return out


def _plain(messages: list[dict[str, Any]]) -> str:
    """The conversation as bare text, for models without a template."""
    return "\n\n".join(m["content"] for m in messages)
