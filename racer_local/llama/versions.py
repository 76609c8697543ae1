"""Which llama-cpp-python this program was tested with: fields of llama.cpp's structs move between versions."""

from importlib.metadata import PackageNotFoundError, version

PACKAGE = "llama-cpp-python"
TESTED = ("0.3.36",)
"""Versions that the tests pass with; pyproject.toml allows these alone."""


def version_note() -> str:
    """What is to be said of the installed version; empty where it is a tested one."""
    try:
        found = version(PACKAGE)
    except PackageNotFoundError:
        found = ""
    if found in TESTED:
        return ""
    is_there = f"{PACKAGE} {found} is installed" if found else f"{PACKAGE} is not installed"
    return f"{is_there}, this program was tested with {TESTED[-1]}: pip install '{PACKAGE}=={TESTED[-1]}'"
