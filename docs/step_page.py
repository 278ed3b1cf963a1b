"""Puts the output of measured presets into ``docs/step.md`` and ``docs/coverage.md``, from their results files:

``python docs/step_page.py --adam-grid FILE --adan-gpt2 FILE`` (either or both). Nothing is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parent
PRESETS = ("adam-grid", "adan-gpt2")
COLUMNS = 120
"""The width of the terminal that the page shows."""


def shown(preset: str, file: Path, *options: str) -> str:
    """The output of ``fallline step --show``, with the results file under its usual name."""
    command = [sys.executable, "-m", "fallline", "step", "--preset", preset, "--out", str(file), "--show", *options]
    terminal = {**os.environ, "COLUMNS": str(COLUMNS)}
    text = subprocess.run(command, capture_output=True, text=True, check=True, env=terminal).stdout
    return text.replace(str(file), "fallline-step.sqlite")


def shortened(text: str) -> str:
    """The times of the first two tables, speeds and map of the first, and all sentences."""
    kept: list[str] = []
    seen = {"ms per step": 2, "GB/s (fraction of the limit)": 1, "winner and its lead over the next": 1}
    for block in text.strip().split("\n\n"):
        kind = block.splitlines()[0].rpartition(": ")[2]
        if kind in seen:
            seen[kind] -= 1
        if seen.get(kind, 0) >= 0:
            kept.append(block)
    return "\n\n".join(kept) + "\n"


def claims(preset: str, file: Path) -> str:
    """The answers, and from which data on which machine they come."""
    found = json.loads(shown(preset, file, "--json"))
    where = found["machines"][-1]
    source = f"Data {found['data']}, {where['cpu']}, {where['cores']} cores, {where['instruction_set']}:"
    return "\n".join([source, "", *(f"- {line}" for line in found["claims"])])


def between(page: str, name: str, new: str) -> str:
    """The page with what stands between the two marks of that name replaced."""
    pattern = re.compile(f"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", flags=re.DOTALL)
    if not pattern.search(page):
        raise SystemExit(f"there are no marks of {name} on the page")
    return pattern.sub(lambda found: f"{found[1]}{new}\n{found[2]}", page)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for preset in PRESETS:
        parser.add_argument(f"--{preset}", type=Path, metavar="FILE")
    chosen = vars(parser.parse_args(arguments))
    for preset in PRESETS:
        file = chosen[preset.replace("-", "_")]
        if file is None:
            continue
        text = shown(preset, file)
        command = f"$ fallline step --preset {preset}\n"
        for page, new in (
            ("step.md", f"```text\n{command}{shortened(text)}```"),
            ("coverage.md", claims(preset, file)),
        ):
            path = DOCS / page
            path.write_text(between(path.read_text(encoding="utf-8"), preset, new), encoding="utf-8")


if __name__ == "__main__":
    main()
