"""What is imported is declared, and every private name of another package that is used has a reason."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from racer_local import cli
from racer_local.errors import ExitCode
from racer_local.llama import versions

ROOT = Path(__file__).resolve().parent.parent
OURS = {"racer_local", "tests"}
FOLDERS = {"program": ("racer_local", "tui"), "tests": ("tests",)}
TOOLS = {"ruff", "pyright", "pytest-asyncio"}
"""Declared for tests, and run or loaded by name."""
PRIVATE = {
    ("racer_local/llama/devices.py", "llama_cpp._ggml"): "llama_cpp gives no other way to ggml's list of devices",
    ("tui/widgets/prompt.py", "textual._ansi_sequences"): "the table of keys that terminals without the Kitty "
    "protocol send; Alt+Enter would be Enter",
    ("tests", "textual._xterm_parser"): "what Textual makes of the bytes of keys",
    ("tests", "_compositor"): "the text of the screen; Textual has a picture of it alone",
    ("tests", "_refresh_layout"): "how often the screen is laid out",
    ("tests", "_nrt"): "Numba's own count of allocations",
}
"""File, or all tests, and name of each private thing of another package's, with the reason."""
PUBLIC = {"_replace", "_asdict", "_fields", "_exit"}
"""Of named tuples and `os`: documented, in spite of the underscore."""


def trees(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    """Each file, by its path, as a tree."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text("utf-8"))


def modules_of(tree: ast.Module) -> Iterator[str]:
    """Modules that a file imports, by full name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported(*folders: str) -> set[str]:
    """Distributions that folders import from."""
    heads = {name.split(".")[0] for _, tree in trees(*folders) for name in modules_of(tree)}
    return {canonical(packages_distributions()[head][0]) for head in heads - OURS - sys.stdlib_module_names}


def canonical(name: str) -> str:
    """A distribution's name as it is compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> dict[str, list[Requirement]]:
    """Requirements by extra; those of the program under an empty name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lists = {"": project["dependencies"], **project["optional-dependencies"]}
    return {extra: [Requirement(text) for text in texts] for extra, texts in lists.items()}


def names(extra: str) -> set[str]:
    """Distributions that an extra declares."""
    return {canonical(requirement.name) for requirement in declared()[extra]}


def test_what_the_program_imports_is_declared_and_nothing_else() -> None:
    assert imported(*FOLDERS["program"]) == names("") | names("bench")


def test_what_the_tests_import_is_declared_and_nothing_else() -> None:
    assert imported(*FOLDERS["tests"]) - names("") == names("test") - TOOLS - names("bench")
    assert names("bench") <= names("test")


def test_llama_cpp_python_is_bound_to_what_was_tested() -> None:
    (bound,) = (r.specifier for r in declared()[""] if canonical(r.name) == versions.PACKAGE)
    assert all(tested in bound for tested in versions.TESTED)
    assert version(versions.PACKAGE) in versions.TESTED
    for other in ("0.3.35", "0.3.37", "0.4.0"):
        assert other not in bound


@pytest.mark.parametrize("found", ["0.3.35", "0.4.0"])
def test_another_version_is_told_with_what_to_do(found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "version", lambda _: found)
    assert versions.version_note().startswith(f"llama-cpp-python {found} is installed")
    assert "pip install 'llama-cpp-python==0.3.36'" in versions.version_note()


def test_a_version_without_our_names_is_no_crash(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(versions, "version", lambda _: "0.4.0")
    monkeypatch.setitem(sys.modules, "racer_local.api", None)  # as if it could not be imported
    assert cli.main([str(tmp_path / "m.gguf"), "--no-stdin", "-p", "x"]) == ExitCode.FAILED
    said = capsys.readouterr().err
    assert "0.4.0 is installed" in said
    assert said.count("\n") == 1


def own_names() -> set[str]:
    """Private names that this project defines itself, so that using them is using our own."""
    found: set[str] = set()
    for _, tree in trees(*FOLDERS["program"], "tests"):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_self(node.value):
                found.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
    return found


def is_self(node: ast.expr) -> bool:
    """Whether an expression is an object in its own methods."""
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def is_private(name: str) -> bool:
    """Whether a name is nobody else's to use."""
    return name.startswith("_") and not name.endswith("__") and name not in PUBLIC


def private_uses() -> set[tuple[str, str]]:
    """File and name of each private thing of others: modules, attributes, methods that are overridden."""
    ours, inherited = own_names(), private_names_of_textual()
    found = set()
    for file, tree in trees(*FOLDERS["program"], "tests"):
        for name in modules_of(tree):
            parts = name.split(".")
            if parts[0] not in OURS and (private := [i for i, part in enumerate(parts) if is_private(part)]):
                found.add((file, ".".join(parts[: private[0] + 1])))
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in ours:
                found.add((file, node.attr))
            elif isinstance(node, ast.ClassDef) and "textual" in ast.unparse(tree):
                methods = (m.name for m in node.body if isinstance(m, ast.FunctionDef | ast.AsyncFunctionDef))
                if node.bases:
                    found |= {(file, name) for name in methods if is_private(name) and name in inherited}
    return found


def private_names_of_textual() -> set[str]:
    """Private names that a widget or an app inherits."""
    from textual.app import App
    from textual.screen import Screen
    from textual.widgets import TextArea

    classes: tuple[type[Any], ...] = (App, Screen, TextArea)
    return {name for kind in classes for name in dir(kind) if is_private(name)}


def test_each_private_name_of_another_package_has_a_reason() -> None:
    places = {("tests" if file.startswith("tests/") else file, name) for file, name in private_uses()}
    assert places == set(PRIVATE)
    assert all(PRIVATE.values())
