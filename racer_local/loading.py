"""From the name of a model to a context that is ready to answer. What fails on the way leaves nothing behind."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from racer_local import gguf_file, registry
from racer_local.kernels.warmup import warm_up
from racer_local.llama import amx, library, load_check
from racer_local.llama.engine import Engine
from racer_local.llama.model import Model
from racer_local.llama.probe import find_mode
from racer_local.settings import ModelParams


def find(model: str | Path | None) -> Path:
    """The file that a user means, checked as far as that goes without llama.cpp; of a split model the first part.

    Args:
        model: A path, a name from models.toml, or None for the demo model.

    Raises:
        ModelError: There is none, or it is no GGUF file.
    """
    return gguf_file.check_file(registry.find_model(model))


def load(path: Path, params: ModelParams, on_progress: Callable[[float], bool] | None = None) -> Engine:
    """Load a file and create a context, its mode found, while the kernels are compiled beside.

    Args:
        path: What `find` gave.
        params: How to load it.
        on_progress: Called with 0..1 now and then; returning False gives up.

    Returns:
        The engine; `close` it with its model.

    Raises:
        ModelError: The file cannot be used.
        Cancelled: `on_progress` returned False.
    """
    library.load()
    with ExitStack() as stack, ThreadPoolExecutor(1) as pool:
        kernels = pool.submit(warm_up)
        repack = amx.works(path, on_progress)
        load_check.check(path, on_progress)
        model = Model(path, params, on_progress, repack=repack)
        stack.callback(model.close)
        engine = Engine(model, params)
        stack.callback(engine.close)
        kernels.result()
        engine.mode = find_mode(engine)
        stack.pop_all()
    return engine


def close(engine: Engine) -> None:
    """Free a context and its model. Closing twice is allowed."""
    engine.close()
    engine.model.close()


def context_note(engine: Engine) -> str:
    """What people should know of the length of the context, empty for nothing."""
    trained = engine.model.n_ctx_train
    if not trained or engine.n_ctx <= trained:
        return ""
    return f"the context of {engine.n_ctx} tokens is longer than the {trained} that the model was trained for: lower -c"
