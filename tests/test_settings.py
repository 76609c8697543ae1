"""Settings are checked once, when they are built; each wrong value is a UsageError that names the option."""

import dataclasses
import math
from typing import Any

import pytest

from racer_local import cpus
from racer_local.drafting.policies import MAX_NGRAM, POLICIES, DraftConfig
from racer_local.errors import ExitCode, RacerError, UsageError
from racer_local.settings import KV_TYPES, MAX_BUDGET, ModelParams, SamplingParams, default_threads, from_options

# option, least and greatest allowed value
MODEL_WHOLE = [("n_ctx", 32, 2**24), ("n_gpu_layers", -1, 10_000), ("n_threads", 1, 512), ("n_batch", 64, 65536)]
DRAFT_WHOLE = [
    ("budget", 1, MAX_BUDGET),
    ("max_ngram", 2, MAX_NGRAM),
    ("min_match", 1, DraftConfig().max_ngram - 1),  # nothing is known to follow an n-gram of the greatest length
    ("breadth", 1, 32),
    ("max_nodes", 1024, 2**28),
    ("lookup_ngram", 1, MAX_NGRAM),
]
SAMPLING_WHOLE = [
    ("top_k", 0, 2**31 - 1),
    ("penalty_last_n", -1, 2**24),
    ("dry_allowed_length", 0, 2**24),
    ("dry_penalty_last_n", -1, 2**24),
    ("mirostat", 0, 2),
    ("seed", 0, 2**32 - 2),
]
SAMPLING_REAL = [
    ("temperature", 0, 100),
    ("top_p", 0, 1),
    ("min_p", 0, 1),
    ("typical_p", 0, 1),
    ("repeat_penalty", 0.01, 100),
    ("frequency_penalty", -100, 100),
    ("presence_penalty", -100, 100),
    ("dry_multiplier", 0, 100),
    ("dry_base", 1, 100),
    ("xtc_probability", 0, 1),
    ("xtc_threshold", 0, 1),
    ("mirostat_tau", 0, 100),
    ("mirostat_eta", 0, 1),
]
WHOLE = [
    (cls, *row)
    for cls, rows in ((ModelParams, MODEL_WHOLE), (DraftConfig, DRAFT_WHOLE), (SamplingParams, SAMPLING_WHOLE))
    for row in rows
]
REAL = [*((SamplingParams, *row) for row in SAMPLING_REAL), (DraftConfig, "draft_temperature", 0.1, 10)]
OPTIONAL = {"budget", "n_ctx", "n_threads", "max_nodes", "seed"}
BESIDES = {"max_ngram": {"min_match": 1}}
"""What must be set for an option to reach its bounds."""
BOOLEANS = [(ModelParams, "flash_attn"), (ModelParams, "use_mmap"), (DraftConfig, "chain")]


