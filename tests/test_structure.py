"""The shape of the code: imports point down, llama.cpp and Textual have one home each, files stay short."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import racer_local

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "racer_local"
MAX_LINES = 400

LAYERS = (
    ("cli", "bench"),
    ("tui",),
    ("compare",),
    ("api",),
    ("drafters", "learned", "loading"),
    ("loop", "llama", "registry"),
    ("drafting",),
    ("openai", "detokenize", "messages"),
    ("answers",),
    ("stats",),
    ("tokens", "draft_tree", "gguf_file"),
    (
        "checks",
        "end_signals",
        "cpus",
        "errors",
        "history",
        "kernels",
        "locations",
        "prompt",
        "private_files",
        "sequences",
        "settings",
        "state_file",
        "terminal",
        "terminal_text",
        "text_file",
        "thoughts",
    ),
)
"""Parts of the package from top to bottom. A part may import its own layer and those below."""
FOREIGN = {"llama_cpp": "llama", "textual": "tui"}
"""Packages that one part alone may import."""
DOOR = {"tui": ("racer_local.cli.door", "racer_local.tui.door")}
"""Parts that others reach in one place only: which module does, and what it imports there."""


def sources() -> dict[str, Path]:
    """All modules of the project by name."""
    found = {}
    for base, name in ((ROOT / PACKAGE, PACKAGE), (ROOT / "tui", f"{PACKAGE}.tui")):
        for path in sorted(base.rglob("*.py")):
            parts = path.relative_to(base).with_suffix("").parts
            found[".".join([name, *(p for p in parts if p != "__init__")])] = path
    return found


def part_of(module: str) -> str:
    """The part that a module of the package belongs to; empty for the package itself."""
    return module.split(".")[1] if "." in module else ""


def layer_of(part: str) -> int | None:
    """Number of a part's layer, 0 at the top."""
    return next((i for i, layer in enumerate(LAYERS) if part in layer), None)


