"""The formats; with a way to call their native twin directly, without the engine."""

from __future__ import annotations

import ctypes
import functools
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import torch
from torch import Tensor

import fallline.formats

HEADERS = Path(fallline.formats.__file__).parent.parent / "native"

FLAGS = ["-std=c++17", "-O3", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd"]

# Instruction sets: the compiler's flags, those of the library, and what the processor must have.
AVX2 = ["-mavx2", "-mfma", "-mf16c", "-mbmi2"]
AVX512 = ["-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mprefer-vector-width=512"]
TARGETS: dict[str, tuple[list[str], set[str]]] = {
    "baseline": ([], set()),
    "portable": (["-U__SSE2__"], {"sse2"}),  # as on processors for which no code is written by hand
    "avx2": (AVX2, {"avx2", "fma", "f16c", "bmi2"}),
    "avx512": ([*AVX2, *AVX512], {"avx512f", "avx512bw", "avx512dq", "avx512vl", "fma", "f16c", "bmi2"}),
}

WRAPPER = """
#include "formats.h"
extern "C" {
void load_(int format, const void* data, const float* scale, int64_t start, int64_t n, int64_t first, float* out) {
  fl::load(static_cast<fl::Format>(format), data, scale, start, n, first, out);
}
void store_(int format, void* data, float* scale, int64_t start, int64_t n, int64_t first, const float* in,
            int stochastic, uint64_t key) {
  fl::store(static_cast<fl::Format>(format), data, scale, start, n, first, in, {stochastic != 0, key, first});
}
}
"""


class Native:
    """formats.h, compiled for one instruction set."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library

    def store(
        self,
        form: int,
        data: Tensor,
        x: Tensor,
        *,
        scale: Tensor | None = None,
        start: int = 0,
        first: int = 0,
        key: int | None = None,
    ) -> None:
        """Writes all of x into data from element start on; stochastic if there is a key.  ``first`` is the index of
        data's first element in the tensor that it is a piece of."""
        assert x.is_contiguous() and data.is_contiguous()
        self.library.store_(
            form,
            ctypes.c_void_p(data.data_ptr()),
            ctypes.c_void_p(None if scale is None else scale.data_ptr()),
            ctypes.c_int64(start),
            ctypes.c_int64(x.numel()),
            ctypes.c_int64(first),
            ctypes.c_void_p(x.data_ptr()),
            int(key is not None),
            ctypes.c_uint64(key or 0),
        )

    def load(self, form: int, data: Tensor, start: int, n: int, scale: Tensor | None = None, first: int = 0) -> Tensor:
        guard = 16
        out = torch.full((n + guard,), 7.0)
        self.library.load_(
            form,
            ctypes.c_void_p(data.data_ptr()),
            ctypes.c_void_p(None if scale is None else scale.data_ptr()),
            ctypes.c_int64(start),
            ctypes.c_int64(n),
            ctypes.c_int64(first),
            ctypes.c_void_p(out.data_ptr()),
        )
        assert (out[n:] == 7.0).all(), "written past the end"
        return out[:n]


def bits(x: Tensor) -> Tensor:
    """The bits of a float tensor, to compare NaN and signed zeros too."""
    return x.view({4: torch.int32, 2: torch.int16}[x.element_size()])


@functools.cache
def native_for(target: str) -> Native:
    """Compiles formats.h, once per process; skips where that is impossible."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    flags, needed = TARGETS[target]
    if needed and platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip(f"{target} is an instruction set of x86-64")
    if missing := needed - _cpu_flags():
        pytest.skip(f"this processor has no {', '.join(sorted(missing))}")
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "wrapper.cpp"), Path(folder, "wrapper.so")
        source.write_text(WRAPPER)
        command = [
            compiler,
            "-fPIC",
            "-shared",
            *FLAGS,
            *flags,
            f"-I{HEADERS}",
            str(source),
            "-o",
            str(library),
        ]
        subprocess.run(command, check=True, capture_output=True, text=True)
        return Native(ctypes.CDLL(str(library)))


@functools.cache
def _cpu_flags() -> frozenset[str]:
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return frozenset()
    lines = [line for line in info.read_text().splitlines() if line.startswith("flags")]
    return frozenset(lines[0].split(":")[1].split()) if lines else frozenset()
