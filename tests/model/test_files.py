"""Files that are no usable model: one clear line each; and what is asked of a tiny model that is one."""

import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from racer_local.api import Racer
from racer_local.errors import Cancelled, ExitCode, ModelError, UsageError
from racer_local.llama import load_check
from racer_local.llama.chat import NO_TEMPLATE
from tests.model import fuzz_files, gguf_bytes
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


@pytest.fixture(scope="module")
def opener() -> Iterator[fuzz_files.Opener]:
    """Opens files in a process each, as the trial and then as the program does."""
    opener = fuzz_files.Opener()
    yield opener
    opener.close()


def test_missing_empty_directory_and_foreign_files(tmp_path: Path) -> None:
    assert "no such file" in failure(tmp_path / "none.gguf")
    (tmp_path / "empty.gguf").touch()
    assert "empty" in failure(tmp_path / "empty.gguf")
    (tmp_path / "page.gguf").write_text("<!DOCTYPE html>")
    assert "web page" in failure(tmp_path / "page.gguf")
    (tmp_path / "noise.gguf").write_bytes(b"PK\x03\x04" * 100)
    assert "not a GGUF file" in failure(tmp_path / "noise.gguf")
    assert "empty.gguf" in failure(tmp_path), "a directory names what it holds"


@pytest.mark.parametrize("share", [0.00005, 0.0005, 0.01, 0.1, 0.5, 0.99])
def test_truncated_file(tiny: Path, tmp_path: Path, share: float) -> None:
    data = tiny.read_bytes()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(data[: max(6, int(len(data) * share))])
    assert "truncated or damaged" in failure(cut)


def test_truncated_anywhere(tiny: Path, tmp_path: Path, opener: fuzz_files.Opener) -> None:
    data = tiny.read_bytes()
    parsed = gguf_bytes.File.parse(data)
    assert parsed.dump() == data, "the parts of the file are understood"
    offsets = [*range(parsed.head + 32)[::29], *np.linspace(parsed.head, len(data) - 1, 25).astype(int).tolist()]
    cut = tmp_path / "cut.gguf"
    for offset in offsets:
        cut.write_bytes(data[:offset])
        outcome = opener.open(cut)
        assert outcome.what == "error", (offset, outcome)
        words = ("empty", "not a GGUF file", "truncated or damaged")
        assert words[(offset > 0) + (offset >= 4)] in outcome.text, (offset, outcome)


@pytest.mark.slow
def test_mutated_files_do_no_harm(tmp_path: Path) -> None:
    """A short run of what `python -m tests.model.fuzz_files` does at length."""
    *_, tally = fuzz_files.run(tmp_path, 150, seed=1)
    assert tally.faults == []
    assert set(tally.counts) <= {"answers", "error", "trial dies"}, tally.report()
    assert min(tally.counts["answers"], tally.counts["error"]) >= 20, "the run is worth something"
    assert fuzz_files.check_with_the_real_trial(tally.deadly[:3]) == []


