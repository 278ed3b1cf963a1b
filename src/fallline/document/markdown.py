"""A document in Markdown: tables, and sentences as the items of a list."""

from __future__ import annotations

from fallline.document.blocks import Block, Document, Heading, Note, Paragraph, Snippet, Table, Verdict, as_table


def markdown(document: Document) -> str:
    parts: list[str] = []
    items: list[str] = []
    for block in document.blocks:
        item = _item(block)
        if item:
            items.append(f"- {item}")
            continue
        part = _part(block)
        if part:
            parts += ["\n".join(items)] * bool(items) + [part]
            items = []
    parts += ["\n".join(items)] * bool(items)
    return "\n\n".join(parts) + "\n"


def _item(block: Block) -> str:
    if isinstance(block, Paragraph):
        return f"{block.lead}: {block.text}" if block.lead else block.text
    if isinstance(block, Note):
        return block.text
    return block.sentence if isinstance(block, Verdict) else ""


def _part(block: Block) -> str:
    if isinstance(block, Heading):
        return f"### {block.text}"
    if isinstance(block, Snippet):
        return f"```{block.language}\n{block.text}\n```"
    table = as_table(block)
    return "" if table is None else _table(table)


def _table(table: Table) -> str:
    header = [_line(title) for title in table.header]
    rule = [":--" if column.align == "left" else "--:" for column in table.columns]
    rows = [[_line(text) for text in row] for row in table.texts]
    lines = "\n".join("| " + " | ".join(line) + " |" for line in (header, rule, *rows))
    return f"#### {table.title}\n\n{lines}" if table.title else lines


def _line(text: str) -> str:
    """The text as one line, with characters escaped that would end a cell."""
    return text.replace("|", "\\|").replace("\n", "<br>")
