"""``fallline doctor``: what this machine and installation have, what is missing, its cost and its remedy."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fallline.cli.output import Json, Out, check_out, emit

if TYPE_CHECKING:
    from rich.console import Console

    from fallline.cli.doctor_checks import Finding

NARROW = 60
"""Columns below which names stand above their values, not beside them."""


def doctor(
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print problems and the closing sentence only.")] = False,
    out: Out = None,
) -> None:
    """Examine this machine and installation.

    Processor, native kernels, threads, memory bandwidth, compiler, cache, torch, GPU and environment; for
    everything missing what that costs and what to do.
    """
    check_out(out)
    from fallline.cli.doctor_checks import examine

    if not quiet:
        typer.echo("Measuring memory bandwidth, about two seconds …", err=True)
    findings = examine()
    sentence = verdict(findings)
    data: dict[str, Any] = {"findings": [dataclasses.asdict(f) for f in findings], "verdict": sentence}
    shown = [f for f in findings if f.problem] if quiet else findings
    emit(data, lambda console: show(console, shown, sentence), as_json=as_json, out=out)


def show(console: Console, findings: Sequence[Finding], sentence: str) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for finding in findings:
        value = Text(finding.value, overflow="fold")
        if finding.problem:
            value.append(f"\ncosts: {finding.cost}\nto do: {finding.remedy}", style="yellow")
        name = Text(finding.name, style="bold")
        if console.width < NARROW:
            console.print(name, value, sep="\n", end="\n\n")
        else:
            table.add_row(name, value)
    if table.rows:
        console.print(table)
        console.print()
    console.print(sentence)


def verdict(findings: Sequence[Finding]) -> str:
    """One sentence that answers: will it be fast here, and if not, why?"""
    from fallline.cli.doctor_checks import counted

    by_name = {f.name: f for f in findings}
    problems = [f.name for f in findings if f.problem]
    native = by_name["native kernels"]
    if native.problem:
        start = "Everything works, but nothing is fused"
    else:
        threads = counted(by_name["threads"].data["threads"], "thread")
        start = f"Kernels run fused ({native.data['in_use']}) on {threads}"
    floor = by_name["memory bandwidth"].data.get("adamw_ms_per_100m")
    limit = f"; a float32 AdamW step over 100 million parameters takes at least {floor:.3g} ms here" if floor else ""
    if not problems:
        return f"{start}{limit}; nothing is missing."
    return f"{start}{limit}; to look at: {', '.join(problems)}."
