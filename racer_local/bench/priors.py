"""Priors of drafting by expected gain, made from recorded answers: how often each kind of candidate was right."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from racer_local.bench.curves import Curve
from racer_local.bench.simulate import simulate
from racer_local.bench.trace import Trace
from racer_local.drafting.beliefs import Beliefs, flat_prior, layout, prior_from
from racer_local.drafting.policies import DEFAULT_POLICY, DraftConfig
from racer_local.kernels.beliefs import TRIES
from racer_local.kernels.candidates import N_CLASSES


@dataclass(frozen=True, slots=True)
class Priors:
    """What was counted.

    Attributes:
        counts: float64[N_CLASSES, 2], hits and tries.
        models: Files that the answers came from, with the number of answer tokens of each.
    """

    counts: NDArray[np.float64]
    models: dict[str, int]


def make(traces: Sequence[Trace], curve: Curve, on_progress: Callable[[int, int], None]) -> Priors:
    """Replay policy `auto` from flat priors over each trace and add up what it learned, forgetting nothing.

    Args:
        traces: Recorded answers.
        curve: What a decode costs: it decides what is drafted, and so what the successor table learns.
        on_progress: Called with answers of a trace done and to do.
    """
    counts, models = np.zeros((N_CLASSES, 2)), {}
    for trace in traces:
        beliefs = Beliefs(flat_prior(), memory=float("inf"))
        simulate(trace, DEFAULT_POLICY, DraftConfig(), curve, on_progress, beliefs)
        counts += beliefs.counts
        name = str(trace.info.get("model", "?"))
        models[name] = models.get(name, 0) + sum(len(answer.tokens) for answer in trace.answers)
    return Priors(counts, models)


def as_dict(priors: Priors, command: str) -> dict[str, Any]:
    """The file that ships."""
    return {
        "command": command,
        "models": priors.models,
        "layout": layout(),
        "chance": [round(float(chance), 3) for chance in prior_from(priors.counts)],
    }


def summary(priors: Priors) -> str:
    """What was counted, in a line."""
    tries = priors.counts[:, TRIES]
    answers = ", ".join(f"{name}: {n} tokens" for name, n in priors.models.items())
    return f"{answers}; {tries.sum():.0f} candidates in {(tries > 0).sum()} of {len(tries)} classes"
