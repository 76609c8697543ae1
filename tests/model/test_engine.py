"""The engine on the demo model: trees equal chains, rollback and prefix reuse leave the cache exact."""

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from racer_local.draft_tree import DraftMode, DraftTree
from racer_local.errors import Cancelled, ContextFullError, ModelError
from racer_local.llama.engine import Engine
from racer_local.llama.model import Model
from racer_local.llama.probe import find_mode
from racer_local.settings import ModelParams

pytestmark = pytest.mark.model

ROUNDING = 0.6
"""Batches of different sizes run other kernels; on this coarse file (Q4_1) a logit may move by this much."""


@pytest.fixture(scope="module")
def model(demo_path: Path) -> Iterator[Model]:
    model = Model(demo_path, ModelParams(), repack=False)
    yield model
    model.close()


@pytest.fixture
def engine(model: Model) -> Iterator[Engine]:
    engine = Engine(model, ModelParams(n_ctx=512, n_batch=64))
    yield engine
    engine.close()


def make_tree(tokens: list[int], parents: list[int]) -> DraftTree:
    tree = DraftTree.allocate(len(tokens))
    tree.token[:] = tokens
    tree.parent[:] = parents
    for i, parent in enumerate(parents):
        tree.depth[i] = 1 if parent < 0 else tree.depth[parent] + 1
    return tree


def fresh_row(model: Model, tokens: list[int]) -> NDArray[np.float32]:
    """Logits after `tokens` from a context that has seen nothing else."""
    engine = Engine(model, ModelParams(n_ctx=512, n_batch=64))
    try:
        engine.prefill(tokens[:-1])
        return engine.verify(tokens[-1], DraftTree.empty())[0].copy()
    finally:
        engine.close()


PROMPT = [504, 2425, 314, 260, 5432, 28, 284, 1020]


def test_tree_rows_equal_chain_rows_to_the_last_bit(model: Model, engine: Engine) -> None:
    """Batches of one size run the same kernels, so only the attention mask could make a difference."""
    tree = make_tree([100, 200, 300, 400, 500], [-1, -1, 0, 1, 3])
    engine.prefill(PROMPT[:-1])
    rows = engine.verify(PROMPT[-1], tree).copy()
    for chain, nodes in (([100, 300], [0, 2]), ([200, 400, 500], [1, 3, 4])):
        padded = [*chain, *[7] * (len(tree) - len(chain))]
        other = Engine(model, ModelParams(n_ctx=512, n_batch=64))
        other.prefill(PROMPT[:-1])
        straight = other.verify(PROMPT[-1], make_tree(padded, list(range(-1, len(padded) - 1))))
        np.testing.assert_array_equal(rows[0], straight[0])
        for depth, node in enumerate(nodes):
            np.testing.assert_array_equal(rows[node + 1], straight[depth + 1])
        other.close()


@pytest.mark.parametrize("path", [[], [0], [1], [0, 2], [1, 3], [1, 3, 4]])
def test_commit_keeps_the_path_and_nothing_else(model: Model, engine: Engine, path: list[int]) -> None:
    tree = make_tree([100, 200, 300, 400, 500], [-1, -1, 0, 1, 3])
    engine.prefill(PROMPT[:-1])
    engine.verify(PROMPT[-1], tree)
    engine.commit(PROMPT[-1], tree, path)
    expected = [*PROMPT, *tree.token[path].tolist()]
    assert engine.tokens == expected
    row = engine.verify(900, DraftTree.empty())[0]
    np.testing.assert_allclose(row, fresh_row(model, [*expected, 900]), atol=ROUNDING)


