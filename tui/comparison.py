"""What a comparison of an answer with drafts and one without has found, for people."""

from .events import Compared


def comparison_text(event: Compared, drafted: float | None) -> str:
    """Both speeds, and whether the texts are the same or where they part.

    Args:
        event: The answer without drafts, beside the one with them.
        drafted: Tokens per second of the answer with drafts.
    """
    if not event.complete:
        return "the comparison was stopped"
    plain = event.stats.predicted_per_second
    lines = [f"with drafting {_speed(drafted)}, without {_speed(plain)}"]
    if drafted and plain:
        lines[0] += f": {drafted / plain:.2f}×"
    if event.position is None:
        lines.append(f"same text ({event.stats.predicted_n} tokens)")
    else:
        a, b = (repr(text) if text else "the end" for text in event.pair)
        lines.append(
            f"the texts part at token {event.position + 1}: {a} with drafting, {b} without; "
            f"their logits in a plain decode are {event.gap:.2f} apart"
        )
    return "\n".join(lines)


def _speed(per_second: float | None) -> str:
    return "—" if per_second is None else f"{per_second:.1f} tokens/s"