def refuses(cls: type, **options: Any) -> str:
    """Check that options are refused; returns the message."""
    with pytest.raises(UsageError) as caught:
        cls(**options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_every_field_is_covered_here() -> None:
    covered = {(cls, name) for cls, name, *_ in WHOLE + REAL} | set(BOOLEANS)
    covered |= {(ModelParams, "type_k"), (ModelParams, "type_v"), (DraftConfig, "policy")}
    covered |= {(SamplingParams, "logit_bias")}
    for cls in (ModelParams, SamplingParams, DraftConfig):
        assert {(cls, f.name) for f in dataclasses.fields(cls)} <= covered


@pytest.mark.parametrize(("cls", "name", "low", "high"), WHOLE + REAL)
def test_bounds(cls: type, name: str, low: float, high: float) -> None:
    for value in (low, high):
        assert getattr(cls(**{name: value}, **BESIDES.get(name, {})), name) == value
    step = 1 if isinstance(low, int) and isinstance(high, int) and (cls, name, low, high) in WHOLE else 0.001
    for value in (low - step, high + step):
        assert name in refuses(cls, **{name: value}, **BESIDES.get(name, {}))


@pytest.mark.parametrize(("cls", "name", "low", "high"), WHOLE + REAL)
@pytest.mark.parametrize("value", ["5", True, False, math.nan, [1], b"1", 1 + 0j], ids=repr)
def test_what_is_no_number(cls: type, name: str, low: float, high: float, value: object) -> None:
    assert name in refuses(cls, **{name: value})


@pytest.mark.parametrize(("cls", "name", "low", "high"), WHOLE)
def test_whole_numbers(cls: type, name: str, low: float, high: float) -> None:
    assert "whole number" in refuses(cls, **{name: float(low)})
    assert name in refuses(cls, **{name: math.inf})


@pytest.mark.parametrize(("cls", "name", "low", "high"), REAL)
def test_infinity_is_out_of_range(cls: type, name: str, low: float, high: float) -> None:
    for value in (math.inf, -math.inf):
        assert name in refuses(cls, **{name: value})


def test_numbers_beyond_any_float() -> None:
    assert "seed" in refuses(SamplingParams, seed=10**400)
    assert "temperature" in refuses(SamplingParams, temperature=-(10**400))


@pytest.mark.parametrize(("cls", "name", "low", "high"), WHOLE + REAL)
def test_none(cls: type, name: str, low: float, high: float) -> None:
    if name in OPTIONAL:
        assert getattr(cls(**{name: None}), name) is None
    else:
        assert name in refuses(cls, **{name: None})


@pytest.mark.parametrize(("cls", "name"), BOOLEANS)
def test_switches(cls: type, name: str) -> None:
    for value in (True, False):
        assert getattr(cls(**{name: value}), name) is value
    for value in ("no", 0, 1, 2.5, []):
        assert name in refuses(cls, **{name: value})


def test_choices() -> None:
    for policy in POLICIES:
        assert DraftConfig(policy=policy).policy == policy
    for kind in KV_TYPES:
        assert ModelParams(type_k=kind, type_v=kind).type_v == kind
    for value in ("", "Racer", "auto2", None, 1, ["racer"]):
        assert all(p in refuses(DraftConfig, policy=value) for p in POLICIES)
        assert "type_k" in refuses(ModelParams, type_k=value)
        assert "type_v" in refuses(ModelParams, type_v=value)


def test_settings_that_exclude_each_other() -> None:
    assert "flash attention" in refuses(ModelParams, type_v="q8_0", flash_attn=False)
    ModelParams(type_v="q8_0", flash_attn=True)
    ModelParams(type_v="q8_0")
    ModelParams(type_k="q8_0", flash_attn=False)
    assert "min_match" in refuses(DraftConfig, max_ngram=4, min_match=5)


def test_logit_bias() -> None:
    assert SamplingParams(logit_bias={0: -math.inf, 7: 2, 9: -1.5}).logit_bias[7] == 2
    for bias in ({-1: 0.0}, {"7": 0.0}, {True: 0.0}, {1: "x"}, {1: math.nan}, {1: math.inf}, {1: True}, {1.0: 1.0}):
        assert "logit_bias" in refuses(SamplingParams, logit_bias=bias)


@pytest.mark.parametrize("value", [None, [1, 2], "5", 5, [(1, 2.0)]], ids=repr)
def test_logit_bias_of_another_shape(value: object) -> None:
    assert "logit_bias" in refuses(SamplingParams, logit_bias=value)


@pytest.mark.parametrize("settings", [ModelParams(), SamplingParams(), DraftConfig()])
def test_frozen(settings: Any) -> None:
    for field in dataclasses.fields(settings):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(settings, field.name, getattr(settings, field.name))


def test_a_changed_copy_is_checked_again() -> None:
    with pytest.raises(UsageError):
        dataclasses.replace(DraftConfig(), budget=0)
    with pytest.raises(UsageError):
        dataclasses.replace(SamplingParams(), top_p=2)


def test_from_options() -> None:
    params = from_options(SamplingParams, {"temperature": 0, "top_k": 5}, "sampling")
    assert (params.temperature, params.top_k, params.top_p) == (0, 5, SamplingParams().top_p)
    assert from_options(DraftConfig, {}, "draft") == DraftConfig()
    with pytest.raises(UsageError) as caught:
        from_options(SamplingParams, {"temprature": 0.5}, "sampling")
    assert "sampling" in str(caught.value)
    assert "'temprature'" in str(caught.value)
    assert "temperature" in str(caught.value)
    with pytest.raises(UsageError, match="top_k"):
        from_options(SamplingParams, {"top_k": -1}, "sampling")


def test_arg_max_is_known_for_what_it_is() -> None:
    assert SamplingParams(temperature=0).is_argmax
    assert SamplingParams(temperature=0, top_k=1, top_p=0.1, seed=3).is_argmax
    assert not SamplingParams().is_argmax
    changed: list[dict[str, Any]] = [
        {"repeat_penalty": 1.1},
        {"frequency_penalty": 0.1},
        {"presence_penalty": -0.1},
        {"dry_multiplier": 0.5},
        {"logit_bias": {3: 1.0}},
    ]
    for options in changed:
        assert not SamplingParams(temperature=0, **options).is_argmax
    assert SamplingParams(repeat_penalty=1.1).has_penalties
    assert not SamplingParams(logit_bias={3: 1.0}).has_penalties


def test_nodes_of_the_automaton() -> None:
    assert DraftConfig().automaton_nodes(8192) == 81920
    assert DraftConfig().automaton_nodes(32) == 1024
    assert DraftConfig(max_nodes=5000).automaton_nodes(8192) == 5000


def test_any_allowed_automaton_can_be_made() -> None:
    """The least number of nodes holds the n-grams of two windows of the greatest length."""
    assert DraftConfig(max_ngram=MAX_NGRAM).automaton_nodes(32) > MAX_NGRAM * (MAX_NGRAM + 3)


def test_default_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpus, "usable", lambda: cpus.Usable(3, "said so"))
    assert default_threads() == 3


def test_errors_know_their_exit_codes() -> None:
    assert issubclass(UsageError, RacerError)
    assert issubclass(UsageError, ValueError)
    codes = {cls.__name__: cls.exit_code for cls in RacerError.__subclasses__()}
    assert codes == {
        "UsageError": ExitCode.USAGE,
        "ModelError": ExitCode.MODEL,
        "ContextFullError": ExitCode.CONTEXT_FULL,
        "DecodeError": ExitCode.FAILED,
        "Cancelled": ExitCode.INTERRUPTED,
    }
