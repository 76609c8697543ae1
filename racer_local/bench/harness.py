"""Putting questions to a loaded model: one conversation a question, every answer greedy."""

from collections.abc import Callable, Sequence

from racer_local.answers import Completion, collect
from racer_local.api import Racer
from racer_local.bench.questions import Question
from racer_local.detokenize import TextStream
from racer_local.drafting.cost import StepCost
from racer_local.drafting.drafter import Drafter
from racer_local.drafting.policies import DraftConfig, make_drafter, make_memory, weighs_costs
from racer_local.drafting.successors import RowScan
from racer_local.llama import decode_timing
from racer_local.loop import AnswerParts, Loop


def converse(racer: Racer, question: Question, answer: Callable[[list[int]], str]) -> None:
    """Hold a conversation, as far as the context reaches.

    Args:
        racer: Renders the prompts.
        question: What the user says, turn by turn.
        answer: Given the prompt of each turn, token ids; returns the text that the conversation goes on with.
    """
    messages: list[dict[str, str]] = []
    for turn in question.turns:
        messages.append({"role": "user", "content": turn})
        prompt = racer.prepare(messages).tokens
        if len(prompt) >= racer.engine.n_ctx:
            return
        messages.append({"role": "assistant", "content": answer(prompt)})


def fresh_cost(racer: Racer, config: DraftConfig) -> StepCost:
    """What decodes cost, nothing learned yet: measured now for the policy that weighs it."""
    cost = StepCost()
    if weighs_costs(config, racer.mode):
        cost.set_curve(decode_timing.measure(racer.engine), decode_timing.CONTEXT)
    return cost


def fresh_drafter(racer: Racer, config: DraftConfig, cost: StepCost) -> Drafter:
    """A drafter with a memory of its own."""
    memory = make_memory(config, racer.model.n_vocab, racer.engine.n_ctx)
    return make_drafter(config, racer.mode, memory, cost)


def answer_greedily(
    racer: Racer, drafter: Drafter, prompt: Sequence[int], max_tokens: int, scan: RowScan, cost: StepCost
) -> Completion:
    """Answer a prompt with a drafter of the caller's own, in the loop that every front end uses."""
    parts = AnswerParts(
        model=racer.engine,
        drafter=drafter,
        text=TextStream(racer.model.piece),
        picker=None,
        is_end=racer.model.is_end,
        scan=scan,
        cost=cost,
    )
    return collect(Loop(parts, max_tokens).steps(prompt))
