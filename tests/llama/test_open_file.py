"""What is said of a file that llama.cpp refuses: newer, another fork's, or damaged."""

import struct
from pathlib import Path

import pytest

from racer_local import loading
from racer_local.api import Racer
from racer_local.errors import ModelError
from racer_local.llama.open_file import _explain
from racer_local.settings import ModelParams
from tests.tiny import write_llama
from tests.tiny_kinds import KINDS


def with_type(path: Path, kind: int) -> Path:
    """The file with another type for one tensor."""
    data = bytearray(path.read_bytes())
    at = data.index(b"output_norm.weight") + len(b"output_norm.weight")
    n_dims = struct.unpack_from("<I", data, at)[0]
    struct.pack_into("<I", data, at + 4 + 8 * n_dims, kind)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("kind", "said", "not_said"),
    [
        (200, "needs a newer llama.cpp than", "damaged"),
        (64, "needs a newer llama.cpp than", "damaged"),
        (137, "ik_llama.cpp", "damaged"),
        (36, "bitnet.cpp", "damaged"),
        (2**31 - 1, "truncated or damaged", "newer"),
    ],
)
def test_a_tensor_type_that_is_not_known(tmp_path: Path, kind: int, said: str, not_said: str) -> None:
    path = with_type(write_llama(tmp_path / "tiny.gguf"), kind)
    with pytest.raises(ModelError) as caught:
        loading.load(path, ModelParams())
    assert said in str(caught.value)
    assert not_said not in str(caught.value)
    assert str(caught.value).isprintable()


def test_an_unknown_pre_tokenizer_needs_a_newer_llama_cpp(tmp_path: Path) -> None:
    (kind,) = [kind for kind in KINDS if kind.arch == "qwen2"]
    path = kind.write(tmp_path / "kind.gguf")
    data = path.read_bytes()
    at = data.index(b"tokenizer.ggml.pre")
    path.write_bytes(data[:at] + data[at:].replace(b"qwen2", b"qwen9", 1))
    with pytest.raises(ModelError, match=r"needs a newer llama\.cpp than .*qwen9"):
        loading.load(path, ModelParams())


def test_an_unknown_architecture_and_tokenizer() -> None:
    for line in ("unknown model architecture: 'new'", "unknown tokenizer: 'new'"):
        said = [f"llama_model_load: error loading model: {line}"]
        assert "needs a newer llama.cpp than" in _explain(Path("x.gguf"), said)


def test_a_context_beyond_the_training_length_is_noted(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "tiny.gguf", context=128)
    for n_ctx, noted in ((128, False), (256, True)):
        with Racer(path, n_ctx=n_ctx, remember=False, draft="off") as racer:
            assert any("longer than the 128" in note for note in racer.notes) is noted
        assert any("longer than the 128" in note for note in racer.notes) is noted
