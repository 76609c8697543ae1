"""Answers in the shapes of OpenAI's chat completions, with `timings` added."""

import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from racer_local.answers import Completion, Step
from racer_local.stats import GenerationStats
from racer_local.thoughts import ThoughtSplitter

FINISH = {"stop": "stop", "length": "length", "context": "length", "cancelled": "stop"}
"""Finish reasons in OpenAI's words, which are fewer."""


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
