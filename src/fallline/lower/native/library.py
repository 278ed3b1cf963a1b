"""Finds and loads the native library, and picks its instruction set."""

from __future__ import annotations

import ctypes
import functools
import os
from ctypes import POINTER, Structure, c_double, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from pathlib import Path

import fallline
from fallline.switches import OFF, ON

MAX_PASSES = 6
FILE = "native/libfallline_native.so"
INSTRUCTION_SETS = ("baseline", "avx2", "avx512")


class NativeUnavailable(RuntimeError):
    """Why a program cannot run natively here; the message says what to do."""


class COperand(Structure):
    _fields_ = [
        ("data", c_void_p),
        ("scale", c_void_p),
        ("strides", c_void_p),
        ("format", c_int32),
        ("stochastic", c_int32),
        ("key", c_uint64),
        ("edges", c_void_p),
    ]


class CTensor(Structure):
    _fields_ = [
        ("numel", c_int64),
        ("first", c_int64),
        ("whole", c_int64),
        ("batch", c_int64),
        ("rows", c_int64),
        ("cols", c_int64),
        ("sizes", c_void_p),
        ("ndim", c_int32),
        ("set", c_int32),
        ("operands", c_void_p),
        ("low_precision_copy", c_void_p),
        ("small", c_void_p),
        ("first_chunk", c_int64),
        ("first_tile", c_int64),
        ("vector_at", c_int64),
        ("row_partial_at", c_int64),
        ("col_partial_at", c_int64),
    ]


class CReduction(Structure):
    _fields_ = [("pass_", c_int32), ("space", c_int32), ("slot", c_int32), ("is_max", c_int32)]


class CProgram(Structure):
    _fields_ = [
        ("entry", c_void_p),
        ("grad_operand", c_int32),
        ("n_operands", c_int32),
        ("n_host", c_int32),
        ("n_scalars", c_int32),
        ("n_vectors", c_int32),
        ("n_passes", c_int32),
        ("n_reductions", c_int32),
        ("tiled", c_int32),
        ("reads", c_uint32 * MAX_PASSES),
        ("writes", c_uint32),
        ("packable", c_uint32),
        ("vector_space", c_void_p),
        ("reductions", c_void_p),
        ("n_segment", c_int32),
        ("n_column", c_int32),
        ("segment_vectors", c_void_p),
        ("column_vectors", c_void_p),
    ]


class CJob(Structure):
    _fields_ = [
        ("program", c_void_p),
        ("tensors", c_void_p),
        ("n_tensors", c_int64),
        ("grads", c_void_p),
        ("set_of", c_void_p),
        ("sets", c_void_p),
        ("grad_factor", c_double),
        ("scalars", c_void_p),
        ("workspace", c_void_p),
        ("chunks", c_int64),
        ("tiles", c_int64),
        ("elements", c_int64),
        ("scalar_partial_at", c_int64),
        ("scalars_per_tile", c_int64),
    ]


def _layout(*structs: type[Structure]) -> list[int]:
    """The size of each struct and the offsets of its members."""
    return [
        number
        for struct in structs
        for number in (ctypes.sizeof(struct), *(getattr(struct, name).offset for name, *_ in struct._fields_))
    ]


