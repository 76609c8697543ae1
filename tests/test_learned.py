"""State files and what drafting keeps in them: checked, written whole, set aside when damaged."""

import json
import multiprocessing
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from racer_local import learned, locations
from racer_local.drafting.cost import StepCost
from racer_local.learned import Learned
from racer_local.llama import amx, load_check
from racer_local.state_file import StateFile

MACHINE = {"device": "CPU", "threads": 2}


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "some model.gguf"
    path.write_bytes(b"GGUF" + bytes(5000))
    return path


# state files


def test_what_was_written_is_read(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "deep" / "state.json", 3)
    assert file.read() is None
    file.write({"a": [1, 2], "b": "ü"})
    assert file.read() == {"a": [1, 2], "b": "ü"}
    assert StateFile(file.path, 4).read() is None, "another version"
    assert [p.name for p in file.path.parent.iterdir()] == ["state.json"]


DAMAGE = [b"", b"{", b"[1]", b"3", b'{"version": 1', b"\xff\xfe", b"\x00" * 100, b"[" * 100_000]


@pytest.mark.parametrize("content", DAMAGE)
def test_damage_is_found_and_set_aside(tmp_path: Path, content: bytes) -> None:
    file = StateFile(tmp_path / "state.json", 1)
    file.path.write_bytes(content)
    with pytest.raises(ValueError, match="."):  # noqa: RUF043 - any message, it is the JSON reader's
        file.read()
    assert file.set_aside().read_bytes() == content
    assert file.read() is None


def test_a_failed_write_leaves_the_old_contents(tmp_path: Path) -> None:
    file = StateFile(tmp_path / "state.json", 1)
    file.write({"a": 1})
    with pytest.raises(TypeError):
        file.write({"a": object()})
    assert file.read() == {"a": 1}
    assert len(list(tmp_path.iterdir())) == 1


def _write_often(path: Path, mark: int) -> None:
    file = StateFile(path, 1)
    for i in range(60):
        file.write({"mark": mark, "filling": [mark] * 2000, "i": i})


def test_two_processes_do_not_mix_their_contents(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_often, args=(path, mark)) for mark in (1, 2)]
    for writer in writers:
        writer.start()
    n_read = 0
    while any(writer.is_alive() for writer in writers):
        data = StateFile(path, 1).read()
        if data is not None:
            n_read += 1
            assert data["filling"] == [data["mark"]] * 2000
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert n_read > 5
    assert len(list(tmp_path.iterdir())) == 1


# what drafting keeps


def test_costs_and_beliefs_are_kept(model: Path) -> None:
    first = Learned(model, MACHINE)
    assert not first.cost.is_measured
    first.cost.set_curve({1: 0.01, 2: 0.013, 4: 0.02})
    first.beliefs.counts[7] = (3, 5)
    first.save()
    again = Learned(model, MACHINE)
    np.testing.assert_allclose(again.cost.times(0), first.cost.times(0), rtol=1e-3)
    assert again.beliefs.counts[7].tolist() == [3, 5]
    assert again.notes == first.notes == []
    other_machine = Learned(model, {**MACHINE, "threads": 4})
    assert not other_machine.cost.is_measured
    assert other_machine.beliefs.counts[7].tolist() == [3, 5]
    model.write_bytes(b"GGUF" + bytes(5001))
    assert Learned(model, MACHINE).beliefs.counts.sum() == 0


def test_nothing_is_kept_if_not_wished(model: Path) -> None:
    once = Learned(model, MACHINE, keep=False)
    once.cost.set_curve({1: 1.0, 2: 2.0})
    once.save()
    assert not locations.learned_dir().exists()