def test_many_random_trees_leave_an_exact_cache(model: Model, engine: Engine) -> None:
    rng = np.random.default_rng(1)
    engine.prefill(PROMPT[:-1])
    root = PROMPT[-1]
    for _ in range(40):
        n = int(rng.integers(0, 12))
        tree = make_tree(rng.integers(10, 4000, n).tolist(), [int(rng.integers(-1, i)) if i else -1 for i in range(n)])
        engine.verify(root, tree)
        path: list[int] = []
        while True:
            children = np.flatnonzero(tree.parent == (path[-1] if path else -1))
            if len(children) == 0 or rng.random() < 0.3:
                break
            path.append(int(rng.choice(children)))
        engine.commit(root, tree, path)
        root = int(rng.integers(10, 4000))
    expected = fresh_row(model, [*engine.tokens, root])
    np.testing.assert_allclose(engine.verify(root, DraftTree.empty())[0], expected, atol=ROUNDING)


def test_prefill_decodes_only_what_follows_the_common_prefix(model: Model, engine: Engine) -> None:
    first = [*PROMPT, *range(1000, 1100)]
    assert engine.prefill(first) == 0
    assert engine.prefill([*first, 5, 6, 7]) == len(first)
    branch = [*first[:50], 8, 9]
    assert engine.prefill(branch) == 50
    assert engine.tokens == branch
    row = engine.verify(11, DraftTree.empty())[0]
    np.testing.assert_allclose(row, fresh_row(model, [*branch, 11]), atol=ROUNDING)


def test_a_step_that_was_never_committed_is_dropped(model: Model, engine: Engine) -> None:
    engine.prefill(PROMPT[:-1])
    engine.verify(PROMPT[-1], make_tree([100, 200], [-1, -1]))
    assert engine.prefill(PROMPT) == len(PROMPT) - 1
    row = engine.verify(900, DraftTree.empty())[0]
    np.testing.assert_allclose(row, fresh_row(model, [*PROMPT, 900]), atol=ROUNDING)


def test_stopping_a_prefill_from_another_thread_leaves_a_usable_cache(model: Model) -> None:
    engine = Engine(model, ModelParams(n_ctx=2048, n_batch=64))
    prompt = [*PROMPT, *range(1000, 2900)]
    chunks = 0

    def on_progress(_done: int, _todo: int) -> None:
        nonlocal chunks
        chunks += 1
        if chunks == 2:
            threading.Thread(target=engine.request_stop).start()

    with pytest.raises(Cancelled):
        engine.prefill(prompt, on_progress)
    assert 128 <= len(engine.tokens) < len(prompt)
    assert engine.tokens == prompt[: len(engine.tokens)]
    engine.clear_stop()
    kept = len(engine.tokens)
    assert engine.prefill(prompt[:300]) == min(kept, 300)
    row = engine.verify(900, DraftTree.empty())[0]
    np.testing.assert_allclose(row, fresh_row(model, [*prompt[:300], 900]), atol=ROUNDING)
    engine.close()


def test_a_stop_inside_a_decode_takes_the_whole_tree_back(model: Model, engine: Engine) -> None:
    engine.prefill(PROMPT[:-1])
    tree = make_tree([100, 200, 300], [-1, -1, 1])
    stopped = 0
    for delay in (0.0, 0.002, 0.005, 0.01):
        timer = threading.Timer(delay, engine.request_stop)
        timer.start()
        try:
            engine.verify(PROMPT[-1], tree)
        except Cancelled:
            stopped += 1
            assert engine.tokens == PROMPT[:-1]
        timer.join()
        engine.clear_stop()
        engine.prefill(PROMPT[:-1])
    assert stopped, "no decode was caught in the middle"
    row = engine.verify(PROMPT[-1], DraftTree.empty())[0]
    np.testing.assert_allclose(row, fresh_row(model, PROMPT), atol=ROUNDING)


