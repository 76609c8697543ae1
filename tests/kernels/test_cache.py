"""Where neither the package nor the user's folder can be written, kernels are compiled for this run only."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import racer_local
from tests.kernels.examples import CHECKED, PLAIN, is_on

CHILD = """
import numpy as np
from racer_local.kernels import batch
none = np.zeros(0, np.int32)
print(batch.tree_fault(9, none, none, none, 8, 8), batch.__file__)
from numba import config
print(config.CACHE_DIR)
"""


@pytest.mark.skipif(is_on(PLAIN) or is_on(CHECKED), reason="what is cached there is looked at in the ordinary run")
def test_kernels_run_without_a_writable_cache(tmp_path: Path) -> None:
    package = tmp_path / "site" / "racer_local"
    shutil.copytree(Path(racer_local.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in (package, package / "kernels"):
        (folder / "__pycache__").write_text("no folder")  # what no user may write to, root included
    nowhere = str(package / "__pycache__" / "home")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    env = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-B", "-c", CHILD],
        env={
            **env,
            "HOME": nowhere,
            "XDG_CACHE_HOME": nowhere,
            "TMPDIR": str(temporary),
            "PYTHONPATH": str(tmp_path / "site"),
        },
        cwd=tmp_path / "site",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.split()
    assert said[:2] == ["1", str(package / "kernels" / "batch.py")]
    assert Path(said[2]).parent == temporary
    assert list(temporary.iterdir()) == [], "what was compiled is removed at the end"
