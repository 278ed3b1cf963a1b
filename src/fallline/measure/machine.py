"""A description of the machine behind a measurement: processor, caches, threads, versions, load."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_CPU = Path("/sys/devices/system/cpu/cpu0")
PEERS = ("deepspeed", "bitsandbytes", "torchao", "pytorch_optimizer")
"""Packages that are timed beside fallline if they are installed."""


def cpu_model() -> str:
    """The name that the processor reports."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model"):
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown"


def cores() -> int:
    """The processors that this process may use; a container or taskset may allow fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def caches() -> dict[str, str]:
    """Level → size of the data caches of a processor, ``{"L2": "512K", …}``; {} if unknown."""
    found = {}
    for index in sorted(_CPU.glob("cache/index*")):
        try:
            kind = (index / "type").read_text().strip()
            level = (index / "level").read_text().strip()
            if kind != "Instruction":
                found[f"L{level}"] = (index / "size").read_text().strip()
        except OSError:
            continue
    return found


def last_level_cache() -> int:
    """The bytes of the largest cache; 32 MiB if the system does not say."""
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    sizes = [
        int(text[:-1]) * units[text[-1]] for text in caches().values() if text[-1:] in units and text[:-1].isdigit()
    ]
    return max(sizes, default=32 * 2**20)


def available_memory() -> int | None:
    """The bytes that a process can still take without displacing others, within the limit of the container."""
    try:
        lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        free = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
    return min([free, *_left_in_groups(Path("/sys/fs/cgroup"), Path("/proc/self/cgroup"))])


def _left_in_groups(root: Path, own: Path) -> list[int]:
    """The memory left within the limits of this process's control groups (version 1 or 2) and of those above them."""
    try:
        lines = [line.split(":", 2) for line in own.read_text().splitlines()]
    except OSError:
        return []
    found = []
    for _, controllers, path in (line for line in lines if len(line) == 3):
        if controllers == "":
            base, limit, used = root, "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            base, limit, used = root / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        inner = base / path.lstrip("/")
        for folder in (inner, *inner.parents):
            if folder == base.parent:
                break
            try:
                left = int((folder / limit).read_text()) - int((folder / used).read_text())
                found.append(left + _given_back(folder))
            except (OSError, ValueError):
                continue
    return found


def _given_back(folder: Path) -> int:
    """The bytes of files in a group's memory, which the system drops when it needs the memory."""
    try:
        lines = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):
        return 0
    return int(lines.get("total_inactive_file", lines.get("inactive_file", 0)))


def pinning() -> dict[str, Any]:
    """The processors on which this process may run, and OpenMP's settings for places."""
    told = {
        name: os.environ[name] for name in ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY") if name in os.environ
    }
    may = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return {"processors": may, "environment": told}


def commit() -> str | None:
    """The commit of the running sources if they lie in a repository; None for an installed package."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return None
    try:
        done = [
            subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True).stdout.strip()
            for arguments in (("rev-parse", "--short=12", "HEAD"), ("status", "--porcelain", "--untracked-files=no"))
        ]
    except (OSError, subprocess.CalledProcessError):
        return None
    return done[0] + (", with changes" if done[1] else "")


def memory_gib() -> float | None:
    """Physical memory."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    except (ValueError, OSError, AttributeError):
        return None


def load_average() -> float | None:
    """Processes that wanted to run during the last minute, on average."""
    try:
        return os.getloadavg()[0]
    except (OSError, AttributeError):
        return None


def openmp_runtimes() -> list[str]:
    """The OpenMP libraries loaded in this process; two of them mean two pools on the same cores."""
    try:
        mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/" in line}
    except OSError:
        return []
    return sorted(path for path in mapped if Path(path).name.startswith(("libgomp", "libomp", "libiomp")))


def instruction_sets() -> dict[str, bool]:
    """The native library's instruction sets here: name → whether kernels use it.  {} without the library."""
    from fallline.lower.native.library import NativeUnavailable, library

    try:
        found = library()
    except NativeUnavailable:
        return {}
    return {isa: isa == found.isa for isa in ("baseline", "avx2", "avx512") if found.has(isa)}


def packages() -> dict[str, str]:
    """Peer → version, of those that are installed."""
    found = {}
    for name in PEERS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def describe() -> dict[str, Any]:
    """Everything that a stored result should carry, as plain data."""
    import numpy
    import torch

    import fallline

    in_use = [isa for isa, used in instruction_sets().items() if used]
    return {
        "cpu": cpu_model(),
        "architecture": platform.machine(),
        "cores": cores(),
        "caches": caches(),
        "memory_gib": memory_gib(),
        "load_average": load_average(),
        "system": platform.platform(),
        "instruction_set": in_use[0] if in_use else None,
        "threads": torch.get_num_threads(),
        "pinning": pinning(),
        "commit": commit(),
        "versions": {
            "python": sys.version.split()[0],
            "torch": torch.__version__,
            "numpy": numpy.__version__,
            "fallline": fallline.__version__,
        },
        "packages": packages(),
    }


def circumstances(machines: Sequence[Mapping[str, Any]]) -> str:
    """The machine and versions behind the numbers, in one line, from what :func:`describe` found before each
    run; one file holds one machine, and maybe several runs."""
    last = machines[-1]
    versions = last.get("versions", {})
    caches = ", ".join(f"{level} {size}" for level, size in last.get("caches", {}).items())
    commits = dict.fromkeys(str(one.get("commit") or "installed") for one in machines)
    loads = dict.fromkeys(f"{one['load_average']:.2f}" for one in machines if one.get("load_average") is not None)
    parts = [
        str(last.get("cpu")),
        f"{last.get('cores')} cores",
        caches,
        f"{last.get('memory_gib') or 0:.0f} GiB",
        f"{last.get('instruction_set')}",
        f"torch {versions.get('torch')}",
        f"fallline {versions.get('fallline')} ({'; '.join(commits)})",
        f"{len(machines)} runs" if len(machines) > 1 else "",
        f"load at the start {', '.join(loads)}" if loads else "",
    ]
    return ", ".join(part for part in parts if part)
