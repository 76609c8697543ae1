"""Text for people's eyes: model and user text is data and must not steer a terminal."""

import unicodedata

from racer_local.stats import GenerationStats

KEPT = "\n\t"


def neutral(text: str) -> str:
    """The text with control characters made visible, so that none of them reaches a terminal as a command.

    C0 controls become Unicode's control pictures; other controls, line separators, bidirectional overrides and lone
    surrogates become U+FFFD.
    """
    if text.isprintable():
        return text
    return "".join(c if c in KEPT or not _steers(c) else _picture(c) for c in text)


def _steers(char: str) -> bool:
    return (
        unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")
        or "\u202a" <= char <= "\u202e"
        or "\u2066" <= char <= "\u2069"
    )


def _picture(char: str) -> str:
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else "\ufffd"


def summary(stats: GenerationStats) -> str:
    """The statistics of an answer in one line."""
    parts = [f"prompt {stats.prompt_n} tokens in {stats.prompt_s:.2f} s"]
    if stats.cached_n:
        parts[0] += f" ({stats.cached_n} cached)"
    if stats.predicted_per_second is not None:
        parts.append(f"answer {stats.predicted_n} tokens, {stats.predicted_per_second:.1f} tokens/s")
    if stats.tokens_per_step is not None:
        parts.append(f"{stats.tokens_per_step:.2f} tokens/step")
    if stats.speedup is not None:
        parts.append(f"{stats.speedup:.2f}× plain decoding")
    return " · ".join(parts)
