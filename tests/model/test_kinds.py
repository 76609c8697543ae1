"""Every kind of memory that a model can have, on tiny files with random weights: drafting changes speed and nothing
else, prefixes are reused exactly, stopping and full contexts leave a usable cache, and no option ends the process.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from racer_local.answers import Step
from racer_local.api import Racer
from racer_local.draft_tree import DraftTree
from racer_local.drafting.policies import DraftConfig
from racer_local.llama import library
from racer_local.llama.engine import Engine
from racer_local.sequences import common_prefix
from tests.fakes import is_chain
from tests.tiny_kinds import KINDS, Kind

ROOT = Path(__file__).resolve().parent.parent.parent

NEAR_TIE = 0.005
"""Largest difference of two logits, as a share of the row's spread, that the rounding of other batch sizes explains:
on these small files ten times what is seen.
"""

TEXT = "the man in the inn, the hen in the den, the man in the inn, the hen in the den, the man in"
LENGTH = 300
CONFIGS = {
    "racer@4": DraftConfig("racer", budget=4),
    "racer@16": DraftConfig("racer", budget=16),
    "racer@64": DraftConfig("racer", budget=64),
    "racer@16/chain": DraftConfig("racer", budget=16, chain=True),
    "auto": DraftConfig("auto"),
    "auto/chain": DraftConfig("auto", chain=True),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("kinds")
    return {kind.name: kind.write(folder / f"{kind.name}.gguf") for kind in KINDS}


@pytest.fixture(scope="module", params=KINDS, ids=[kind.name for kind in KINDS])
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


@pytest.fixture(scope="module")
def path(kind: Kind, files: dict[str, Path]) -> Path:
    return files[kind.name]


@pytest.fixture(scope="module")
def loaded(path: Path) -> Iterator[Racer]:
    with Racer(path, n_ctx=768, n_threads=1, remember=False) as racer:
        yield racer


@pytest.fixture
def racer(loaded: Racer) -> Racer:
    """The model with nothing in its cache and nothing learned."""
    loaded.forget()
    return loaded


@dataclass
class Reference:
    """The same model in a context of its own that decodes plainly and begins each answer from nothing."""

    racer: Racer
    answers: dict[tuple[tuple[int, ...], int], list[int]] = field(default_factory=dict)

    def answer(self, prompt: Sequence[int], n: int) -> list[int]:
        """Greedy answer of `n` tokens."""
        key = (tuple(prompt), n)
        if key not in self.answers:
            self.racer.forget()
            done = self.racer.generate(prompt, max_tokens=n, temperature=0, draft="off")
            assert (done.finish_reason, done.stats.cached_n, done.stats.draft_n) == ("length", 0, 0)
            self.answers[key] = [t.id for t in done.tokens]
        return self.answers[key]

    def row(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Logits after `tokens`, float32[V]."""
        self.racer.engine.clear()
        self.racer.engine.prefill(tokens[:-1])
        return next_row(self.racer.engine, tokens[-1])

    def agrees(self, prompt: Sequence[int], answer: Sequence[int], what: str) -> None:
        """Fail unless a greedy answer is the plain one up to a near-tie at the first differing token."""
        plain = self.answer(prompt, len(answer))
        at = common_prefix(plain, answer)
        if at == len(answer):
            return
        row = self.row([*prompt, *plain[:at]])
        gap = abs(float(row[plain[at]] - row[answer[at]])) / float(row.std())
        assert gap <= NEAR_TIE, f"{what}: token {at} is {answer[at]}, not {plain[at]}, at a gap of {gap} of the spread"

    def holds_the_same(self, other: Racer, what: str) -> None:
        """Fail unless another context goes on from what it says it holds as a fresh context does."""
        tokens, token = list(other.engine.tokens), other.model.n_vocab // 2
        row = next_row(other.engine, token)
        fresh = self.row([*tokens, token])
        gap = float(np.abs(row - fresh).max() / fresh.std())
        assert gap <= NEAR_TIE, f"{what}: a cache of {len(tokens)} tokens is off by {gap} of the spread"


