"""How messages become tokens: once an answer, with room made for what was begun."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from racer_local.tui.decoder import Decoder  # pyright: ignore[reportMissingImports]
from racer_local.tui.events import Ask  # pyright: ignore[reportMissingImports]
from racer_local.tui.recording import Recording  # pyright: ignore[reportMissingImports]

from racer_local.api import Racer
from racer_local.errors import UsageError
from racer_local.prompt import Message
from tests.tiny import write_llama

TEMPLATE = "{% for m in messages %}<s>{{ m.role }} {{ m.content }}</s>{% endfor %}<s>"
HELLO = [{"role": "user", "content": "the man in"}]


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Racer]:
    with Racer(write_llama(tmp_path / "tiny.gguf", template=TEMPLATE), n_ctx=128, remember=False) as racer:
        yield racer


@pytest.fixture
def renderings(tiny: Racer, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with each time that messages are made into a prompt: how many messages they were."""
    counted: list[int] = []
    render = tiny.chat_format.prompt

    def prompt(messages: Sequence[Message], *args: Any) -> Any:
        counted.append(len(messages))
        return render(messages, *args)

    monkeypatch.setattr(tiny.chat_format, "prompt", prompt)
    return counted


def test_the_library_makes_a_prompt_once_an_answer(tiny: Racer, renderings: list[int]) -> None:
    tiny.chat(HELLO, max_tokens=2)
    tiny.create_chat_completion(HELLO, max_tokens=2)
    list(tiny.stream_chat(HELLO, so_far="the", max_tokens=2))
    assert renderings == [1, 1, 1]


def test_the_chat_makes_a_prompt_once_an_answer_also_while_it_is_recorded(
    tiny: Racer, renderings: list[int], tmp_path: Path
) -> None:
    recording = Recording(tmp_path / "run.jsonl", tiny)
    decoder = Decoder(lambda _progress: recording)
    decoder._answer(recording, Ask(HELLO, {"max_tokens": 2}))
    assert renderings == [1]


def test_going_on_in_a_full_context_leaves_older_turns_out(tiny: Racer) -> None:
    messages = [{"role": ("user", "assistant")[i % 2], "content": "the a in " * 2} for i in range(5)]
    prompt = tiny.prepare(messages)
    begun = [t.id for t in tiny.generate(prompt, temperature=0).tokens]
    assert len(prompt.tokens) + len(begun) >= 128
    rest = tiny.prepare(messages, begun, make_room=True)
    assert rest.n_left_out > 0
    assert rest.tokens[-len(begun) :] == begun
    assert tiny.generate(rest, max_tokens=3).stats.predicted_n <= 3


def test_variables_of_the_template(tmp_path: Path) -> None:
    template = "{{ messages[-1].content }}{% if enable_thinking is not false %} the{% endif %}"
    path = write_llama(tmp_path / "tiny.gguf", template=template)
    off = {"enable_thinking": False}
    with Racer(path, n_ctx=64, remember=False) as racer, Racer(path, n_ctx=64, chat_template_kwargs=off) as never:
        plain, without = (racer.prepare(HELLO, chat_template_kwargs=args).tokens for args in (None, off))
        assert len(plain) > len(without)
        assert never.prepare(HELLO).tokens == without
        assert never.prepare(HELLO, chat_template_kwargs={"enable_thinking": True}).tokens == plain
        for ask in (racer.chat, racer.create_chat_completion):
            ask(HELLO, max_tokens=1, stop=None, chat_template_kwargs=off)
            for wrong in ("x", {"messages": []}, {5: 1}):
                with pytest.raises(UsageError, match="chat_template_kwargs"):
                    ask(HELLO, chat_template_kwargs=wrong)
        assert racer.create_chat_completion(HELLO, max_completion_tokens=1)["usage"]["completion_tokens"] == 1
