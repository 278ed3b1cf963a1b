"""Checks a release: ``python -m tests.packaging.check_release dist``, run by ``make wheel``.

The wheel is installed into an empty environment in which no compiler can be found, and tried there.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
TRY = Path(__file__).with_name("try_installation.py")
LIBRARY = "fallline/native/libfallline_native.so"
BUILD_FILES = {"CMakeLists.txt", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "PKG-INFO"}
WHEEL = re.compile(r"fallline-[\d.]+-py3-none-(manylinux\w+\.?)+\.whl")


def check(holds: bool, says: str) -> None:
    if not holds:
        raise SystemExit(f"the release is not good: {says}")


def check_names(folder: Path) -> tuple[Path, Path]:
    """The source distribution and the wheel, which must be alone there."""
    files = sorted(folder.iterdir())
    check([file.suffix for file in files] == [".whl", ".gz"], f"{folder} holds {[file.name for file in files]}")
    wheel, source = files
    check(WHEEL.fullmatch(wheel.name) is not None, f"{wheel.name} is not for every Python on manylinux")
    return source, wheel


def tracked() -> list[str]:
    """The files of the package in the repository."""
    listed = subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.split()


def check_source(path: Path) -> None:
    with tarfile.open(path) as archive:
        files = {str(PurePosixPath(*PurePosixPath(name).parts[1:])) for name in archive.getnames()}
    compare(path, files, {*BUILD_FILES, *tracked()})


def check_wheel(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        files = {name for name in archive.namelist() if ".dist-info/" not in name and not name.endswith("/")}
        library = archive.read(LIBRARY) if LIBRARY in files else b""
    # Modules and their data; of the engine the library, and the headers that a user's rule is compiled with.
    wanted = {name.removeprefix("src/") for name in tracked() if PurePosixPath(name).suffix not in (".cpp", ".h")}
    headers = {f"fallline/native/{name}.h" for name in ("kernel", "packed", "vectors")}
    compare(path, files, {*wanted, *headers, LIBRARY})
    check(b"GOMP_parallel\0" in library, f"the library in {path.name} has no threads")
    # A second OpenMP would be a second pool of threads beside torch's.
    check(not any(b"libgomp" in part for part in library.split(b"\0")), f"the library in {path.name} needs libgomp")


def compare(path: Path, found: Iterable[str], wanted: Iterable[str]) -> None:
    odd, missing = sorted({*found} - {*wanted}), sorted({*wanted} - {*found})
    check(not odd and not missing, f"{path.name} holds {odd[:5]}, which it need not, and lacks {missing[:5]}")


def try_wheel(path: Path) -> None:
    """In an environment with the wheel and its requirements alone, where no compiler is on the path."""
    with tempfile.TemporaryDirectory(prefix="fallline-wheel-") as folder:
        venv.create(folder, with_pip=True)
        programs = Path(folder) / "bin"
        pip = [programs / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        subprocess.run([*pip, "--only-binary=:all:", "-c", ROOT / "constraints.txt", path], check=True, cwd=folder)
        without = {name: value for name, value in os.environ.items() if name not in ("CXX", "CC", "PYTHONPATH")}
        environment = {**without, "PATH": str(programs), "FALLLINE_CACHE_DIR": f"{folder}/cache"}
        subprocess.run([programs / "python", TRY], check=True, cwd=folder, env=environment)


def main() -> None:
    source, wheel = check_names(Path(sys.argv[1]).resolve())
    check_source(source)
    check_wheel(wheel)
    try_wheel(wheel)
    print(f"{source.name} and {wheel.name} are good")


if __name__ == "__main__":
    main()
