"""Writes the C++ of every built-in optimizer: ``python -m fallline.lower.native.generate OUTDIR``.

It runs while the package is built, where torch is not installed.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fallline.lower.native.emit import emit, translation_unit
from fallline.optimizers import builtin_programs

SHARDS = 4
"""The number of files over which kernels are spread to compile in parallel; CMakeLists.txt has it, too."""


def write_sources(folder: Path) -> None:
    kernels: dict[str, str] = {}
    for program in builtin_programs():
        for part in program.parts:
            name, text = emit(part)
            kernels[name] = text
    folder.mkdir(parents=True, exist_ok=True)
    names = sorted(kernels)
    for shard in range(SHARDS):
        chosen = {name: kernels[name] for name in names[shard::SHARDS]}
        symbol = f"extern const fl_entry FL_SHARD({shard})[];\nconst fl_entry FL_SHARD({shard})[]"
        text = translation_unit(chosen, symbol)
        path = folder / f"kernels_{shard}.cpp"
        # An unchanged file keeps its time stamp, so that only changed kernels are compiled again.
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


if __name__ == "__main__":
    write_sources(Path(sys.argv[1]))
