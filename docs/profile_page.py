"""Writes the transcripts and the numbers of docs/profile.md: ``python docs/profile_page.py NAME=FILE …``.

``FILE`` is a results file (``.sqlite``), which is shown with the command that it stores, or text that a command
printed, with the command in its first line; numbers of checks are read from ``benchmarks/profile_checks.json``.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fallline.profile.results import Results

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "profile.md"
CHECKS = ROOT / "benchmarks" / "profile_checks.json"


def put(page: str, begin: str, end: str, text: str) -> str:
    """The page with this text between two marks."""
    pattern = re.compile(f"({re.escape(begin)}\n).*?({re.escape(end)})", re.DOTALL)
    if not pattern.search(page):
        raise SystemExit(f"{PAGE}: has no {begin}")
    return pattern.sub(lambda found: f"{found[1]}{text}\n{found[2]}", page)


def shown(file: Path) -> str:
    """A results file as its command printed it."""
    with Results(file, writable=False) as results:
        command = shlex.join(["fallline", *results.command()])
    show = [sys.executable, "-m", "fallline", "profile", "--out", str(file), "--show"]
    ended = subprocess.run(show, capture_output=True, text=True, check=True)
    return f"$ {command}\n{ended.stdout}"


def transcript(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```"


def simulated(found: Mapping[str, Any]) -> str:
    tables, arms, wrong, power = (found[name] for name in ("tables", "arms", "wrong", "found"))
    return (
        f"In {tables:,} simulated tables of {arms} arms equal to their baseline, with rounds correlated as on a "
        f"shared machine, {100 * wrong:.1f} % called any arm different; one that costs 3 % of a step more was found in "
        f"{100 * power:.1f} %."
    )


def twins(found: Mapping[str, Any]) -> str:
    load, spread = max(found.get("load", [found["machine"]["load_average"]])), found["spread of twins"]
    return (
        f"In {found['runs']} real profiles of the 3 M-parameter GPT at a load of up to {load:.0f}, the same arm twice "
        f"was called different in {found['called different']}, and an arm that costs 3 % of a step more was found in "
        f"{found['planted found']}; differences of twins spread by {100 * spread:.2f} % (one standard deviation, of "
        f"the {len(found['outcomes'])} runs of which more than the counts is kept)."
    )


def overhead(found: Mapping[str, Any]) -> str:
    low, high = found["interval"]
    gap = abs(found["phases over whole steps, less one"])
    return (
        f"A profile's step takes {100 * found['overhead']:.1f} % more processor time than that of a loop written "
        f"by hand ({100 * low:.1f} to {100 * high:.1f}, 95 %); its phases add up to the measured step within "
        f"{100 * gap:.2g} %."
    )


def memory(found: Mapping[str, Any]) -> str:
    rows = "\n".join(
        f"| {name} | {row['states'] / 1e6:+.3f} | {row['peak'] / 1e6:+.3f} | {row['C library'] / 1e6:+.3f} |"
        for name, row in found["differences to adamw"].items()
    )
    return (
        "States hold exactly the bytes that the model of memory says, and peaks in tensors differ from AdamW's by "
        "exactly the bytes of the states. The C library, which is told of neither, agrees up to partial sums of "
        "kernels that are no tensors (at most 1 MB, Adafactor's):\n\n"
        f"| MB beside AdamW | states | peak in tensors | in use by the C library |\n|---|---|---|---|\n{rows}"
    )


def first_rows(found: Mapping[str, Any]) -> str:
    seconds = " and ".join(f"{value:.0f} s for `{preset}`" for preset, value in found["seconds"].items())
    load = found["machine"]["load_average"]
    return f"From the start of the command to its first row it took {seconds}, at a load of {load:.1f}."


WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "simulated": simulated,
    "twins": twins,
    "overhead": overhead,
    "first rows": first_rows,
    "memory": memory,
}


def main() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for argument in sys.argv[1:]:
        name, _, file = argument.partition("=")
        stored = Path(file).suffix == ".sqlite"
        text = transcript(shown(Path(file)) if stored else Path(file).read_text(encoding="utf-8"))
        page = put(page, f"<!-- transcript: {name} -->", "<!-- end of transcript -->", text)
    checks = json.loads(CHECKS.read_text(encoding="utf-8"))
    told = "\n\n".join(words(checks[name]) for name, words in WORDS.items() if name in checks)
    PAGE.write_text(put(page, "<!-- checks -->", "<!-- end of checks -->", told), encoding="utf-8")


if __name__ == "__main__":
    main()