class Library:
    """The loaded library with one instruction set chosen."""

    def __init__(self, path: Path, isa: str):
        self.path = path
        self.handle = _open(path)
        expected = _layout(COperand, CTensor, CReduction, CProgram, CJob)
        found = (c_int64 * len(expected))()
        self.handle.fl_layout.restype = c_int64
        self.handle.fl_layout.argtypes = [c_void_p, c_int64]
        if self.handle.fl_layout(found, len(expected)) != len(expected) or list(found) != expected:
            raise NativeUnavailable(f"{path} was built from other sources than this package; reinstall fallline")
        self.handle.fl_accepts.restype = c_int32
        self.handle.fl_accepts.argtypes = [c_void_p]
        self.handle.fl_select.restype = c_void_p
        self.handle.fl_select.argtypes = [ctypes.c_char_p]
        self.handle.fl_backend_name.restype = ctypes.c_char_p
        self.handle.fl_backend_name.argtypes = [c_void_p]
        self.handle.fl_find.restype = c_void_p
        self.handle.fl_find.argtypes = [c_void_p, ctypes.c_char_p]
        self.handle.fl_plan.restype = c_int64
        self.handle.fl_plan.argtypes = [POINTER(CJob)]
        self.handle.fl_begin.argtypes = [POINTER(CJob)]
        self.handle.fl_stage_run.argtypes = [POINTER(CJob), c_int32, c_int32, c_int32]
        self.handle.fl_pass.argtypes = [POINTER(CJob), c_void_p, c_int32, c_int32]
        for step in (self.handle.fl_step, self.handle.fl_step_each):
            step.argtypes = [POINTER(CJob), c_void_p, c_int32]
        self.handle.fl_probe.restype = None
        self.handle.fl_probe.argtypes = [
            c_void_p,
            c_int32,
            c_int32,
            POINTER(c_void_p),
            c_int64,
            c_int32,
            c_int64,
        ]
        self.handle.fl_has_threads.restype = c_int32
        backend = self.handle.fl_select(isa.lower().encode())
        if not backend:
            what = "this processor or build lacks it" if isa.lower() in INSTRUCTION_SETS else "no such instruction set"
            available = " or ".join(name for name in INSTRUCTION_SETS if self.has(name))
            raise NativeUnavailable(f"FALLLINE_ISA={isa}: {what}; use {available}, or unset FALLLINE_ISA")
        self.backend: int = backend
        self.isa: str = self.handle.fl_backend_name(backend).decode()

    def find(self, kernel: str) -> int | None:
        return self.handle.fl_find(self.backend, kernel.encode())

    def check(self, entry: int, program: str) -> None:
        """Raises if a kernel was compiled with structs that differ from the library's."""
        if not self.handle.fl_accepts(entry):
            raise NativeUnavailable(
                f"the kernel of {program} was compiled with other headers than {self.path}; reinstall fallline"
            )

    def has(self, isa: str) -> bool:
        return bool(self.handle.fl_select(isa.encode()))


def _open(path: Path) -> ctypes.CDLL:
    """Loads the library.  Its OpenMP functions are torch's, or the system's if torch brings none."""
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        if "GOMP_" not in str(error) and "omp_" not in str(error):
            raise
    ctypes.CDLL("libgomp.so.1", mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(path))


def library_path() -> Path | None:
    """The path of the library: beside the package, or where an editable install put it."""
    for folder in fallline.__path__:
        path = Path(folder) / FILE
        if path.exists():
            return path
    return None


@functools.cache
def _load(isa: str, switch: str) -> Library | NativeUnavailable:
    if switch.lower() in OFF:
        return NativeUnavailable(f"switched off by FALLLINE_NATIVE={switch}; unset FALLLINE_NATIVE")
    if switch.lower() not in ON:
        return NativeUnavailable(
            f"FALLLINE_NATIVE={switch} is neither on nor off; use 0 or 1, or unset FALLLINE_NATIVE"
        )
    path = library_path()
    if path is None:
        return NativeUnavailable(
            "this installation has no native library (no C++ compiler was found when it was installed); "
            "install a C++ compiler and reinstall fallline"
        )
    # torch comes first, so that both share one pool of threads; see native/threads.h.
    import torch  # noqa: F401

    try:
        return Library(path, isa)
    except NativeUnavailable as reason:
        return reason
    except (OSError, AttributeError) as error:
        return NativeUnavailable(f"{path} cannot be loaded ({error}); reinstall fallline")


def library() -> Library:
    """The library, or :class:`NativeUnavailable` with the reason."""
    found = _load(os.environ.get("FALLLINE_ISA", ""), os.environ.get("FALLLINE_NATIVE", ""))
    if isinstance(found, NativeUnavailable):
        raise found
    return found