@pytest.fixture(scope="module")
def reference(path: Path) -> Iterator[Reference]:
    with Racer(path, n_ctx=768, n_threads=1, remember=False, draft="off") as racer:
        yield Reference(racer)


def next_row(engine: Engine, token: int) -> NDArray[np.float32]:
    """Logits after one more token, which is then in the cache."""
    row = engine.verify(token, DraftTree.empty())[0].copy()
    engine.commit(token, DraftTree.empty(), [])
    return row


def ids(steps: Sequence[Step]) -> list[int]:
    return [t.id for step in steps for t in step.tokens]


def prompt_of(racer: Racer) -> list[int]:
    return racer.model.tokenize(TEXT, add_special=True).tolist()


def other_token(racer: Racer, token: int) -> int:
    """A token of text that is another one."""
    first = racer.model.tokenize("a", add_special=False).tolist()[-1]
    return first if first != token else first + 1


def test_mode_and_its_reason(kind: Kind, racer: Racer) -> None:
    assert (racer.mode.name, racer.mode.max_depth) == (kind.mode, kind.max_depth)
    assert kind.reason in racer.mode.reason
    asked = racer.drafting("racer")
    assert (asked["mode"], asked["reason"]) == (kind.mode, racer.mode.reason)
    assert racer.engine.tokens == [], "the self-test leaves the cache empty"


def test_the_vocabulary_reads_and_writes_text(racer: Racer) -> None:
    tokens = racer.model.tokenize(TEXT, add_special=False).tolist()
    assert len(tokens) < len(TEXT), "no token is longer than a letter, so the vocabulary is not used"
    assert b"".join(racer.model.piece(t) for t in tokens).decode().strip() == TEXT


def test_drafts_change_nothing_but_speed(kind: Kind, racer: Racer, reference: Reference) -> None:
    prompt = prompt_of(racer)
    plain = reference.answer(prompt, LENGTH)
    assert len(set(plain)) >= 5, "a text of so few tokens shows nothing"
    accepted: dict[str, int] = {}
    branched = False
    for name, config in CONFIGS.items():
        racer.forget()
        steps = list(racer.stream(prompt, max_tokens=LENGTH, temperature=0, draft=config))
        assert steps[-1].finish_reason == "length"
        reference.agrees(prompt, ids(steps), name)
        reference.holds_the_same(racer, name)
        stats = steps[-1].stats
        assert stats.predicted_n == LENGTH
        accepted[name] = stats.draft_n_accepted
        deepest = max(len(step.path) for step in steps)
        if kind.mode == "off":
            assert (stats.draft_n, stats.steps, steps[-1].note) == (0, LENGTH, racer.mode.reason)
        if kind.mode == "chain" or config.chain:
            assert all(is_chain(step.tree) for step in steps)
        if kind.max_depth is not None:
            assert max(len(step.tree) for step in steps) <= kind.max_depth
            assert deepest <= kind.max_depth
        branched |= any(not is_chain(step.tree) and step.path and len(step.path) < len(step.tree) for step in steps)
    assert branched == (kind.mode == "tree"), "trees must be drafted, and accepted in part, where they can be"
    if kind.mode != "off":
        assert max(accepted.values()) >= LENGTH // 8, f"hardly a draft was accepted: {accepted}"
        assert min(n for name, n in accepted.items() if name.startswith("racer")) > 0, accepted


def random_draft(rng: np.random.Generator, kind: Kind, n_vocab: int, limit: int) -> tuple[DraftTree, list[int]]:
    """A draft that the kind of model can verify, from a single path to a bush, and the part of a path to be kept."""
    n = 0 if kind.mode == "off" else int(rng.integers(0, min(limit, kind.max_depth or 60) + 1))
    tree = DraftTree.allocate(n)
    tree.token[:] = rng.integers(3, n_vocab - 3, n)
    branching = 0.0 if kind.mode == "chain" else float(rng.choice([0.0, 0.1, 0.5, 0.9]))
    path: list[int] = []
    for i in range(n):
        parent = path[-1] if path else -1
        if i and rng.random() < branching:
            parent = int(rng.integers(-1, i))
        else:
            path.append(i)
        tree.parent[i] = parent
        tree.depth[i] = 1 if parent < 0 else tree.depth[parent] + 1
    kept = len(path) if rng.random() < 0.5 else int(rng.integers(0, len(path) + 1))
    return tree, path[:kept]