def test_a_file_that_ends_llama_cpp_ends_no_program(tiny: Path, tmp_path: Path) -> None:
    Racer(tiny, remember=False).close()  # from here on all is known of AMX, and only the file itself leads to a trial
    path = gguf_bytes.deadly_file(tmp_path, "twin")
    done = subprocess.run(
        [sys.executable, "-m", "racer_local.cli", str(path), "-p", "x"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == ExitCode.MODEL, done
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "deadly-twin.gguf is damaged" in done.stderr


def test_racer_tries_a_new_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nothing is known yet of AMX."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    real, commands = load_check._run, []

    def run(command: list[str], *rest: object) -> object:
        commands.append(command)
        return real(command, *rest)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(load_check, "_run", run)
    for seed in (1, 2):
        path = write_llama(tmp_path / "m.gguf", seed=seed)
        for _ in range(2):
            Racer(path, remember=False).close()
            assert len(commands) == seed


def test_models_that_write_no_text(tmp_path: Path) -> None:
    assert "vocabulary" in failure(write_llama(tmp_path / "vocab.gguf", weights=False))
    assert "embedding" in failure(write_llama(tmp_path / "pooled.gguf", pooling=1))
    assert "embedding" in failure(write_llama(tmp_path / "both-ways.gguf", causal=False))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_unreadable_file_and_directory(tiny: Path, tmp_path: Path) -> None:
    locked = tmp_path / "locked.gguf"
    locked.write_bytes(tiny.read_bytes())
    locked.chmod(0)
    assert "cannot read" in failure(locked)
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "m.gguf").write_bytes(tiny.read_bytes())
    inside.chmod(0)
    assert "cannot" in failure(inside / "m.gguf")
    inside.chmod(0o700)


def test_what_is_no_file(tiny: Path, tmp_path: Path) -> None:
    assert "device" in failure(Path("/dev/null"))
    os.mkfifo(tmp_path / "pipe.gguf")
    assert "pipe" in failure(tmp_path / "pipe.gguf"), "opening it would wait for a writer"
    assert "no such file" in failure(tiny / "m.gguf"), "below a file"
    (tmp_path / "nowhere.gguf").symlink_to(tmp_path / "none")
    assert "no such file" in failure(tmp_path / "nowhere.gguf")
    (tmp_path / "circle.gguf").symlink_to(tmp_path / "circle.gguf")
    failure(tmp_path / "circle.gguf")
    (tmp_path / "empty").mkdir()
    assert "name a GGUF file" in failure(tmp_path / "empty")


def test_a_name_that_cannot_be_shown_is_still_one_line(tmp_path: Path) -> None:
    path = tmp_path / "two\nlines \x1b[31m \udcff.gguf"
    assert "two␊lines" in failure(path)
    path.write_bytes(b"GGUF" + bytes(40))
    assert "two␊lines" in failure(path)


@pytest.mark.parametrize(
    "name", ["日本語 é.gguf", "with some  spaces.gguf", "'quoted' \"%s\" {x} $HOME.gguf", "-p", "\udcff.gguf"]
)
def test_names_of_all_kinds(tiny: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(tiny.read_bytes() + name.encode("utf-8", "surrogateescape"))
    with Racer(path, remember=False) as racer:
        assert racer.generate("the", max_tokens=2).stats.predicted_n


def test_symbolic_links_and_a_directory_that_is_read_only(tiny: Path, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "m.gguf").write_bytes(tiny.read_bytes())
    inside.chmod(0o500)
    (tmp_path / "link").symlink_to(inside / "m.gguf")
    for path in (inside / "m.gguf", tmp_path / "link"):
        with Racer(path) as racer:
            assert racer.generate("the", max_tokens=2).stats.predicted_n
    inside.chmod(0o700)
    assert [p.name for p in inside.iterdir()] == ["m.gguf"]


def packed(*parts: int | bytes) -> bytes:
    """A GGUF file: numbers of 64 bits, and bytes as they are."""
    return b"GGUF\x03\0\0\0" + b"".join(p if isinstance(p, bytes) else struct.pack("<Q", p) for p in parts)


@pytest.mark.parametrize(
    ("version", "words"), [(1, "a newer file"), (4, "newer llama.cpp"), (0, "damaged"), (3 << 24, "damaged")]
)
def test_versions_of_the_format(tiny: Path, tmp_path: Path, version: int, words: str) -> None:
    path = tmp_path / "version.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<I", version) + tiny.read_bytes()[8:])
    assert words in failure(path)


HUGE = (1 << 62, (1 << 63) - 1, (1 << 64) - 1, 1 << 40, 1 << 31)
KEY = struct.pack("<Q", 1) + b"k"
ONE_TENSOR = struct.pack("<Q", 1) + b"t" + struct.pack("<I", 2)


@pytest.mark.parametrize("huge", HUGE)
@pytest.mark.parametrize("where", ["tensors", "pairs", "key", "string", "array", "dimension", "offset"])
def test_huge_claimed_sizes(tmp_path: Path, opener: fuzz_files.Opener, huge: int, where: str) -> None:
    array = struct.pack("<II", 9, 4)
    content = {
        "tensors": packed(huge, 0),
        "pairs": packed(0, huge),
        "key": packed(0, 1, huge, b"k"),
        "string": packed(0, 1, KEY, struct.pack("<I", 8), huge, b"text"),
        "array": packed(0, 1, KEY, array, huge, b"text"),
        "dimension": packed(1, 0, ONE_TENSOR, huge, 8, struct.pack("<I", 0), 0),
        "offset": packed(1, 0, ONE_TENSOR, 8, 8, struct.pack("<I", 0), huge),
    }[where]
    path = tmp_path / "huge.gguf"
    path.write_bytes(content + bytes(512))
    outcome = opener.open(path)
    assert outcome.what == "error", outcome
    assert "huge.gguf" in outcome.text


def test_loading_can_be_stopped(tiny: Path) -> None:
    with pytest.raises(Cancelled):
        Racer(tiny, on_progress=lambda _p: False)


