"""Answers of the demo model: drafting changes speed and nothing else."""

import threading
from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats as scipy_stats

from racer_local.api import Racer
from racer_local.compare import first_difference
from racer_local.draft_tree import DraftTree
from racer_local.drafting.policies import POLICIES, DraftConfig
from racer_local.errors import UsageError
from racer_local.settings import SamplingParams
from racer_local.tokens import Source
from tests.fakes import RandomDrafter

pytestmark = pytest.mark.model

NEAR_TIE = 1.0
"""Logits closer than this may change places: a batch of n runs other kernels than a batch of 1 (design: up to 0.45)."""

QUESTIONS = (
    "Write a Python function that reverses a list.",
    "Repeat this list three times: red, green, blue, yellow, black, white.",
    "请用中文介绍一下北京。",
)


def ask(racer: Racer, question: str, **options: object) -> tuple[list[int], list[int], str]:
    """Prompt tokens, answer tokens and text."""
    prompt = racer.chat_format.prompt([{"role": "user", "content": question}]).tolist()
    done = racer.generate(prompt, **{"max_tokens": 96, "temperature": 0, **options})
    return prompt, [t.id for t in done.tokens], done.text


def gap_at_first_difference(racer: Racer, prompt: list[int], a: Sequence[int], b: Sequence[int]) -> float:
    """Distance of the two logits where two greedy answers part; 0 if they do not."""
    return 0.0 if list(a) == list(b) else first_difference(racer, prompt, a, b)[1]


@pytest.mark.parametrize("question", QUESTIONS)
def test_greedy_texts_of_all_policies_agree_up_to_near_ties(racer: Racer, question: str) -> None:
    prompt, plain, text = ask(racer, question, draft="off")
    assert text.strip()
    configs = [DraftConfig(policy=p, budget=b) for p in POLICIES if p != "off" for b in (4, 16)]
    configs.append(DraftConfig(chain=True))
    for config in configs:
        _, drafted, _ = ask(racer, question, draft=config)
        gap = gap_at_first_difference(racer, prompt, plain, drafted)
        assert gap <= NEAR_TIE, f"{config}: the texts part at a gap of {gap}"


@pytest.mark.parametrize("draft", ["off", "racer"])
def test_equal_settings_give_equal_bytes(racer: Racer, draft: str) -> None:
    texts = set()
    for _ in range(2):
        racer.forget()
        texts.add(ask(racer, QUESTIONS[0], draft=draft)[2])
    assert len(texts) == 1


def test_twice_by_measured_times_agrees_up_to_near_ties(racer: Racer) -> None:
    prompt, first, _ = ask(racer, QUESTIONS[0], draft="auto")
    for _ in range(3):
        racer.forget()
        _, again, _ = ask(racer, QUESTIONS[0], draft="auto")
        assert gap_at_first_difference(racer, prompt, first, again) <= NEAR_TIE


def test_random_drafts_change_nothing_but_speed(racer: Racer, monkeypatch: pytest.MonkeyPatch) -> None:
    prompt, plain, _ = ask(racer, QUESTIONS[0], draft="off")
    drafter = RandomDrafter(racer.model.n_vocab, 3, 7)
    monkeypatch.setattr(racer._drafters, "get", lambda _config: drafter)
    done = racer.generate(prompt, max_tokens=96, temperature=0)
    gap = gap_at_first_difference(racer, prompt, plain, [t.id for t in done.tokens])
    assert gap <= NEAR_TIE
    assert done.stats.draft_n > 100
    assert done.stats.draft_n_accepted <= 2


