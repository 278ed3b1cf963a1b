"""The pages of optimizers, from the generator of docs/optimizers.md: one for each, and two around them."""

from __future__ import annotations

import re

import optimizers_page as generator

import fallline
from fallline.catalogue import Info

AROUND = "around.md"
INDEX = "index.md"
PLACES = {"averages": AROUND, "schedules": AROUND, "finding": AROUND, "small_problems": AROUND}


def pages() -> dict[str, str]:
    """File, relative to the folder of these pages → its Markdown."""
    infos = [fallline.info(name) for name in fallline.list_optimizers()]
    here = {info.name: f"{info.name}.md" for info in infos}
    made = {f"{info.name}.md": one(info) for info in infos}
    made[INDEX] = "\n".join(
        [generator.INTRODUCTION, generator.options(), generator.AFTER_OPTIONS, generator.overview(infos)]
    )
    made[AROUND] = "# Averages, schedules, learning rates\n\n" + "\n".join(generator.around())
    anchors = re.findall(r'<a id="(\w+)">', made[AROUND])
    places = {**{anchor: f"{AROUND}#{anchor}" for anchor in (*anchors, *PLACES)}, **here}
    return {file: linked(text, file, places) for file, text in made.items()}


def one(info: Info) -> str:
    """The section of an optimizer as a page: its heading is the title."""
    text = generator.section(info)
    return re.sub(r'^<a id="\w+"></a>\n\n## ', "# ", text, count=1)


def linked(text: str, file: str, places: dict[str, str]) -> str:
    """Links within the one long page become links between these pages; those to other pages go up a folder."""

    def anchor(found: re.Match[str]) -> str:
        target = places[found[1]]
        return f"](#{found[1]})" if target.startswith(f"{file}#") else f"]({target})"

    text = re.sub(r"\]\(#(\w+)\)", anchor, text)
    return re.sub(r"\]\((?!\w+:)([a-z_]+\.md(?:#[\w-]*)?)\)", _up(set(places.values())), text)


def _up(own: set[str]):  # type: ignore[no-untyped-def]
    return lambda found: found[0] if found[1] in own else f"](../{found[1]})"


def place(anchor: str) -> str:
    """Where an anchor of docs/optimizers.md is on the site."""
    if not anchor:
        return f"optimizers/{INDEX}"
    if anchor in fallline.list_optimizers():
        return f"optimizers/{anchor}.md"
    return f"optimizers/{AROUND}#{anchor}"
