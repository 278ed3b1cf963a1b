"""Compiles a user's rule at run time, into a private cache.

A cached library is code that will run in this process, so the cache directory must belong to the user and
be writable by nobody else, and a file is loaded only if its checksum matches.  Files are named after the
hash of everything they were made from and appear by atomic renaming, so that concurrent processes find whole files.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

import fallline
from fallline.cache import CacheRefused, private_cache
from fallline.lower.native.emit import translation_unit
from fallline.lower.native.library import NativeUnavailable

FLAGS = (
    *("-std=c++17", "-O3", "-fPIC", "-shared", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"),
    *("-fopenmp-simd", "-fvisibility=hidden", "-Wno-unknown-pragmas"),
)
ISA_FLAGS = {
    "baseline": (),
    "avx2": ("-mavx2", "-mfma", "-mf16c", "-mbmi2"),
    "avx512": (
        *("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx2", "-mfma", "-mf16c", "-mbmi2"),
        "-mprefer-vector-width=512",
    ),
}
SYMBOL = "fl_user_entries"


Command = tuple[str, ...]
"""A program and its first arguments, because CXX may be ``ccache g++``."""


def find_compiler() -> Command:
    """The C++ compiler: ``$CXX``, or the first of c++, g++, clang++ on the path."""
    wanted = os.environ.get("CXX", "")
    for name in (wanted,) if wanted.strip() else ("c++", "g++", "clang++"):
        try:
            program, *arguments = (name,) if Path(name).is_file() else shlex.split(name)
        except ValueError:  # an open quotation mark
            continue
        if path := shutil.which(program):
            return (path, *arguments)
    if wanted.strip():
        raise NativeUnavailable(f"CXX={wanted} is no program that can be run; set CXX to a C++ compiler or unset it")
    raise NativeUnavailable("no C++ compiler (c++, g++ or clang++) was found; install one or set CXX")


@functools.cache
def compiler_version(compiler: Command) -> str:
    return next(iter(_run(compiler, "--version").stdout.splitlines()), "unknown")


def try_compiler(compiler: Command) -> None:
    """Raises :class:`NativeUnavailable` if the compiler does not compile the headers of a rule."""
    with tempfile.TemporaryDirectory(prefix="fallline-") as scratch:
        _compile(compiler, FLAGS, '#include "packed.h"\n', _header().parent, Path(scratch))


def _run(compiler: Command, *arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run((*compiler, *arguments), capture_output=True, text=True, timeout=300, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _broken(compiler, f"did not run ({error})") from None


def _broken(compiler: Command, what: str) -> NativeUnavailable:
    remedy = "set CXX to another one" if os.environ.get("CXX", "").strip() else "repair it or set CXX"
    return NativeUnavailable(f"the C++ compiler {shlex.join(compiler)} {what}; {remedy}")


@functools.cache
def _temporary_cache() -> Path:
    path = Path(tempfile.mkdtemp(prefix="fallline-"))
    owner = os.getpid()

    # A forked child leaves the directory to its parent.
    def remove() -> None:
        if os.getpid() == owner:
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(remove)
    warnings.warn(
        f"no writable cache directory: compiled rules are kept in {path} for this process only; "
        "set FALLLINE_CACHE_DIR to a directory of yours",
        stacklevel=2,
    )
    return path


def cache_directory() -> Path:
    """The directory of compiled rules, made if it is missing; private to the user."""
    try:
        path = private_cache()
    except OSError:
        return _temporary_cache()
    except CacheRefused as error:
        raise NativeUnavailable(str(error)) from None
    if not os.access(path, os.W_OK):
        return _temporary_cache()
    return path


def _header() -> Path:
    for folder in fallline.__path__:
        path = Path(folder) / "native" / "kernel.h"
        if path.exists():
            return path
    raise NativeUnavailable("this installation lacks native/kernel.h; reinstall fallline")


def is_whole(path: Path) -> bool:
    """Whether a cached file is intact; a truncated library can crash the process."""
    try:
        expected = path.with_suffix(".sha256").read_text().strip()
        return hashlib.sha256(path.read_bytes()).hexdigest() == expected
    except OSError:
        return False


def compile_kernel(name: str, text: str, isa: str) -> int:
    """The address of the kernel's ``fl_entry``."""
    compiler, header = find_compiler(), _header()
    table = f'extern "C" __attribute__((visibility("default"))) const fl_entry {SYMBOL}[]'
    source = translation_unit({name: text}, f"{table};\n{table}")
    flags = (*FLAGS, *ISA_FLAGS[isa])
    headers = [(header.parent / file).read_text() for file in ("kernel.h", "vectors.h", "packed.h")]
    identity = "\n".join((source, *headers, compiler_version(compiler), *compiler[1:], *flags))
    directory = cache_directory()
    target = directory / f"{name}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.so"
    if not is_whole(target):
        _build(compiler, flags, source, header.parent, target)
    try:
        loaded = ctypes.CDLL(str(target))
    except OSError as error:
        raise _broken(compiler, f"wrote a library that cannot be loaded ({error})") from None
    # ctypes never closes a library, so that kernels may point into this one as long as the process lives.
    return ctypes.addressof(ctypes.c_char.in_dll(loaded, SYMBOL))


def _build(compiler: Command, flags: tuple[str, ...], source: str, include: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".build-") as scratch:
        built = _compile(compiler, flags, source, include, Path(scratch))
        digest = Path(scratch) / "rule.sha256"
        digest.write_text(hashlib.sha256(built.read_bytes()).hexdigest())
        # The checksum is written first: a library without one is incomplete.
        os.replace(digest, target.with_suffix(".sha256"))
        os.replace(built, target)


def _compile(compiler: Command, flags: tuple[str, ...], source: str, include: Path, scratch: Path) -> Path:
    cpp, built = scratch / "rule.cpp", scratch / "rule.so"
    cpp.write_text(source)
    result = _run(compiler, *flags, f"-I{include}", str(cpp), "-o", str(built))
    if result.returncode != 0:
        said = [line.strip() for line in result.stderr.splitlines() if line.strip()]
        first = next((line for line in said if "error" in line), said[0] if said else f"exit code {result.returncode}")
        raise _broken(compiler, f"failed ({first})")
    if not built.is_file():
        raise _broken(compiler, "ended without an error, but wrote no library")
    return built
