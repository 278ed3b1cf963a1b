"""A document as the text of a file, from which it can be read again: for results that no database holds."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

from fallline.document import cells, figures
from fallline.document.blocks import Document, Heading, Note, Paragraph, Provenance, Snippet, Table, Verdict
from fallline.document.json import as_data

FORMAT = 1
VERB, DIGEST, DOCUMENT = "fallline", "digest", "document"
READABLE = (
    Provenance, Heading, Note, Paragraph, Snippet, Verdict, Table,
    cells.Column, cells.Number, cells.Text, cells.Missing,
    figures.StackedBars, figures.Bar, figures.Part, figures.Mark,
)  # fmt: skip
KINDS: dict[str, Any] = {kind.__name__.lower(): kind for kind in READABLE}


class NotStored(ValueError):
    """The text is no stored document."""


class Damaged(NotStored):
    """It is one that cannot be read; the message says why and what to do."""


def stored_text(document: Document, verb: str) -> str:
    """The text of a file; ``verb`` is the command that made the document."""
    data = as_data(document)
    stored = {VERB: verb, "format": FORMAT, DIGEST: _digest(data), DOCUMENT: data}
    return json.dumps(stored, ensure_ascii=False, indent=1) + "\n"


def read_stored(text: str) -> tuple[str, Document]:
    """The command that made a document, and the document; its data have the name of their digest."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        if text.startswith(f'{{\n "{VERB}": '):
            raise Damaged("a damaged results file, which ends early or is no JSON; make it again") from None
        raise NotStored("no JSON") from None
    if not isinstance(found, dict) or not isinstance(found.get(VERB), str) or DOCUMENT not in found:
        raise NotStored("no document of fallline")
    if found.get("format") != FORMAT:
        raise Damaged(f"has format {found.get('format')}, and this version reads {FORMAT}; make it again")
    data = found[DOCUMENT]
    if found.get(DIGEST) != _digest(data):
        raise Damaged("a damaged results file, its content has changed since it was written; make it again")
    where = dataclasses.replace(_restored(data["provenance"]), data=found[DIGEST])
    return found[VERB], Document([_restored(block) for block in data["blocks"]], where)


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:10]


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_restored, value))
    if not isinstance(value, dict):
        return value
    if value["kind"] not in KINDS:
        raise Damaged(f"has a {value['kind']}, which this version cannot read; make it again")
    fields = {name: _restored(one) for name, one in value.items() if name != "kind"}
    if fields.get("mark") is not None:
        fields["mark"] = cells.Mark(fields["mark"])
    return KINDS[value["kind"]](**fields)
