"""What the loop asks of a drafter, which keeps in step with the context that the loop commits.

A drafter's life: `begin` with a prompt, then for each step `propose`, and `learn` what the model said.
"""

from collections.abc import Sequence
from typing import Protocol

from racer_local.draft_tree import DraftTree
from racer_local.drafting.successors import RowScan


class Drafter(Protocol):
    """What the loop asks of a policy."""

    @property
    def note(self) -> str:
        """Why nothing is drafted, empty while drafting is on."""
        ...

    def begin(self, prompt: Sequence[int]) -> None:
        """Take up a context that ends with the prompt's last token, the first root."""
        ...

    def propose(self, limit: int) -> DraftTree:
        """Draft at most `limit` nodes after the last committed token."""
        ...

    def learn(self, root: int, tree: DraftTree, scan: RowScan, path: Sequence[int], committed: Sequence[int]) -> None:
        """Take note of a verified step.

        Args:
            root: Token before the draft.
            tree: The draft.
            scan: Rows of the root and of every node.
            path: Accepted nodes.
            committed: Tokens that the step added to the context.
        """
        ...
