"""A document as a piece of HTML without scripts, which shows it in a notebook."""

from __future__ import annotations

import functools
import importlib.resources

from fallline.document.blocks import Block, Document, Heading, Note, Paragraph, Snippet, Verdict, as_table
from fallline.document.html.tables import table_element
from fallline.document.html.tags import element, prose, text


def fragment(document: Document) -> str:
    """Sentences and tables; charts are left out, because they need the library of a page."""
    inner = "".join(_shown(block) for block in document.blocks)
    return element("div", element("style", _style()) + inner, class_="fallline-fragment")


@functools.cache
def _style() -> str:
    return importlib.resources.files("fallline.document.html").joinpath("fragment.css").read_text(encoding="utf-8")


def _shown(block: Block) -> str:
    table = as_table(block)
    if table is not None:
        title = element("p", element("strong", text(table.title))) if table.title else ""
        return title + table_element(table)
    if isinstance(block, Verdict):
        return element("p", prose(block.sentence), class_="verdict")
    if isinstance(block, Snippet):
        return element("pre", element("code", text(block.text)))
    return sentence(block)


def sentence(block: Block) -> str:
    """A heading, a paragraph or a note."""
    if isinstance(block, Heading):
        return element("h3", text(block.text))
    if isinstance(block, Paragraph):
        lead = element("strong", text(f"{block.lead}: ")) if block.lead else ""
        return element("p", lead + prose(block.text), class_="dim" if block.tone == "dim" else None)
    if isinstance(block, Note):
        return element("p", prose(block.text), class_="dim")
    return ""
