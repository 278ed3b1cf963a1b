"""Hooks of mkdocs: pages that are generated, equations, links out of the folder of pages, the order of pages."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
sys.path[:0] = [str(DOCS), str(DOCS / "site")]

import equations  # noqa: E402
import navigation  # noqa: E402
import npm  # noqa: E402
import optimizer_pages  # noqa: E402

LINK = re.compile(r"\[([^\]]*)\]\((?!\w+:|#)([^)\s]+)\)")
SOURCES = {"changelog.md": ROOT / "CHANGELOG.md", "contributing.md": ROOT / "CONTRIBUTING.md"}
"""Pages whose text is kept elsewhere in the repository."""

KATEX, IFRAME_WORKER = "0.19.1", "1.0.4"
SHIM_ELSEWHERE = "https://unpkg.com/iframe-worker/shim"
SHIM = "assets/iframe-worker.js"
"""The theme's search needs it in a page that is opened from a file, and would ask another server for it."""

ELSEWHERE = re.compile(r"<(?:script|img|link|iframe|source)\b[^>]*(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
"""A tag that makes a browser ask another server."""

_made: dict[equations.Equation, str] = {}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    pages = optimizer_pages.pages()
    config.extra["generated"] = {
        **{f"optimizers/{file}": text for file, text in pages.items()},
        **{file: path.read_text(encoding="utf-8") for file, path in SOURCES.items()},
        "examples.md": examples(),
    }
    names = sorted(file for file in pages if file not in (optimizer_pages.INDEX, optimizer_pages.AROUND))
    listed: list[Any] = [f"optimizers/{optimizer_pages.INDEX}", f"optimizers/{optimizer_pages.AROUND}"]
    listed += [f"optimizers/{file}" for file in names]
    generated = config.extra["generated"]
    config.nav = navigation.navigation(lambda page: page in generated or (DOCS / page).exists(), listed)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, text in config.extra["generated"].items():
        files.append(File.generated(config, name, content=text))
    library = npm.package("katex", KATEX) / "dist"
    for path in [library / "katex.min.css", *sorted((library / "fonts").glob("*.woff2"))]:
        name = f"assets/katex/{path.relative_to(library)}"
        files.append(File.generated(config, name, abs_src_path=str(path)))
    shim = npm.package("iframe-worker", IFRAME_WORKER) / "shim" / "index.js"
    files.append(File.generated(config, SHIM, abs_src_path=str(shim)))
    everything = [tex for file in files.documentation_pages() for tex in equations.found_in(file.content_string)]
    _made.update(equations.rendered(everything, library))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    source = SOURCES.get(page.file.src_uri, DOCS / page.file.src_uri)
    text = LINK.sub(lambda found: _link(found, page.file.src_uri, source.parent, files), markdown)
    # Text between tags is Markdown, as on other sites.
    text = text.replace("<details>", '<details markdown="1">')
    return equations.with_places(text)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return equations.filled(html, _made)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    return output.replace(SHIM_ELSEWHERE, os.path.relpath(SHIM, os.path.dirname(page.file.dest_uri) or "."))


def on_post_template(output: str, template_name: str, config: MkDocsConfig) -> str:
    return output.replace(SHIM_ELSEWHERE, SHIM)


def on_post_build(config: MkDocsConfig) -> None:
    """A page that asks another server for something fails the build: the site is read from files too."""
    for path in Path(config.site_dir).rglob("*.html"):
        asked = ELSEWHERE.search(path.read_text(encoding="utf-8"))
        if asked:
            raise PluginError(f"{path.relative_to(config.site_dir)} asks another server: {asked[0]}")


def _link(found: re.Match[str], page: str, folder: Path, files: Files) -> str:
    """Links to files of the repository that are no pages become names; mkdocs finds those that lead nowhere."""
    words, target = found.groups()
    path, _, anchor = target.partition("#")
    here = os.path.dirname(page)
    absolute = Path(os.path.normpath(folder / path))
    inside = os.path.relpath(absolute, DOCS)
    if inside == "optimizers.md":
        place = optimizer_pages.place(anchor)
        return f"[{words}]({os.path.relpath(place, here or '.')})"
    for name, source in SOURCES.items():
        if absolute == source:
            return f"[{words}]({os.path.relpath(name, here or '.')})"
    if absolute.parent == ROOT / "examples":
        return f"[{words}]({os.path.relpath('examples.md', here or '.')}#{absolute.stem})"
    if files.get_file_from_path(inside) is not None:
        shown = os.path.relpath(inside, here or ".")
        return f"[{words}]({shown}{'#' + anchor if anchor else ''})"
    if absolute.exists():
        return f"{words} (`{absolute.relative_to(ROOT)}`)" if words != absolute.name else f"`{words}`"
    return found[0]


def examples() -> str:
    """The folder of examples as a page."""
    parts = ["# Examples\n\nThe smallest files that do something; the tests run them.\n"]
    for path in sorted((ROOT / "examples").glob("*.py")):
        parts.append(f"## {path.stem}\n\n`examples/{path.name}`\n\n```python\n{path.read_text(encoding='utf-8')}```\n")
    return "\n".join(parts)
