"""The counters of one answer and the one definition of every rate made from them."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from racer_local.settings import MAX_BUDGET
from racer_local.tokens import N_SOURCES, Source, Token


@dataclass(slots=True)
class GenerationStats:
    """Totals of one answer, kept current by the loop after every step. Times are seconds.

    Tokens are counted when they reach the user. The last prompt token is decoded by the first step together with the
    first draft, so every answer token comes out of a step and prefill covers the rest of the prompt.

    Attributes:
        prompt_tokens: Length of the prompt.
        cached_n: Prompt tokens found in the cache.
        prompt_s: Time of prefill.
        predicted_n: Answer tokens.
        predicted_s: Time of all steps.
        steps: Decodes after prefill.
        drafts: Steps that verified a draft.
        draft_n: Nodes drafted.
        draft_n_accepted: Drafted nodes that became answer tokens.
        propose_s, decode_s, verify_s, commit_s: Parts of `predicted_s`.
        weighed_s: Part of `predicted_s` for which the time of a plain step at that context was known.
        plain_s: Time that plain decoding would have taken for the tokens of that part.
        source_counts: Answer tokens by the bits of their `Source`; adds up to `predicted_n`.
        accepted_hist: Steps with a draft, by the number of their accepted nodes.
    """

    prompt_tokens: int = 0
    cached_n: int = 0
    prompt_s: float = 0.0
    predicted_n: int = 0
    predicted_s: float = 0.0
    steps: int = 0
    drafts: int = 0
    draft_n: int = 0
    draft_n_accepted: int = 0
    propose_s: float = 0.0
    decode_s: float = 0.0
    verify_s: float = 0.0
    commit_s: float = 0.0
    weighed_s: float = 0.0
    plain_s: float = 0.0
    source_counts: list[int] = field(default_factory=lambda: [0] * N_SOURCES)
    accepted_hist: list[int] = field(default_factory=lambda: [0] * MAX_BUDGET)

    def count(self, tokens: Iterable[Token]) -> None:
        """Count tokens that reached the user."""
        for token in tokens:
            self.predicted_n += 1
            self.draft_n_accepted += token.drafted
            self.source_counts[token.source] += 1

    def snapshot(self) -> "GenerationStats":
        """A copy that later steps do not change."""
        other = object.__new__(GenerationStats)  # a step takes one: copy.copy costs several times as much
        for name in _FIELDS:
            setattr(other, name, getattr(self, name))
        other.source_counts = self.source_counts.copy()
        other.accepted_hist = self.accepted_hist.copy()
        return other

    @property
    def by_source(self) -> dict[str, int]:
        """Answer tokens by label of their source, those that occur; adds up to `predicted_n`."""
        out: dict[str, int] = {}
        for bits, n in enumerate(self.source_counts):
            if n:
                label = Source(bits).label
                out[label] = out.get(label, 0) + n
        return out

    @property
    def prompt_n(self) -> int:
        """Prompt tokens that had to be decoded."""
        return self.prompt_tokens - self.cached_n

    @property
    def predicted_per_second(self) -> float | None:
        """Answer tokens per second, prefill left out."""
        return self.predicted_n / self.predicted_s if self.predicted_s > 0 else None

    @property
    def tokens_per_step(self) -> float | None:
        """Answer tokens per decode: the headline."""
        return self.predicted_n / self.steps if self.steps else None

    @property
    def mean_acceptance_length(self) -> float | None:
        """1 + accepted nodes per draft."""
        return 1 + self.draft_n_accepted / self.drafts if self.drafts else None

    @property
    def own_s(self) -> float:
        """Time of our own work: all of a step but llama.cpp's decode."""
        return self.propose_s + self.verify_s + self.commit_s

    @property
    def speedup(self) -> float | None:
        """Tokens per step times the time of a plain step over the time of a step, that is the time of plain decoding
        over the time taken; None until plain steps were timed.
        """
        return self.plain_s / self.weighed_s if self.weighed_s > 0 else None

    def timings(self) -> dict[str, Any]:
        """The `timings` object of the JSON output; names as in llama-server where it has them."""
        return {
            "prompt_n": self.prompt_n,
            "cached_n": self.cached_n,
            "prompt_ms": round(self.prompt_s * 1e3, 3),
            "predicted_n": self.predicted_n,
            "predicted_ms": round(self.predicted_s * 1e3, 3),
            "predicted_per_second": _rounded(self.predicted_per_second),
            "steps": self.steps,
            "draft_n": self.draft_n,
            "draft_n_accepted": self.draft_n_accepted,
            "tokens_per_step": _rounded(self.tokens_per_step),
            "mean_acceptance_length": _rounded(self.mean_acceptance_length),
            "propose_ms": round(self.propose_s * 1e3, 3),
            "decode_ms": round(self.decode_s * 1e3, 3),
            "verify_ms": round(self.verify_s * 1e3, 3),
            "commit_ms": round(self.commit_s * 1e3, 3),
            "speedup": _rounded(self.speedup),
        }

    def usage(self) -> dict[str, Any]:
        """The `usage` object of the JSON output; names as in OpenAI's interface."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.predicted_n,
            "total_tokens": self.prompt_tokens + self.predicted_n,
            "prompt_tokens_details": {"cached_tokens": self.cached_n},
            "completion_tokens_details": {
                "accepted_prediction_tokens": self.draft_n_accepted,
                "rejected_prediction_tokens": self.draft_n - self.draft_n_accepted,
            },
        }


_FIELDS = tuple(f.name for f in fields(GenerationStats))


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
