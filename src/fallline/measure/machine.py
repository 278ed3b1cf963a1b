"""What a measurement was taken on: processor, caches, threads, versions, load."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

_CPU = Path("/sys/devices/system/cpu/cpu0")


def cpu_model() -> str:
    """The processor's name for itself."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Model"):
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown"


def cores() -> int:
    """Processors this process may use, which a container or taskset can make fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def caches() -> dict[str, str]:
    """Level → size of the data caches that a processor sees, ``{"L2": "512K", …}``; {} where unknown."""
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


def describe() -> dict[str, Any]:
    """Everything a stored result should carry, as plain data."""
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
        "versions": {
            "python": sys.version.split()[0],
            "torch": torch.__version__,
            "numpy": numpy.__version__,
            "fallline": fallline.__version__,
        },
    }
