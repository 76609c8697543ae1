"""The same questions put to another program that speaks OpenAI's interface and gives timings, as llama-server does."""

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

from racer_local.bench.questions import WARM_UP, WARM_UP_TOKENS, Question
from racer_local.bench.results import Answer, Result
from racer_local.errors import RacerError

TIMEOUT_S = 600


def ask(
    url: str,
    label: str,
    questions: Sequence[Question],
    max_tokens: int,
    rows: list[Result],
    on_progress: Callable[[int, int], None],
) -> None:
    """Put questions to a server, greedily, one at a time.

    Args:
        url: Where it listens, without `/v1`.
        label: What to call it in tables.
        questions: What to ask.
        max_tokens: Bound of each answer.
        rows: Filled as answers come in.
        on_progress: Called with questions done and to do.

    Raises:
        RacerError: The server does not answer, or answers without timings.
    """
    _answer(url, [{"role": "user", "content": WARM_UP}], WARM_UP_TOKENS)
    for number, question in enumerate(questions):
        on_progress(number, len(questions))
        messages: list[dict[str, str]] = []
        turns = []
        for turn in question.turns:
            messages.append({"role": "user", "content": turn})
            answer = _answer(url, messages, max_tokens)
            messages.append({"role": "assistant", "content": answer.text})
            turns.append(answer)
        rows.append(Result(question.id, question.kind, label, tuple(turns)))
    on_progress(len(questions), len(questions))


def _answer(url: str, messages: list[dict[str, str]], max_tokens: int) -> Answer:
    body = {"messages": messages, "max_tokens": max_tokens, "temperature": 0, "cache_prompt": True}
    reply = _post(f"{url.rstrip('/')}/v1/chat/completions", body)
    try:
        text = reply["choices"][0]["message"]["content"] or ""
        timings = reply["timings"]
        n, drafted = int(timings["predicted_n"]), int(timings.get("draft_n", 0))
        accepted = int(timings.get("draft_n_accepted", 0))
        return Answer(
            tokens=(-1,) * n,
            text=text,
            seconds=float(timings["predicted_ms"]) / 1e3,
            prompt_s=float(timings["prompt_ms"]) / 1e3,
            steps=n - accepted,
            drafted=drafted,
            accepted=accepted,
            own_s=0.0,
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise RacerError(f"{url} gave no answer or no timings ({error!r}); llama-server gives both") from error


def _post(url: str, body: dict[str, Any]) -> Any:
    try:
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            return json.load(response)
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError) as error:
        raise RacerError(f"{url} does not answer as expected: {error}") from error
