"""Believed chances: how likely a candidate is right, learned from every step's outcome."""

import json
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from racer_local.kernels import beliefs, candidates

MEMORY_TRIES = 2000.0
"""Tries after which a class halves its counts, so that a change of subject is followed."""
PRIOR_RETRIEVED = 0.3
PRIOR_BOTH = 0.55
PRIOR_LOGITS = (0.3, 0.12, 0.07, 0.05, 0.03, 0.03, 0.02, 0.02)
"""Chances before any evidence: by source, for logits by rank."""
FLAT_WEIGHT = 4.0
"""Tries that they count as where shipped priors are made from evidence."""
PRIORS = "priors.json"


class Beliefs:
    """A count of hits and tries for every class of candidates.

    Every candidate that stood anywhere on the true path teaches, whether it was drafted or not: the truth is known.

    Attributes:
        counts: float32[N_CLASSES, 2], hits and tries.
        prior: float32[N_CLASSES], chance of a class without evidence.
    """

    def __init__(self, prior: NDArray[np.float32] | None = None, memory: float = MEMORY_TRIES) -> None:
        """Begin without evidence; `prior` None takes the shipped one."""
        self.counts = np.zeros((candidates.N_CLASSES, 2), np.float32)
        self.prior = (shipped_prior() if prior is None else prior).copy()
        self._memory = memory
        self._scratch = np.zeros((candidates.MAX_CANDIDATES, candidates.CANDIDATE_WIDTH), np.int32)

    def learn(self, known: candidates.DraftSources, root: int, committed: Sequence[int], min_match: int) -> None:
        """Count a step's candidates. Call before automaton and successor table learn the step.

        Args:
            known: Automaton, its window ending with the root, and successor table.
            root: Token before the step.
            committed: Tokens that the step decided.
            min_match: Shortest n-gram that is trusted.
        """
        tokens = np.asarray(committed, np.int32)
        beliefs.learn_beliefs(known, root, tokens, min_match, np.float32(self._memory), self.counts, self._scratch)

    def as_dict(self) -> dict[str, Any]:
        """For a file."""
        return {"layout": layout(), "counts": self.counts.round(2).tolist()}

    def take(self, data: dict[str, Any]) -> None:
        """Go on with the counts of an earlier start; those of other classes than today's are left.

        Raises:
            ValueError: The data is not what `as_dict` gives, or no counts.
        """
        if data.get("layout") != layout():
            return
        try:
            counts = np.array(data.get("counts"), np.float32)
        except (TypeError, OverflowError) as error:
            raise ValueError(f"counts are no numbers: {error}") from error
        if counts.shape != self.counts.shape or not np.isfinite(counts).all():
            raise ValueError("the number of counts is wrong")
        if not ((counts >= 0).all() and (counts[:, beliefs.HITS] <= counts[:, beliefs.TRIES] + 0.1).all()):
            raise ValueError("counts are out of bounds")
        self.counts[:] = counts


def layout() -> list[int]:
    """What the numbering of classes depends on."""
    return [
        candidates.MATCH_BINS,
        candidates.COUNT_BINS,
        candidates.SHARE_BINS,
        candidates.GAP_BINS,
        candidates.RANKS,
        candidates.N_CLASSES,
    ]


def flat_prior() -> NDArray[np.float32]:
    """Chances by source and rank alone, float32[N_CLASSES]."""
    prior = np.full(candidates.N_CLASSES, PRIOR_RETRIEVED, np.float32)
    logits = prior[candidates.N_RETRIEVED : candidates.N_RETRIEVED + candidates.N_LOGITS].reshape(
        2, candidates.RANKS, candidates.GAP_BINS
    )
    logits[:] = np.asarray(PRIOR_LOGITS, np.float32)[None, :, None]
    prior[candidates.N_RETRIEVED + candidates.N_LOGITS :] = PRIOR_BOTH
    return prior


@cache
def shipped_prior() -> NDArray[np.float32]:
    """Chances that `racer-bench priors` made from recorded answers, float32[N_CLASSES]; not to be changed."""
    data = json.loads(resources.files("racer_local.drafting").joinpath(PRIORS).read_text("utf-8"))
    assert data["layout"] == layout(), f"{PRIORS} was made for other classes; run: racer-bench priors"
    prior = np.array(data["chance"], np.float32)
    prior.flags.writeable = False
    return prior


def prior_from(counts: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """A prior from evidence, shrunk towards the flat one.

    Args:
        counts: float[N_CLASSES, 2], hits and tries.
    """
    flat = flat_prior()
    hits, tries = counts[:, beliefs.HITS], counts[:, beliefs.TRIES]
    return ((hits + FLAT_WEIGHT * flat) / (tries + FLAT_WEIGHT)).astype(np.float32)