@pytest.mark.parametrize("seed", range(3))
def test_random_drafts_and_cuts_leave_an_exact_cache(kind: Kind, racer: Racer, reference: Reference, seed: int) -> None:
    """Whatever is drafted and kept, and wherever the context is taken up again."""
    rng = np.random.default_rng(seed)
    engine, V = racer.engine, racer.model.n_vocab
    for turn in range(8):
        kept = engine.tokens[: int(rng.integers(0, len(engine.tokens) + 1))]
        prompt = [*kept, *rng.integers(3, V - 3, int(rng.integers(2, 60))).tolist()]
        engine.prefill(prompt)
        for _ in range(int(rng.integers(0, 12))):
            tree, path = random_draft(rng, kind, V, engine.room - 1)
            root = int(rng.integers(3, V - 3))
            engine.verify(root, tree)
            engine.commit(root, tree, path)
            prompt += [root, *tree.token[path].tolist()]
        assert engine.tokens == prompt
        reference.holds_the_same(racer, f"turn {turn}")


@pytest.mark.parametrize("config", ["off", "racer@16", "auto"])
def test_turns_reuse_what_they_share(kind: Kind, racer: Racer, reference: Reference, config: str) -> None:
    draft = CONFIGS.get(config, config)
    prompt = prompt_of(racer)

    def turn(tokens: list[int], reused: int, what: str) -> list[int]:
        """Answer, check what was reused, and return prompt and answer together."""
        done = racer.generate(tokens, max_tokens=40, temperature=0, draft=draft)
        answer = [t.id for t in done.tokens]
        reference.agrees(tokens, answer, what)
        assert (done.stats.prompt_tokens, done.stats.cached_n) == (len(tokens), reused), what
        # a last token that had been drafted is in the cache, one that the model added is not
        assert racer.engine.tokens in ([*tokens, *answer], [*tokens, *answer[:-1]]), what
        return [*tokens, *answer]

    first = turn(prompt, 0, "first turn")
    second = turn([*first, *prompt[:20]], len(racer.engine.tokens), "a prompt that extends the first answer")
    turn([*second, *prompt[5:15]], len(racer.engine.tokens), "a third turn")
    for back in (1, 2, 5, 9, 60):
        held = list(racer.engine.tokens)
        kept = held[: len(held) - back]
        branch = [*kept, other_token(racer, held[len(kept)])]
        turn(branch, len(kept) if kind.keeps_prefix else 0, f"a prompt that goes back by {back} tokens")
    inside = racer.engine.tokens[:30]
    turn(inside, len(inside) - 1 if kind.keeps_prefix else 0, "a prompt that is the beginning of what is held")
    reference.holds_the_same(racer, "after all turns")


def test_a_stop_in_the_middle_keeps_the_text_and_the_cache(kind: Kind, racer: Racer, reference: Reference) -> None:
    prompt = prompt_of(racer)
    for name in ("racer@16", "auto", "racer@16/chain"):
        racer.forget()
        steps = []
        for step in racer.stream(prompt, max_tokens=LENGTH, temperature=0, draft=CONFIGS[name]):
            steps.append(step)
            if len(steps) == 6:
                racer.cancel()
        assert steps[-1].finish_reason == "cancelled"
        assert len(steps) == 7
        assert 6 <= len(ids(steps)) < LENGTH
        reference.agrees(prompt, ids(steps), name)
        tokens = [*prompt, *ids(steps), other_token(racer, ids(steps)[-1])]
        done = racer.generate(tokens, max_tokens=40, temperature=0, draft=CONFIGS[name])
        assert done.stats.cached_n == len(prompt) + len(ids(steps)) - 1
        reference.agrees(tokens, [t.id for t in done.tokens], f"{name}, going on")
        again = racer.generate(prompt, max_tokens=40, temperature=0, draft=CONFIGS[name])
        assert again.stats.cached_n == (len(prompt) - 1 if kind.keeps_prefix else 0)
        reference.agrees(prompt, [t.id for t in again.tokens], f"{name}, asked anew")


