"""The Python interface: load a model, ask it, get text and honest numbers."""

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, Self, overload

import numpy as np

from racer_local import history, loading, openai
from racer_local.answers import Completion, Step, collect
from racer_local.detokenize import TextStream
from racer_local.draft_tree import DraftMode
from racer_local.drafters import Drafters
from racer_local.drafting.cost import StepCost
from racer_local.drafting.policies import DraftConfig, describe, draft_of, weighs_costs
from racer_local.errors import UsageError
from racer_local.learned import Learned
from racer_local.llama import decode_timing
from racer_local.llama.chat import ChatFormat, checked_args
from racer_local.llama.engine import Engine
from racer_local.llama.handle import CLOSED
from racer_local.llama.model import Model, check_tokens
from racer_local.llama.sampling import Sampler
from racer_local.llama.versions import version_note
from racer_local.loop import AnswerParts, Loop
from racer_local.messages import checked
from racer_local.prompt import Message, Prompt
from racer_local.settings import ModelParams, SamplingParams, from_options, sampling_of, stops_of
from racer_local.thoughts import ThoughtFormat, ThoughtSplitter, cut

TAIL_TOKENS = 12
"""Tokens at a prompt's end that show whether it opens a thought."""
BUSY = "this Racer is answering already; end that answer first"


