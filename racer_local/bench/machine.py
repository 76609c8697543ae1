"""What a measurement was made on: every report names it."""

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from racer_local.settings import default_threads

PACKAGES = ("racer-local", "llama-cpp-python", "numba", "numpy")


def cpu_name() -> str:
    """The processor's name as the system gives it."""
    try:
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


def describe() -> dict[str, Any]:
    """Machine and versions, for JSON reports."""
    return {
        "cpu": cpu_name(),
        "cpus": os.cpu_count(),
        "threads": default_threads(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
    }


def heading() -> str:
    """Machine and versions in one line, for people."""
    facts = describe()
    packages = ", ".join(f"{name} {number}" for name, number in facts["packages"].items())
    return f"{facts['cpu']}, {facts['threads']} threads, {facts['system']}; Python {facts['python']}, {packages}"
