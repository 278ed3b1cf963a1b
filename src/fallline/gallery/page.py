"""All figures that were made, as one document: each below its title, with its caption and the source of its data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fallline.document.blocks import Block, Document, Heading, Note, Paragraph
from fallline.gallery.catalogue import Entry
from fallline.gallery.exhibit import Exhibit


def document(made: Sequence[tuple[Entry, Exhibit]], files: Mapping[str, Sequence[Path]], page: Path) -> Document:
    blocks: list[Block] = []
    for entry, exhibit in made:
        blocks += [Heading(entry.title, detail=True), *exhibit.figures, Paragraph(exhibit.caption, detail=True)]
        blocks.append(Note(f"Data: {exhibit.data}."))
        blocks.append(Paragraph(", ".join(map(str, files[entry.name])), lead="files"))
    blocks.append(Paragraph(str(page), lead="page"))
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
