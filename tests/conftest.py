"""Fixtures: the demo model, loaded once, and a home directory of its own for every test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from racer_local import registry
from racer_local.errors import ModelError


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what is measured in tests out of the user's own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's own settings and conversations out of the tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture(scope="session")
def demo_path() -> Path:
    """The demo model's file; tests that need it are skipped, by name, where it is not installed."""
    try:
        return registry.find_model(None)
    except ModelError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def demo_racer(demo_path: Path) -> Iterator["object"]:
    """The demo model with a small context, shared: every test starts with `forget`."""
    from racer_local.api import Racer

    with Racer(demo_path, n_ctx=2048) as racer:
        yield racer


@pytest.fixture
def racer(demo_racer: "object") -> "object":
    """The demo model with nothing in its cache and nothing learned."""
    from racer_local.api import Racer

    assert isinstance(demo_racer, Racer)
    demo_racer.forget()
    return demo_racer
