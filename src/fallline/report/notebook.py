"""``fallline.results``: a stored result that shows itself in a notebook."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

from fallline.document.blocks import Document
from fallline.document.html.fragment import fragment
from fallline.document.html.page import Section, page
from fallline.document.terminal import plain
from fallline.report.reading import read

WIDTH = 120


@dataclasses.dataclass(frozen=True)
class Results:
    """The answer in a results file: in a notebook as HTML, at a prompt as text, and for programs as ``data``."""

    path: Path
    kind: str
    document: Document

    @property
    def data(self) -> Any:
        """The numbers, with the keys that ``--json`` has."""
        return self.document.result

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page that ``fallline report`` makes of it."""
        section = Section(self.path.stem, self.kind, self.document)
        Path(path).write_text(page(self.path.stem, [section]), encoding="utf-8")

    def __repr__(self) -> str:
        return plain(self.document, WIDTH)

    def _repr_html_(self) -> str:
        return fragment(self.document)


def results(path: str | os.PathLike[str]) -> Results:
    """Reads a results file of ``fallline race`` or ``fallline step``, or a folder of AlgoPerf's logs.

    The result shows itself in a notebook; a race that still runs is shown as far as it is.
    """
    where = Path(path)
    section = read(where)
    return Results(where, section.kind, section.document)