class Racer:
    """A loaded model with its context and what drafting remembers. Use it as a context manager, or close it.

    One answer at a time; not shared between threads, except for `cancel`, `close` and `drafts_wanted`.

    Attributes:
        draft: How drafts are made unless a call says otherwise.
        drafts_wanted: Whether drafts are made; may be changed at any time, also in the middle of an answer.
    """

    _engine: Engine | None = None
    """Stays None where loading failed."""

    def __init__(
        self,
        model: str | Path,
        *,
        draft: DraftConfig | str | None = None,
        chat_template: str | None = None,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        on_progress: Callable[[float], bool] | None = None,
        remember: bool = True,
        **options: Any,
    ) -> None:
        """Load a model.

        Args:
            model: Path of a GGUF file, or a name from models.toml.
            draft: How drafts are made: a configuration or the name of a policy.
            chat_template: Jinja text that replaces the file's own template.
            chat_template_kwargs: Variables of the template, such as `enable_thinking`.
            on_progress: Called with 0..1 while the file loads; returning False gives up.
            remember: Keep costs of decodes and chances of guesses between starts, in the cache directory.
            **options: Fields of `ModelParams`.

        Raises:
            ModelError: The file cannot be used.
            UsageError: An option or a name is wrong.
            Cancelled: `on_progress` returned False.
        """
        params: ModelParams = from_options(ModelParams, options, "model")
        self.draft = draft_of(draft, DraftConfig())
        self._template_args = checked_args(chat_template_kwargs)
        self.drafts_wanted = True
        self._busy = threading.Lock()
        self._begun = False
        with ExitStack() as stack:
            engine = loading.load(loading.find(model), params, on_progress)
            stack.callback(loading.close, engine)
            self._chat_format = ChatFormat(engine.model, chat_template)
            self._learned = Learned(engine.model.path, decode_timing.machine(engine, params), keep=remember)
            self._drafters = Drafters(engine, self._learned)
            self._engine = engine
            if weighs_costs(self.draft, self.mode):
                self.step_cost()
            stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free model and context, and keep what was learned. Closing twice is allowed, and so is closing from another
        thread or in the middle of an answer, which then ends with an error at its next step.
        """
        if self._engine is not None and not self._engine.is_closed:
            loading.close(self._engine)
            if self._begun:
                self._learned.save()

    @property
    def engine(self) -> Engine:
        """The context behind this object.

        Raises:
            UsageError: It is closed, as is said by everything else of a closed Racer but `close`, `cancel` and `notes`.
        """
        if self._engine is None or self._engine.is_closed:
            raise UsageError(CLOSED)
        return self._engine

    @property
    def model(self) -> Model:
        """The loaded file."""
        return self.engine.model

    @property
    def mode(self) -> DraftMode:
        """What drafts the model can verify, and why."""
        return self.engine.mode

    @property
    def chat_format(self) -> ChatFormat:
        """Renders messages."""
        self.engine  # noqa: B018 - a closed one says so
        return self._chat_format

    @property
    def thoughts(self) -> ThoughtFormat:
        """How the model marks its thoughts in the text of an answer; see `thoughts.split`."""
        return self.chat_format.thoughts

    @property
    def notes(self) -> list[str]:
        """What people should know, a line each: the file's template is not used, say. Readable when closed as well."""
        if self._engine is None:
            return []
        own = [note for note in (version_note(), self._chat_format.note, loading.context_note(self._engine)) if note]
        return own + self._learned.notes

    def cancel(self) -> None:
        """End the answer in progress, if any; its text so far is kept. May be called from any thread."""
        if self._engine is not None:
            self._engine.request_stop()

    def forget(self) -> None:
        """Empty the cache and drop everything that drafting has learned.

        Raises:
            UsageError: An answer is in progress.
        """
        with self._alone():
            self.engine.clear()
            self._drafters.clear()

    # text in, text out

    def stream(
        self,
        prompt: str | Sequence[int] | Prompt,
        *,
        max_tokens: int | None = None,
        stop: str | Sequence[str] | None = (),
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
        self,
        messages: Sequence[Message],
        so_far: Sequence[int] | str = (),
        *,
        make_room: bool = False,
        chat_template_kwargs: Mapping[str, Any] | None = None,
    ) -> Prompt:
        """The prompt that asks for the next answer, or for the rest of one.

        Args:
            messages: The conversation.
            so_far: Beginning of the answer, as text or as the tokens it came in.
            make_room: Leave out the oldest turns where the context has no room for all and an answer; see
                `history.fit`.
            chat_template_kwargs: Variables of the template, on top of the Racer's.
        """
        args = {**self._template_args, **checked_args(chat_template_kwargs)}
        messages = checked(messages)
        begun = self._answer_tokens(so_far)

        def tokens_of(kept: Sequence[Message]) -> list[int]:
            return self.chat_format.prompt(kept, args).tolist() + begun

        kept, tokens, n_left_out = list(messages), None, 0
        if make_room:
            kept, tokens, n_left_out = history.fit(messages, tokens_of, self.engine.n_ctx)
        return Prompt(tokens or tokens_of(kept), kept, n_left_out, len(begun))

    def stream_chat(
        self,
        messages: Sequence[Message],
        *,
        so_far: Sequence[int] | str = (),
        chat_template_kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Generator[Step]:
        """Answer a conversation step by step, or go on with an answer that was begun; takes the options of `prepare`
        and `stream`.
        """
        return self.stream(self.prepare(messages, so_far, chat_template_kwargs=chat_template_kwargs), **options)

    def chat(self, messages: Sequence[Message], **options: Any) -> Completion:
        """Answer a conversation; takes the options of `prepare` and `stream`."""
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
            **options: Those of `prepare` and `stream`, or OpenAI's names; None stands for what is usual.
        """
        options = openai.options_of(options)
        extra = {name: options.pop(name) for name in ("so_far", "chat_template_kwargs") if name in options}
        prompt = self.prepare(messages, **extra)
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
        self.engine  # noqa: B018 - a closed one says so
        return self._drafters.n_nodes

    def drafting(self, draft: DraftConfig | str | None = None) -> dict[str, Any]:
        """How an answer would be drafted: `policy`, `mode` (tree, chain or off), `reason` and `budget`."""
        return describe(draft_of(draft, self.draft), self.mode)

    def step_cost(self) -> StepCost:
        """What decodes cost on this machine; measured, or an earlier start's checked, when first asked for, which
        empties the cache.

        Raises:
            UsageError: An answer is in progress.
        """
        with self._alone():
            return self._drafters.step_cost()

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

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep answers out, and be kept out by them."""
        self.engine  # noqa: B018 - a closed one says so
        if not self._busy.acquire(blocking=False):
            raise UsageError(BUSY)
        try:
            yield
        finally:
            self._busy.release()

    def _tokens(self, prompt: str | Sequence[int] | Prompt) -> list[int]:
        if isinstance(prompt, Prompt):
            prompt = prompt.tokens
        if isinstance(prompt, str):
            tokens = self.model.tokenize(prompt, add_special=True).tolist()
        else:
            tokens = [int(t) for t in prompt]
            check_tokens(tokens, self.model.n_vocab)
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
        with self._alone(), ExitStack() as stack:
            self._begun = True
            sampler = None
            if not params.is_argmax:
                sampler = Sampler(self.model, params)
                stack.callback(sampler.close)
                sampler.start(np.asarray(tokens, np.int32))
            parts = AnswerParts(
                model=engine,
                drafter=self._drafters.get(config),
                text=TextStream(self.model.piece, stop),
                picker=sampler,
                is_end=self.model.is_end,
                scan=self._drafters.scan(config.breadth),
                cost=self._learned.cost,
                stop_asked=lambda: engine.stop_requested,
                drafts_wanted=lambda: self.drafts_wanted,
            )
            steps = Loop(parts, max_tokens).steps(tokens, on_prefill)
            while True:
                with engine.in_use():
                    step = next(steps, None)
                if step is None:
                    return
                yield step
