"""Control tokens that mark thoughts are part of the text that a model's tokens give; others are not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from racer_local.api import Racer
from racer_local.thoughts import named
from tests.tiny import write_llama

HARMONY = ("<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|return|>", "<|call|>", "<|other|>")
PROMPT = "{% for m in messages %}{{ m.content }}{% endfor %}"


@pytest.fixture(scope="module")
def racers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Racer]]:
    """A model without marks, one with `[THINK]` as control tokens, one with channels."""
    folder = tmp_path_factory.mktemp("thoughts")
    made = {"think": (), "magistral": ("[THINK]", "[/THINK]"), "harmony": HARMONY}
    racers = {}
    for name, control in made.items():
        path = write_llama(folder / f"{name}.gguf", control=control, template=PROMPT)
        racers[name] = Racer(path, remember=False, draft="off")
    yield racers
    for racer in racers.values():
        racer.close()


@pytest.mark.parametrize("name", ["think", "magistral", "harmony"])
def test_the_vocabulary_tells_the_format(racers: dict[str, Racer], name: str) -> None:
    assert racers[name].thoughts is named(name)


@pytest.mark.parametrize(("name", "mark"), [("magistral", "[THINK]"), *(("harmony", mark) for mark in HARMONY[:4])])
def test_marks_are_text(racers: dict[str, Racer], name: str, mark: str) -> None:
    racer = racers[name]
    token = racer.model.token_of(mark)
    assert token is not None
    done = racer.chat([{"role": "user", "content": "a"}], max_tokens=1, logit_bias={token: 1000.0})
    assert done.text == mark


@pytest.mark.parametrize(("name", "mark"), [("magistral", "<s>"), ("harmony", "<|other|>")])
def test_other_control_tokens_are_none(racers: dict[str, Racer], name: str, mark: str) -> None:
    token = racers[name].model.token_of(mark)
    assert token is not None
    assert racers[name].model.piece(token) == b""


def test_a_text_of_several_tokens_is_no_token(racers: dict[str, Racer]) -> None:
    assert racers["think"].model.token_of("[THINK]") is None
    assert racers["think"].model.token_of("") is None


def test_a_template_goes_before_the_vocabulary(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "m.gguf", control=("[THINK]", "[/THINK]"))
    with Racer(path, remember=False, draft="off", chat_template=PROMPT + "<think></think>") as racer:
        assert racer.thoughts is named("think")


ASKED = [{"role": "user", "content": "a"}]


@pytest.fixture(scope="module")
def opening(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Racer]:
    """A model whose prompts begin a thought."""
    path = tmp_path_factory.mktemp("opening") / "m.gguf"
    write_llama(path, control=("[THINK]", "[/THINK]"), template=PROMPT + "[THINK]\n{{ '[/THINK]' if false }}")
    with Racer(path, remember=False, draft="off") as racer:
        yield racer


def test_a_thought_that_the_prompt_begins_has_its_field(opening: Racer) -> None:
    text = opening.chat(ASKED, max_tokens=8, temperature=0).text
    message = opening.create_chat_completion(ASKED, max_tokens=8, temperature=0)["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "", "reasoning_content": text.strip()}


def test_an_answer_that_is_gone_on_with_is_past_its_thought(opening: Racer) -> None:
    for so_far in ("a[/THINK]b", opening.prepare(ASKED, "a[/THINK]b").tokens[len(opening.prepare(ASKED).tokens) :]):
        options = {"so_far": so_far, "max_tokens": 8, "temperature": 0}
        text = opening.chat(ASKED, **options).text
        message = opening.create_chat_completion(ASKED, **options)["choices"][0]["message"]
        assert message == {"role": "assistant", "content": text}


def test_marks_in_an_answer_that_is_gone_on_with_are_control_tokens(racers: dict[str, Racer]) -> None:
    for name, mark in (("magistral", "[THINK]"), ("harmony", "<|channel|>")):
        racer = racers[name]
        tokens = racer.prepare(ASKED, f"{mark}the in").tokens
        assert [racer.model.written(token) for token in tokens].count(mark) == 1
    racer = racers["harmony"]
    begun = racer.prepare(ASKED, "the <s> in").tokens[len(racer.prepare(ASKED).tokens) :]
    assert racer.model.token_of("<s>") not in begun


EARLIER = {
    "harmony": "<|channel|>analysis<|message|>the hen<|end|><|start|>assistant<|channel|>final<|message|>in",
    "magistral": "[THINK]the hen[/THINK]in",
}


def prompt(racer: Racer, answer: str) -> list[int]:
    """What the model reads after an earlier answer."""
    return racer.chat_format.prompt([*ASKED, {"role": "assistant", "content": answer}, *ASKED]).tolist()


@pytest.mark.parametrize("name", EARLIER)
def test_a_template_gets_an_earlier_answer_without_marks(racers: dict[str, Racer], name: str) -> None:
    assert prompt(racers[name], EARLIER[name]) == prompt(racers[name], "in")


def test_one_whose_prompt_had_begun_the_thought(racers: dict[str, Racer]) -> None:
    assert prompt(racers["magistral"], "the hen[/THINK]in") == prompt(racers["magistral"], "in")
    assert prompt(racers["harmony"], EARLIER["harmony"].split("<|message|>", 1)[1]) == prompt(racers["harmony"], "in")


def test_a_template_may_want_the_thought(tmp_path: Path) -> None:
    template = "{% for m in messages %}{{ m.reasoning_content }}{{ m.content }}{% endfor %}"
    path = write_llama(tmp_path / "m.gguf", control=("[THINK]", "[/THINK]"), template=template)
    with Racer(path, remember=False, draft="off") as racer:
        assert prompt(racer, EARLIER["magistral"]) == prompt(racer, "the henin")


def test_marks_that_are_text_are_left_to_the_template(racers: dict[str, Racer]) -> None:
    racer = racers["think"]
    text = "<think>the hen</think>in"
    assert text in b"".join(map(racer.model.piece, prompt(racer, text))).decode()
