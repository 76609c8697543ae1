"""The trial in a child process: what ends the child is a clear error here, and what passed is not tried again."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from racer_local.errors import Cancelled, ModelError
from racer_local.llama import amx, library, load_check
from tests.model.gguf_bytes import DEADLY, deadly_file
from tests.tiny import write_llama

NEVER = "raise SystemExit('this child should not run')"
BEGUN = "print('begun', flush=True)\n"
PASSED = BEGUN + "print('opened', flush=True)\n"
BUSY = "open(pid_file + '-busy', 'w').close()\ntime.sleep(600)"


class Children:
    """Stands for the command of the child; each run takes the next script."""

    def __init__(self, directory: Path) -> None:
        self.scripts: list[str] = []
        self.seen: list[bool] = []
        self.pid_file = directory / "pid"
        self._busy_file = directory / "pid-busy"

    def __call__(self, path: Path, *, rearranged: bool) -> list[str]:
        self.seen.append(rearranged)
        self._busy_file.unlink(missing_ok=True)
        start = f"import os, signal, sys, time\npid_file = {str(self.pid_file)!r}\n"
        start += "open(pid_file, 'w').write(str(os.getpid()))\n"
        return [sys.executable, "-S", "-E", "-c", start + self.scripts.pop(0), str(path)]

    def is_busy(self) -> bool:
        """Whether the last child has reached `BUSY`."""
        return self._busy_file.exists()

    def is_gone(self) -> bool:
        """Whether the last child has ended and was waited for."""
        try:
            os.kill(int(self.pid_file.read_text()), 0)
        except ProcessLookupError:
            return True
        return False


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "racer-local" / "trials.json"


@pytest.fixture
def children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Children:
    children = Children(tmp_path)
    monkeypatch.setattr(load_check, "_command", children)
    return children


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Something that looks like a model."""
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF" + bytes(100))
    return path


def refusal(path: Path) -> str:
    with pytest.raises(ModelError) as caught:
        load_check.check(path)
    message = str(caught.value)
    assert message.isprintable()
    assert str(path) in message
    return message


# remembering


def test_what_passed_is_not_tried_again(children: Children, file: Path) -> None:
    children.scripts = [PASSED]
    assert load_check.check(file) == 0
    assert load_check.check(file) is None
    assert children.seen == [False]


def test_a_copy_under_another_name_is_the_same_file(children: Children, file: Path, tmp_path: Path) -> None:
    children.scripts = [PASSED]
    load_check.check(file)
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(file.read_bytes())
    load_check.check(copy)
    assert len(children.seen) == 1


