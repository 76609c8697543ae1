"""Threads to start: affinity, physical cores and a container's quota, from files laid out as Linux has them."""

import os
from pathlib import Path

import pytest

from racer_local import cpus


def machine(root: Path, siblings: dict[int, str], files: dict[str, str]) -> Path:
    for cpu, text in siblings.items():
        files[f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"] = text
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    return root


PLAIN = {cpu: str(cpu) for cpu in range(8)}
HYPER = {cpu: f"{cpu % 4},{cpu % 4 + 4}" for cpu in range(8)}


@pytest.mark.parametrize(
    ("siblings", "files", "allowed", "n_threads", "reason"),
    [
        (PLAIN, {}, range(8), 8, "8 CPUs that this process may use"),
        ({}, {}, range(8), 8, "8 CPUs"),
        ({0: "0"}, {}, range(8), 8, "8 CPUs"),
        (HYPER, {}, range(8), 4, "4 physical cores, which have 8"),
        (HYPER, {}, (0, 1, 4), 2, "2 physical cores"),
        (HYPER, {}, (0, 1), 2, "2 CPUs"),
        (PLAIN, {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "200000 100000"}, range(8), 2, "quota of 2 CPUs"),
        (PLAIN, {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "max 100000"}, range(8), 8, "8 CPUs"),
        (PLAIN, {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "250000 100000"}, range(8), 2, "quota of 2.5"),
        (PLAIN, {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "50000 100000"}, range(8), 1, "quota of 0.5"),
        (
            PLAIN,
            {
                "proc/self/cgroup": "0::/a/b",
                "sys/fs/cgroup/a/b/cpu.max": "max 100000",
                "sys/fs/cgroup/a/cpu.max": "300000 100000",
            },
            range(8),
            3,
            "quota of 3",
        ),
        (PLAIN, {"proc/self/cgroup": "0::/host/only", "sys/fs/cgroup/cpu.max": "100000 100000"}, range(8), 1, "quota"),
        (
            PLAIN,
            {
                "proc/self/cgroup": "4:memory:/x\n3:cpu,cpuacct:/docker/id",
                "sys/fs/cgroup/cpu,cpuacct/docker/id/cpu.cfs_quota_us": "400000",
                "sys/fs/cgroup/cpu,cpuacct/docker/id/cpu.cfs_period_us": "100000",
            },
            range(8),
            4,
            "quota of 4",
        ),
        (
            PLAIN,
            {
                "proc/self/cgroup": "3:cpu:/",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            range(8),
            8,
            "8 CPUs",
        ),
        (HYPER, {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "600000 100000"}, range(8), 4, "physical"),
        (PLAIN, {"proc/self/cgroup": "rubbish", "sys/fs/cgroup/cpu.max": "rubbish 0"}, range(8), 8, "8 CPUs"),
        (PLAIN, {"sys/fs/cgroup/cpu.max": "1 0"}, range(8), 8, "8 CPUs"),
        ({cpu: str(cpu) for cpu in range(64)}, {}, range(64), 16, "16 at most"),
        ({}, {}, (), 1, "1 CPUs"),
    ],
)
def test_threads(
    tmp_path: Path, siblings: dict[int, str], files: dict[str, str], allowed: range, n_threads: int, reason: str
) -> None:
    found = cpus.usable(machine(tmp_path, siblings, dict(files)), allowed)
    assert found.n_threads == n_threads
    assert reason in found.reason


def test_the_system_is_asked_where_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2}, raising=False)
    assert cpus.usable(tmp_path).n_threads == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert cpus.usable(tmp_path).n_threads == 1
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert cpus.usable(tmp_path).n_threads == 6
