"""Pictures of the chat over a recorded run."""

import math
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from racer_local.tui import app as tui_app  # pyright: ignore[reportMissingImports]
from racer_local.tui import picture  # pyright: ignore[reportMissingImports]

from racer_local.errors import RacerError, UsageError


def drawn(path: Path) -> str:
    """The text of a picture, line by line."""
    lines: dict[float, list[tuple[float, str]]] = {}
    for node in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text"):
        place = lines.setdefault(float(node.attrib.get("y", 0)), [])
        place.append((float(node.attrib.get("x", 0)), (node.text or "").replace("\xa0", " ")))
    return "\n".join("".join(text for _, text in sorted(parts)).rstrip() for _, parts in sorted(lines.items()))


class TestPicture:
    def test_finished_answer(self, run: Path, tmp_path: Path):
        out = tmp_path / "chat.svg"
        picture.draw(run, out, keys=["f2", "f3"])
        text = drawn(out)
        for part in ("first [question]", "Hello▏ **bold** [/x]▏ end.", "6 tokens in 3 steps", "3 drafted, 2 accepted"):
            assert part in text
        assert "racer-chat" in text
        assert "Second" not in text
        assert "16/2048" in text

    def test_nothing_is_fetched(self, run: Path, tmp_path: Path):
        picture.draw(run, tmp_path / "chat.svg")
        svg = (tmp_path / "chat.svg").read_text("utf-8")
        assert not re.search(r"url\(\s*[\"']?\s*(?!#)", svg)
        assert "@font-face" not in svg
        assert "@import" not in svg
        assert "cdnjs" not in svg
        assert re.search(r"font-family:[^;]*monospace", svg)

    def test_same_recording_same_picture(self, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        for name, keys, until in (("a", ("f2",), None), ("b", (), 2)):
            monkeypatch.delenv("NO_COLOR", raising=False)
            picture.draw(run, tmp_path / f"{name}.svg", keys=keys, until=until)
            monkeypatch.setenv("NO_COLOR", "1")
            monkeypatch.setattr(tui_app, "TICK_S", 0.31)
            picture.draw(run, tmp_path / f"{name}2.svg", keys=keys, until=until)
            assert (tmp_path / f"{name}.svg").read_bytes() == (tmp_path / f"{name}2.svg").read_bytes()

    @pytest.mark.parametrize("until", [2, 0.5])
    def test_answer_in_the_making(self, run: Path, tmp_path: Path, until: float):
        picture.draw(run, tmp_path / "chat.svg", keys=["f2"], until=until, size=(80, 24))
        text = drawn(tmp_path / "chat.svg")
        assert "Hello▏ **bold** [/x]" in text
        assert "4 tokens in 2 steps" in text
        assert "end." not in text
        assert "Esc stop" in text

    def test_several_questions(self, run: Path, tmp_path: Path):
        picture.draw(run, tmp_path / "chat.svg", questions=2)
        text = drawn(tmp_path / "chat.svg")
        assert text.index("first [question]") < text.index("/second") < text.index("Second answer")
        picture.draw(run, tmp_path / "chat.svg", questions=2, until=1)
        text = drawn(tmp_path / "chat.svg")
        assert "Hello bold [/x] end." in text
        assert "Second" in text
        assert "Second answer" not in text

    def test_size(self, run: Path, tmp_path: Path):
        boxes = []
        for size in ((60, 20), (120, 40)):
            picture.draw(run, tmp_path / "chat.svg", size=size)
            box = ElementTree.parse(tmp_path / "chat.svg").getroot().attrib["viewBox"].split()
            boxes.append([float(n) for n in box[2:]])
        assert boxes[1][0] > 1.8 * boxes[0][0]
        assert boxes[1][1] > 1.8 * boxes[0][1]
        assert picture.parse_size("100x34") == (100, 34)

    @pytest.mark.parametrize("text", ["", "100", "100x", "x34", "100x34x5", "-1x5", "100 x 34", "٣x٣"])
    def test_no_such_size(self, text: str):
        with pytest.raises(UsageError, match="columns and lines"):
            picture.parse_size(text)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"out": "chat.png"}, "should end with .svg"),
            ({"size": (10, 34)}, "not between"),
            ({"size": (100, 1000)}, "not between"),
            ({"questions": 0}, "has 2 questions"),
            ({"questions": 3}, "has 2 questions"),
            ({"until": 0}, "has 4 steps"),
            ({"until": -1}, "has 4 steps"),
            ({"until": 4}, "has 4 steps"),
            ({"until": math.nan}, "has 4 steps"),
            ({"until": math.inf}, "has 4 steps"),
            ({"keys": ["ctrl+q"]}, "leave the chat"),
            ({"recording": "none.jsonl"}, "cannot read"),
        ],
    )
    def test_what_is_not_to_be_had(self, run: Path, options: dict[str, Any], message: str):
        recording = run.parent / options.pop("recording", run.name)
        out = run.parent / options.pop("out", "chat.svg")
        with pytest.raises(UsageError, match=message):
            picture.draw(recording, out, **options)
        assert not out.exists()

    def test_picture_that_cannot_be_written(self, run: Path, tmp_path: Path):
        (tmp_path / "chat.svg").mkdir()
        with pytest.raises(RacerError, match="cannot write"):
            picture.draw(run, tmp_path / "chat.svg")
