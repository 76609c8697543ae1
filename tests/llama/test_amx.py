"""The trial of AMX kernels: asked once for each build, only where the build has them, believed only when it ran."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from racer_local.errors import ModelError
from racer_local.llama import amx, library, load_check


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int | None]:
    """A build with AMX and an empty cache; the list gives what trials return and is used up by them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(library, "system_info", lambda: "CPU : AMX_INT8 = 1 | ")
    codes: list[int | None] = []

    def check(_path: Path, _on_progress: Callable[[float], bool] | None, *, rearranged: bool) -> int | None:
        assert rearranged
        return codes.pop(0)

    monkeypatch.setattr(load_check, "check", check)
    return codes


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two model files."""
    paths = [tmp_path / "m.gguf", tmp_path / "other.gguf"]
    for path in paths:
        path.write_text(path.name)
    return paths


def test_no_trial_without_amx(asked: list[int | None], monkeypatch: pytest.MonkeyPatch, files: list[Path]) -> None:
    monkeypatch.setattr(library, "system_info", lambda: "CPU : AVX2 = 1 | ")
    assert amx.works(files[0])


def test_a_file_that_failed_speaks_for_all(asked: list[int | None], files: list[Path]) -> None:
    asked.append(-signal.SIGILL)
    assert [amx.works(file) for file in (*files, files[0])] == [False, False, False], "one trial is enough"


def test_a_file_that_works_speaks_for_itself_alone(asked: list[int | None], files: list[Path]) -> None:
    """It may have no weights that go to AMX."""
    asked += [0, -signal.SIGILL]
    assert amx.works(files[0])
    assert amx.works(files[0]), "asking again would use up the list"
    assert not amx.works(files[1])
    assert not amx.works(files[0])


@pytest.mark.parametrize("code", [1, 3, -signal.SIGKILL, None])
def test_a_trial_that_failed_otherwise_says_nothing(
    asked: list[int | None], code: int | None, files: list[Path]
) -> None:
    asked += [code, 0]
    assert amx.works(files[1])
    assert amx.works(files[0])
    assert not asked, "the first result must not have been remembered"


def test_a_file_that_cannot_be_opened_says_nothing(
    asked: list[int | None], monkeypatch: pytest.MonkeyPatch, files: list[Path]
) -> None:
    real = load_check.check

    def fails(*_: object, **__: object) -> int:
        raise ModelError("damaged")

    monkeypatch.setattr(load_check, "check", fails)
    with pytest.raises(ModelError, match="damaged"):
        amx.works(files[1])
    monkeypatch.setattr(load_check, "check", real)
    asked.append(-signal.SIGILL)
    assert not amx.works(files[0])


@pytest.mark.parametrize("damage", ["{", "[]", "\0", '{"version": 1, "x": 3}', '{"x": true}'])
def test_a_damaged_memory_is_made_anew(asked: list[int | None], tmp_path: Path, damage: str, files: list[Path]) -> None:
    file = tmp_path / "racer-local" / "amx.json"
    file.parent.mkdir()
    file.write_text(damage)
    asked.append(0)
    assert amx.works(files[0])
    assert not asked
    assert amx.works(files[0]), "asking again would fail: nothing is left in the list"
    aside = file.with_name("amx.json.damaged")
    assert aside.exists() is (damage in ("{", "[]", "\0"))


def test_a_cache_that_cannot_be_written_is_no_matter(
    asked: list[int | None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: list[Path]
) -> None:
    (tmp_path / "racer-local").write_text("a file where a directory should be")
    asked += [0, -signal.SIGILL]
    assert amx.works(files[0])
    assert not amx.works(files[0])