def test_another_file_and_another_library_are_tried(
    children: Children, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    children.scripts = [PASSED, PASSED, PASSED]
    load_check.check(file)
    file.write_bytes(b"GGUF" + bytes(99) + b"x")
    load_check.check(file)
    monkeypatch.setattr(library, "version", lambda: "99.0")
    load_check.check(file)
    assert len(children.seen) == 3


def test_a_large_file_changed_in_the_middle_is_tried_again(children: Children, tmp_path: Path) -> None:
    """The name of a file's content covers its ends only."""
    path = tmp_path / "large.gguf"
    with path.open("wb") as out:
        out.write(b"GGUF")
        out.truncate(5 << 20)
    children.scripts = [PASSED, PASSED]
    load_check.check(path)
    load_check.check(path)
    assert len(children.seen) == 1
    with path.open("r+b") as out:
        out.seek(2 << 20)
        out.write(b"changed")
    os.utime(path, ns=(1, 1))
    load_check.check(path)
    assert len(children.seen) == 2


def test_a_change_in_any_part_of_a_split_model_is_tried_again(children: Children, tmp_path: Path) -> None:
    parts = [tmp_path / f"m-0000{i}-of-00002.gguf" for i in (1, 2)]
    for part in parts:
        part.write_bytes(b"GGUF" + bytes(100))
    children.scripts = [PASSED, PASSED]
    load_check.check(parts[0])
    parts[1].write_bytes(b"GGUF" + bytes(101))
    load_check.check(parts[0])
    assert len(children.seen) == 2


def test_a_second_opening_runs_for_a_known_file_and_says_how_it_ended(children: Children, file: Path) -> None:
    children.scripts = [PASSED, PASSED + "os.kill(os.getpid(), signal.SIGILL)", PASSED + "sys.exit(1)", PASSED]
    assert load_check.check(file) == 0
    assert load_check.check(file, rearranged=True) == -signal.SIGILL
    assert load_check.check(file, rearranged=True) == 1
    assert load_check.check(file, rearranged=True) == 0
    assert load_check.check(file) is None
    assert children.seen == [False, True, True, True]


def test_memory_is_bounded_and_forgets_the_oldest(
    children: Children, file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_check, "KEPT", 3)
    children.scripts = [PASSED] * 6
    for i in (0, 1, 2, 3, 3, 1):
        file.write_bytes(b"GGUF" + bytes(100 + i))
        load_check.check(file)
    assert len(children.seen) == 4
    assert len(json.loads(cache.read_text())["passed"]) == 3
    file.write_bytes(b"GGUF" + bytes(100))
    load_check.check(file)
    assert len(children.seen) == 5


@pytest.mark.parametrize("damage", ["{", "[]", "\0", '{"version": 1, "passed": 3}', '{"version": 1, "passed": [[]]}'])
def test_a_damaged_memory_is_set_aside(children: Children, file: Path, cache: Path, damage: str) -> None:
    cache.parent.mkdir(parents=True)
    cache.write_text(damage)
    children.scripts = [PASSED]
    load_check.check(file)
    load_check.check(file)
    assert len(children.seen) == 1
    assert cache.with_name("trials.json.damaged").read_text() == damage


def test_a_cache_that_cannot_be_used_is_no_matter(children: Children, file: Path, cache: Path) -> None:
    cache.parent.parent.mkdir(parents=True)
    cache.parent.write_text("a file where a directory should be")
    children.scripts = [PASSED, PASSED]
    assert load_check.check(file) == 0
    assert load_check.check(file) == 0


# ways to end


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("sys.stderr.write('/a b/x.cpp:12: GGML_ASSERT(n > 0) failed\\n'); os.abort()", "x.cpp:12: GGML_ASSERT(n > 0)"),
        (
            "sys.stderr.write('terminate called\\n  what():  bad \\x1b[31m thing\\n'); os.abort()",
            "what(): bad ␛[31m thing",
        ),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "Segmentation fault"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "memory"),
        ("os._exit(3)", "exit code 3"),
        ("sys.stderr.write('x.cpp:1: ' + 'y' * 3000000); os.abort()", "yyy"),
    ],
)
def test_a_child_that_dies_is_an_error_and_not_remembered(
    children: Children, file: Path, cache: Path, script: str, words: str
) -> None:
    children.scripts = [BEGUN + script] * 2
    message = refusal(file)
    assert words in message
    assert len(message) < 500
    assert refusal(file) == message
    assert not cache.exists()


@pytest.mark.parametrize(
    "script",
    [
        BEGUN + "sys.exit(1)",
        BEGUN,
        "raise ImportError",
        "os.abort()",
        "pass",
        BEGUN + "os.kill(os.getpid(), signal.SIGTERM)",
        BEGUN + "os.kill(os.getpid(), signal.SIGINT)",
    ],
)
def test_what_says_nothing_of_the_file_is_left_to_the_loading(
    children: Children, file: Path, cache: Path, script: str
) -> None:
    """Refused in the ordinary way, a child that could not even load the library, or one that somebody stopped."""
    children.scripts = [script]
    assert load_check.check(file) is None
    assert not cache.exists()


