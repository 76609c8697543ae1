"""A short endurance run; the long one is `python -m tests.model.endurance`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads memory from /proc")
def test_memory_stays_flat_and_the_automaton_bounded() -> None:
    command = [sys.executable, "-m", "tests.model.endurance", "--turns", "150", "--tokens", "9000", "--loads", "15"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    figures = json.loads(done.stdout)
    assert figures["tokens"] > 4000
    assert figures["automaton_nodes"] <= figures["automaton_bound"]
    assert figures["resident_mib_late"] - figures["resident_mib_early"] < 8
    assert figures["resident_mib_at_end"] - figures["resident_mib_after_a_fifth"] < 12
