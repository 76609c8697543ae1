"""The trial of AMX kernels: asked once for each build, only where the build has them, believed only when it ran."""

import signal
from pathlib import Path

import pytest

from racer_local.llama import amx, library


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int | None]:
    """A build with AMX and an empty cache; the list gives what trials return and is used up by them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(library, "system_info", lambda: "CPU : AMX_INT8 = 1 | ")
    codes: list[int | None] = []
    monkeypatch.setattr(amx, "_try_in_child", lambda _path: codes.pop(0))
    return codes


def test_no_trial_without_amx(asked: list[int | None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "system_info", lambda: "CPU : AVX2 = 1 | ")
    assert amx.works(Path("m.gguf"))


@pytest.mark.parametrize(("code", "works"), [(0, True), (-signal.SIGILL, False)])
def test_a_trial_is_remembered(asked: list[int | None], code: int, works: bool) -> None:
    asked.append(code)
    assert amx.works(Path("m.gguf")) is works
    assert amx.works(Path("other.gguf")) is works, "asking again would fail: nothing is left in the list"


@pytest.mark.parametrize("code", [1, 3, -signal.SIGKILL, None])
def test_a_trial_that_failed_otherwise_says_nothing(asked: list[int | None], code: int | None) -> None:
    asked += [code, 0]
    assert amx.works(Path("broken.gguf"))
    assert amx.works(Path("m.gguf"))
    assert not asked, "the first result must not have been remembered"


def test_a_damaged_memory_is_made_anew(asked: list[int | None], tmp_path: Path) -> None:
    for damage in ("{", "[]", '{"x": 3}'):
        (tmp_path / "racer-local").mkdir(exist_ok=True)
        (tmp_path / "racer-local" / "amx.json").write_text(damage)
        asked.append(0)
        assert amx.works(Path("m.gguf"))
        assert not asked
        (tmp_path / "racer-local" / "amx.json").unlink()
