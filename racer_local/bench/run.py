"""All methods over the same questions in one run, taking turns question by question in rotating order."""

from collections.abc import Callable, Sequence

from racer_local.api import Racer
from racer_local.bench.harness import converse
from racer_local.bench.methods import Method
from racer_local.bench.questions import WARM_UP, WARM_UP_TOKENS, Question
from racer_local.bench.results import OFF, Answer, Difference, Result, Results
from racer_local.compare import first_difference


def run(
    racer: Racer,
    questions: Sequence[Question],
    methods: Sequence[Method],
    max_tokens: int,
    *,
    fresh: bool,
    results: Results,
    on_progress: Callable[[int, int], None],
) -> None:
    """Measure.

    Args:
        racer: The loaded model.
        questions: What to ask.
        methods: Who answers.
        max_tokens: Bound of each answer.
        fresh: Empty every memory before each question.
        results: Filled as the run goes on, so that an interrupted one keeps what it has.
        on_progress: Called with questions done and to do.
    """
    warm_up = racer.prepare([{"role": "user", "content": WARM_UP}]).tokens
    for method in methods:
        method.answer(racer, warm_up, WARM_UP_TOKENS)
        method.forget()
    for number, question in enumerate(questions):
        on_progress(number, len(questions))
        answered: dict[str, list[tuple[list[int], Answer]]] = {}
        for place in range(len(methods)):
            method = methods[(number + place) % len(methods)]
            if fresh:
                method.forget()
            answered[method.label] = _converse(racer, method, question, max_tokens)
        for method in methods:
            turns = tuple(answer for _, answer in answered[method.label])
            results.rows.append(Result(question.id, question.kind, method.label, turns))
        _compare(racer, question, answered, results)
    on_progress(len(questions), len(questions))


def _converse(racer: Racer, method: Method, question: Question, max_tokens: int) -> list[tuple[list[int], Answer]]:
    """Hold one conversation; returns prompt and answer of each turn."""
    out: list[tuple[list[int], Answer]] = []

    def answer(prompt: list[int]) -> str:
        out.append((prompt, method.answer(racer, prompt, max_tokens)))
        return out[-1][1].text

    converse(racer, question, answer)
    return out


def _compare(
    racer: Racer, question: Question, answered: dict[str, list[tuple[list[int], Answer]]], results: Results
) -> None:
    for label, turns in answered.items():
        if label == OFF or OFF not in answered:
            continue
        for (prompt, plain), (other_prompt, other) in zip(answered[OFF], turns, strict=False):
            if prompt != other_prompt:
                break
            results.compared[label] = results.compared.get(label, 0) + 1
            if plain.tokens == other.tokens:
                results.same[label] = results.same.get(label, 0) + 1
                continue
            position, gap = first_difference(racer, prompt, plain.tokens, other.tokens)
            results.differences.append(Difference(question.id, label, position, gap))
