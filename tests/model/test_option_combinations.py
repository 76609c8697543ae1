"""Options of loading and drafting in their combinations, on every kind of model: a child process tries them all, for an
abort of llama.cpp would end it.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from racer_local.api import Racer
from racer_local.drafting.policies import DraftConfig
from racer_local.errors import RacerError
from tests.tiny_kinds import KINDS, Kind

ROOT = Path(__file__).resolve().parent.parent.parent
TEXT = "the man in the inn, the hen in the den, the man in the inn, the hen in the den, the man in"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("kinds")
    return {kind.name: kind.write(folder / f"{kind.name}.gguf") for kind in KINDS}


@pytest.fixture(scope="module", params=KINDS, ids=[kind.name for kind in KINDS])
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


@pytest.fixture(scope="module")
def path(kind: Kind, files: dict[str, Path]) -> Path:
    return files[kind.name]


ABORT = "abort"

# one thread unless a case is about threads: on a busy machine several wait for each other most of the time
COMBINATIONS: dict[str, tuple[dict[str, Any], DraftConfig]] = {
    "context 32, budget 64": ({"n_ctx": 32}, DraftConfig("racer", budget=64)),
    "context 32, auto": ({"n_ctx": 32}, DraftConfig("auto")),
    "context 33, chain of 64": ({"n_ctx": 33}, DraftConfig("racer", budget=64, chain=True)),
    "context 64, budget 64": ({"n_ctx": 64}, DraftConfig("racer", budget=64)),
    "context 65, budget 64, batch 64": ({"n_ctx": 65, "n_batch": 64}, DraftConfig("racer", budget=64)),
    "prompt longer than a batch": ({"n_ctx": 300, "n_batch": 64}, DraftConfig("racer", budget=64)),
    "prompt longer than a batch, auto": ({"n_ctx": 300, "n_batch": 65}, DraftConfig("auto")),
    "two threads": ({"n_ctx": 40, "n_threads": 2}, DraftConfig("racer", budget=64)),
    "more threads than layers": ({"n_ctx": 40, "n_threads": 5}, DraftConfig("racer", budget=64)),
    "flash attention": ({"n_ctx": 128, "flash_attn": True}, DraftConfig("racer", budget=64)),
    "quantised cache": (
        {"n_ctx": 128, "type_k": "q8_0", "type_v": "q8_0", "flash_attn": True},
        DraftConfig("racer", budget=64),
    ),
    "quantised K alone, no flash attention": (
        {"n_ctx": 128, "type_k": "q8_0", "flash_attn": False},
        DraftConfig("racer", budget=64),
    ),
    "all at once": (
        {"n_ctx": 64, "n_batch": 64, "type_k": "q4_0", "type_v": "q4_0", "flash_attn": True},
        DraftConfig("racer", budget=64, breadth=32, min_match=1),
    ),
    "all at once, longer, auto": (
        {"n_ctx": 300, "n_batch": 64, "type_k": "q8_0", "type_v": "q8_0", "flash_attn": True},
        DraftConfig("auto"),
    ),
    "prompt lookup": ({"n_ctx": 96}, DraftConfig("lookup", budget=64, lookup_ngram=1)),
}


def try_combination(file: Path, name: str) -> None:
    """Answer a few times until the context is full.

    Raises:
        RacerError: It does not work.
        AssertionError: It works wrongly.
    """
    if name == ABORT:
        os.abort()
    options, draft = COMBINATIONS[name]
    with Racer(file, remember=False, draft=draft, **{"n_threads": 1, **options}) as racer:
        n_ctx = racer.engine.n_ctx
        assert n_ctx == options["n_ctx"]
        text = (racer.model.tokenize(TEXT, add_special=True).tolist() * 4)[: n_ctx // 2]
        for prompt in (text, text[: n_ctx // 3], [*text, *text[: n_ctx // 4]]):
            done = racer.generate(prompt, temperature=0)
            assert done.finish_reason == "context", done.finish_reason
            assert len(racer.engine.tokens) == n_ctx
            assert len(prompt) + len(done.tokens) == n_ctx + 1
        sampled = racer.generate(text, temperature=1.0, seed=1)
        assert sampled.finish_reason in ("context", "stop")
        assert racer.generate(text, temperature=0, max_tokens=3).finish_reason == "length"


def main() -> None:
    """What the child does: try each case of the JSON list on stdin, a line before each and a line after it."""
    for case in json.loads(sys.stdin.read()):
        file, name = case
        print(json.dumps({"begun": case}), flush=True)
        fault = ""
        try:
            try_combination(Path(file), name)
        except (RacerError, AssertionError) as error:
            fault = f"{type(error).__name__}: {error}"
        print(json.dumps({"done": case, "fault": fault}), flush=True)


def try_all(cases: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """What was wrong with each case, empty for nothing; a case that ends the child is one fault, the rest goes on."""
    faults: dict[tuple[str, str], str] = {}
    while left := [case for case in cases if case not in faults]:
        child = subprocess.run(
            [sys.executable, "-m", __name__],
            input=json.dumps(left),
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=300,
            check=False,
        )
        lines = [json.loads(line) for line in child.stdout.splitlines()]
        for line in lines:
            if "done" in line:
                file, name = line["done"]
                faults[file, name] = line["fault"]
        if child.returncode:
            began = [line["begun"] for line in lines if "begun" in line]
            assert began, f"the child did not start: {child.stderr[-2000:]}"
            file, name = began[-1]
            how = signal.Signals(-child.returncode).name if child.returncode < 0 else f"code {child.returncode}"
            faults[file, name] = f"the process ended ({how}): {child.stderr.strip()[-600:]}"
    return faults


@pytest.fixture(scope="module")
def faults(files: dict[str, Path]) -> dict[tuple[str, str], str]:
    return try_all([(str(file), name) for file in files.values() for name in COMBINATIONS])


@pytest.mark.parametrize("name", COMBINATIONS)
def test_no_combination_of_options_fails_or_ends_the_process(
    path: Path, faults: dict[tuple[str, str], str], name: str
) -> None:
    assert faults[str(path), name] == ""


def test_an_abort_is_one_fault_and_the_rest_goes_on(files: dict[str, Path]) -> None:
    file = str(files[KINDS[0].name])
    small = "context 32, budget 64"
    faults = try_all([(file, small), (file, ABORT), (str(ROOT / "none.gguf"), small)])
    assert faults[file, small] == ""
    assert "SIGABRT" in faults[file, ABORT]
    assert "no such file" in faults[str(ROOT / "none.gguf"), small]


if __name__ == "__main__":
    main()
