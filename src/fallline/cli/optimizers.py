"""``fallline optimizers``: what there is, in how much memory, and one optimizer in full."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from fallline.cli.exit_codes import BadInput
from fallline.cli.options import grouped
from fallline.cli.output import NamesOnly, Written, emit

if TYPE_CHECKING:
    from fallline.catalogue import Info
    from fallline.document.blocks import Document
    from fallline.document.cells import Cell

_BITS = {"float32": "32", "bfloat16": "16", "int8": "8", "int4": "4"}


@grouped
def optimizers(
    *,
    pattern: Annotated[
        str,
        typer.Argument(metavar="[PATTERN]", help="A name, for its full page, or a pattern such as 'adam*'."),
    ] = "*",
    shown: Written,
    quiet: NamesOnly = False,
) -> None:
    """List the optimizers, or show one in full."""
    form = shown.checked()
    import fallline
    from fallline.document.blocks import names_document

    exact = _exact(pattern)
    found = [exact] if exact else fallline.list_optimizers(pattern)
    if not found:
        raise BadInput(_no_match(pattern))
    infos: list[Info] = [fallline.info(name) for name in found]
    document = names_document(found) if quiet else page(infos[0]) if exact else table(infos)
    emit(document, form, out=shown.out)


def _exact(pattern: str) -> str | None:
    from fallline.optim.registry import find

    try:
        return find(pattern).name
    except ValueError:
        return None


def _no_match(pattern: str) -> str:
    import fallline
    from fallline.optim.registry import average_named

    if (averaging := average_named(pattern)) is not None:
        return f"PATTERN: {pattern} is no optimizer but an average of weights: fallline.{averaging}(optimizer, …)"
    close = difflib.get_close_matches(pattern.lower().strip("*?"), fallline.list_optimizers(), n=3)
    hint = f"did you mean {' or '.join(close)}?" if close else "`fallline optimizers` lists all of them"
    return f"PATTERN: no optimizer matches {pattern!r}; {hint}"


# ------------------------------------------------------------------ all of them


def table(infos: Sequence[Info]) -> Document:
    from fallline.document.blocks import Document, Paragraph, Table
    from fallline.document.cells import Column, Missing, Text
    from fallline.document.numbers import counted

    columns = (
        Column("name", align="left", key=True),
        Column("what it is", align="left", prose=True),
        Column("states", align="left", prose=True),
        Column("state bytes\nper parameter", unit="bytes"),
        Column("bytes moved\nper step", unit="bytes"),
        Column("torch.optim", align="left"),
        Column("bits of\nstates", align="left"),
    )
    rows = [
        (
            Text(info.name),
            Text(_summary(info)),
            Text(" ".join(_states(info)) or "none"),
            _pair(info.bytes_per_parameter),
            _pair(info.bytes_moved),
            Text(info.torch_class) if info.torch_class else Missing(),
            Text(" ".join(_BITS[name] for name in info.formats)),
        )
        for info in infos
    ]
    meant = "Bytes are those of float32 → int8 states, with float32 parameters and gradients."
    if with_squares := [info.name for info in infos if info.square_bytes]:
        meant += f" Square matrices, of {', '.join(with_squares)}, come on top: their pages say how much."
    more = f"{counted(len(infos), 'optimizer')}; `fallline optimizers {infos[0].name}` shows one in full."
    blocks = (Table("", columns, rows), Paragraph(meant, tone="dim"), Paragraph(more))
    return Document(blocks, result=[dataclasses.asdict(info) for info in infos])


def _summary(info: Info) -> str:
    text = info.summary.removeprefix(f"{info.class_name}: ").replace("``", "")
    return text[:1].upper() + text[1:]


def _states(info: Info) -> list[str]:
    """States that exist with the default options."""
    return [name for name in info.states if name not in info.optional_states]


def _pair(by_format: Mapping[str, float]) -> Cell:
    """``8 → 2.03``; one number where there is nothing to store in fewer bits."""
    from fallline.document.cells import Change, Number

    wide = by_format["float32"]
    return Change(wide, by_format["int8"]) if "int8" in by_format else Number(wide)


# ------------------------------------------------------------------ one of them


def page(info: Info) -> Document:
    from fallline.document.blocks import Block, Document, Heading, Paragraph, Snippet

    blocks: list[Block] = [
        Heading(f"{info.class_name} ({info.name})"),
        Paragraph(_summary(info)),
        Snippet(info.equations.rstrip(), "python"),
    ]
    blocks += [Paragraph(value, lead=label) for label, value in _facts(info)]
    return Document(blocks, result=dataclasses.asdict(info))


def _facts(info: Info) -> list[tuple[str, str]]:
    facts = [("defaults", ", ".join(f"{name}={value!r}" for name, value in info.defaults.items()))]
    for variant, changed in info.variants.items():
        facts.append((f"variant {variant}", ", ".join(f"{name}={value!r}" for name, value in changed.items())))
    kinds = [f"{name} ({info.states[name]})" for name in _states(info)]
    facts.append(("states", ", ".join(kinds) or "none"))
    facts += [(f"with {option}", f"{name} ({info.states[name]})") for name, option in info.optional_states.items()]
    for name, size in info.bytes_per_parameter.items():
        moved = info.bytes_moved[name]
        facts.append((name, f"{size:.4g} bytes of state per parameter, {moved:.4g} bytes moved per step"))
    if info.extra_memory:
        facts.append(("memory", info.extra_memory))
    if info.stays_float32:
        facts.append(("never below 32 bits", ", ".join(info.stays_float32)))
    facts += [(f"32 bits with {option}", name) for name, option in info.float32_with.items()]
    facts.append(("lowerings", ", ".join(info.lowerings)))
    if info.left_to_companion:
        facts.append(("companion", info.left_to_companion))
    if info.preset_of:
        facts.append(("preset of", f"{info.preset_of}, whose checkpoints it loads"))
    if info.torch_class:
        facts.append(("checkpoints", f"exchanged with torch.optim.{info.torch_class}, both ways"))
    if info.sources:
        facts.append(("follows", ", ".join(info.sources)))
    facts += [("deviation", text) for text in info.deviations]
    if info.sparse_gradients:
        facts.append(("takes", "sparse gradients too"))
    if info.cannot:
        facts.append(("cannot", ", ".join(info.cannot)))
    return facts