@pytest.mark.parametrize("place", ["prefill", "verify", "commit"])
def test_an_exception_in_any_place_leaves_a_usable_cache(
    model: Model, engine: Engine, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """As Ctrl+C would raise it: right after a native call has done its work."""
    import llama_cpp

    tree = make_tree([100, 200, 300], [-1, -1, 1])
    engine.prefill(PROMPT[:4])
    name = "llama_memory_seq_rm" if place == "commit" else "llama_decode"
    native = getattr(llama_cpp, name)

    def interrupted(*arguments: object) -> object:
        native(*arguments)
        raise KeyboardInterrupt

    if place == "prefill":
        monkeypatch.setattr(llama_cpp, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.prefill(PROMPT[:-1])
    else:
        engine.prefill(PROMPT[:-1])
        if place == "commit":
            engine.verify(PROMPT[-1], tree)
        monkeypatch.setattr(llama_cpp, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            engine.verify(PROMPT[-1], tree) if place == "verify" else engine.commit(PROMPT[-1], tree, [1])
    monkeypatch.undo()
    engine.prefill(PROMPT)
    row = engine.verify(900, DraftTree.empty())[0]
    np.testing.assert_allclose(row, fresh_row(model, [*PROMPT, 900]), atol=ROUNDING)


def test_full_context(engine: Engine) -> None:
    with pytest.raises(ContextFullError, match="-c"):
        engine.prefill(list(range(1000, 1000 + engine.n_ctx)))
    engine.prefill(list(range(1000, 1000 + engine.n_ctx - 1)))
    assert engine.room == 1
    engine.verify(5, DraftTree.empty())
    engine.commit(5, DraftTree.empty(), [])
    assert engine.room == 0


def test_threads_are_equal_for_single_tokens_and_batches(model: Model) -> None:
    import llama_cpp

    engine = Engine(model, ModelParams(n_ctx=128, n_threads=1))
    with engine.in_use() as context:
        assert llama_cpp.llama_n_threads(context) == llama_cpp.llama_n_threads_batch(context) == 1
    engine.close()


@pytest.mark.parametrize(
    "params",
    [
        ModelParams(n_ctx=256, flash_attn=True),
        ModelParams(n_ctx=256, type_k="q8_0"),
        ModelParams(n_ctx=256, type_k="q8_0", type_v="q8_0"),
        ModelParams(n_ctx=256, n_batch=64),
        ModelParams(n_ctx=256, type_k="bf16", type_v="f32", flash_attn=False),
    ],
)
def test_context_settings_work_and_allow_trees(model: Model, params: ModelParams) -> None:
    engine = Engine(model, params)
    assert find_mode(engine).name == "tree"
    assert engine.flash_attn == (params.flash_attn or params.type_v.startswith("q"))
    assert engine.tokens == []
    engine.close()


def test_mode_falls_back_when_the_tree_test_fails(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A memory in which branches see each other: every tree node is laid out as if it were one path."""
    straight = engine._batch.set_tree

    def one_sequence(root: int, tree: DraftTree, n_past: int) -> int:
        n_seq = straight(root, tree, n_past)
        if n_seq > 1:
            engine._batch.seq[: len(tree) + 1, 0] = 0
            engine._batch.n_seq_id[: len(tree) + 1] = 1
            engine._batch.pos[: len(tree) + 1] = n_past + np.arange(len(tree) + 1)
        return 1

    assert find_mode(engine) == DraftMode("tree", "ordinary attention")
    monkeypatch.setattr(engine._batch, "set_tree", one_sequence)
    mode = find_mode(engine)
    assert mode.name == "chain"
    assert "single path" in mode.reason


def test_a_context_that_llama_cpp_refuses_is_one_clear_error(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llama_cpp.llama_init_from_model", lambda *_: None)
    with pytest.raises(ModelError, match="-c"):
        Engine(model, ModelParams())


def test_text_survives_tokens(model: Model) -> None:
    for text in ("Hello, world", "naïve café 😀👩‍👩‍👧", "你好，世界", "안녕하세요", "مرحبا", "e\u0301 a\tb\n"):
        tokens = model.tokenize(text, add_special=False).tolist()
        assert b"".join(model.piece(t) for t in tokens).decode() == text
    long = "abc " * 5000
    assert len(model.tokenize(long, add_special=False)) >= 5000


def test_all_end_tokens_are_known_and_none_is_printed(model: Model) -> None:
    ends = [t for t in range(200) if model.is_end(t)]
    assert {model.written(t) for t in ends} >= {"<|im_end|>", "<|endoftext|>"}
    assert all(model.piece(t) == b"" for t in ends)