@pytest.mark.slow
def test_sampling_at_one_position_follows_the_model(racer: Racer) -> None:
    """The first token after a root with a draft below it, over many seeds, against the model's own distribution."""
    temperature, runs, kept = 0.7, 400, 8
    sampling = {"temperature": temperature, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
    prompt = racer.chat_format.prompt([{"role": "user", "content": "Name a colour."}]).tolist()
    first = racer.generate(prompt, max_tokens=24, temperature=0)
    context = [*prompt, *[t.id for t in first.tokens[:6]]]
    # every run proposes the same draft: what the memory holds is not changed by answers of one token
    counts: dict[str, dict[int, int]] = {}
    for policy in ("off", "racer"):
        counts[policy] = {}
        for seed in range(runs):
            done = racer.generate(context, max_tokens=2, seed=seed, draft=policy, **sampling)
            if policy == "racer" and seed == 0:
                assert done.stats.draft_n > 0, "nothing was drafted, so nothing is tested"
            token = done.tokens[0].id if done.tokens else -1
            counts[policy][token] = counts[policy].get(token, 0) + 1
    racer.engine.prefill(context[:-1])
    row = racer.engine.verify(context[-1], DraftTree.empty())[0].astype(np.float64) / temperature
    p = np.exp(row - row.max())
    p /= p.sum()
    best = np.argsort(-p)[:kept]
    expected = np.array([*p[best], 1 - p[best].sum()]) * runs
    merged = expected >= 5
    assert merged.sum() >= 2, "the distribution is too sharp for a test"
    for policy, seen in counts.items():
        observed = np.array([*(seen.get(int(t), 0) for t in best), 0])
        observed[-1] = runs - observed.sum()
        pooled_expected = np.append(expected[merged], expected[~merged].sum())
        pooled_observed = np.append(observed[merged], observed[~merged].sum())
        if pooled_expected[-1] < 1:
            pooled_expected, pooled_observed = pooled_expected[:-1], pooled_observed[:-1]
        pooled_expected *= pooled_observed.sum() / pooled_expected.sum()
        chance = scipy_stats.chisquare(pooled_observed, pooled_expected).pvalue
        assert chance > 1e-3, f"{policy}: p = {chance}"


def test_penalties_see_every_accepted_token(racer: Racer) -> None:
    question = "Repeat the word apple again and again."
    _, plain, _ = ask(racer, question, draft="off", repeat_penalty=1.3, max_tokens=48)
    _, drafted, _ = ask(racer, question, draft="racer", repeat_penalty=1.3, max_tokens=48)
    _, without, _ = ask(racer, question, draft="off", max_tokens=48)
    assert without != plain, "the penalty changes nothing here, so nothing is tested"
    assert drafted == plain


@pytest.mark.parametrize(
    "options",
    [
        {"top_k": 0, "top_p": 0.5},
        {"typical_p": 0.5},
        {"min_p": 0.3},
        {"xtc_probability": 0.5},
        {"mirostat": 1},
        {"mirostat": 2},
        {"dry_multiplier": 0.8},
        {"frequency_penalty": 0.5, "presence_penalty": 0.5, "penalty_last_n": -1},
        {"logit_bias": {28: float("-inf")}},
        {"temperature": 0, "dry_multiplier": 0.8},
    ],
)
def test_every_sampling_option_answers_and_repeats_with_its_seed(racer: Racer, options: dict[str, object]) -> None:
    params = SamplingParams(**{"seed": 5, **options})  # type: ignore[arg-type]
    texts, ids = [], []
    for _ in range(2):
        racer.forget()
        done = racer.chat([{"role": "user", "content": "Tell me about rain."}], sampling=params, max_tokens=24)
        texts.append(done.text)
        ids = [t.id for t in done.tokens]
    assert texts[0] == texts[1]
    assert texts[0]
    if options.get("logit_bias"):
        assert 28 not in ids


def test_turns_reuse_the_cache(racer: Racer) -> None:
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    first = racer.chat(messages, max_tokens=40, temperature=0)
    messages += [{"role": "assistant", "content": first.text}, {"role": "user", "content": "And of Italy?"}]
    second = racer.chat(messages, max_tokens=40, temperature=0)
    assert second.stats.cached_n >= first.stats.prompt_tokens
    assert second.stats.prompt_n == second.stats.prompt_tokens - second.stats.cached_n
    again = racer.chat(messages, max_tokens=40, temperature=0)
    assert again.stats.cached_n == again.stats.prompt_tokens - 1


def test_end_token_is_neither_printed_nor_cached(racer: Racer) -> None:
    prompt, answer, text = ask(racer, "Say hi.", max_tokens=200)
    assert "<|im_end|>" not in text
    assert not any(racer.model.is_end(t) for t in answer)
    assert racer.engine.tokens == [*prompt, *answer][: len(racer.engine.tokens)]
    assert not any(racer.model.is_end(t) for t in racer.engine.tokens[len(prompt) :])


def test_stop_string_over_token_borders(racer: Racer) -> None:
    options = {"max_tokens": 96, "temperature": 0, "draft": "off"}
    _, _, text = ask(racer, QUESTIONS[0], **options)
    stop = text[40:52]
    done = racer.chat([{"role": "user", "content": QUESTIONS[0]}], **options, stop=[stop])
    assert done.finish_reason == "stop"
    assert done.text == text[: text.index(stop)]
    assert "".join(t.text for t in done.tokens) == done.text


@pytest.mark.parametrize("policy", POLICIES)
def test_max_tokens_is_exact(racer: Racer, policy: str) -> None:
    for n in (0, 1, 2, 7):
        done = racer.generate("1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7 8 9", max_tokens=n, temperature=0, draft=policy)
        assert (done.stats.predicted_n, done.finish_reason) == (n, "length")


def test_context_end_is_survived_and_named(demo_path: object) -> None:
    with Racer(demo_path, n_ctx=96) as racer:  # type: ignore[arg-type]
        for policy in POLICIES:
            done = racer.generate("one two three one two three one two", temperature=0, draft=policy)
            assert done.finish_reason in ("context", "stop")
            if done.finish_reason == "context":
                assert done.stats.prompt_tokens + done.stats.predicted_n == 97, "the last token needs no room"


def test_cancel_from_another_thread_keeps_the_text(racer: Racer) -> None:
    text, asked, finish = "", False, None
    for step in racer.stream("Count: 1, 2, 3,", temperature=0):
        text += step.text
        finish = step.finish_reason
        if len(text) > 20 and not asked:
            asked = True
            threading.Thread(target=racer.cancel).start()
    assert finish == "cancelled"
    assert 20 < len(text) < 400
    assert racer.generate("Count: 1, 2, 3,", max_tokens=5, temperature=0).stats.predicted_n == 5


def test_sources_add_up(racer: Racer) -> None:
    done = racer.chat([{"role": "user", "content": QUESTIONS[1]}], max_tokens=96, temperature=0, draft="racer")
    stats = done.stats
    assert sum(stats.by_source.values()) == stats.predicted_n == len(done.tokens)
    assert sum(t.drafted for t in done.tokens) == stats.draft_n_accepted > 0
    assert all((t.source != Source.MODEL) == t.drafted for t in done.tokens)
    assert stats.prompt_s > 0
    assert abs(stats.own_s + stats.decode_s - stats.predicted_s) < 1e-6


def test_openai_shape(racer: Racer) -> None:
    messages = [{"role": "user", "content": "Say hi."}]
    reply = racer.create_chat_completion(messages, max_tokens=8, temperature=0, draft="off")
    assert reply["choices"][0]["message"]["role"] == "assistant"
    assert reply["usage"]["completion_tokens"] <= 8
    assert reply["timings"]["predicted_n"] == reply["usage"]["completion_tokens"]
    chunks = list(racer.create_chat_completion(messages, max_tokens=8, temperature=0, draft="off", stream=True))
    text = "".join(c["choices"][0]["delta"].get("content", "") for c in chunks)
    assert text == reply["choices"][0]["message"]["content"]
    assert chunks[-1]["choices"][0]["finish_reason"] in ("stop", "length")
    assert "usage" in chunks[-1]


def test_wrong_calls_say_what_is_wrong(racer: Racer) -> None:
    for call in (
        lambda: racer.generate("x", temprature=1),
        lambda: racer.generate("x", temperature=1, sampling=SamplingParams()),
        lambda: racer.generate([]),
        lambda: racer.generate([10**9]),
        lambda: racer.generate("x", max_tokens=-1),
        lambda: racer.generate("x", stop=[""]),
        lambda: racer.generate("x", draft="best"),
        lambda: racer.chat([]),
        lambda: racer.chat([{"role": "robot", "content": "x"}]),
        lambda: racer.chat([{"role": "user"}]),
        lambda: Racer("demo", n_cxt=5),
    ):
        with pytest.raises(UsageError):
            call()


def test_a_stream_that_outlives_its_racer_says_so(demo_path: object) -> None:
    with Racer(demo_path, n_ctx=256) as closed:  # type: ignore[arg-type]
        steps = closed.stream("a b c", temperature=0)
        next(steps)
    with pytest.raises(UsageError, match="closed"):
        next(steps)


def test_two_answers_at_once_are_refused(racer: Racer) -> None:
    first = racer.stream("a b c", max_tokens=5)
    next(first)
    with pytest.raises(UsageError, match="already"):
        racer.generate("d")
    first.close()
    assert racer.generate("d", max_tokens=1).stats.predicted_n == 1


def test_policies_share_one_memory(racer: Racer) -> None:
    ask(racer, QUESTIONS[0], draft="retrieval")
    done = racer.chat([{"role": "user", "content": QUESTIONS[0]}], max_tokens=96, temperature=0, draft="racer")
    assert done.stats.tokens_per_step is not None
    assert done.stats.tokens_per_step > 2, "racer should copy what retrieval has learned from the same answer"
