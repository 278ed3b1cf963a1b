"""Fashion-MNIST: where it is, whether it is whole, and how to get it.

70,000 pictures of clothes, 28 × 28, in ten classes (Xiao, Rasul & Vollgraf 2017; MIT licence).  Debian and Ubuntu have
it as the package ``dataset-fashion-mnist``; elsewhere it is fetched from its authors.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import tempfile
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy

from fallline.cache import cache_location, make_cache
from fallline.switches import is_off
from fallline.workloads.data import idx

NAME = "Fashion-MNIST"
AUTHORS = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/"
DEBIAN = Path("/usr/share/datasets/fashion-mnist")
DEBIAN_PACKAGE = "dataset-fashion-mnist"


class DataFile(NamedTuple):
    name: str
    shape: tuple[int, ...]
    sha256: str
    """The checksum of the unpacked content: packed, Debian's files differ from the authors'."""


FILES = {
    ("train", "images"): DataFile(
        "train-images-idx3-ubyte.gz",
        (60_000, 28, 28),
        "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    ),
    ("train", "labels"): DataFile(
        "train-labels-idx1-ubyte.gz", (60_000,), "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"
    ),
    ("test", "images"): DataFile(
        "t10k-images-idx3-ubyte.gz",
        (10_000, 28, 28),
        "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    ),
    ("test", "labels"): DataFile(
        "t10k-labels-idx1-ubyte.gz", (10_000,), "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"
    ),
}


def cache_folder() -> Path:
    """Where downloads go: ``data/fashion-mnist`` in fallline's cache."""
    return cache_location() / "data" / "fashion-mnist"


def find() -> Path | None:
    """Where workloads take it from; None also where ``FALLLINE_REAL_DATA=0`` asks for generated data."""
    return None if is_off("FALLLINE_REAL_DATA") else installed()


def installed() -> Path | None:
    """The first folder that has all four files."""
    for folder in (cache_folder(), DEBIAN):
        if all((folder / file.name).is_file() for file in FILES.values()):
            return folder
    return None


def load(folder: Path, part: str) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Images (count, 28, 28) and labels (count,) as bytes; part is "train" or "test"."""
    images, labels = (
        _array(idx.contents(folder / file.name), file, str(folder / file.name))
        for file in (FILES[part, "images"], FILES[part, "labels"])
    )
    return images, labels


def check(folder: Path) -> None:
    """Raises :class:`BadFile <fallline.workloads.data.idx.BadFile>` unless every file is whole and as published."""
    for file in FILES.values():
        _checked(idx.contents(folder / file.name), file, str(folder / file.name))


def download(folder: Path, base: str = AUTHORS, say: Callable[[str], None] = lambda text: None) -> None:
    """Fetches what is missing or damaged; a file appears under its name only when it is whole and checked."""
    if folder.is_relative_to(cache_location()):
        make_cache()
    folder.mkdir(parents=True, exist_ok=True)
    for file in FILES.values():
        path = folder / file.name
        try:
            _checked(idx.contents(path), file, str(path))
            continue
        except idx.BadFile:
            say(f"{base}{file.name} → {path}")
        _fetch(base + file.name, path, file)


def _fetch(address: str, path: Path, file: DataFile) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as out, urllib.request.urlopen(address, timeout=60) as answer:
            while block := answer.read(1 << 20):
                out.write(block)
        _checked(idx.contents(Path(temporary)), file, address)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise idx.BadFile(
            f"{address}: cannot be fetched ({reason}); go online, or copy the four files to {path.parent}, "
            f"or on Debian: apt install {DEBIAN_PACKAGE}"
        ) from error
    finally:
        Path(temporary).unlink(missing_ok=True)


def _checked(content: bytes, file: DataFile, where: str) -> None:
    _array(content, file, where)
    found = hashlib.sha256(content).hexdigest()
    if found != file.sha256:
        raise idx.BadFile(
            f"{where}: checksum {found[:12]}…, should be {file.sha256[:12]}…; delete it and fetch it again"
        )


def _array(content: bytes, file: DataFile, where: str) -> numpy.ndarray:
    array = idx.parse(content, where)
    if array.shape != file.shape or array.dtype != numpy.uint8:
        raise idx.BadFile(f"{where}: holds {array.dtype} of {array.shape}, should be uint8 of {file.shape}")
    return array
