"""The Python interface: load a model, ask it, get text and honest numbers."""

import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal, Self, overload

import numpy as np

from racer_local import gguf_file, history, openai, registry
from racer_local.answers import Completion, Step, collect
from racer_local.detokenize import TextStream
from racer_local.drafting.cost import StepCost
from racer_local.drafting.drafter import Drafter, describe, make_drafter, weighs_costs
from racer_local.drafting.memory import Memory
from racer_local.drafting.successors import RowScan
from racer_local.errors import UsageError
from racer_local.kernels.warmup import warm_up
from racer_local.learned import Learned
from racer_local.llama import amx, decode_timing, library, load_check, probe
from racer_local.llama.chat import ChatFormat
from racer_local.llama.engine import CLOSED, Engine
from racer_local.llama.model import Model
from racer_local.llama.sampling import Sampler
from racer_local.llama.versions import version_note
from racer_local.loop import Loop, Parts
from racer_local.prompt import Message, Prompt
from racer_local.settings import (
    DraftConfig,
    ModelParams,
    SamplingParams,
    draft_of,
    from_options,
    sampling_of,
    stops_of,
)
from racer_local.thoughts import ThoughtFormat, ThoughtSplitter, cut

TAIL_TOKENS = 12
"""Tokens at a prompt's end that show whether it opens a thought."""
BUSY = "this Racer is answering already; end that answer first"


