"""The two published tables that the presets repeat, and other tables from a file.

Source of ``ADAM_GRID``: a posted table of torch's three CPU Adam implementations (machine, threads and versions not
stated; by its script AMSGrad and L2 decay were on). Its author replaced it 23 minutes later by one in which the fused
kernel wins all 30 cells; the text below the table was written from this one.
Source of ``ADAN_GPT2``: the page of Adan's fused kernels (sail-sg/Adan, ``fused_adan``), one A100 with 40 GB.
"""

from __future__ import annotations

import csv
import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

_GRID_TEXT = """
1 16384 0.2226 3.0747 2.0181
2 16384 0.2464 3.0296 0.9550
4 16384 0.3280 2.4210 1.0760
8 16384 0.4870 3.6172 1.2503
16 16384 1.2157 6.4759 1.7313
32 16384 2.7263 12.0050 2.3096
1 65536 0.2958 1.4892 0.8374
2 65536 0.4340 2.1441 1.0390
4 65536 0.6854 3.5902 1.1051
8 65536 1.3468 6.1781 1.2786
16 65536 3.9141 11.4990 1.5761
32 65536 15.7267 22.5567 2.3297
1 262144 0.6532 1.4382 0.8449
2 262144 1.1461 2.2305 0.9359
4 262144 2.1010 3.6159 1.0567
8 262144 4.6804 6.6111 1.5134
16 262144 15.9823 12.8755 2.5378
32 262144 39.1214 24.8270 4.2691
1 1048576 5.4086 1.7953 0.8574
2 1048576 3.0704 2.9084 1.3554
4 1048576 2.7214 5.4979 1.8966
8 1048576 4.4198 11.2234 3.2270
16 1048576 10.9654 22.4123 5.5960
32 1048576 24.7420 44.7208 10.5392
1 4194304 6.8618 2.6646 1.6738
2 4194304 4.3225 5.2991 2.9045
4 4194304 6.5019 9.6921 4.7629
8 4194304 13.0058 19.2961 9.3567
16 4194304 36.6758 38.2443 17.6571
32 4194304 132.9222 77.1480 35.4720
"""

# heads, layers, width, size column, Adam MB, FusedAdan MB, printed Δ %, Adam ms, FusedAdan ms, printed %
_ADAN_TEXT = """
6 6 768 81 4490 4490 0.00 5.40 4.07 81.6
12 6 768 81 5848 5848 0.00 5.41 4.16 76.9
16 6 768 81 6775 6775 0.00 5.41 4.11 76.0
6 12 768 124 7151 7153 0.03 8.47 6.25 73.8
12 12 768 124 9869 9871 0.02 8.46 6.18 73.0
16 12 768 124 11733 11735 0.02 8.48 6.20 73.1
16 6 1024 128 7302 7302 0.00 7.57 6.28 83.0
16 12 1024 203 12719 12719 0.00 12.10 10.25 84.7
6 24 768 209 12471 12473 0.02 16.40 10.56 64.4
12 24 768 209 17907 17909 0.01 16.40 10.47 63.8
16 24 768 209 21596 21598 0.01 16.35 10.56 64.6
6 6 1536 248 6880 7308 6.22 15.92 12.29 77.2
12 6 1536 248 8235 8235 0.00 15.94 12.35 77.5
16 6 1536 248 9141 9141 0.00 15.94 12.36 77.5
16 24 1024 354 23530 23532 0.01 21.05 17.51 83.2
16 6 2048 407 11098 11098 0.00 25.05 19.84 79.2
6 12 1536 418 11137 12213 9.66 27.24 20.58 75.6
12 12 1536 418 13855 13857 0.01 27.25 20.54 75.4
16 12 1536 418 15667 15669 0.01 27.25 20.46 75.1
16 6 2560 603 13967 15965 14.30 36.86 29.55 80.1
16 12 2048 709 18851 18853 0.01 44.00 34.89 79.3
6 24 1536 758 19660 21997 11.88 49.87 37.52 75.2
12 24 1536 758 25096 25100 0.02 49.87 37.42 75.0
16 24 1536 758 28720 28724 0.01 49.92 37.56 75.2
16 24 2048 1313 34357 34363 0.02 81.81 64.48 77.9
"""


