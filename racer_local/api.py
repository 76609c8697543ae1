"""The Python interface: load a model, ask it, get text and honest numbers."""

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self, overload

import numpy as np

from racer_local import openai, registry
from racer_local.drafting.cost import PlainTime, StepCost
from racer_local.drafting.drafter import SWITCHED_OFF, Drafter, Memory, make_drafter
from racer_local.drafting.successors import RowScan
from racer_local.errors import UsageError
from racer_local.kernels.warmup import warm_up
from racer_local.llama import amx, calibrate, library, probe
from racer_local.llama.chat import ChatFormat, Message
from racer_local.llama.engine import CLOSED, Engine
from racer_local.llama.model import Model, check_file
from racer_local.llama.sampling import Sampler
from racer_local.llama.text import TextStream
from racer_local.loop import Loop, Parts
from racer_local.records import Completion, Step, Token
from racer_local.settings import MAX_BUDGET, DraftConfig, ModelParams, SamplingParams, from_options

BUSY = "this Racer is answering already; end that answer first"


class Racer:
    """A loaded model with its context and what drafting remembers. One answer at a time; not shared between threads,
    except for `cancel`.

    Use it as a context manager, or close it.

    Attributes:
        model: The loaded file.
        mode: What drafts the model can verify, and why.
        draft: How drafts are made unless a call says otherwise.
        chat_format: Renders messages; its `note` says when the file's template is not used.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        draft: DraftConfig | str | None = None,
        chat_template: str | None = None,
        on_progress: Callable[[float], bool] | None = None,
        **options: Any,
    ) -> None:
        """Load a model.

        Args:
            model: Path of a GGUF file, or a name from models.toml.
            draft: How drafts are made: a configuration or the name of a policy.
            chat_template: Jinja text that replaces the file's own template.
            on_progress: Called with 0..1 while the file loads; returning False gives up.
            **options: Fields of `ModelParams`.

        Raises:
            ModelError: The file cannot be used.
            UsageError: An option or a name is wrong.
            Cancelled: `on_progress` returned False.
        """
        params: ModelParams = from_options(ModelParams, options, "model")
        path = registry.find_model(model)
        self.draft = _draft_config(draft, DraftConfig())
        self._engine: Engine | None = None
        library.load()
        check_file(path)
        with ThreadPoolExecutor(1) as pool:
            kernels = pool.submit(warm_up)
            self.model = Model(path, params, on_progress, repack=amx.works(path))
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
        self._plain = PlainTime()
        self._cost: StepCost | None = None
        if self.draft.policy == "auto":
            self.step_cost()
        self._busy = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free model and context. Closing twice is allowed."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None
        self.model.close()

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
        prompt: str | Sequence[int],
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
            prompt: Text, or token ids.
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
        params = _sampling(sampling, options)
        config = _draft_config(draft, self.draft)
        stops = _stop_strings(stop)
        if max_tokens is not None and (not isinstance(max_tokens, int) or max_tokens < 0):
            raise UsageError(f"max_tokens must be a whole number, 0 or more, not {max_tokens!r}")
        if self._busy.locked():
            raise UsageError(BUSY)
        engine.clear_stop()
        return self._run(engine, tokens, params, config, stops, max_tokens, on_prefill)

    def generate(self, prompt: str | Sequence[int], **options: Any) -> Completion:
        """Complete a prompt; takes the options of `stream`."""
        return collect(self.stream(prompt, **options))

    # messages in, an answer out

    def stream_chat(self, messages: Sequence[Message], **options: Any) -> Generator[Step]:
        """Answer a conversation step by step; takes the options of `stream`."""
        return self.stream(self.chat_format.prompt(messages).tolist(), **options)

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
        """Answer in the shape of OpenAI's chat completions, with `timings` added.

        Args:
            messages: The conversation.
            stream: Give chunks instead of one object; the last chunk has usage and timings.
            **options: Those of `stream`.
        """
        steps = self.stream_chat(messages, **options)
        if stream:
            return openai.chunks(self.model.path.name, steps)
        return openai.completion(self.model.path.name, collect(steps))

    # inside

    def drafting(self, draft: DraftConfig | str | None = None) -> dict[str, Any]:
        """How an answer would be drafted: `policy`, `mode` (tree, chain or off), `reason` and `budget`."""
        config = _draft_config(draft, self.draft)
        mode, reason = self.mode.name, self.mode.reason
        if config.policy == "off":
            mode, reason = "off", SWITCHED_OFF
        elif mode == "tree" and (config.chain or config.policy == "lookup"):
            mode, reason = "chain", "a single path is drafted as configured"
        budget = MAX_BUDGET if config.policy == "auto" else config.budget
        return {"policy": config.policy, "mode": mode, "reason": reason, "budget": budget}

    def step_cost(self) -> StepCost:
        """What decodes cost on this machine; measured when first asked for, which empties the cache."""
        if self._cost is None:
            self._cost = StepCost(calibrate.measure(self.engine))
        return self._cost

    def _tokens(self, prompt: str | Sequence[int]) -> list[int]:
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
        sampler = None
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
                plain=self._plain,
                cost=self._cost,
                stop_asked=lambda: engine.stop_requested,
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
                cost = self.step_cost() if config.policy == "auto" else None
                self._drafters[config] = make_drafter(config, self.mode, self._memories[shape], cost)
        return self._drafters[config]


def collect(steps: Iterable[Step]) -> Completion:
    """Put the steps of an answer together."""
    tokens: list[Token] = []
    last: Step | None = None
    for step in steps:
        tokens += step.tokens
        last = step
    assert last is not None
    assert last.finish_reason is not None, "an answer ends with a reason"
    return Completion("".join(t.text for t in tokens), tuple(tokens), last.finish_reason, last.stats)


def _draft_config(draft: DraftConfig | str | None, default: DraftConfig) -> DraftConfig:
    if draft is None:
        return default
    return replace(default, policy=draft) if isinstance(draft, str) else draft


def _sampling(sampling: SamplingParams | None, options: Mapping[str, Any]) -> SamplingParams:
    if sampling is None:
        return from_options(SamplingParams, options, "sampling")
    if options:
        raise UsageError(f"give either sampling=... or {', '.join(sorted(options))}, not both")
    return sampling


def _stop_strings(stop: str | Sequence[str]) -> tuple[str, ...]:
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    if any(not isinstance(s, str) or not s for s in stops):
        raise UsageError("a stop string must be text of at least one character")
    return stops
