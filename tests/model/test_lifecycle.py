"""Loading, closing and being busy: one error that says so, never freed memory, never a corrupted answer."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import llama_cpp
import numpy as np
import pytest

from racer_local.api import Racer
from racer_local.cli import doctor
from racer_local.draft_tree import DraftTree
from racer_local.errors import Cancelled, ModelError, UsageError
from racer_local.llama import decode_timing, library
from racer_local.llama.baseline import Baseline
from racer_local.llama.handle import Handle
from racer_local.llama.sampling import Sampler
from racer_local.settings import SamplingParams
from tests.model import lifecycle
from tests.tiny import write_llama
from tests.tiny_kinds import KINDS, Kind


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


@pytest.fixture
def racer(tiny: Path) -> Iterator[Racer]:
    with Racer(tiny, n_ctx=128, remember=False) as racer:
        yield racer


def path_of(n: int) -> DraftTree:
    tree = DraftTree.allocate(n)
    tree.token[:] = 5
    tree.parent[:] = range(-1, n - 1)
    tree.depth[:] = range(1, n + 1)
    return tree


def fork() -> DraftTree:
    tree = DraftTree.allocate(2)
    tree.token[:] = (5, 6)
    tree.depth[:] = 1
    return tree


def test_everything_public_in_random_order(tiny: Path) -> None:
    """A short run of what `python -m tests.model.lifecycle` does at length."""
    assert lifecycle.search(tiny, 20) == []


def test_a_closed_racer_says_so_everywhere(tiny: Path) -> None:
    racer = Racer(tiny, n_ctx=128, remember=False)
    held = {"model": racer.model, "engine": racer.engine, "chat_format": racer.chat_format}
    suspended = [racer.stream("the", max_tokens=20, temperature=0) for _ in range(2)]
    next(suspended[0])
    sampler, bare = Sampler(racer.model, SamplingParams()), Baseline(racer.model, racer.engine)
    racer.close()
    racer.close()
    lifecycle.must_refuse(racer, held)
    for steps in suspended:
        with pytest.raises(UsageError, match="closed"):
            next(steps)
    with pytest.raises(UsageError, match="closed"):
        Sampler(held["model"], SamplingParams())
    for thing in (sampler, bare):
        thing.close()
        thing.close()
    with pytest.raises(UsageError, match="closed"):
        sampler.pick(np.zeros(racer._engine.model.n_vocab, np.float32))  # type: ignore[union-attr]
    with pytest.raises(UsageError, match="closed"):
        bare.answer([1], 1)


def test_after_a_failed_load_everything_is_closed(tiny: Path) -> None:
    racer = Racer.__new__(Racer)
    with pytest.raises(Cancelled):
        racer.__init__(tiny, on_progress=lambda _: False)
    lifecycle.must_refuse(racer, {})
    racer.close()
    racer.cancel()


def test_closing_a_model_keeps_it_until_its_contexts_are_closed(racer: Racer) -> None:
    racer.model.close()
    assert len(racer.engine.verify(1, DraftTree.empty())) == 1
    with pytest.raises(UsageError, match="closed"):
        racer.model.tokenize("the", add_special=True)


def test_what_is_held_is_freed_once_and_last() -> None:
    freed: list[str] = []
    outer = Handle("model", freed.append)
    inner = Handle("context", freed.append, within=outer)
    with inner as pointer:
        assert pointer == "context"
        outer.close()
        inner.close()
        assert freed == []
        with pytest.raises(UsageError, match="closed"), inner:
            pass
    assert freed == ["context", "model"]
    inner.close()
    assert freed == ["context", "model"]


def test_closing_while_another_thread_decodes(tiny: Path) -> None:
    for delay in (0.0, 0.001, 0.003, 0.01, 0.03):
        racer = Racer(tiny, n_ctx=512, remember=False, draft="racer")
        ended: list[object] = []

        def answer(racer: Racer = racer, ended: list[object] = ended) -> None:
            try:
                ended.append(racer.generate("the hen", max_tokens=400, temperature=0).finish_reason)
            except UsageError as error:
                ended.append(str(error))

        thread = threading.Thread(target=answer)
        thread.start()
        time.sleep(delay)
        racer.close()
        thread.join(10)
        assert ended, "the other thread came to an end"
        assert ended[0] in ("cancelled", "stop", "length") or "closed" in str(ended[0])


def test_closing_from_inside_an_answer(racer: Racer) -> None:
    with pytest.raises(UsageError, match="closed"):
        racer.generate("the hen " * 10, max_tokens=3, on_prefill=lambda *_: racer.close())


def test_a_busy_racer_refuses_what_would_corrupt_its_answer(tiny: Path) -> None:
    with Racer(tiny, n_ctx=128, remember=False) as racer:
        options = {"max_tokens": 30, "temperature": 0, "draft": "racer"}
        straight = racer.generate("the hen", **options).text
        racer.forget()
        steps = racer.stream("the hen", **options)
        text = next(steps).text
        for call in (racer.forget, racer.step_cost, lambda: doctor.examine(racer), lambda: racer.generate("a")):
            with pytest.raises(UsageError, match="answering already"):
                call()
        assert text + "".join(step.text for step in steps) == straight
        racer.forget()


def test_cancelling_the_first_timing_ends_the_answer_and_is_made_up_for(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Racer(tiny, n_ctx=128, remember=False, draft="off") as racer:
        real = decode_timing.time_decode

        def cancelled(engine: object, tree: DraftTree) -> float:
            racer.cancel()
            return real(racer.engine, tree)

        with monkeypatch.context() as patch:
            patch.setattr(decode_timing, "time_decode", cancelled)
            answer = racer.generate("the", draft="auto", max_tokens=5, temperature=0)
        assert (answer.finish_reason, answer.text) == ("cancelled", "")
        assert not racer._learned.cost.is_measured
        assert racer.generate("the", draft="auto", max_tokens=5, temperature=0).stats.predicted_n
        assert racer._learned.cost.is_measured


class Surprise(Exception):
    pass


def raising(_share: float) -> bool:
    raise Surprise


def test_what_on_progress_raises_is_raised(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Racer(tiny, remember=False).close()  # from here on no child process is needed
    freed: list[object] = []
    free = llama_cpp.llama_model_free
    monkeypatch.setattr(llama_cpp, "llama_model_free", lambda model: (freed.append(model), free(model)))
    with pytest.raises(Surprise):
        Racer(tiny, on_progress=raising)
    freed.clear()

    def when_loaded(share: float) -> bool:
        if share >= 1:
            raise Surprise
        return True

    with pytest.raises(Surprise):
        Racer(tiny, on_progress=when_loaded)
    assert len(freed) == 1, "what was loaded is not left behind"


def test_what_on_prefill_raises_is_raised_and_leaves_the_racer_usable(racer: Racer) -> None:
    def surprise(*_: int) -> None:
        raise Surprise

    with pytest.raises(Surprise):
        racer.generate("the hen " * 10, on_prefill=surprise)
    assert racer.generate("the", max_tokens=2, temperature=0).stats.predicted_n == 2


@pytest.mark.parametrize("place", ["ChatFormat", "Learned", "weighs_costs", "Racer.step_cost"])
def test_a_failure_late_in_loading_leaks_nothing(tiny: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    freed: list[str] = []
    for name in ("llama_model_free", "llama_free"):
        real = getattr(llama_cpp, name)
        monkeypatch.setattr(llama_cpp, name, lambda p, name=name, real=real: (freed.append(name), real(p)))

    def fails(*_: object, **__: object) -> None:
        raise Surprise

    monkeypatch.setattr(f"racer_local.api.{place}", fails)
    with pytest.raises(Surprise):
        Racer(tiny, remember=False)
    gc.collect()
    assert freed == ["llama_free", "llama_model_free"]


INTERRUPTED = """
import os, signal, sys
import llama_cpp
from racer_local import loading
from racer_local.settings import ModelParams
real, freed = llama_cpp.llama_model_load_from_file, []
def slow(*arguments):
    os.kill(os.getpid(), signal.SIGINT)
    return real(*arguments)