def test_loading_reports_progress(tiny: Path) -> None:
    seen: list[float] = []
    with Racer(tiny, on_progress=lambda p: seen.append(p) or True) as racer:
        assert racer.mode.name == "tree"
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_no_template_completes_plainly_and_says_so(tiny: Path) -> None:
    with Racer(tiny) as racer:
        assert racer.chat_format.note == NO_TEMPLATE
        tokens = racer.chat_format.prompt([{"role": "user", "content": "the"}]).tolist()
        assert tokens == racer.model.tokenize("the", add_special=True).tolist()
        assert racer.chat([{"role": "user", "content": "the"}], max_tokens=4).stats.predicted_n <= 4


NO_SYSTEM = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    "[{{ m.role }}]{{ m.content }}{% endfor %}"
)
ALTERNATING = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}[{{ m.role }}]{{ m.content }}{% endfor %}"
)


def rendered(path: Path, messages: list[dict[str, str]], template: str | None = None) -> str:
    with Racer(path, chat_template=template) as racer:
        tokens = racer.chat_format.prompt(messages).tolist()
        assert racer.chat_format.note == ""
        text = b"".join(racer.model.piece(t) for t in tokens).decode()
        return text.removeprefix(" ")


def test_template_without_a_system_role(tmp_path: Path) -> None:
    path = write_llama(tmp_path / "t.gguf", template=NO_SYSTEM)
    messages = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}]
    assert rendered(path, messages) == "[user]be kind\n\nhi"


def test_template_that_demands_alternation(tiny: Path) -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    assert rendered(tiny, messages, ALTERNATING) == "[user]a\n\nb"


@pytest.mark.parametrize("broken", ["{% for %}", "{{ undefined_function() }}", "{{ messages[0].content.x.y }}"])
def test_broken_template_of_the_file_falls_back_to_plain_text(tmp_path: Path, broken: str) -> None:
    path = write_llama(tmp_path / "t.gguf", template=broken)
    with Racer(path) as racer:
        tokens = racer.chat_format.prompt([{"role": "user", "content": "the"}]).tolist()
        assert tokens == racer.model.tokenize("the", add_special=True).tolist()
        assert "template" in racer.chat_format.note


def test_template_cannot_leave_the_sandbox(tiny: Path) -> None:
    evil = "{{ ''.__class__.__mro__[1].__subclasses__() }}"
    with Racer(tiny, chat_template=evil) as racer:
        racer.chat_format.prompt([{"role": "user", "content": "the"}])
        assert "unsafe" in racer.chat_format.note


def test_given_template_that_is_broken_is_the_users_error(tiny: Path) -> None:
    with pytest.raises(UsageError, match="Jinja"):
        Racer(tiny, chat_template="{% for %}")


def test_bytes_that_are_no_characters_do_not_end_an_answer(tiny: Path) -> None:
    """A random model writes byte tokens in any order; the text is whole characters and replacement marks."""
    with Racer(tiny) as racer:
        done = racer.generate("the", max_tokens=200, temperature=1.5, seed=1)
        assert done.stats.predicted_n == 200 or done.finish_reason == "stop"
        done.text.encode("utf-8")
        assert "".join(t.text for t in done.tokens) == done.text


def test_load_and_unload_many_times(tiny: Path) -> None:
    racer = Racer(tiny)
    racer.close()
    for _ in range(20):
        with Racer(tiny) as racer:
            racer.generate("the", max_tokens=3)
    with pytest.raises(UsageError, match="closed"):
        racer.generate("the")


def test_a_very_long_template_and_a_very_long_message(tiny: Path) -> None:
    template = "{% for m in messages %}" + "{# " + "x" * 200_000 + " #}" + "[{{ m.role }}]{{ m.content }}{% endfor %}"
    with Racer(tiny, chat_template=template, n_ctx=256) as racer:
        tokens = racer.chat_format.prompt([{"role": "user", "content": "the"}]).tolist()
        assert b"".join(racer.model.piece(t) for t in tokens).decode().strip() == "[user]the"
        assert len(racer.chat_format.prompt([{"role": "user", "content": "the " * 100_000}])) > 90_000


def test_alternation_is_kept_after_a_stopped_answer(tiny: Path) -> None:
    """A stopped answer may be empty, and the user goes on."""
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    assert rendered(tiny, messages, ALTERNATING) == "[user]a[assistant][user]b\n\nc"
