"""Files that are no usable model: one clear line each; and what is asked of a tiny model that is one."""

from pathlib import Path

import pytest

from racer_local.api import Racer
from racer_local.errors import Cancelled, ModelError, UsageError
from racer_local.llama.chat import NO_TEMPLATE
from tests.tiny import write_llama


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("tiny") / "tiny.gguf")


def failure(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        Racer(path)
    message = str(caught.value)
    assert "\n" not in message
    return message


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


def test_models_that_write_no_text(tmp_path: Path) -> None:
    assert "vocabulary" in failure(write_llama(tmp_path / "vocab.gguf", weights=False))
    assert "embedding" in failure(write_llama(tmp_path / "pooled.gguf", pooling=1))
    assert "embedding" in failure(write_llama(tmp_path / "both-ways.gguf", causal=False))


def test_unreadable_file(tiny: Path, tmp_path: Path) -> None:
    import os

    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    locked = tmp_path / "locked.gguf"
    locked.write_bytes(tiny.read_bytes())
    locked.chmod(0)
    assert "cannot read" in failure(locked)


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
