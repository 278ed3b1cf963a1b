"""Equations as HTML, when the site is built: KaTeX from npm, run by the node that the site's requirements bring.

A page that is read then needs no script for its equations, and asks no server for one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

import npm

BLOCK = re.compile(r"^```math\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"\$`([^`\n]+)`\$")
FENCE = re.compile(r"^```(?!math$).*?^```$", flags=re.DOTALL | re.MULTILINE)

Equation = tuple[str, bool]
"""TeX, and whether it stands alone."""


def found_in(page: str) -> list[Equation]:
    """The equations of a page in Markdown; code is left alone."""
    blocks = [(tex.strip(), True) for tex in BLOCK.findall(page)]
    return blocks + [(tex, False) for tex in INLINE.findall(FENCE.sub("", BLOCK.sub("", page)))]


def rendered(equations: Iterable[Equation], library: Path) -> dict[Equation, str]:
    wanted = list(dict.fromkeys(equations))
    if not wanted:
        return {}
    script = Path(__file__).with_name("render_equations.mjs")
    made = json.loads(npm.run("node", [str(script), str(library / "katex.mjs")], json.dumps(wanted)))
    return dict(zip(wanted, made, strict=True))


def with_places(page: str) -> str:
    """The page with a place in place of every equation: Markdown would read the signs in its HTML as its own."""
    page = BLOCK.sub(lambda found: f"\n{place((found[1].strip(), True))}\n", page)
    parts = re.split(f"({FENCE.pattern})", page, flags=re.DOTALL | re.MULTILINE)
    return "".join(
        part if number % 2 else INLINE.sub(lambda found: place((found[1], False)), part)
        for number, part in enumerate(parts)
    )


def place(equation: Equation) -> str:
    tex, display = equation
    return f"equation{'b' if display else 'i'}{tex.encode().hex()}equation"


PLACE = re.compile(r"equation([bi])([0-9a-f]+)equation")


def filled(html: str, made: dict[Equation, str]) -> str:
    """The HTML of a page with its equations."""
    return PLACE.sub(lambda found: made[bytes.fromhex(found[2]).decode(), found[1] == "b"], html)
