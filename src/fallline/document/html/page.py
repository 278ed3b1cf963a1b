"""A page of documents in one file: verdicts first, then tables and figures, at last where they come from.

The file asks nothing of a network: its style, its script, its data and the plotting library are in it.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
from collections.abc import Sequence

from fallline.document.blocks import Document
from fallline.document.html.library import digest_of, library
from fallline.document.html.sections import Islands, section
from fallline.document.html.tags import element, island, text

SCRIPTS = ("colours", "downloads", "tables", "tabs", "arrays", "figures", "live", "main")
"""In the order in which they need each other."""


@dataclasses.dataclass(frozen=True)
class Section:
    """A document of a page; a page with several shows one at a time."""

    name: str
    """The words on its tab."""
    kind: str
    """The words above its verdict: ``Race``."""
    document: Document


def page(title: str, sections: Sequence[Section], *, live: bool = False, together: bool = False) -> str:
    """The whole file.

    ``live``: a server sends it, and the page asks this server for news. ``together``: all documents below each other,
    with a table of contents instead of tabs.
    """
    content, with_figures = _content(title, sections, together)
    plotting = library() if with_figures else None
    script = _script()
    digests = [digest_of(script.encode("utf-8"))] + ([plotting.digest] if plotting else [])
    head = (
        '<meta charset="utf-8">'
        + f'<meta http-equiv="Content-Security-Policy" content="{_policy(digests, live)}">'
        + '<meta name="viewport" content="width=device-width, initial-scale=1">'
        + '<meta name="color-scheme" content="light dark">'
        + element("title", text(title))
        + element("style", _read("style.css"))
    )
    packed = plotting.compressed if plotting else ""
    body = (
        _header(title, live)
        + content
        + element("script", packed, type="text/plain", id="library")
        + element("script", script)
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def content(title: str, sections: Sequence[Section]) -> str:
    """The part that changes when results do, by which a page that is open replaces its own."""
    return _content(title, sections)[0]


def _content(title: str, sections: Sequence[Section], together: bool = False) -> tuple[str, bool]:
    """The content, and whether there are figures in it."""
    islands = Islands()
    shown = [section(f"s{at}", one.kind, one.document, islands) for at, one in enumerate(sections)]
    if len(shown) > 1 and together:
        links = "".join(element("a", text(one.name), href=f"#s{at}") for at, one in enumerate(sections))
        shown.insert(0, element("nav", links, class_="contents", aria_label="Contents"))
    elif len(shown) > 1:
        tabs = "".join(
            element("button", text(one.name), type="button", role="tab", id=f"s{at}-tab", aria_controls=f"s{at}")
            for at, one in enumerate(sections)
        )
        shown.insert(0, element("div", tabs, class_="tabs results", role="tablist", aria_label="Results"))
    main = element("main", "".join(shown), id="content", data_title=title)
    return main + island("data", islands.data()), bool(islands.figures)


def _header(title: str, live: bool) -> str:
    status = element("span", "", id="live", class_="live", role="status", data_live="") if live else ""
    theme = element("button", "Light or dark", type="button", id="theme", class_="tool")
    mark = element("span", "fallline", class_="mark")
    return element("header", mark + element("h1", text(title), class_="title") + status + theme, class_="top")


def _policy(digests: Sequence[str], live: bool) -> str:
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {' '.join(digests)}",
            "style-src 'unsafe-inline'",
            "img-src data: blob:",
            f"connect-src {chr(39)}{'self' if live else 'none'}{chr(39)}",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


@functools.cache
def _script() -> str:
    parts = "\n".join(_read(f"script/{name}.js") for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{parts}\n}})();\n'


def _read(name: str) -> str:
    return importlib.resources.files("fallline.document.html").joinpath(name).read_text(encoding="utf-8")
