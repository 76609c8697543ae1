"""Believed chances: how likely a candidate is right, learned from every step's outcome."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from racer_local.drafting.automaton import Automaton
from racer_local.drafting.successors import Successors
from racer_local.kernels import gain

PRIOR_WEIGHT = 4.0
"""Tries that the prior of a bucket counts as."""
MEMORY_TRIES = 2000.0
"""Tries after which a bucket halves its counts, so that a change of subject is followed."""
PRIOR_RETRIEVED = 0.3
PRIOR_BOTH = 0.55
PRIOR_LOGITS = (0.3, 0.12, 0.07, 0.05, 0.03, 0.03, 0.02, 0.02)
"""Chances before any evidence: by source, for logits by rank."""


class Beliefs:
    """A count of hits and tries for every bucket of candidates.

    Every candidate that stood anywhere on the true path teaches, whether it was drafted or not: the truth is known.

    Attributes:
        counts: float32[N_BUCKETS, 2], hits and tries.
        prior: float32[N_BUCKETS], chance of a bucket without evidence.
    """

    def __init__(self) -> None:
        self.counts = np.zeros((gain.N_BUCKETS, 2), np.float32)
        self.prior = flat_prior()
        self._scratch = np.zeros((gain.MAX_CANDIDATES, gain.CANDIDATE_WIDTH), np.int32)

    def learn(
        self, automaton: Automaton, successors: Successors, root: int, committed: Sequence[int], min_match: int
    ) -> None:
        """Count a step's candidates. Call before automaton and successor table learn the step.

        Args:
            automaton: Its window ends with the root.
            successors: The model's earlier guesses.
            root: Token before the step.
            committed: Tokens that the step decided.
            min_match: Shortest n-gram that is trusted.
        """
        gain.learn_beliefs(
            automaton.nodes,
            automaton.buckets,
            automaton.active,
            successors.ids,
            successors.gaps,
            root,
            np.asarray(committed, np.int32),
            min_match,
            np.float32(MEMORY_TRIES),
            self.counts,
            self._scratch,
        )


def flat_prior() -> NDArray[np.float32]:
    """Chances by source and rank alone, float32[N_BUCKETS]."""
    prior = np.full(gain.N_BUCKETS, PRIOR_RETRIEVED, np.float32)
    logits = prior[gain.N_RETRIEVED : gain.N_RETRIEVED + gain.N_LOGITS].reshape(2, gain.RANKS, gain.GAP_BINS)
    logits[:] = np.asarray(PRIOR_LOGITS, np.float32)[None, :, None]
    prior[gain.N_RETRIEVED + gain.N_LOGITS :] = PRIOR_BOTH
    return prior
