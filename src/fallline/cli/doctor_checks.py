"""The checks of ``fallline doctor``: each gives a value and, if something is wrong, its cost and its remedy."""

from __future__ import annotations

import dataclasses
import os
import stat
from pathlib import Path
from typing import Any

import fallline
from fallline.cache import cache_location
from fallline.document.numbers import counted
from fallline.lower.native.compiler import compiler_version, find_compiler, is_whole, try_compiler
from fallline.lower.native.library import NativeUnavailable, library
from fallline.measure import machine

TESTED_TORCH = "2.13"

SWITCHES = {
    "FALLLINE_NATIVE": "0 switches the native kernels off",
    "FALLLINE_ISA": "the instruction set of the kernels",
    "FALLLINE_CACHE_DIR": "where compiled rules are kept",
    "FALLLINE_REAL_DATA": "0 makes workloads use generated data",
    "CXX": "the C++ compiler for your own rules",
    "OMP_NUM_THREADS": "threads of torch and of the kernels",
}


@dataclasses.dataclass(frozen=True)
class Finding:
    name: str
    value: str
    cost: str = ""
    """The price that the user pays; empty where nothing is wrong."""
    remedy: str = ""
    data: dict[str, Any] = dataclasses.field(default_factory=dict)
    """The same for programs."""

    @property
    def problem(self) -> bool:
        return bool(self.cost)


def examine() -> list[Finding]:
    """All findings, in the order in which they are shown."""
    return [
        processor(),
        native_kernels(),
        threads(),
        openmp(),
        memory_bandwidth(),
        compiler(),
        cache(),
        torch_build(),
        gpu(),
        switches(),
    ]


def processor() -> Finding:
    cores, caches, memory = machine.cores(), machine.caches(), machine.memory_gib()
    parts = [machine.cpu_model(), f"{counted(cores, 'core')} for this process"]
    if caches:
        parts.append("caches " + ", ".join(f"{level} {size}" for level, size in caches.items()))
    if memory:
        parts.append(f"{memory:.1f} GiB of memory")
    return Finding("processor", "; ".join(parts), data={"cores": cores, "caches": caches, "memory_gib": memory})


def native_kernels() -> Finding:
    try:
        found = library()
    except NativeUnavailable as reason:
        return Finding(
            "native kernels",
            f"none: {reason}",
            "optimizers run through torch's foreach operations: several passes over memory instead of one",
            _after_semicolon(str(reason)),
            {"in_use": None},
        )
    available = list(machine.instruction_sets())
    value = f"{found.isa} in use, of {', '.join(available)}"
    data = {"in_use": found.isa, "available": available, "path": str(found.path)}
    if found.isa != available[-1]:
        return Finding(
            "native kernels",
            value,
            f"{available[-1]} would be faster",
            f"unset FALLLINE_ISA (now {found.isa})",
            data,
        )
    return Finding("native kernels", value, data=data)


def _after_semicolon(reason: str) -> str:
    """Reasons are worded "what is wrong; what to do"."""
    return reason.rsplit("; ", 1)[-1] if "; " in reason else "reinstall fallline"


def threads() -> Finding:
    import torch

    used, cores = torch.get_num_threads(), machine.cores()
    value = f"{used} of {cores} cores (torch.get_num_threads)"
    data = {"threads": used, "cores": cores}
    if used > cores:
        return Finding("threads", value, "threads take turns on the cores", f"torch.set_num_threads({cores})", data)
    return Finding("threads", value, data=data)


def openmp() -> Finding:
    machine.instruction_sets()  # loads the library, so that its runtime is among those listed
    runtimes = machine.openmp_runtimes()
    data: dict[str, Any] = {"runtimes": runtimes}
    try:
        threaded = bool(library().handle.fl_has_threads())
    except NativeUnavailable:
        return Finding("thread pool", "torch's own", data=data)
    if not threaded:
        return Finding(
            "thread pool",
            "none: the native library was built without OpenMP",
            "kernels run on one core",
            "install a compiler with OpenMP (libgomp or libomp) and reinstall fallline",
            data,
        )
    if len(runtimes) > 1:
        return Finding(
            "thread pool",
            f"{len(runtimes)} OpenMP libraries are loaded: {', '.join(runtimes)}",
            "torch's threads and the kernels' threads may fight for the same cores",
            "import torch before anything that brings its own OpenMP, or reinstall fallline from source",
            data,
        )
    return Finding("thread pool", "shared with torch" + (f" ({runtimes[0]})" if runtimes else ""), data=data)


