"""The idx format of MNIST's files: a magic number, the sizes of the axes, then the bytes; plain or gzipped."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy

# The third byte of the magic number.
TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


class BadFile(Exception):
    """A data file that is not what it should be: which, why, and what to do."""


def contents(path: Path) -> bytes:
    """The bytes of a file, unpacked if it is gzipped."""
    try:
        packed = path.read_bytes()
        return gzip.decompress(packed) if packed[:2] == b"\x1f\x8b" else packed
    except (OSError, EOFError, zlib.error) as error:
        raise BadFile(f"{path}: cannot be read ({error}); fetch it again") from error


def parse(content: bytes, where: str) -> numpy.ndarray:
    """The array in the bytes of an idx file; every way in which they can be wrong is an error of one line."""
    if len(content) < 4:
        raise BadFile(f"{where}: {len(content)} bytes are too few for an idx file; fetch it again")
    zero, kind, axes = struct.unpack(">HBB", content[:4])
    if zero != 0 or kind not in TYPES or axes == 0:
        raise BadFile(f"{where}: not an idx file, it starts with {content[:4].hex()}; fetch it again")
    start = 4 + 4 * axes
    if len(content) < start:
        raise BadFile(f"{where}: ends within its header; fetch it again")
    shape = struct.unpack(f">{axes}I", content[4:start])
    dtype = numpy.dtype(TYPES[kind])
    wanted = math.prod(shape) * dtype.itemsize
    if len(content) - start != wanted:
        raise BadFile(f"{where}: {len(content) - start} bytes of data, its header says {wanted}; fetch it again")
    try:
        return numpy.frombuffer(content, dtype, offset=start).reshape(shape)
    except ValueError as error:  # more axes than an array can have
        raise BadFile(f"{where}: not an array ({error}); fetch it again") from error


def read(path: Path) -> numpy.ndarray:
    return parse(contents(path), str(path))
