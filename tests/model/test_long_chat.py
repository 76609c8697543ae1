"""A conversation that outgrows its context goes on: the oldest turns are left out, and nothing aborts."""

from pathlib import Path

import pytest

from racer_local.api import Racer
from racer_local.errors import ContextFullError
from tests.tiny import write_llama


def test_a_chat_far_longer_than_the_context(tmp_path: Path) -> None:
    with Racer(write_llama(tmp_path / "tiny.gguf"), n_ctx=128, remember=False) as racer:
        system = {"role": "system", "content": "be in there"}
        messages: list[dict[str, str]] = [system]
        left_out = []
        for turn in range(25):
            messages.append({"role": "user", "content": f"the an in er the a {turn}"})
            prompt = racer.prepare(messages, make_room=True)
            left_out.append(prompt.n_left_out)
            assert prompt.messages[0] == system
            assert prompt.messages[-1] == messages[-1]
            assert len(prompt.tokens) < 128
            done = racer.generate(prompt, max_tokens=12, temperature=0)
            assert done.finish_reason in ("stop", "length", "context")
            messages.append({"role": "assistant", "content": done.text})
        assert left_out[0] == 0
        assert left_out[-1] > 5


def test_a_last_message_that_alone_is_too_long_is_refused_and_kept(tmp_path: Path) -> None:
    with Racer(write_llama(tmp_path / "tiny.gguf"), n_ctx=64, remember=False) as racer:
        message = {"role": "user", "content": "the a in " * 60}
        before = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        prompt = racer.prepare([*before, message], make_room=True)
        assert prompt.messages == [message]
        with pytest.raises(ContextFullError):
            racer.generate(prompt, max_tokens=3)
        assert racer.chat([{"role": "user", "content": "the"}], max_tokens=3).stats.predicted_n <= 3
