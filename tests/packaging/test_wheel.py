"""A wheel has what an installation needs, and nothing else; it is built without a usable compiler too."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "fallline"
# Types, what a rule of one's own is compiled with, and data that modules read.
BESIDE_PYTHON = {
    "fallline/__init__.pyi",
    "fallline/py.typed",
    "fallline/native/kernel.h",
    "fallline/native/packed.h",
    "fallline/native/vectors.h",
    "fallline/gallery/data/language_and_vision.json",
    "fallline/gallery/data/leaderboard.json",
    "fallline/workloads/targets.json",
}

BUILD = """
import sys
from scikit_build_core.build import build_wheel
folder = sys.argv[1]
print(build_wheel(folder, {"build-dir": folder + "/build"}))
"""


# As GCC 11 is: it compiles C++17, but not the vectors that kernels are made of.
OLD_COMPILER = "c++ -D__builtin_shufflevector=missing"


@pytest.fixture(scope="module", params=["/nonexistent/c++", OLD_COMPILER], ids=["none", "old"])
def wheel(request, tmp_path_factory):
    pytest.importorskip("scikit_build_core")
    if request.param == OLD_COMPILER and shutil.which("c++") is None:
        pytest.skip("there is no compiler to make old")
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)],
        cwd=ROOT,
        env={**os.environ, "CXX": request.param},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "installing without the native library" in done.stdout + done.stderr
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def test_wheel_without_kernels_has_the_package_and_nothing_else(wheel):
    found = {name for name in wheel.namelist() if ".dist-info/" not in name}
    modules = {f"fallline/{path.relative_to(SOURCE)}" for path in SOURCE.rglob("*.py")}
    pages = {f"fallline/{path.relative_to(SOURCE)}" for kind in ("*.js", "*.css") for path in SOURCE.rglob(kind)}
    assert pages and found == modules | pages | BESIDE_PYTHON


def test_wheel_has_the_command_and_its_licence(wheel):
    information = {Path(name).name: name for name in wheel.namelist() if ".dist-info/" in name}
    assert "fallline = fallline.cli:main" in wheel.read(information["entry_points.txt"]).decode()
    assert b"Apache License" in wheel.read(information["LICENSE"])
