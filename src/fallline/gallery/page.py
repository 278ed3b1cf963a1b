"""The figures that were made, as documents: one for the terminal and programs, and a section of the page for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fallline.document.blocks import Block, Document, Heading, Note, Paragraph, Verdict
from fallline.gallery.catalogue import Entry
from fallline.gallery.exhibit import Exhibit


def document(made: Sequence[tuple[Entry, Exhibit]], files: Mapping[str, Sequence[Path]], page: Path) -> Document:
    blocks: list[Block] = []
    for entry, exhibit in made:
        blocks += [Heading(entry.title, detail=True), Paragraph(exhibit.caption, detail=True)]
        blocks.append(Paragraph(exhibit.data, lead="data", tone="dim", detail=True))
        blocks.append(Paragraph(", ".join(map(str, files[entry.name])), lead="files"))
    blocks.append(Paragraph(str(page), lead="all of them"))
    result = {
        entry.name: {
            "title": entry.title,
            "caption": exhibit.caption,
            "numbers": dict(exhibit.numbers),
            "data": exhibit.data,
            "files": [str(file) for file in files[entry.name]],
        }
        for entry, exhibit in made
    }
    return Document(blocks, result={"page": str(page), "figures": result})


def section(entry: Entry, exhibit: Exhibit) -> Document:
    return Document(
        [Verdict(entry.title), Paragraph(exhibit.caption), *exhibit.figures, Note(f"Data: {exhibit.data}.")]
    )