class Racer:
    """A loaded model with its context and what drafting remembers. Use it as a context manager, or close it.

    One answer at a time; not shared between threads, except for `cancel` and `drafts_wanted`.

    Attributes:
        model: The loaded file.
        mode: What drafts the model can verify, and why.
        draft: How drafts are made unless a call says otherwise.
        chat_format: Renders messages.
        drafts_wanted: Whether drafts are made; may be changed at any time, also in the middle of an answer.
        notes: What people should know, a line each: the file's template is not used, say.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        draft: DraftConfig | str | None = None,
        chat_template: str | None = None,
        on_progress: Callable[[float], bool] | None = None,
        remember: bool = True,
        **options: Any,
    ) -> None:
        """Load a model.

        Args:
            model: Path of a GGUF file, or a name from models.toml.
            draft: How drafts are made: a configuration or the name of a policy.
            chat_template: Jinja text that replaces the file's own template.
            on_progress: Called with 0..1 while the file loads; returning False gives up.
            remember: Keep costs of decodes and chances of guesses between starts, in the cache directory.
            **options: Fields of `ModelParams`.

        Raises:
            ModelError: The file cannot be used.
            UsageError: An option or a name is wrong.
            Cancelled: `on_progress` returned False.
        """
        params: ModelParams = from_options(ModelParams, options, "model")
        path = gguf_file.check_file(registry.find_model(model))
        self.draft = draft_of(draft, DraftConfig())
        self._engine: Engine | None = None
        self._begun = self._cost_checked = False
        library.load()
        with ThreadPoolExecutor(1) as pool:
            kernels = pool.submit(warm_up)
            repack = amx.works(path, on_progress)
            load_check.check(path, on_progress)
            self.model = Model(path, params, on_progress, repack=repack)
            try:
                self._engine = Engine(self.model, params)
                kernels.result()
                self.mode = self._engine.mode = probe.find_mode(self._engine)
                self.chat_format = ChatFormat(self.model, chat_template)
            except BaseException:
                self.close()
                raise
        self._memories: dict[DraftConfig, Memory] = {}
        self._drafters: dict[DraftConfig, Drafter] = {}
        self._scans: dict[int, RowScan] = {}
        self._learned = Learned(path, decode_timing.machine(self.engine, params), keep=remember)
        self.drafts_wanted = True
        if weighs_costs(self.draft, self.mode):
            self.step_cost()
        self._busy = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free model and context, and keep what was learned. Closing twice is allowed."""
        if self._engine is not None:
            if self._begun:
                self._learned.save()
            self._engine.close()
            self._engine = None
        self.model.close()

    @property
    def thoughts(self) -> ThoughtFormat:
        """How the model marks its thoughts in the text of an answer; see `thoughts.split`."""
        return self.chat_format.thoughts

    @property
    def notes(self) -> list[str]:
        """See the class."""
        own = [note for note in (version_note(), self.chat_format.note) if note]
        return own + self._learned.notes

    @property
    def engine(self) -> Engine:
        """The context behind this object.

        Raises:
            UsageError: It is closed.
        """
        if self._engine is None:
            raise UsageError(CLOSED)
        return self._engine

    def cancel(self) -> None:
        """End the answer in progress; its text so far is kept. May be called from any thread."""
        if self._engine is not None:
            self._engine.request_stop()

    def forget(self) -> None:
        """Empty the cache and drop everything that drafting has learned."""
        self.engine.clear()
        self._memories.clear()
        self._drafters.clear()

    # text in, text out

    def stream(
        self,
        prompt: str | Sequence[int] | Prompt,
        *,
        max_tokens: int | None = None,
        stop: str | Sequence[str] = (),
        sampling: SamplingParams | None = None,
        draft: DraftConfig | str | None = None,
        on_prefill: Callable[[int, int], None] | None = None,
        **options: Any,
    ) -> Generator[Step]:
        """Complete a prompt step by step; the last step has a finish reason.

        Args:
            prompt: Text, token ids, or what `prepare` has made. Control tokens written out in a text are read as such.
            max_tokens: Bound of the answer; None goes on to an end token or the context's end.
            stop: Strings that end the answer; they are not part of it.
            sampling: How tokens are picked.
            draft: How drafts are made, for this answer.
            on_prefill: Called during a long prefill with tokens done and to do.
            **options: Fields of `SamplingParams`, instead of `sampling`.

        Raises:
            UsageError: A wrong option, or a prompt without tokens.
            ContextFullError: The prompt does not fit.
        """
        engine = self.engine
        tokens = self._tokens(prompt)
        params = sampling_of(sampling, options)
        config = draft_of(draft, self.draft)
        stops = stops_of(stop)
        if max_tokens is not None and (not isinstance(max_tokens, int) or max_tokens < 0):
            raise UsageError(f"max_tokens must be a whole number, 0 or more, not {max_tokens!r}")
        if self._busy.locked():
            raise UsageError(BUSY)
        engine.clear_stop()
        return self._run(engine, tokens, params, config, stops, max_tokens, on_prefill)

    def generate(self, prompt: str | Sequence[int] | Prompt, **options: Any) -> Completion:
        """Complete a prompt; takes the options of `stream`."""
        return collect(self.stream(prompt, **options))

    # messages in, an answer out

    def prepare(
        self, messages: Sequence[Message], so_far: Sequence[int] | str = (), *, make_room: bool = False
    ) -> Prompt:
        """The prompt that asks for the next answer, or for the rest of one.

        Args:
            messages: The conversation.
            so_far: Beginning of the answer, as text or as the tokens it came in.
            make_room: Leave out the oldest turns where the context has no room for all and an answer; see
                `history.fit`.
        """
        begun = self._answer_tokens(so_far)

        def tokens_of(kept: Sequence[Message]) -> list[int]:
            return self.chat_format.prompt(kept).tolist() + begun

        kept, tokens, n_left_out = list(messages), None, 0
        if make_room:
            kept, tokens, n_left_out = history.fit(messages, tokens_of, self.engine.n_ctx)
        return Prompt(tokens or tokens_of(kept), kept, n_left_out, len(begun))

    def stream_chat(
        self, messages: Sequence[Message], *, so_far: Sequence[int] | str = (), **options: Any
    ) -> Generator[Step]:
        """Answer a conversation step by step, or go on with an answer that was begun; takes the options of `stream`."""
        return self.stream(self.prepare(messages, so_far), **options)

    def chat(self, messages: Sequence[Message], **options: Any) -> Completion:
        """Answer a conversation; takes the options of `stream`."""
        return collect(self.stream_chat(messages, **options))

    @overload
    def create_chat_completion(
        self, messages: Sequence[Message], *, stream: Literal[False] = False, **options: Any
    ) -> dict[str, Any]: ...

    @overload
    def create_chat_completion(
        self, messages: Sequence[Message], *, stream: Literal[True], **options: Any
    ) -> Iterator[dict[str, Any]]: ...

    def create_chat_completion(
        self, messages: Sequence[Message], *, stream: bool = False, **options: Any
    ) -> dict[str, Any] | Iterator[dict[str, Any]]:
        """Answer in the shape of OpenAI's chat completions, with `timings` and `reasoning_content` (thoughts) added.

        Args:
            messages: The conversation.
            stream: Give chunks instead of one object; the last chunk has usage and timings.
            **options: Those of `stream`.
        """
        prompt = self.prepare(messages, options.pop("so_far", ()))
        steps, splitter = self.stream(prompt, **options), self.splitter(prompt)
        if stream:
            return openai.chunks(self.model.path.name, steps, splitter)
        return openai.completion(self.model.path.name, collect(steps), splitter)

    def splitter(self, prompt: Prompt) -> ThoughtSplitter:
        """Tells thoughts from what is said in the answer to a prompt; takes the pieces of its text."""
        end = len(prompt.tokens) - prompt.n_begun
        begun, tail = prompt.tokens[end:], self._text(prompt.tokens[max(0, end - TAIL_TOKENS) : end])
        splitter = ThoughtSplitter(self.thoughts, opened=self.thoughts.is_opened_by(tail))
        splitter.feed(self._text(begun))
        return splitter

    @property
    def n_nodes(self) -> int:
        """Nodes in use of the n-gram automata."""
        return sum(memory.automaton.n_nodes for memory in self._memories.values())

    def drafting(self, draft: DraftConfig | str | None = None) -> dict[str, Any]:
        """How an answer would be drafted: `policy`, `mode` (tree, chain or off), `reason` and `budget`."""
        return describe(draft_of(draft, self.draft), self.mode)

    def step_cost(self) -> StepCost:
        """What decodes cost on this machine; measured, or an earlier start's checked, when first asked for, which
        empties the cache.
        """
        cost = self._learned.cost
        if not self._cost_checked:
            self._cost_checked = True
            if not (cost.is_measured and decode_timing.still_holds(self.engine, cost.times(decode_timing.CONTEXT))):
                cost.set_curve(decode_timing.measure(self.engine), decode_timing.CONTEXT)
        return cost

    # inside

    def _answer_tokens(self, so_far: Sequence[int] | str) -> list[int]:
        """An answer that was begun as tokens; marks of thoughts become control tokens again."""
        if not isinstance(so_far, str):
            return [int(token) for token in so_far]
        marks = {mark: token for mark in self.thoughts.marks if (token := self.model.token_of(mark)) is not None}
        tokens: list[int] = []
        for part in cut(so_far, marks):
            known = marks.get(part)
            text = self.model.tokenize(part, add_special=False, parse_special=False) if known is None else [known]
            tokens += [int(token) for token in text]
        return tokens

    def _text(self, tokens: Sequence[int]) -> str:
        return b"".join(self.model.piece(token) for token in tokens).decode("utf-8", "replace")

    def _tokens(self, prompt: str | Sequence[int] | Prompt) -> list[int]:
        if isinstance(prompt, Prompt):
            prompt = prompt.tokens
        if isinstance(prompt, str):
            tokens = self.model.tokenize(prompt, add_special=True).tolist()
        else:
            tokens = [int(t) for t in prompt]
            if any(not 0 <= t < self.model.n_vocab for t in tokens):
                raise UsageError(f"token ids must lie between 0 and {self.model.n_vocab - 1}")
        if not tokens:
            raise UsageError("the prompt has no tokens; write something")
        return tokens

    def _run(
        self,
        engine: Engine,
        tokens: list[int],
        params: SamplingParams,
        config: DraftConfig,
        stop: tuple[str, ...],
        max_tokens: int | None,
        on_prefill: Callable[[int, int], None] | None,
    ) -> Generator[Step]:
        if not self._busy.acquire(blocking=False):
            raise UsageError(BUSY)
        sampler, self._begun = None, True
        try:
            if not params.is_argmax:
                sampler = Sampler(self.model, params)
                sampler.start(np.asarray(tokens, np.int32))
            parts = Parts(
                model=engine,
                drafter=self._drafter(config),
                text=TextStream(self.model.piece, stop),
                picker=sampler,
                is_end=self.model.is_end,
                scan=self._scans.setdefault(config.breadth, RowScan(config.breadth)),
                cost=self._learned.cost,
                stop_asked=lambda: engine.stop_requested,
                drafts_wanted=lambda: self.drafts_wanted,
            )
            yield from Loop(parts, max_tokens).steps(tokens, on_prefill)
        finally:
            if sampler is not None:
                sampler.close()
            self._busy.release()

    def _drafter(self, config: DraftConfig) -> Drafter:
        """The drafter for a configuration; those of equal shape share one memory of the chat."""
        if config not in self._drafters:
            shape = DraftConfig(max_ngram=config.max_ngram, breadth=config.breadth, max_nodes=config.max_nodes)
            if config.policy in ("off", "lookup"):
                self._drafters[config] = make_drafter(config, self.mode, None)
            else:
                if shape not in self._memories:
                    self._memories[shape] = Memory(config, self.model.n_vocab, self.engine.n_ctx)
                cost = self.step_cost() if weighs_costs(config, self.mode) else None
                memory, beliefs = self._memories[shape], self._learned.beliefs
                self._drafters[config] = make_drafter(config, self.mode, memory, cost, beliefs)
        return self._drafters[config]
