"""Each rate has one definition; these are their values on counters that can be checked by hand."""

import dataclasses
import json
from collections import Counter

import pytest

from racer_local.answers import Completion
from racer_local.stats import GenerationStats
from racer_local.tokens import N_SOURCES, Source, Token


def token(source: Source, depth: int) -> Token:
    """A token from somewhere."""
    return Token(1, "x", source, 0, depth, 1)


def example() -> GenerationStats:
    """Ten steps of 0.25 s, six with a draft, 30 tokens."""
    return GenerationStats(
        prompt_tokens=100,
        cached_n=40,
        prompt_s=0.5,
        predicted_n=30,
        predicted_s=2.5,
        steps=10,
        drafts=6,
        draft_n=42,
        draft_n_accepted=20,
        propose_s=0.1,
        decode_s=2.0,
        verify_s=0.2,
        commit_s=0.15,
        weighed_s=2.0,
        plain_s=2.4,
    )


def test_rates() -> None:
    stats = example()
    assert stats.prompt_n == 60
    assert stats.predicted_per_second == pytest.approx(12)
    assert stats.tokens_per_step == pytest.approx(3)
    assert stats.mean_acceptance_length == pytest.approx(1 + 20 / 6)
    assert stats.own_s == pytest.approx(0.45)
    # plain decoding would have taken 2.4 s for what took 2 s
    assert stats.speedup == pytest.approx(1.2)


def test_rates_of_nothing_are_none() -> None:
    stats = GenerationStats()
    assert stats.predicted_per_second is None
    assert stats.tokens_per_step is None
    assert stats.mean_acceptance_length is None
    assert stats.speedup is None
    assert dataclasses.replace(example(), weighed_s=0.0, plain_s=0.0).speedup is None
    assert dataclasses.replace(example(), predicted_s=0.0).predicted_per_second is None


def test_count() -> None:
    stats = GenerationStats()
    both = Source.RETRIEVAL | Source.LOGITS
    stats.count([token(Source.RETRIEVAL, 1), token(both, 2), token(Source.MODEL, 0)])
    stats.count([token(Source.LOGITS, 1), token(Source.RETRIEVAL, 1)])
    stats.count([])
    assert stats.predicted_n == 5
    assert stats.draft_n_accepted == 4
    assert stats.by_source == {"retrieval": 2, "both": 1, "model": 1, "logits": 1}


def test_labels_of_sources() -> None:
    labels = [Source(bits).label for bits in range(N_SOURCES)]
    assert labels == ["model", "retrieval", "logits", "both"]


def test_a_snapshot_is_a_copy() -> None:
    stats = example()
    before = stats.snapshot()
    assert before == stats
    stats.count([token(Source.LOGITS, 1)])
    stats.accepted_hist[3] += 1
    stats.steps += 1
    assert before == example()
    assert before.by_source == Counter()


def test_timings() -> None:
    timings = example().timings()
    assert timings == {
        "prompt_n": 60,
        "cached_n": 40,
        "prompt_ms": 500.0,
        "predicted_n": 30,
        "predicted_ms": 2500.0,
        "predicted_per_second": 12.0,
        "steps": 10,
        "draft_n": 42,
        "draft_n_accepted": 20,
        "tokens_per_step": 3.0,
        "mean_acceptance_length": 4.333,
        "propose_ms": 100.0,
        "decode_ms": 2000.0,
        "verify_ms": 200.0,
        "commit_ms": 150.0,
        "speedup": 1.2,
    }
    assert json.loads(json.dumps(timings)) == timings
    assert GenerationStats().timings()["speedup"] is None


def test_usage() -> None:
    assert example().usage() == {
        "prompt_tokens": 100,
        "completion_tokens": 30,
        "total_tokens": 130,
        "prompt_tokens_details": {"cached_tokens": 40},
        "completion_tokens_details": {"accepted_prediction_tokens": 20, "rejected_prediction_tokens": 22},
    }


def test_a_completion_reads_as_its_text() -> None:
    done = Completion("Hello", (token(Source.MODEL, 0),), "stop", example())
    assert str(done) == "Hello"
    assert not done.tokens[0].drafted
