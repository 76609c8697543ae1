"""What needs no model loads nothing heavy."""

import subprocess
import sys

import pytest

HEAVY = ("numpy", "numba", "llama_cpp", "textual", "rich", "jinja2")
CALL = """
import sys
from racer_local import cli
try:
    cli.main([{argument!r}])
except SystemExit:
    pass
print([name for name in {heavy} if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize("argument", ["--help", "--version", "--paths", "--list-models", "--nope"])
def test_nothing_heavy_is_loaded(argument: str) -> None:
    call = CALL.format(argument=argument, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_the_list_of_sessions_needs_no_textual() -> None:
    call = CALL.format(argument="--sessions", heavy=("textual", "llama_cpp", "numba"))
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"
