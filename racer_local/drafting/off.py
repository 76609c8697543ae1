"""No drafts."""

from collections.abc import Sequence

from racer_local.draft_tree import DraftTree
from racer_local.drafting.successors import RowScan


class OffDrafter:
    """Plain decoding in the same loop."""

    def __init__(self, note: str = "") -> None:
        self.note = note

    def begin(self, prompt: Sequence[int]) -> None:
        """See `Drafter`."""

    def propose(self, limit: int) -> DraftTree:
        """See `Drafter`."""
        return DraftTree.empty()

    def learn(self, root: int, tree: DraftTree, scan: RowScan, path: Sequence[int], committed: Sequence[int]) -> None:
        """See `Drafter`."""