def imports_of(module: str, tree: ast.Module, modules: set[str], *, is_package: bool) -> Iterator[tuple[str, bool]]:
    """Modules that a module imports, anywhere in it, and whether it does so when it runs, not for types alone.

    A text that is the name of a module counts: for `import_module`, or `python -m`.
    """
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        runs = id(node) not in for_types
        if isinstance(node, ast.Import):
            yield from ((alias.name, runs) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = module.split(".")[: len(module.split(".")) - node.level + is_package]
                base = ".".join([*above, *([base] if base else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield (inner if inner in modules else base), runs
        elif isinstance(node, ast.Constant) and node.value in modules - {PACKAGE}:
            yield node.value, runs


def faults_of(module: str, text: str, modules: set[str], *, is_package: bool = False) -> list[str]:
    """What is wrong with the imports of a module."""
    faults = []
    part = part_of(module)
    layer = layer_of(part)
    if part and layer is None:
        return [f"{module} has no layer; give it one in LAYERS"]
    for imported, runs in imports_of(module, ast.parse(text), modules, is_package=is_package):
        head = imported.split(".")[0]
        home = FOREIGN.get(head)
        if home and part != home:
            faults.append(f"{module} imports {imported}, which only {home} may")
        if head == "tui":
            faults.append(f"{module} imports tui under a global name")
        if head != PACKAGE:
            continue
        if layer is None:
            if runs:
                faults.append(f"{module} imports {imported} when it is itself imported")
            continue
        other = part_of(imported)
        below = layer_of(other)
        if below is None or below < layer:
            faults.append(f"{module} imports {imported}, which lies above it")
        elif other in DOOR and part != other and (module, imported) != DOOR[other]:
            faults.append(f"{module} imports {imported}; the way to {other} is {DOOR[other][0]}")
        if part == "kernels" and other != "kernels":
            faults.append(f"{module} imports {imported}; kernels know nothing of the package")
    if module != PACKAGE and any(map(is_made_up, ast.walk(ast.parse(text)))):
        faults.append(f"{module} imports a module whose name it makes up")
    return faults


def is_made_up(node: ast.AST) -> bool:
    """Whether a node imports a module by a name that is not written there."""
    if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith(("import_module", "__import__")):
        return False
    return not (node.args and isinstance(node.args[0], ast.Constant))


@pytest.mark.parametrize("module", sources())
def test_imports_point_down(module: str) -> None:
    path = sources()[module]
    text = path.read_text("utf-8")
    assert faults_of(module, text, set(sources()), is_package=path.name == "__init__.py") == []


@pytest.mark.parametrize("module", sources())
def test_every_module_says_what_it_is(module: str) -> None:
    assert ast.get_docstring(ast.parse(sources()[module].read_text("utf-8"))), f"{module} has no docstring"


def test_files_stay_short() -> None:
    files = [*sources().values(), *(ROOT / "tests").rglob("*.py")]
    long = {
        path.relative_to(ROOT).as_posix() for path in files if len(path.read_text("utf-8").splitlines()) > MAX_LINES
    }
    assert long == set()


def test_what_the_package_offers_is_no_program() -> None:
    """The names of `racer_local` are loaded on first use, by texts that no other test sees."""
    lowest = min(layer for part in ("api", "openai") if (layer := layer_of(part)) is not None)
    for name in racer_local.__all__:
        home = f"{PACKAGE}.{racer_local._HOME[name]}"
        layer = layer_of(part_of(home))
        assert home in sources(), name
        assert layer is not None
        assert layer >= lowest, name
        assert home == getattr(racer_local, name).__module__, f"{name} is defined elsewhere"


def test_no_module_imports_itself_in_a_circle() -> None:
    modules = set(sources())
    graph: dict[str, set[str]] = {}
    for module, path in sources().items():
        tree = ast.parse(path.read_text("utf-8"))
        found = imports_of(module, tree, modules, is_package=path.name == "__init__.py")
        graph[module] = {name for name, runs in found if runs and name in modules and part_of(name)}
    while graph:
        free = {module for module, needs in graph.items() if not needs & graph.keys()}
        assert free, f"these import each other: {sorted(graph)}"
        graph = {module: needs for module, needs in graph.items() if module not in free}


def test_the_guide_for_contributors_names_what_is_there() -> None:
    guide = (ROOT / ".github" / "CONTRIBUTING.md").read_text("utf-8")
    named = set(re.findall(r"`((?:racer_local|tui|tests|\.ci)(?:/[\w./]+)?|\w+\.toml)`", guide))
    assert len(named) > 25
    assert [name for name in sorted(named) if name != "config.toml" and not (ROOT / name).exists()] == []


def test_every_folder_of_the_program_is_installed() -> None:
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["packages"]
    assert set(packages) == {name for name, path in sources().items() if path.name == "__init__.py"}


def test_everything_was_looked_at() -> None:
    found = sources()
    for module in (
        "loop",
        "api",
        "kernels.automaton",
        "drafting.drafter",
        "llama.engine",
        "detokenize",
        "bench",
        "tui",
    ):
        assert f"{PACKAGE}.{module}" in found
    assert PACKAGE in found


@pytest.mark.parametrize(
    ("module", "text", "fault"),
    [
        ("racer_local.drafting.x", "from racer_local.loop import Loop", "lies above it"),
        ("racer_local.drafting.x", "from racer_local import loop", "lies above it"),
        ("racer_local.drafting.x", "import racer_local.api", "lies above it"),
        ("racer_local.drafting.x", "from ..llama import engine", "lies above it"),
        ("racer_local.drafting.x", "def f():\n    from racer_local.llama import engine", "lies above it"),
        ("racer_local.draft_tree", "if True:\n    import racer_local.drafting", "lies above it"),
        ("racer_local.loop", "from racer_local import Racer", "lies above it"),
        ("racer_local.api", "from racer_local.tui import app", "lies above it"),
        ("racer_local.api", "from racer_local.bench.suites import x", "lies above it"),
        ("racer_local.kernels.x", "from racer_local.errors import UsageError", "kernels know nothing"),
        ("racer_local.kernels.x", "from ..settings import MAX_BUDGET", "kernels know nothing"),
        ("racer_local.loop", "import llama_cpp", "only llama may"),
        ("racer_local.loop", "from llama_cpp._ggml import libggml", "only llama may"),
        ("racer_local.detokenize", "import llama_cpp", "only llama may"),
        ("racer_local.cli", "from textual.app import App", "only tui may"),
        ("racer_local.tui.x", "import llama_cpp", "only llama may"),
        ("racer_local.cli", "from tui import app", "global name"),
        ("racer_local", "from racer_local.api import Racer", "when it is itself imported"),
        ("racer_local.novelty", "", "no layer"),
        ("racer_local.cli.x", "from racer_local.tui import app", "the way to tui is"),
        ("racer_local.bench.x", "def f():\n    import_module('racer_local.tui.app')", "the way to tui is"),
        ("racer_local.cli.door", "from racer_local.tui import app", "the way to tui is"),
        ("racer_local.tui.x", "from racer_local.cli import config", "lies above it"),
        ("racer_local.api", "run([sys.executable, '-m', 'racer_local.cli'])", "lies above it"),
        ("racer_local.api", "import_module('racer_local.bench.run')", "lies above it"),
        ("racer_local.api", "import_module(f'racer_local.{name}')", "makes up"),
    ],
)
def test_a_made_up_fault_is_found(module: str, text: str, fault: str) -> None:
    faults = faults_of(module, text, set(sources()))
    assert len(faults) == 1, faults
    assert fault in faults[0]


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("racer_local.tui.x", "import textual\nfrom racer_local.api import Racer\nfrom . import y"),
        ("racer_local.cli", "from racer_local.registry import entries"),
        ("racer_local.cli.door", "def f():\n    from racer_local.tui.door import Door"),
        ("racer_local.tui.x", "import_module('racer_local.compare')"),
        ("racer_local.loop", "from racer_local.detokenize import TextStream\nimport numpy"),
        ("racer_local.llama.x", "import llama_cpp\nfrom racer_local import locations"),
        ("racer_local.drafting.x", "from ..kernels import automaton\nfrom . import y"),
        ("racer_local", "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from racer_local.api import Racer"),
    ],
)
def test_what_is_allowed_is_no_fault(module: str, text: str) -> None:
    modules = set(sources()) | {"racer_local.tui.y", "racer_local.drafting.y"}
    assert faults_of(module, text, modules) == []
