"""Models in several files: any part names them all, and what is wrong with one of them is said of that one."""

import struct
from pathlib import Path

import gguf
import numpy as np
import pytest

from racer_local import gguf_file
from racer_local.api import Racer
from racer_local.errors import ModelError
from tests.model import gguf_bytes
from tests.tiny import write_llama


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


def failure(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        Racer(path)
    message = str(caught.value)
    assert message.isprintable()
    return message


def split(tiny: Path, directory: Path, *, name: str = "m", counts: int | None = None, drop: str = "") -> list[Path]:
    """Write a model in parts, as llama.cpp's own tool does.

    Args:
        tiny: The model.
        directory: Where to.
        name: Prefix of the parts' names.
        counts: What the parts say how many they are, if not the truth.
        drop: A tensor to leave out.
    """
    file = gguf_bytes.File.parse(tiny.read_bytes())
    groups = [file.tensors[:7], file.tensors[7:14], file.tensors[14:]]
    paths = []
    for no, group in enumerate(groups):
        data, tensors = b"", []
        for tensor in group:
            size = 4 * int(np.prod(tensor.shape))
            if tensor.name.decode() != drop:
                tensors.append(gguf_bytes.Tensor(tensor.name, tensor.shape, tensor.kind, len(data)))
                data += file.data[tensor.offset : tensor.offset + size]
                data += bytes(-len(data) % 32)
        pairs = list(file.pairs) if no == 0 else []
        for key, kind, form, value in (
            (b"split.no", 2, "<H", no),
            (b"split.count", 2, "<H", counts or len(groups)),
            (b"split.tensors.count", 5, "<i", len(file.tensors)),
        ):
            pairs.append(gguf_bytes.Pair(key, kind, struct.pack(form, value)))
        paths.append(directory / f"{name}-{no + 1:05d}-of-{len(groups):05d}.gguf")
        paths[-1].write_bytes(gguf_bytes.File(pairs, tensors, data).dump())
    return paths


def answer(path: Path) -> str:
    with Racer(path, remember=False) as racer:
        return racer.generate("the", max_tokens=8, temperature=0).text


@pytest.mark.parametrize("named", [0, 1, 2])
def test_a_split_model_is_loaded_by_any_part(tiny: Path, tmp_path: Path, named: int) -> None:
    paths = split(tiny, tmp_path, name="日本 x")
    assert gguf_file.split_parts(paths[named]) == paths
    assert gguf_file.check_file(paths[named]) == paths[0]
    assert answer(paths[named]) == answer(tiny)
    with Racer(paths[named], remember=False) as racer:
        assert racer.model.path == paths[0]


def test_a_split_model_written_by_the_gguf_package(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "g.gguf", "llama", split_max_tensors=1)
    for name in ("a", "b"):
        writer.add_tensor(name, np.ones(32, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    paths = sorted(tmp_path.glob("g-*.gguf"))
    assert [p.name for p in paths] == ["g-00001-of-00002.gguf", "g-00002-of-00002.gguf"]
    assert gguf_file.split_parts(paths[1]) == paths
    paths[0].unlink()
    assert paths[0].name in failure(paths[1])


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_missing_part_is_named(tiny: Path, tmp_path: Path, lost: int) -> None:
    paths = split(tiny, tmp_path)
    paths[lost].unlink()
    for path in paths:
        if path.exists():
            assert paths[lost].name in failure(path)
        else:
            assert "no such file" in failure(path)


@pytest.mark.parametrize("damage", [b"", b"GGUF", b"<html>", b"GGUF" + b"\xff" * 60])
def test_a_damaged_part_is_named(tiny: Path, tmp_path: Path, damage: bytes) -> None:
    paths = split(tiny, tmp_path)
    paths[1].write_bytes(damage)
    message = failure(paths[2])
    assert paths[1].name in message
    assert paths[2].name not in message


def test_a_truncated_part(tiny: Path, tmp_path: Path) -> None:
    paths = split(tiny, tmp_path)
    paths[2].write_bytes(paths[2].read_bytes()[:-500])
    assert "truncated or damaged" in failure(paths[0])


def test_parts_in_each_others_place_or_of_another_model(tiny: Path, tmp_path: Path) -> None:
    paths = split(tiny, tmp_path)
    contents = [p.read_bytes() for p in paths]
    paths[1].write_bytes(contents[2])
    paths[2].write_bytes(contents[1])
    assert "do not belong together" in failure(paths[0])
    paths[2].write_bytes(contents[2])
    assert "do not belong together" in failure(paths[0]), "one part twice"
    paths[1].write_bytes(contents[0])
    assert "do not belong together" in failure(paths[0])
    paths[0].write_bytes(contents[1])
    assert "another name" in failure(paths[0])


def test_a_part_that_lacks_a_tensor(tiny: Path, tmp_path: Path) -> None:
    assert "do not belong together" in failure(split(tiny, tmp_path, drop="blk.1.ffn_up.weight")[0])


@pytest.mark.parametrize("counts", [2, 4, 65535])
def test_parts_whose_count_is_not_that_of_their_names(tiny: Path, tmp_path: Path, counts: int) -> None:
    assert "another name" in failure(split(tiny, tmp_path, counts=counts)[0])


def test_a_part_under_another_name(tiny: Path, tmp_path: Path) -> None:
    paths = split(tiny, tmp_path)
    renamed = paths[0].rename(tmp_path / "mine.gguf")
    assert "another name" in failure(renamed)
    assert "another name" in failure(paths[1].rename(tmp_path / "other.gguf"))


@pytest.mark.parametrize(
    "name", ["m-00002-of-00003.gguf", "m-00001-of-00001.gguf", "m-00004-of-00003.gguf", "m-00000-of-00002.gguf"]
)
def test_a_whole_model_that_is_only_named_like_a_part(tiny: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(tiny.read_bytes())
    assert gguf_file.check_file(path) == path
    assert answer(path) == answer(tiny)
