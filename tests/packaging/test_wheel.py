"""A wheel has what an installation needs, and nothing else; without a compiler it is built too."""

import os
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
    "fallline/workloads/targets.json",
}

BUILD = """
import sys
from scikit_build_core.build import build_wheel
folder = sys.argv[1]
print(build_wheel(folder, {"build-dir": folder + "/build"}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("scikit_build_core")
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)],
        cwd=ROOT,
        env={**os.environ, "CXX": "/nonexistent/c++"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def test_wheel_without_a_compiler_has_the_package_and_nothing_else(wheel):
    found = {name for name in wheel.namelist() if ".dist-info/" not in name}
    modules = {f"fallline/{path.relative_to(SOURCE)}" for path in SOURCE.rglob("*.py")}
    assert found == modules | BESIDE_PYTHON


def test_wheel_has_the_command_and_its_licence(wheel):
    information = {Path(name).name: name for name in wheel.namelist() if ".dist-info/" in name}
    assert "fallline = fallline.cli:main" in wheel.read(information["entry_points.txt"]).decode()
    assert b"Apache License" in wheel.read(information["LICENSE"])