llama_cpp.llama_model_load_from_file = slow
free = llama_cpp.llama_model_free
llama_cpp.llama_model_free = lambda model: (freed.append(1), free(model))
try:
    loading.load(loading.find(sys.argv[1]), ModelParams(n_ctx=64), lambda share: True)
except KeyboardInterrupt:
    print("interrupted", len(freed))
"""


@pytest.mark.skipif(not hasattr(os, "kill") or sys.platform == "win32", reason="needs POSIX signals")
def test_ctrl_c_while_a_file_loads_is_not_lost(tiny: Path) -> None:
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", INTERRUPTED, str(tiny)],
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        assert done.stdout.startswith("interrupted"), done
        assert "Exception ignored" not in done.stderr


def test_two_threads_do_not_mix_what_the_library_says(tiny: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(tiny.read_bytes()[:3000])
    said: list[str] = []
    ready, clear = threading.Barrier(2), threading.Event()

    def fails() -> None:
        library.clear_log()
        ready.wait()
        library._on_log(library.LOG_ERROR, b"mine is broken\n", None)
        clear.wait(5)
        said.extend(library.logged_errors())

    thread = threading.Thread(target=fails)
    thread.start()
    ready.wait()
    library.clear_log()
    library._on_log(library.LOG_ERROR, b"another error\n", None)
    library.clear_log()
    clear.set()
    thread.join()
    assert said == ["mine is broken"]
    assert library.logged_errors() == []
    with pytest.raises(ModelError, match="truncated"):
        Racer(broken)


# drafts and tokens that would lead out of bounds


@pytest.mark.parametrize("token", [-1, 10**6, 2**40])
def test_token_ids_outside_the_vocabulary_are_refused(racer: Racer, token: int) -> None:
    tree = path_of(1)
    engine, model = racer.engine, racer.model
    calls = [
        lambda: engine.prefill([1, token]),
        lambda: engine.verify(token, DraftTree.empty()),
        lambda: model.piece(token),
        lambda: model.is_end(token),
        lambda: racer.generate([1, token]),
        lambda: Baseline(model, engine).answer([1, token], 1),
    ]
    if token < 2**31:
        tree.token[0] = token
        calls.append(lambda: engine.verify(1, tree))
    for call in calls:
        with pytest.raises(UsageError, match=r"vocabulary|between 0 and"):
            call()
    assert engine.tokens == []


def test_malformed_and_too_large_drafts_are_refused(racer: Racer) -> None:
    engine = racer.engine
    engine.prefill([1] * 120)
    with pytest.raises(UsageError, match="may have"):
        engine.verify(1, path_of(40))
    for parents in ([0, 0], [-2, 0], [1, -1], [-1, 60]):
        tree = path_of(2)
        tree.parent[:] = parents
        with pytest.raises(UsageError, match="parents"):
            engine.verify(1, tree)
    tree = path_of(2)
    tree.depth[1] = 9
    with pytest.raises(UsageError, match="parents"):
        engine.verify(1, tree)
    engine.verify(1, path_of(3))
    with pytest.raises(UsageError, match="follows"):
        engine.verify(1, path_of(3))
    with pytest.raises(UsageError, match="follows"):
        engine.commit(1, path_of(1), [])
    engine.commit(1, path_of(3), [0])
    assert engine.n_past == 122


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.mode == "chain"], ids=lambda kind: kind.name)
def test_a_model_of_one_path_refuses_trees_and_deeper_paths(tmp_path: Path, kind: Kind) -> None:
    with Racer(kind.write(tmp_path / "kind.gguf"), n_ctx=256, n_threads=1, remember=False) as racer:
        engine = racer.engine
        engine.prefill([40, 41])
        with pytest.raises(UsageError, match="single path"):
            engine.verify(42, fork())
        if kind.max_depth is not None:
            with pytest.raises(UsageError, match="may have"):
                engine.verify(42, path_of(kind.max_depth + 1))
        longest = path_of(kind.max_depth or 8)
        engine.verify(42, longest)
        engine.commit(42, longest, [0])
        assert engine.tokens == [40, 41, 42, 5]