def memory_bandwidth() -> Finding:
    from fallline.measure import known_speeds, load
    from fallline.measure.bandwidth import probe
    from fallline.measure.traffic import passes

    adamw = passes("adamw")[0]
    meter = load.Meter()
    found = probe(adamw.reads, adamw.writes, _elements(adamw.reads))
    native = found.method.startswith("native")
    what = "AdamW's streams" if native else "a copy"
    value = (
        f"{found.median:.3g} GB/s for {what} "
        f"({found.reads} read, {found.writes} written; median of {len(found.samples)} samples, "
        f"best {found.best:.3g}; {counted(found.threads, 'thread')}, {found.method})"
    )
    streams, moved = (found.reads, found.writes), 4 * found.elements * (found.reads + found.writes)
    key = known_speeds.key_of(machine.cpu_model(), found.method, found.threads, streams, moved, flushed=False)
    busy = load.reason(meter.share(found.threads), found.median, known_speeds.fastest(key))
    known_speeds.remember(key, found.median)
    data = {**dataclasses.asdict(found), "median": found.median, "best": found.best, "busy": busy}
    if busy is not None:
        cost = f"{busy}: the figure is what was left, not what the machine has"
        return Finding("memory bandwidth", value, cost, "stop other work and look again", data)
    if native:
        data["adamw_ms_per_100m"] = adamw.bytes_per_parameter * 100e6 / (found.median * 1e9) * 1e3
    return Finding("memory bandwidth", value, data=data)


def _elements(streams: int) -> int:
    """Four times the largest cache and at least 256 MB, but never more than a tenth of the memory."""
    wanted = max(2**28, 4 * machine.last_level_cache())
    return int(min(wanted, (machine.memory_gib() or 4.0) * 2**30 / 10)) // (4 * streams)


def compiler() -> Finding:
    try:
        found = find_compiler()
        try_compiler(found)
    except NativeUnavailable as reason:
        return Finding(
            "C++ compiler",
            f"none: {reason}",
            "rules of your own run through foreach, in several passes; built-in optimizers do not need it",
            _after_semicolon(str(reason)),
            {"path": None},
        )
    return Finding("C++ compiler", f"{compiler_version(found)} ({' '.join(found)})", data={"path": found[0]})


def cache() -> Finding:
    path = cache_location()
    data: dict[str, Any] = {"path": str(path)}
    cost = "rules of your own are compiled again in every process"
    try:
        info = path.stat()
    except FileNotFoundError:
        return Finding("cache directory", f"{path}: not there yet; made when a rule of yours is compiled", data=data)
    except OSError as error:
        return Finding("cache directory", f"{path}: {error.strerror}", cost, "set FALLLINE_CACHE_DIR", data)
    if not stat.S_ISDIR(info.st_mode):
        return Finding("cache directory", f"{path}: not a directory", cost, "set FALLLINE_CACHE_DIR", data)
    if info.st_uid != os.getuid():
        cost = "rules of your own are not compiled: what is in there could be anybody's code"
        return Finding("cache directory", f"{path}: belongs to another user", cost, "set FALLLINE_CACHE_DIR", data)
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        cost = "rules of your own are not compiled: others could put code there"
        chosen = "FALLLINE_CACHE_DIR" in os.environ
        remedy = "set FALLLINE_CACHE_DIR to a private directory" if chosen else f"chmod go-w {path}"
        return Finding("cache directory", f"{path}: others may write to it", cost, remedy, data)
    if not os.access(path, os.W_OK):
        return Finding("cache directory", f"{path}: not writable", cost, "set FALLLINE_CACHE_DIR", data)
    return _cache_content(path, data)


def _cache_content(path: Path, data: dict[str, Any]) -> Finding:
    files = sorted(path.glob("*.so"))
    broken = [f.name for f in files if not is_whole(f)]
    size = sum(f.stat().st_size for f in files)
    data |= {"rules": len(files), "bytes": size, "broken": broken}
    value = f"{path}: {counted(len(files), 'compiled rule')}, {size / 2**20:.1f} MiB"
    if broken:
        value += f"; {len(broken)} damaged, rebuilt when next used"
    return Finding("cache directory", value, data=data)


def torch_build() -> Finding:
    import torch

    flags = {
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "interop_threads": torch.get_num_interop_threads(),
        "mkldnn": torch.backends.mkldnn.is_available(),
        "cuda_build": torch.version.cuda,
    }
    value = f"{torch.__version__}; " + ", ".join(f"{name} {value}" for name, value in flags.items())
    if not torch.__version__.startswith(f"{TESTED_TORCH}."):
        value += f"; fallline {fallline.__version__} is tested with {TESTED_TORCH}"
    return Finding("torch", value, data={"version": torch.__version__, **flags})


def gpu() -> Finding:
    import torch

    if not torch.cuda.is_available():
        return Finding("GPU", "none that torch can use", data={"devices": []})
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return Finding(
        "GPU",
        ", ".join(names),
        "parameters there are stepped through foreach: fused kernels exist for the CPU only",
        "nothing; it works",
        {"devices": names},
    )


def switches() -> Finding:
    found = {name: os.environ[name] for name in SWITCHES if name in os.environ}
    value = ", ".join(f"{name}={setting} ({SWITCHES[name]})" for name, setting in found.items())
    return Finding("environment", value or f"none of {', '.join(SWITCHES)} is set", data=found)
