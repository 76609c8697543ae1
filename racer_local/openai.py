"""Answers in the shapes of OpenAI's chat completions, with `timings` added."""

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from racer_local.answers import Completion, Step
from racer_local.errors import UsageError
from racer_local.stats import GenerationStats
from racer_local.thoughts import ThoughtSplitter

FINISH = {"stop": "stop", "length": "length", "context": "length", "cancelled": "stop"}
"""Finish reasons in OpenAI's words, which are fewer."""

IGNORED = {
    *("model", "user", "metadata", "store", "stream_options", "service_tier", "safety_identifier", "prompt_cache_key"),
}
"""Options of OpenAI's that say nothing of the answer."""
USUAL = {
    "n": 1,
    "logprobs": False,
    "response_format": {"type": "text"},
    "tools": [],
    "tool_choice": "none",
    "functions": [],
}
"""Options of OpenAI's that are taken with this value alone."""


def options_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a chat completion by our names.

    Raises:
        UsageError: One asks for what is not done here.
    """
    out: dict[str, Any] = {}
    for name, value in options.items():
        if value is None or name in IGNORED:
            continue
        if name in USUAL:
            if value != USUAL[name]:
                raise UsageError(f"{name}={value!r} is not done here; leave {name} out")
            continue
        ours = "max_tokens" if name == "max_completion_tokens" else name
        if out.get(ours, value) != value:
            raise UsageError("max_tokens and max_completion_tokens differ; give one of them")
        out[ours] = value
    return out


def completion(model: str, done: Completion, splitter: ThoughtSplitter) -> dict[str, Any]:
    """A finished answer as one object; a thought has a field of its own, `reasoning_content`."""
    thought, said = splitter.feed(done.text, last=True)
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": said, **({"reasoning_content": thought} if thought else {})},
        "finish_reason": FINISH[done.finish_reason],
    }
    return {**_head(model), "object": "chat.completion", "choices": [choice], **_totals(done.stats)}


def chunks(model: str, steps: Iterable[Step], splitter: ThoughtSplitter) -> Iterator[dict[str, Any]]:
    """An answer as it comes, thoughts as `reasoning_content`; the last chunk has usage and timings."""
    head = {**_head(model), "object": "chat.completion.chunk"}

    def chunk(delta: dict[str, str], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant"})
    for step in steps:
        thought, said = splitter.feed(step.text, last=step.finish_reason is not None)
        if thought:
            yield chunk({"reasoning_content": thought})
        if said:
            yield chunk({"content": said})
        if step.finish_reason:
            yield {**chunk({}, FINISH[step.finish_reason]), **_totals(step.stats)}


def _head(model: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": model}


def _totals(stats: GenerationStats) -> dict[str, Any]:
    return {"usage": stats.usage(), "timings": stats.timings()}
