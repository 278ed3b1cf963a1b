"""``fallline doctor``: what this machine and installation have, what is missing, its cost and its remedy."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from fallline.cli.options import grouped
from fallline.cli.output import Written, emit

if TYPE_CHECKING:
    from fallline.cli.doctor_checks import Finding
    from fallline.document.blocks import Document


@grouped
def doctor(
    *,
    shown: Written,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print problems and the closing sentence only.")] = False,
) -> None:
    """Examine this machine and installation.

    Processor, native kernels, threads, memory bandwidth, compiler, cache, torch, GPU and environment; for
    everything missing what that costs and what to do.
    """
    form = shown.checked()
    from fallline.cli.doctor_checks import examine

    if not quiet:
        typer.echo("Measuring memory bandwidth, about two seconds …", err=True)
    emit(document(examine(), quiet), form, out=shown.out)


def document(findings: Sequence[Finding], quiet: bool = False) -> Document:
    """All findings, or those that are problems, and one sentence."""
    from fallline.document.blocks import Document, Table, Verdict
    from fallline.document.cells import Column, Mark, Text

    sentence = verdict(findings)
    columns = (
        Column("", name="name", align="left", key=True),
        Column("", name="found", align="left", prose=True),
    )
    rows = []
    for finding in findings:
        if finding.problem:
            note = f"costs: {finding.cost}\nto do: {finding.remedy}"
            rows.append((Text(finding.name), Text(finding.value, Mark.WARNING, note)))
        elif not quiet:
            rows.append((Text(finding.name), Text(finding.value)))
    result = {"findings": [dataclasses.asdict(finding) for finding in findings], "verdict": sentence}
    return Document((Table("", columns, rows), Verdict(sentence)), result=result)


def verdict(findings: Sequence[Finding]) -> str:
    """One sentence that answers: will it be fast here, and if not, why?"""
    from fallline.document.numbers import counted

    by_name = {f.name: f for f in findings}
    problems = [f.name for f in findings if f.problem]
    native = by_name["native kernels"]
    if native.problem:
        start = "Everything works, but nothing is fused"
    else:
        threads = counted(by_name["threads"].data["threads"], "thread")
        start = f"Kernels run fused ({native.data['in_use']}) on {threads}"
    memory = by_name["memory bandwidth"].data
    floor = memory.get("adamw_ms_per_100m")
    limit = f"; a float32 AdamW step over 100 million parameters takes at least {floor:.3g} ms here" if floor else ""
    if memory.get("busy"):
        limit = "; how fast its memory is cannot be said while other work runs"
    if not problems:
        return f"{start}{limit}; nothing is missing."
    return f"{start}{limit}; to look at: {', '.join(problems)}."
