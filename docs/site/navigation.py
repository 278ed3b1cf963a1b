"""The order of the site's pages.  A page that is not there is left out; a page that is not here fails the build."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

PAGES: list[Any] = [
    {"Home": "index.md"},
    {
        "Start": [
            {"Quick start": "quick_start.md"},
            {"Which optimizer for me": "choose.md"},
            {"Your first race": "first_race.md"},
            {"Coming from another package": "coming_from.md"},
            {"Glossary": "glossary.md"},
        ]
    },
    {
        "Library": [
            {"Guide": "library.md"},
            {"Write a rule": "rules.md"},
            {"Write a workload": "own_workload.md"},
            {"Formats of states": "formats.md"},
            {"Matrix optimizers": "matrix.md"},
            {"Several processes": "distributed.md"},
            {"How other packages differ": "elsewhere.md"},
            {"Examples": "examples.md"},
        ]
    },
    {"Optimizers": "optimizers"},
    {
        "Commands": [
            {"All verbs": "commands.md"},
            {"race": "race.md"},
            {"race --ladder": "ladder.md"},
            {"step": "step.md"},
            {"profile": "profile.md"},
            {"memory": "memory.md"},
            {"score": "score.md"},
            {"report": "report.md"},
            {"gallery": "gallery.md"},
        ]
    },
    {
        "Measurements": [
            {"How we measure": "measuring.md"},
            {"Benchmarks": "benchmarks.md"},
            {"Benchmarks: AMD EPYC, avx2": "benchmarks/amd-epyc-avx2.md"},
            {"Benchmarks: Intel Xeon, avx512": "benchmarks/intel-xeon-avx512.md"},
            {"Leaderboard": "leaderboard.md"},
            {"Workloads": "workloads.md"},
            {"Coverage": "coverage.md"},
        ]
    },
    {
        "Project": [
            {"Architecture": "architecture.md"},
            {"Contributing": "contributing.md"},
            {"Changelog": "changelog.md"},
        ]
    },
]


def navigation(exists: Callable[[str], bool], optimizers: list[Any]) -> list[Any]:
    """The list with the pages of optimizers, without the pages that are not there yet."""
    found = []
    for entry in PAGES:
        ((title, inner),) = entry.items()
        if inner == "optimizers":
            found.append({title: optimizers})
        elif isinstance(inner, str):
            found.append(entry)
        else:
            there = [page for page in inner if exists(*page.values())]
            found += [{title: there}] if there else []
    return found
