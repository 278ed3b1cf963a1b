"""Stored results as sections of a page: every kind of file is read by the verb that wrote it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from fallline.document.blocks import Document
from fallline.document.html.page import Section
from fallline.document.stored import Damaged, NotStored, read_stored
from fallline.measure.store import OtherKind, StoreError
from fallline.profile.stored import stored_document as profile_document
from fallline.race.stored import stored_document as race_document
from fallline.race.stored import workloads_of
from fallline.score.logs import NoLogs
from fallline.score.stored import stored_document as score_document
from fallline.step.stored import stored_document as step_document

SQLITE = b"SQLite format 3\0"


@dataclasses.dataclass(frozen=True)
class Kind:
    """A kind of results file."""

    name: str
    """Its name on a page."""
    document: Callable[[Path], Document]
    """:class:`OtherKind` of a file of another kind."""


RACE = Kind("Race", race_document)
DATABASES = (RACE, Kind("Step", step_document), Kind("Profile", profile_document))
LOGS = Kind("AlgoPerf", score_document)
DOCUMENTS = {"memory": "Memory"}
"""Verbs whose answers are stored as documents, with their names on a page."""


def read(path: Path) -> Section:
    """The section of a results file, or of a folder or an archive of AlgoPerf's logs."""
    kind, document = _read(path)
    return Section(path.name.partition(".")[0] or path.name, kind, document)


def _read(path: Path) -> tuple[str, Document]:
    """The name of its kind on a page, and its content."""
    if not path.exists():
        raise StoreError(f"{path}: there is no such results file")
    if path.is_dir() or not _is_database(path):
        if (stored := _stored(path)) is not None:
            return stored
        try:
            return LOGS.name, LOGS.document(path)
        except NoLogs:
            where = "no AlgoPerf logs are in this folder" if path.is_dir() else "no results file, and no AlgoPerf logs"
            known = "name a results file of `fallline race`, `step`, `profile` or `memory`"
            raise StoreError(f"{path}: {where}; {known}") from None
    for kind in DATABASES:
        try:
            return kind.name, kind.document(path)
        except OtherKind:
            continue
    raise StoreError(f"{path}: a database, but not one that fallline wrote; name another file")


def _stored(path: Path) -> tuple[str, Document] | None:
    """An answer that was stored as a document; None where the file is something else."""
    if path.is_dir() or not _begins(path, b"{"):
        return None
    try:
        verb, document = read_stored(path.read_text(encoding="utf-8"))
    except Damaged as error:
        raise StoreError(f"{path}: {error}") from None
    except (NotStored, OSError, UnicodeDecodeError):
        return None
    where = dataclasses.replace(document.provenance, file=str(path))
    return DOCUMENTS.get(verb, verb), dataclasses.replace(document, provenance=where)


def _is_database(path: Path) -> bool:
    return _begins(path, SQLITE)


def _begins(path: Path, with_bytes: bytes) -> bool:
    try:
        with path.open("rb") as file:
            start = file.read(len(with_bytes))
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror}); name another file") from None
    if not start:
        raise StoreError(f"{path}: an empty file, nothing has been stored in it; name another file")
    return start == with_bytes


def workloads(path: Path) -> frozenset[str]:
    """The workloads of a race; nothing of another kind."""
    try:
        return frozenset(workloads_of(path)) if path.is_file() and _is_database(path) else frozenset()
    except StoreError:
        return frozenset()
