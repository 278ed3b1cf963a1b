"""The answer of ``fallline memory`` as a document."""

from __future__ import annotations

from fallline.document.blocks import Block, Document, Note, Paragraph, Provenance, Verdict
from fallline.footprint import tables
from fallline.footprint.answer import Answer, result
from fallline.footprint.bars import bars, compared_bars
from fallline.footprint.sentences import headline, verdicts


def document(answer: Answer) -> Document:
    blocks: list[Block] = [
        Paragraph(headline(answer), tone="strong"),
        bars(answer),
        tables.categories(answer),
        tables.modules(answer),
    ]
    if answer.compared:
        blocks += [tables.compared(answer), compared_bars(answer)]
    if answer.measured is not None:
        blocks.append(tables.measured(answer, answer.measured))
    blocks.append(tables.devices(answer))
    if answer.remedies:
        blocks.append(tables.remedies(answer))
    blocks += [Note(text) for text in answer.notes]
    blocks += [Verdict(text) for text in verdicts(answer)]
    return Document(blocks, Provenance(), result=result(answer))