@pytest.mark.parametrize("command", [["/nowhere/python"], ["/"], [""], ["a\0b"]])
def test_without_a_child_loading_goes_on(file: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.setattr(load_check, "_command", lambda _path, *, rearranged: command)
    assert load_check.check(file) is None


def test_a_child_that_hangs_is_ended(children: Children, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr(load_check.time, "monotonic", lambda: clock)

    def pass_time(_share: float) -> bool:
        """An hour, as soon as the child is busy."""
        nonlocal clock
        clock += 3600.0 * children.is_busy()
        return True

    children.scripts = [BEGUN + BUSY, PASSED + BUSY]
    with pytest.raises(ModelError, match="given up"):
        load_check.check(file, pass_time)
    assert children.is_gone()
    assert load_check.check(file, pass_time, rearranged=True) is None, (
        "a second opening that hangs is not the file's fault"
    )
    assert children.is_gone()


def test_loading_can_be_stopped_while_the_child_runs(children: Children, file: Path) -> None:
    children.scripts = [BEGUN + BUSY]
    with pytest.raises(Cancelled):
        load_check.check(file, lambda _share: not children.is_busy())
    assert children.is_gone()


def test_a_file_that_vanishes_is_an_error(tmp_path: Path) -> None:
    assert "cannot read" in refusal(tmp_path / "gone.gguf")


def wait_for(path: Path) -> str:
    until = time.monotonic() + 60
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < until
        time.sleep(0.01)
    return path.read_text()


def test_ctrl_c_ends_the_waiting_and_the_child(file: Path, tmp_path: Path) -> None:
    """A signal to the group, as a terminal sends it, reaches the waiting process only; that one ends its child."""
    pid_file = tmp_path / "pid"
    child = f"import os, time; print('begun', flush=True); open({str(pid_file)!r}, 'w').write(str(os.getpid()))"
    script = f"""
from pathlib import Path
import signal
import sys
from racer_local.llama import load_check
signal.signal(signal.SIGINT, signal.default_int_handler)  # what is started in the background ignores it
load_check._command = lambda _path, rearranged: [sys.executable, "-S", "-c", {child!r} + "; time.sleep(600)"]
try:
    load_check.check(Path({str(file)!r}))
except KeyboardInterrupt:
    print("interrupted")
"""
    waiting = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    pid = int(wait_for(pid_file))
    os.killpg(waiting.pid, signal.SIGINT)
    out, errors = waiting.communicate(timeout=60)
    assert (out, errors) == (b"interrupted\n", b"")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_child_ends_even_if_an_interrupt_has_left_its_lock_locked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_check, "GONE_WITHIN_S", 0.1)
    child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"], stdin=subprocess.PIPE)
    lock: Any = getattr(child, "_waitpid_lock")  # noqa: B009 (a type checker does not know it)
    lock.acquire()
    load_check._end(child)
    lock.release()
    assert child.wait(timeout=5) == -signal.SIGKILL


def test_a_child_leaves_when_nobody_waits_for_it() -> None:
    child = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from racer_local.llama import load_check_child as child; print(1, flush=True); child._leave_with_parent()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stdout.readline() == b"1\n"
    assert child.poll() is None
    child.stdin.close()
    assert child.wait(60) == 1
    child.stdout.close()


# the real child


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What real children were started with."""
    real, seen = load_check._run, []

    def run(command: list[str], *rest: object) -> object:
        seen.append(command[4:])
        return real(command, *rest)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(load_check, "_run", run)
    return seen


def test_a_model_passes_with_one_child(tmp_path: Path, runs: list[list[str]], cache: Path) -> None:
    path = write_llama(tmp_path / "日本 語 'x' \"y\".gguf")
    amx.works(path)
    load_check.check(path)
    amx.works(path)
    assert len(runs) == 1
    assert len(json.loads(cache.read_text())["passed"]) == 1


def test_a_model_passes_both_openings(tmp_path: Path, runs: list[list[str]]) -> None:
    path = write_llama(tmp_path / "m.gguf")
    code = load_check.check(path, rearranged=True)
    broken = "AMX_INT8 = 1" in library.system_info() and code == -signal.SIGILL
    assert code == 0 or broken
    assert runs == [[str(path), "rearranged"]]


def test_a_file_refused_in_the_ordinary_way_is_not_remembered(tmp_path: Path, cache: Path) -> None:
    path = write_llama(tmp_path / "m.gguf")
    path.write_bytes(path.read_bytes()[:-1000])
    assert load_check.check(path) is None
    assert not cache.exists()


@pytest.mark.parametrize("name", DEADLY)
def test_files_that_end_llama_cpp_are_refused(tmp_path: Path, cache: Path, name: str) -> None:
    """Should a later llama.cpp bear one of them, look for others with `python -m tests.model.fuzz_files`."""
    assert "GGML_ASSERT" in refusal(deadly_file(tmp_path, name))
    assert not cache.exists()


@pytest.mark.parametrize("options", [{"weights": False}, {"pooling": 1}, {"causal": False}])
def test_models_that_write_no_text_do_not_end_the_child(tmp_path: Path, options: dict[str, object]) -> None:
    load_check.check(write_llama(tmp_path / "m.gguf", **options))  # pyright: ignore[reportArgumentType]


def test_the_child_imports_nothing_from_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    path = write_llama(tmp_path / "m.gguf")
    for name in ("llama_cpp", "json", "numpy", "platform"):
        (tmp_path / f"{name}.py").write_text("import os\nos.abort()")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    load_check.check(path)
    assert cache.exists()
