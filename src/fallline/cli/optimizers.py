"""``fallline optimizers``: what there is, in how much memory, and one optimizer in full."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fallline.cli.exit_codes import BadInput
from fallline.cli.output import Json, Out, check_out, emit

if TYPE_CHECKING:
    from rich.console import Console

    from fallline.optim.registry import Info

NARROW = 100
"""Columns below which a table would break every cell: a block per optimizer instead."""

_BITS = {"float32": "32", "bfloat16": "16", "int8": "8", "int4": "4"}


def optimizers(
    pattern: Annotated[
        str,
        typer.Argument(metavar="[PATTERN]", help="A name, for its full page, or a pattern such as 'adam*'."),
    ] = "*",
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the names only.")] = False,
    out: Out = None,
) -> None:
    """List the optimizers, or show one in full."""
    import fallline

    check_out(out)
    exact = _exact(pattern)
    names = [exact] if exact else fallline.list_optimizers(pattern)
    if not names:
        raise BadInput(_no_match(pattern))
    infos: list[Info] = [fallline.info(name) for name in names]
    data: Any = [dataclasses.asdict(info) for info in infos]
    if quiet:
        emit(names, lambda console: console.print("\n".join(names)), as_json=as_json, out=out)
    elif exact:
        emit(data[0], lambda console: show_page(console, infos[0]), as_json=as_json, out=out)
    else:
        emit(data, lambda console: show_table(console, infos), as_json=as_json, out=out)


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


def show_table(console: Console, infos: Sequence[Info]) -> None:
    from rich.table import Table

    if console.width < NARROW:
        for info in infos:
            console.print(info.name, style="bold")
            console.print(_summary(info))
            console.print(f"{_pair(info.bytes_per_parameter)} bytes of state per parameter", end="\n\n", style="dim")
    else:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("name", style="bold", no_wrap=True)
        table.add_column("what it is", min_width=30)
        table.add_column("states", no_wrap=not console.is_terminal)
        table.add_column("state bytes\nper parameter", justify="right", no_wrap=True)
        table.add_column("bytes moved\nper step", justify="right", no_wrap=True)
        table.add_column("torch.optim", no_wrap=True)
        table.add_column("bits of\nstates", no_wrap=True)
        for info in infos:
            table.add_row(
                info.name,
                _summary(info),
                " ".join(_states(info)) or "none",
                _pair(info.bytes_per_parameter),
                _pair(info.bytes_moved),
                info.torch_class or "–",
                " ".join(_BITS[name] for name in info.formats),
            )
        console.print(table)
        console.print()
    console.print("Bytes are of float32 → int8 states, with float32 parameters and gradients.", style="dim")
    plural = "s" if len(infos) != 1 else ""
    console.print(f"{len(infos)} optimizer{plural}; `fallline optimizers {infos[0].name}` shows one in full.")


def _summary(info: Info) -> str:
    text = info.summary.removeprefix(f"{info.class_name}: ").replace("``", "")
    return text[:1].upper() + text[1:]


def _states(info: Info) -> list[str]:
    """What the defaults allocate."""
    return [name for name in info.states if name not in info.optional_states]


def _pair(by_format: Mapping[str, float]) -> str:
    """``8 → 2.03``; one number where there is nothing to store in fewer bits."""
    wide = f"{by_format['float32']:.3g}"
    return f"{wide} → {by_format['int8']:.3g}" if "int8" in by_format else wide


# ------------------------------------------------------------------ one of them


def show_page(console: Console, info: Info) -> None:
    from rich.syntax import Syntax

    console.print(f"{info.class_name} ({info.name})", style="bold")
    console.print(_summary(info), end="\n\n")
    equations = info.equations.rstrip()
    if console.is_terminal and not console.no_color:
        console.print(Syntax(equations, "python", background_color="default", word_wrap=True))
    else:
        console.print(equations, soft_wrap=True)
    console.print()
    for label, value in _facts(info):
        console.print(label, style="bold", end=": ")
        console.print(value)


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
    if info.stays_float32:
        facts.append(("never below 32 bits", ", ".join(info.stays_float32)))
    facts += [(f"32 bits with {option}", name) for name, option in info.float32_with.items()]
    facts.append(("lowerings", ", ".join(info.lowerings)))
    if info.preset_of:
        facts.append(("preset of", f"{info.preset_of}, whose checkpoints it loads"))
    if info.torch_class:
        facts.append(("checkpoints", f"exchanged with torch.optim.{info.torch_class}, both ways"))
    if info.sources:
        facts.append(("follows", ", ".join(info.sources)))
    facts += [("deviation", text) for text in info.deviations]
    facts += [("elsewhere", text) for text in info.elsewhere]
    if info.sparse_gradients:
        facts.append(("takes", "sparse gradients too"))
    if info.cannot:
        facts.append(("cannot", ", ".join(info.cannot)))
    return facts
