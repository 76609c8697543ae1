"""The statistics of an answer for people, in one line."""

from racer_local.stats import GenerationStats


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
