"""What a loaded file says of itself."""

from pathlib import Path

import pytest

from racer_local.llama.model import NAME_LIMIT, Model
from racer_local.settings import ModelParams
from tests.tiny import write_llama


@pytest.mark.parametrize(
    ("own", "name", "description"),
    [
        ("Tiny Llama", "Tiny Llama", "Tiny Llama all F32"),
        ("two\nlines \x1b[31mred", "two lines ␛[31mred", "two lines ␛[31mred all F32"),
        ("x" * 1000, "x" * (NAME_LIMIT - 1) + "…", "x" * (NAME_LIMIT - 1) + "… all F32"),
        (None, "my model-1.5", "llama ?B (guessed) all F32"),
        (" \n ", "my model-1.5", "llama ?B (guessed) all F32"),
    ],
)
def test_a_model_is_called_what_its_file_calls_it(tmp_path: Path, own: str, name: str, description: str) -> None:
    model = Model(write_llama(tmp_path / "my model-1.5.gguf", name=own), ModelParams(), repack=False)
    assert (model.name, model.description) == (name, description)
    model.close()