@dataclasses.dataclass(frozen=True)
class AdanRow:
    """One configuration in both published tables; times are per step, whatever the page says."""

    heads: int
    layers: int
    width: int
    millions: int
    """Parameters; the page calls them MB."""
    adam_mb: str
    adan_mb: str
    printed_delta: str
    adam_ms: str
    adan_ms: str
    printed_percent: str


def _adan_row(line: str) -> AdanRow:
    parts = line.split()
    heads, layers, width, millions = map(int, parts[:4])
    return AdanRow(heads, layers, width, millions, *parts[4:])


ADAN_GPT2 = tuple(map(_adan_row, _ADAN_TEXT.strip().splitlines()))

Grid = dict[tuple[int, int], dict[str, float]]
"""(tensors, size) → implementation → ms."""

ADAM_GRID: Grid = {
    (int(count), int(size)): {"compiled": float(compiled), "eager": float(eager), "fused": float(fused)}
    for count, size, compiled, eager, fused in (line.split() for line in _GRID_TEXT.strip().splitlines())
}
GRID_NAMES = {
    "compiled": "compiled_single_tensor_adam",
    "eager": "_single_tensor_adam",
    "fused": "_fused_adam",
}
"""Names of fallline → published names."""


class BadTable(Exception):
    """A table that cannot be read; the message says which and why."""


def winner(times: Mapping[str, float]) -> str:
    """The winner among single numbers without any spread: the smallest."""
    return min(times, key=times.__getitem__)


def winner_counts(grid: Grid) -> dict[str, int]:
    names = next(iter(grid.values()))
    return {name: sum(winner(times) == name for times in grid.values()) for name in names}


def read_grid(path: Path) -> Grid:
    """A Markdown or CSV table: tensors, size, then a column of ms per implementation."""
    try:
        text = path.read_text(encoding="utf-8")
        rows = _markdown_rows(text) if "|" in text else [row for row in csv.reader(text.splitlines()) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadTable(f"--against {path}: cannot be read ({error})") from error
    if len(rows) < 2 or len(rows[0]) < 3:
        raise BadTable(f"--against {path}: no table of tensors, size and one column per implementation in it")
    heading = [_plain(name) for name in rows[0][2:]]
    found: Grid = {}
    for number, row in enumerate(rows[1:], 2):
        try:
            times = {name: float(value) for name, value in zip(heading, row[2:], strict=True)}
            found[int(row[0]), int(row[1])] = times
        except ValueError as error:
            raise BadTable(f"--against {path}: row {number} of the table is not all numbers ({error})") from error
        if not all(math.isfinite(ms) and ms > 0 for ms in times.values()):
            raise BadTable(f"--against {path}: row {number} of the table has a time that is not > 0")
    return found


def _markdown_rows(text: str) -> list[list[str]]:
    lines = [line.strip().strip("|") for line in text.splitlines() if line.strip().startswith("|")]
    rows = [[cell.strip() for cell in line.split("|")] for line in lines]
    return [row for row in rows if not all(set(cell) <= set(":- ") for cell in row)]


def _plain(heading: str) -> str:
    """The name of a column in fallline, if it has one."""
    name = re.sub(r"\(.*?\)|`", "", heading).strip()
    return next((ours for ours, theirs in GRID_NAMES.items() if theirs == name), name)


def agreement(ours: Mapping[tuple[int, int], str], grid: Grid) -> tuple[int, int]:
    """The number of common cells whose published winner is the winner here or among the ties here."""
    common = [key for key in ours if key in grid]
    return sum(winner(grid[key]) in ours[key].split(" = ") for key in common), len(common)


def rows_of(grid: Grid) -> Sequence[tuple[int, int]]:
    return sorted(grid, key=lambda key: (key[1], key[0]))
