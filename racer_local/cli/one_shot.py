"""One answer, on stdout: as text, as one JSON object or as a JSON line for each step."""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from racer_local.cli.answer_summary import summary
from racer_local.cli.command import say
from racer_local.cli.console import Interrupt, Progress
from racer_local.cli.parser import given
from racer_local.errors import ExitCode
from racer_local.terminal_text import neutral
from racer_local.thoughts import ThoughtSplitter

if TYPE_CHECKING:
    from racer_local.answers import Completion, Step
    from racer_local.api import Racer

Opener = Callable[[Callable[[float], bool]], "Racer"]
"""Loads the model; is given a function that takes progress from 0 to 1 and returns False to give up."""


def answer(args: argparse.Namespace, open_racer: Opener, prompt: str, options: dict[str, Any]) -> int:
    """Answer a prompt; returns the exit code."""
    interrupt = Interrupt()
    with interrupt, Progress(interrupt) as progress:
        opened = open_racer(progress)
    with interrupt, opened as racer:
        interrupt.racer = racer
        said = {racer.chat_format.note} if given(args, "raw") else set()
        _say_notes(racer, said)
        splitter: ThoughtSplitter | None = None
        if given(args, "raw"):
            steps = racer.stream(prompt, **options)
        else:
            system = given(args, "system")
            messages = [{"role": "system", "content": system}] if system else []
            messages.append({"role": "user", "content": prompt})
            prepared = racer.prepare(messages)
            steps, splitter = racer.stream(prepared, **options), racer.splitter(prepared)
        if interrupt.asked:  # while the model was being prepared, with nobody to tell yet
            racer.cancel()
        from racer_local.answers import collect

        as_json, as_lines = given(args, "json"), given(args, "jsonl")
        if as_json:
            show = None
        elif as_lines:
            show = _jsonl_step
        else:
            show = _plain_step
            splitter = None if given(args, "show_thoughts") else splitter
        parts = _Parts(splitter, show)
        done = collect(parts.of(steps))
        if as_json or as_lines:
            print(json.dumps(_totals(racer, done, parts), ensure_ascii=False), flush=True)
        else:
            say(f"racer-chat: {summary(done.stats)}", on_stderr=True)
            if why := _why_cut(racer, done.finish_reason):
                say(f"racer-chat: {why}", on_stderr=True)
    _say_notes(racer, said)
    return interrupt.exit_code if done.finish_reason == "cancelled" else ExitCode.DONE


def _say_notes(racer: "Racer", said: set[str]) -> None:
    """Tell people on stderr what was not said yet."""
    for note in racer.notes:
        if note not in said:
            said.add(note)
            say(f"racer-chat: {note}", on_stderr=True)


def _why_cut(racer: "Racer", finish_reason: str | None) -> str:
    """Why an answer ended before the model had ended it; empty where it did not."""
    if finish_reason == "length":
        return "the answer was cut: it has as many tokens as -n allows"
    if finish_reason == "context":
        return f"the answer was cut: the context of {racer.engine.n_ctx} tokens is full; raise it with -c"
    return ""


class _Parts:
    """What is thought and what is said in an answer, shown as it comes.

    Attributes:
        thought: All that is thought.
        said: All that is said.
    """

    def __init__(self, splitter: ThoughtSplitter | None, show: "Callable[[Step, str, str], None] | None") -> None:
        """Begin.

        Args:
            splitter: Tells the two apart; None takes everything for said.
            show: Called with each step, what is thought and what is said in it.
        """
        self.thought = self.said = ""
        self._splitter = splitter
        self._show = show

    def of(self, steps: Iterable["Step"]) -> Iterator["Step"]:
        """Pass the steps of an answer on."""
        for step in steps:
            thought, said = "", step.text
            if self._splitter is not None:
                thought, said = self._splitter.feed(said, last=step.finish_reason is not None)
            self.thought, self.said = self.thought + thought, self.said + said
            if self._show is not None:
                self._show(step, thought, said)
            yield step


def _texts(thought: str, said: str) -> dict[str, str]:
    """For JSON; without a field for thoughts where there are none."""
    return {"text": said, **({"reasoning_content": thought} if thought else {})}


def _plain_step(step: "Step", _thought: str, said: str) -> None:
    text = neutral(said) if sys.stdout.isatty() else said
    if step.finish_reason:
        text += "\n"
    if text:
        print(text, end="", flush=True)


def _jsonl_step(step: "Step", thought: str, said: str) -> None:
    line = {
        **_texts(thought, said),
        "tokens": [
            {"id": t.id, "text": t.text, "source": t.source.label, "match_len": t.match_len, "depth": t.depth}
            for t in step.tokens
        ],
        "drafted": len(step.tree),
        "accepted": len(step.path),
        "note": step.note,
        "finish_reason": step.finish_reason,
    }
    print(json.dumps(line, ensure_ascii=False), flush=True)


def _totals(racer: "Racer", done: "Completion", parts: _Parts) -> dict[str, Any]:
    """The JSON object of an answer."""
    return {
        "model": racer.model.path.name,
        **_texts(parts.thought, parts.said),
        "finish_reason": done.finish_reason,
        "usage": done.stats.usage(),
        "timings": done.stats.timings(),
        "draft": {**racer.drafting(), "note": done.note},
    }
