"""Where two answers to one prompt part, and how near a tie that was."""

from collections.abc import Sequence

from racer_local.api import Racer
from racer_local.draft_tree import DraftTree
from racer_local.sequences import common_prefix


def first_difference(racer: Racer, prompt: list[int], a: Sequence[int], b: Sequence[int]) -> tuple[int, float]:
    """Where two greedy answers to one prompt part, and how far apart the two tokens' logits are in a plain decode.

    Args:
        racer: The model; its cache is used.
        prompt: Token ids.
        a: Answer tokens.
        b: Others.

    Returns:
        Position in the answers, and the gap.
    """
    at = common_prefix(a, b)
    context = [*prompt, *a[:at]]
    engine, empty = racer.engine, DraftTree.empty()
    engine.prefill(context[:-1])
    row = engine.verify(context[-1], empty)[0].copy()
    engine.commit(context[-1], empty, [])

    def logit(answer: Sequence[int]) -> float:
        if at < len(answer):
            return float(row[answer[at]])
        # the answer was over here: an end token had been the best
        return float(max(row[t] for t in range(racer.model.n_vocab) if racer.model.is_end(t)))

    return at, abs(logit(a) - logit(b))
