"""A page of several results: its title, its tabs, and remarks on results that do not belong together."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fallline.document.html.page import Section, content, page
from fallline.document.html.sections import verdicts
from fallline.report.reading import read, workloads


@dataclasses.dataclass(frozen=True)
class Report:
    """Results that were read, ready to be written."""

    paths: tuple[Path, ...]
    sections: tuple[Section, ...]
    remarks: tuple[str, ...]

    @property
    def title(self) -> str:
        return ", ".join(section.name for section in self.sections)

    def page(self, *, live: bool = False) -> str:
        return page(self.title, self.sections, live=live)

    def content(self) -> str:
        return content(self.title, self.sections)

    @property
    def verdicts(self) -> list[list[str]]:
        """The sentences that answer, result by result."""
        return [[one.text for one in verdicts(section.document.blocks)] for section in self.sections]


def report(paths: Sequence[Path]) -> Report:
    """Reads every file once, in the order in which they are named."""
    named = tuple({path.resolve(): path for path in paths}.values())
    return Report(named, _told_apart(named, [read(path) for path in named]), _remarks(named))


def _told_apart(paths: Sequence[Path], sections: Sequence[Section]) -> tuple[Section, ...]:
    """Files of one name in several folders have the folder on their tabs."""
    count = Counter(section.name for section in sections)
    return tuple(
        dataclasses.replace(section, name=f"{path.resolve().parent.name}/{section.name}")
        if count[section.name] > 1
        else section
        for path, section in zip(paths, sections, strict=True)
    )


def _remarks(paths: Sequence[Path]) -> tuple[str, ...]:
    raced = {path: found for path in paths if (found := workloads(path))}
    if len(set(raced.values())) < 2:
        return ()
    told = ", ".join(f"{path.name} ({', '.join(sorted(found))})" for path, found in raced.items())
    return (f"races on different workloads are not compared, each has a tab of its own: {told}",)
