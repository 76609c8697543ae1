"""A Racer that says what it is told to, step by step, without a model: for tests of the interface."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from racer_local.answers import Step
from racer_local.draft_tree import ROOT, DraftTree
from racer_local.prompt import Prompt
from racer_local.stats import GenerationStats
from racer_local.thoughts import THINK
from racer_local.tokens import Source, Token

GATE_TIMEOUT_S = 20.0

PROMPT_END = 10**9
"""Token of a prompt's end."""


class Gate:
    """A place in a script where decoding waits until the test opens it, or the answer is cancelled."""

    def __init__(self) -> None:
        self._open = threading.Event()

    def open(self) -> None:
        """Let the script go on."""
        self._open.set()

    def wait(self) -> None:
        """Wait, but not for ever."""
        self._open.wait(GATE_TIMEOUT_S)


Line = Sequence[tuple[str, Source]] | str | Gate | Exception | tuple[str, int, int]
"""One thing that happens: tokens of a step, one token of the model, a wait, an error, or ("prefill", done, todo)."""


def tree_of(*nodes: tuple[int, int, Source, int]) -> DraftTree:
    """A draft from (token, parent, source, matched tokens)."""
    tree = DraftTree.allocate(len(nodes))
    for i, (token, parent, source, match_len) in enumerate(nodes):
        tree.token[i], tree.parent[i], tree.source[i], tree.match_len[i] = token, parent, int(source), match_len
        tree.depth[i] = 1 if parent == ROOT else tree.depth[parent] + 1
    return tree


class ScriptedRacer:
    """Answers from scripts, one after the other.

    Attributes:
        asked: The messages of every call.
        options: The options of every call.
        closed: Whether it was closed.
        notes: What people should know.
        thoughts: How thoughts are marked.
        drafts_wanted: Whether drafts are made.
        prompt_end: What every prompt ends with.
        so_far: What every call goes on from.
        n_prepared: How many prompts were made.
        n_left_out: Turns that the context has no room for.
        tree, path: The draft that every step claims to have verified.
    """

    def __init__(self, *scripts: Sequence[Line], pieces: Mapping[int, bytes] | None = None) -> None:
        """Each script is one answer; it ends with `stop` unless its last line is a finish reason like "=length"."""
        self._scripts = list(scripts)
        self._pieces = dict(pieces or {})
        self._cancelled = threading.Event()
        self._waiting: Gate | None = None
        self.asked: list[list[dict[str, str]]] = []
        self.options: list[dict[str, Any]] = []
        self.closed = False
        self.tree = DraftTree.empty()
        self.path: tuple[int, ...] = ()
        self.model = SimpleNamespace(description="llama 135M Q4_1", device="CPU", piece=self._piece)
        self.engine = SimpleNamespace(n_ctx=2048)
        self.notes: list[str] = []
        self.thoughts = THINK
        self.drafts_wanted = True
        self.prompt_end = ""
        self.so_far: list[Any] = []
        self.n_prepared = 0
        self.n_left_out = 0
        self.mode = {"policy": "racer", "mode": "tree", "reason": "ordinary attention", "budget": 8}

    def drafting(self, draft: Any = None) -> dict[str, Any]:
        """As the script's maker set it."""
        return self.mode

    def cancel(self) -> None:
        """End the answer; a gate is no longer waited for."""
        self._cancelled.set()
        if self._waiting is not None:
            self._waiting.open()

    def close(self) -> None:
        """Note it."""
        self.closed = True

    def prepare(
        self, messages: Sequence[Mapping[str, str]], so_far: Sequence[int] | str = (), *, make_room: bool = False
    ) -> Prompt:
        """One token that stands for what the script's maker wants the prompt to end with."""
        self._pieces[PROMPT_END] = self.prompt_end.encode()
        self.so_far.append(so_far)
        self.n_prepared += 1
        return Prompt([PROMPT_END], [dict(m) for m in messages], self.n_left_out, n_begun=len(so_far))

    def stream(self, prompt: Prompt, **options: Any) -> Iterator[Step]:
        """Play the next script."""
        self.asked.append([dict(m) for m in prompt.messages])
        self.options.append(options)
        return self._play(self._scripts.pop(0), options["on_prefill"])

    def _play(self, script: Sequence[Line], on_prefill: Any) -> Iterator[Step]:
        self._cancelled.clear()
        stats = GenerationStats(prompt_tokens=10)
        finish = "stop"
        for line in script:
            if self._cancelled.is_set():
                break
            if isinstance(line, Gate):
                self._waiting = line
                line.wait()
            elif isinstance(line, Exception):
                raise line
            elif isinstance(line, str) and line.startswith("="):
                finish = line[1:]
            elif isinstance(line, tuple):
                on_prefill(*line[1:])
            else:
                yield self._step([(line, Source.MODEL)] if isinstance(line, str) else line, stats)
        yield self._step([], stats, "cancelled" if self._cancelled.is_set() else finish)

    def _step(self, said: Sequence[Any], stats: GenerationStats, finish: str | None = None) -> Step:
        if said:
            stats.steps += 1
            stats.predicted_s += 0.01
        tokens = tuple(
            Token(i, text, source, 0, 0 if source == Source.MODEL else i + 1, stats.steps)
            for i, (text, source) in enumerate(said)
        )
        stats.count(tokens)
        text = "".join(t.text for t in tokens)
        return Step(text, tokens, self.tree, self.path, max(1, len(tokens)), stats.snapshot(), finish)

    def _piece(self, token: int) -> bytes:
        return self._pieces.get(token, b"t%d" % token)
