"""How many threads are worth starting: what this process may use of the machine's physical cores, and why.

A thread more than the cores, or than a container's quota, makes every decode wait for it.
"""

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

MOST = 16
"""Memory bandwidth is spent by then."""
ROOT = Path("/")


@dataclass(frozen=True, slots=True)
class Usable:
    """Threads to start.

    Attributes:
        n_threads: How many, at least 1.
        reason: What bounds them, for people.
    """

    n_threads: int
    reason: str


def usable(root: Path = ROOT, allowed: Collection[int] | None = None) -> Usable:
    """Count threads for this process.

    Args:
        root: Where the system's files are.
        allowed: Numbers of the CPUs that the process may run on; None asks the system.
    """
    if allowed is None:
        allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)
    n_cpus, n_cores, share = max(1, len(allowed)), _cores(root, allowed), quota(root)
    n, reason = n_cpus, f"{n_cpus} CPUs that this process may use"
    if n_cores is not None and n_cores < n:
        n, reason = n_cores, f"{n_cores} physical cores, which have {n_cpus} hyperthreads"
    if share is not None and int(share) < n:
        n, reason = max(1, int(share)), f"the container's quota of {share:g} CPUs"
    return Usable(MOST, f"{MOST} at most, more wait for memory") if n > MOST else Usable(n, reason)


def quota(root: Path = ROOT) -> float | None:
    """CPUs that the control groups of this process grant it, None where nothing bounds them."""
    shares = [share for share in (*_shares_v2(root), *_shares_v1(root)) if share is not None and share > 0]
    return min(shares, default=None)


def _cores(root: Path, allowed: Collection[int]) -> int | None:
    """Physical cores among some CPUs, None where the system does not tell."""
    topology = root / "sys/devices/system/cpu"
    cores = {_text(topology / f"cpu{cpu}/topology/thread_siblings_list") for cpu in allowed}
    return None if "" in cores or not cores else len(cores)


def _shares_v2(root: Path) -> Iterator[float | None]:
    for folder in _groups(root / "sys/fs/cgroup", _group_of(root, "")):
        yield _share(*_text(folder / "cpu.max").split()[:2])


def _shares_v1(root: Path) -> Iterator[float | None]:
    for name in ("cpu", "cpu,cpuacct"):
        for folder in _groups(root / "sys/fs/cgroup" / name, _group_of(root, "cpu")):
            yield _share(_text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us"))


def _group_of(root: Path, controller: str) -> str:
    """Path of this process's group for a controller of version 1; for version 2, which has one group, name none."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, names, path = [*line.split(":", 2), "", ""][:3]
        if controller in names.split(","):
            return path.strip("/")
    return ""


def _groups(base: Path, path: str) -> Iterator[Path]:
    """A group's folder and those above it, which bound it as well. In a container they may not be there."""
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for n in range(len(parts), -1, -1):
        yield base.joinpath(*parts[:n])


def _share(quota_us: str = "", period_us: str = "") -> float | None:
    try:
        return int(quota_us) / int(period_us)
    except (ValueError, ZeroDivisionError):  # "max", -1 for no bound, or no such file
        return None


def _text(file: Path) -> str:
    try:
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