@pytest.mark.parametrize("decode", [1, 2, 9])
def test_a_stop_inside_a_decode_takes_all_of_it_back(
    racer: Racer, reference: Reference, monkeypatch: pytest.MonkeyPatch, decode: int
) -> None:
    """The first decode is that of the prompt, later ones verify drafts."""
    prompt = prompt_of(racer)
    calls, clear_log = 0, library.clear_log

    def stop_at_last_moment() -> None:
        nonlocal calls
        calls += 1
        clear_log()
        if calls == decode:
            racer.cancel()

    with monkeypatch.context() as patch:
        patch.setattr(library, "clear_log", stop_at_last_moment)
        steps = list(racer.stream(prompt, max_tokens=LENGTH, temperature=0, draft=CONFIGS["racer@16"]))
    assert steps[-1].finish_reason == "cancelled"
    assert (calls, len(steps)) == (decode, max(1, decode - 1))
    held, whole = list(racer.engine.tokens), [*prompt, *ids(steps)]
    assert held == whole[: len(held)]
    # one token more alone: several would wash out of a short memory what is wrong with it
    longer = [*whole, other_token(racer, whole[-1])]
    done = racer.generate(longer, max_tokens=40, temperature=0, draft=CONFIGS["racer@16"])
    assert done.stats.cached_n == len(held)
    reference.agrees(longer, [t.id for t in done.tokens], "going on")
    reference.holds_the_same(racer, "after going on")


def test_the_same_prompt_again_gives_the_same_text(kind: Kind, racer: Racer, reference: Reference) -> None:
    prompt = prompt_of(racer)
    reused = 0
    for name in [*CONFIGS] * 3:
        done = racer.generate(prompt, max_tokens=80, temperature=0, draft=CONFIGS[name])
        reference.agrees(prompt, [t.id for t in done.tokens], name)
        assert done.stats.cached_n == reused, name
        reused = len(prompt) - 1 if kind.keeps_prefix else 0


def test_max_tokens_is_exact(racer: Racer) -> None:
    prompt = prompt_of(racer)
    for name, config in CONFIGS.items():
        for n in range(1, 9):
            done = racer.generate(prompt, max_tokens=n, temperature=0, draft=config)
            assert (done.finish_reason, len(done.tokens), done.stats.predicted_n) == ("length", n, n), name


@pytest.mark.parametrize("n_ctx", [64, 96])
def test_a_context_is_filled_to_its_end(path: Path, reference: Reference, n_ctx: int) -> None:
    with Racer(path, n_ctx=n_ctx, n_threads=1, remember=False) as racer:
        prompt = prompt_of(racer)[:40]
        answer: list[int] = []
        for name, draft in {"off": DraftConfig("off"), **CONFIGS}.items():
            done = racer.generate(prompt, temperature=0, draft=draft)
            answer = [t.id for t in done.tokens]
            assert done.finish_reason == "context", name
            assert len(racer.engine.tokens) == n_ctx, name
            assert racer.engine.room == 0, name
            assert len(prompt) + len(answer) == n_ctx + 1, "the last token needs no room"
            reference.agrees(prompt, answer, name)
        full = [*prompt, *answer][:n_ctx]
        last = racer.generate(full, temperature=0, draft="racer")
        assert (last.finish_reason, len(last.tokens)) == ("context", 1), "a prompt that leaves room for one token"
        reference.agrees(full, [t.id for t in last.tokens], "the last token")