@pytest.mark.parametrize("content", [b"{", b'{"version": 1}', b'{"version": 1, "groups": [0]}'])
def test_damaged_files_are_set_aside_with_a_line(model: Path, content: bytes) -> None:
    first = Learned(model, MACHINE)
    first.cost = StepCost({1: 1.0, 2: 1.5})
    first.save()
    files = sorted(locations.learned_dir().iterdir())
    assert len(files) == 2
    for file in files:
        file.write_bytes(content if "cost" in file.name else b"\x80")
    again = Learned(model, MACHINE)
    assert not again.cost.is_measured
    assert len(again.notes) == 2
    assert all("damaged" in note and "\n" not in note for note in again.notes)
    assert Learned(model, MACHINE).notes == [], "said once"
    again.save()
    assert Learned(model, MACHINE).notes == []


def test_another_version_is_left_alone(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Learned(model, MACHINE).save()
    monkeypatch.setattr(learned, "VERSION", 99)
    newer = Learned(model, MACHINE)
    assert newer.notes == []
    assert not newer.cost.is_measured


def test_where_nothing_can_be_written_that_is_said_once(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "a file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    state = Learned(model, MACHINE)
    state.save()
    state.save()
    assert len([note for note in state.notes if "not kept" in note]) == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_said_and_not_touched(model: Path) -> None:
    Learned(model, MACHINE).save()
    for file in locations.learned_dir().iterdir():
        file.chmod(0)
    state = Learned(model, MACHINE)
    assert "cannot read" in state.notes[0]


def test_files_hold_numbers_and_no_text(model: Path) -> None:
    state = Learned(model, MACHINE)
    state.cost.set_curve({1: 1.0, 2: 1.5})
    state.save()
    for file in locations.learned_dir().iterdir():
        words = [w for w in json.dumps(json.loads(file.read_text())).split('"')[1::2] if not w.isidentifier()]
        assert words == []


# any JSON at all

ODD: list[object] = [
    None,
    True,
    0,
    -1,
    1e308,
    float("nan"),
    float("inf"),
    10**400,
    "",
    "x",
    [],
    {},
    [[]],
    [{}],
    [None],
    ["x"],
    [[1], 2],
    {"a": 1},
    [1e400],
    [True] * 65,
]


def odd_variants(data: dict[str, object]) -> Iterator[dict[str, object]]:
    """The data with each value, and each first element, replaced by every odd one; and with each key gone."""
    for key, value in data.items():
        yield {k: v for k, v in data.items() if k != key}
        for odd in ODD:
            yield {**data, key: odd}
            if isinstance(value, list) and value:
                yield {**data, key: [odd, *value[1:]]}
                yield {**data, key: [*value, odd]}


def test_no_contents_of_a_file_end_a_start(model: Path) -> None:
    first = Learned(model, MACHINE)
    first.cost.set_curve({1: 1.0, 2: 1.5, 4: 2.0})
    first.save()
    cost, beliefs = sorted(locations.learned_dir().iterdir(), key=lambda p: "beliefs" in p.name)
    for file in (cost, beliefs):
        good = file.read_text()
        for data in odd_variants(json.loads(good)):
            file.write_text(json.dumps(data))
            read = Learned(model, MACHINE)
            assert len(read.notes) <= 1
            assert not read.notes or "begins anew" in read.notes[0]
            read.cost.times(100)
            assert np.isfinite(read.beliefs.counts).all()
        file.write_text(good)


def test_counts_that_are_no_list_are_set_aside(model: Path) -> None:
    first = Learned(model, MACHINE)
    first.save()
    (file,) = locations.learned_dir().iterdir()
    file.write_text(json.dumps({**json.loads(file.read_text()), "counts": {}}))
    assert "damaged" in Learned(model, MACHINE).notes[0]
    assert Learned(model, MACHINE).notes == []
    assert file.with_name(file.name + ".damaged").exists()


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_lists_of_checked_files_may_hold_anything(tmp_path: Path, odd: object) -> None:
    for data in ({"version": 1, "passed": odd}, {"version": 1, "key": odd, "b": True}, {"version": odd}):
        file = tmp_path / "state.json"
        file.write_text(json.dumps(data))
        assert all(isinstance(key, str) for key in load_check._read(StateFile(file, 1)))
        file.write_text(json.dumps(data))
        assert all(isinstance(known, bool) for known in amx._read(StateFile(file, 1)).values())
