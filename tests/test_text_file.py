"""Text of any editor is read: with a byte order mark, with any line ends; UTF-16 is called by its name."""

import json
from pathlib import Path

import pytest

from racer_local import locations, registry
from racer_local.bench import curves, plot, questions, results
from racer_local.cli import config
from racer_local.errors import UsageError
from racer_local.text_file import decode, read_text

MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (MARK, ""),
        (MARK + "é\n".encode(), "é\n"),
        (b"a\r\nb\rc\n", "a\nb\nc\n"),
        ("a\ufeffb".encode(), "a\ufeffb"),
    ],
)
def test_what_is_read(data: bytes, text: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(data)
    assert read_text(tmp_path / "f") == decode(data, "f") == text


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf_16_is_named(encoding: str, tmp_path: Path) -> None:
    file = tmp_path / "a b.toml"
    file.write_bytes("\ufeffx = 1".encode(encoding))
    with pytest.raises(UsageError, match=r"a b\.toml is in UTF-16; save it as UTF-8"):
        read_text(file)


def test_what_is_no_text_and_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the questions f is no text in UTF-8"):
        decode(b"a\xff", "the questions f")
    assert decode(b"a\xff", "f", errors="replace") == "a\ufffd"
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(UsageError, match="cannot read"):
            read_text(path)


def test_settings_models_and_questions_may_begin_with_a_mark(tmp_path: Path) -> None:
    locations.config_dir().mkdir(parents=True)
    locations.config_file().write_bytes(MARK + b"[options]\r\ntemp = 0.5\r\n")
    assert config.load().options == {"temp": 0.5}
    locations.user_models_file().write_bytes(MARK + b'[models.mine]\nfiles = ["x.gguf"]\n')
    assert "mine" in registry.entries()
    asked = tmp_path / "questions.jsonl"
    asked.write_bytes(MARK + json.dumps({"question_id": 1, "category": "c", "turns": ["x"]}).encode())
    assert [q.turns for q in questions.load([asked])] == [("x",)]


@pytest.mark.parametrize("read", [config.load, registry.entries])
def test_settings_in_utf_16_are_named(read: object) -> None:
    locations.config_dir().mkdir(parents=True)
    for file in (locations.config_file(), locations.user_models_file()):
        file.write_bytes("[options]\n".encode("utf-16"))
    assert callable(read)
    with pytest.raises(UsageError, match="UTF-16"):
        read()


def test_reports_and_curves_may_begin_with_a_mark(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    file.write_bytes(
        MARK + json.dumps({"rows": [], "n": [1, 2, 4, 8, 16, 32, 64], "ratio": [1, 2, 3, 4, 5, 6, 9]}).encode()
    )
    assert results.load_results(file) == []
    assert curves.load(str(file)).ratio[64] == 9
    file.write_bytes("{}".encode("utf-16"))
    for read in (results.load_results, lambda path: curves.load(str(path)), lambda path: plot.draw([path], path)):
        with pytest.raises(UsageError, match="UTF-16"):
            read(file)
