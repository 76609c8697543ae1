"""What a model thinks is not on stdout unless asked for, and has a field of its own in JSON."""

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, Self

import pytest

from racer_local.answers import Step
from racer_local.cli import one_shot
from racer_local.cli.combinations import check, purpose
from racer_local.cli.parser import build_parser
from racer_local.cli.prompt_input import find_prompt
from racer_local.errors import UsageError
from racer_local.prompt import Prompt
from racer_local.thoughts import FORMATS, THINK, ThoughtFormat, ThoughtSplitter
from tests.test_openai import steps_of


class Thinker:
    """A Racer that thinks before it answers."""

    model = SimpleNamespace(path=SimpleNamespace(name="m.gguf"))
    chat_format = SimpleNamespace(note="")
    notes = ()

    def __init__(self, known: ThoughtFormat, text: str, *, opened: bool) -> None:
        self._known, self._text, self._opened = known, text, opened

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def prepare(self, messages: Any) -> Prompt:
        """Of no meaning."""
        return Prompt([1], messages)

    def splitter(self, _prompt: Any) -> ThoughtSplitter:
        """As a Racer."""
        return ThoughtSplitter(self._known, opened=self._opened)

    def stream(self, _prompt: Any, **_options: Any) -> Iterator[Step]:
        """The answer, three characters a step."""
        return iter(steps_of(*(self._text[i : i + 3] for i in range(0, len(self._text), 3))))

    def drafting(self) -> dict[str, Any]:
        """Of no meaning."""
        return {}


def printed(
    capsys: pytest.CaptureFixture[str],
    *options: str,
    known: ThoughtFormat = THINK,
    text: str = "",
    opened: bool = False,
) -> str:
    """What an answer leaves on stdout."""
    racer: Any = Thinker(known, text, opened=opened)
    one_shot.answer(build_parser().parse_args(list(options)), lambda _progress: racer, "hi", {})
    return capsys.readouterr().out


def marked(known: ThoughtFormat) -> str:
    """A thought and an answer."""
    said = "<|start|>assistant<|channel|>final<|message|>" if known.has_channels else known.answer_opens
    return f"{known.opens}deep in it{known.closes}{said}forty-two{known.answer_closes}"


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.name)
def test_every_format(capsys: pytest.CaptureFixture[str], known: ThoughtFormat) -> None:
    assert printed(capsys, known=known, text=marked(known)) == "forty-two\n"
    totals = json.loads(printed(capsys, "--json", known=known, text=marked(known)))
    assert (totals["text"], totals["reasoning_content"]) == ("forty-two", "deep in it")


def test_it_is_printed_if_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "--show-thoughts", text="<think>so</think>42") == "<think>so</think>42\n"


def test_one_that_the_prompt_has_begun(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, text="so</think>\n\n42", opened=True) == "42\n"
    assert printed(capsys, text="cut", opened=True) == "\n"


def test_lines_of_json_make_up_the_totals(capsys: pytest.CaptureFixture[str]) -> None:
    *lines, totals = map(json.loads, printed(capsys, "--jsonl", text="<think>so it is</think>\n42 <x").splitlines())
    for field, text in (("text", "42 <x"), ("reasoning_content", "so it is")):
        assert "".join(line.get(field, "") for line in lines) == totals[field] == text
    assert "".join(token["text"] for line in lines for token in line["tokens"]) == "<think>so it is</think>\n42 <x"


def test_without_a_thought_there_is_no_field(capsys: pytest.CaptureFixture[str]) -> None:
    assert "reasoning_content" not in printed(capsys, "--json", text="42")
    assert "reasoning_content" not in printed(capsys, "--jsonl", text="42")


def test_without_a_template_nothing_is_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "--raw", text="<think>so</think>42") == "<think>so</think>42\n"


def test_the_prompt_may_come_on_stdin() -> None:
    args = build_parser().parse_args(["--show-thoughts"])
    check(args, vars(args).keys(), purpose(args))


def test_there_must_be_a_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("racer_local.cli.prompt_input._is_piped", lambda _stream: False)
    with pytest.raises(UsageError, match="there is no prompt; give one with -p"):
        find_prompt(build_parser().parse_args(["--show-thoughts"]))
