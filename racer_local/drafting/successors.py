"""The successor table: what the model thought likely after each token, the last time it was run on it (copy-logit)."""

import numpy as np
from numpy.typing import NDArray

from racer_local.kernels.successors import learn_rows, scan_rows
from racer_local.settings import MAX_BUDGET


class RowScan:
    """The best k of each logits row of a step: found in one pass, used for picking and for learning.

    Attributes:
        ids: int32[n, k], best first; column 0 is the arg-max.
        gaps: float32[n, k], distance to the best logit.
    """

    def __init__(self, k: int) -> None:
        self._ids = np.zeros((MAX_BUDGET, k), np.int32)
        self._gaps = np.zeros((MAX_BUDGET, k), np.float32)
        self.ids = self._ids[:0]
        self.gaps = self._gaps[:0]

    def fill(self, ids: NDArray[np.int32], gaps: NDArray[np.float32]) -> None:
        """Show rows that were scanned before, int32[n, >= k] and float32[n, >= k]; ids of -1 mean "not known"."""
        n, k = len(ids), self._ids.shape[1]
        self.ids, self.gaps = self._ids[:n], self._gaps[:n]
        self.ids[:] = ids[:, :k]
        self.gaps[:] = gaps[:, :k]

    def read(self, rows: NDArray[np.float32]) -> None:
        """Scan rows, float32[n, V]; `ids` and `gaps` then show them until the next call."""
        n = len(rows)
        self.ids, self.gaps = self._ids[:n], self._gaps[:n]
        scan_rows(rows, self.ids, self.gaps)


class Successors:
    """Best guesses by token.

    Attributes:
        ids: int32[V, k], best first, -1 for "never seen".
        gaps: float32[V, k], distance of each to the best logit.
    """

    def __init__(self, n_vocab: int, k: int) -> None:
        self.ids = np.full((n_vocab, k), -1, np.int32)
        self.gaps = np.full((n_vocab, k), np.inf, np.float32)

    def learn(self, tokens: NDArray[np.int32], scan: RowScan, path: NDArray[np.int32]) -> None:
        """Remember the rows of a step.

        Args:
            tokens: int32[n], root and drafted tokens.
            scan: Their rows.
            path: int32[m], rows on the accepted path, the root's included; where a token stands in several rows,
                these have the last word.
        """
        learn_rows(self.ids, self.gaps, tokens, scan.ids, scan.gaps, path)

    @property
    def n_bytes(self) -> int:
        """Memory of the table in bytes."""
        return self.ids.nbytes + self.gaps.nbytes
