"""A results file in SQLite with one writer, which stores everything as soon as it happens.

A transaction that has ended survives ``kill -9``, and one that has not leaves no trace. This layer does not depend on
the measurements: each verb brings a :class:`Schema` and its own statements.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

BUSY_SECONDS = 5.0


class StoreError(Exception):
    """An error about a results file; the message is one line that says which file, why, and what to do."""


class OtherKind(StoreError):
    """The file is a database, but holds results of another kind, or none."""


@dataclasses.dataclass(frozen=True)
class Schema:
    """The tables of one kind of results file."""

    name: str
    """The content of the file, for messages: "step results"."""
    application_id: int
    """A number in the file that distinguishes the kinds of results files."""
    version: int
    statements: str
    """SQL that makes the tables of this version."""
    upgrades: Sequence[str] = ()
    """SQL from version 1 to 2, from 2 to 3, …"""


class Store:
    """An open results file; use it in a ``with`` statement.

    ``writable=False`` reads a file even while another process writes it; a file of an older format is upgraded in a
    copy in memory and stays as it is.

    >>> import tempfile
    >>> schema = Schema("examples", 7, 1, "create table sample (seconds real not null)")
    >>> with Store(Path(tempfile.mkdtemp()) / "results.sqlite", schema) as store:
    ...     with store.transaction() as database:
    ...         _ = database.execute("insert into sample values (?)", (0.5,))
    ...     store.rows("select seconds from sample")[0]["seconds"]
    0.5
    """

    def __init__(self, path: Path, schema: Schema, *, writable: bool = True):
        self.path, self.schema = path, schema
        if path.is_dir():
            raise StoreError(f"{path}: this is a directory; name a file")
        self._lock = _WriterLock(path) if writable else None
        try:
            self._database = self._open(writable)
        except BaseException:
            self._release()
            raise

    def _open(self, writable: bool) -> sqlite3.Connection:
        if not writable and not self.path.exists():
            raise StoreError(f"{self.path}: there is no such results file")
        if not self.path.parent.is_dir():
            raise StoreError(f"{self.path}: there is no directory {self.path.parent}; make it first")
        with self._explained():
            database = self._connect(writable)
        database.row_factory = sqlite3.Row
        try:
            with self._explained():
                self._check(database, writable)
                if writable:
                    database.execute("pragma journal_mode = wal")
                    database.execute("pragma synchronous = full")
                elif _pragma(database, "user_version") < self.schema.version:
                    database = _copy_in_memory(database)
                self._make_tables(database)
                if not writable:
                    database.execute("pragma query_only = on")
                database.execute("pragma foreign_keys = on")
        except BaseException:
            database.close()
            raise
        return database

    def _connect(self, writable: bool) -> sqlite3.Connection:
        if writable or os.access(self.path.parent, os.W_OK):
            return sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)
        # While another user writes the file, the two files beside it that SQLite needs exist and can be read.
        database = self._connect_reading("mode=ro")
        try:
            database.execute("select count(*) from sqlite_master").fetchone()
        except sqlite3.OperationalError:
            database.close()
            log = Path(f"{self.path.resolve()}-wal")
            if log.exists() and log.stat().st_size:
                # The file alone lacks the rows that are still in the log.
                raise StoreError(
                    f"{self.path}: its last rows are in {log.name}, which cannot be read; ask its owner, or copy both"
                ) from None
            # Both files are missing and cannot be made, so no process is writing and the file alone is complete.
            return self._connect_reading("immutable=1")
        return database

    def _connect_reading(self, how: str) -> sqlite3.Connection:
        address = f"{self.path.resolve().as_uri()}?{how}"
        return sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)

    def _check(self, database: sqlite3.Connection, writable: bool) -> None:
        application, version = _pragma(database, "application_id"), _pragma(database, "user_version")
        tables = database.execute("select count(*) from sqlite_master").fetchone()[0]
        if tables == 0 and application == 0 and writable:
            return
        if application != self.schema.application_id:
            raise OtherKind(f"{self.path}: a database, but not one of {self.schema.name}; name another file")
        if version > self.schema.version:
            raise StoreError(
                f"{self.path}: written by a newer fallline (format {version}, this one knows up to "
                f"{self.schema.version}); upgrade fallline or name another file"
            )

    def _make_tables(self, database: sqlite3.Connection) -> None:
        version = _pragma(database, "user_version")
        if version == self.schema.version:
            return
        steps = [self.schema.statements] if version == 0 else self.schema.upgrades[version - 1 :]
        with _transaction(database):
            for script in steps:
                for statement in _statements(script):
                    database.execute(statement)
            database.execute(f"pragma application_id = {self.schema.application_id}")
            database.execute(f"pragma user_version = {self.schema.version}")

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction, stored completely or not at all; one line explains errors of the disk or of another writer."""
        with self._explained(), _transaction(self._database):
            yield self._database

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        with self._explained():
            return self._database.execute(query, values).fetchall()

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            if isinstance(error, (sqlite3.IntegrityError, sqlite3.ProgrammingError)):
                raise
            raise StoreError(f"{self.path}: {_explain(error)}") from error
        except UnicodeDecodeError as error:
            raise StoreError(f"{self.path}: {_DAMAGED.format('a part of it is no text')}") from error

    def close(self) -> None:
        self._database.close()
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


@contextlib.contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("begin immediate")
    try:
        yield
        database.execute("commit")
    except BaseException:
        # A full disk may have ended the transaction already.
        if database.in_transaction:
            database.execute("rollback")
        raise


def _copy_in_memory(database: sqlite3.Connection) -> sqlite3.Connection:
    """Closes what was copied."""
    copy = sqlite3.connect(":memory:", isolation_level=None)
    copy.row_factory = database.row_factory
    database.backup(copy)
    database.close()
    return copy


def _pragma(database: sqlite3.Connection, name: str) -> int:
    return int(database.execute(f"pragma {name}").fetchone()[0])


def _statements(script: str) -> Iterator[str]:
    """Runs statements one at a time, because ``executescript`` would commit in between."""
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement


_DAMAGED = "a damaged results file ({}); restore a copy, or name another file"


def _explain(error: sqlite3.DatabaseError) -> str:
    text = str(error)
    if "full" in text:
        return "the disk is full; what was finished is kept: make room and give the same command again"
    if "locked" in text or "busy" in text:
        return "another process is writing it; wait for that one or name another file"
    if "not a database" in text:
        return "not a results file, or one whose beginning is damaged; name another file"
    if "malformed" in text or "no such table" in text or "no such column" in text or "disk I/O" in text:
        return _DAMAGED.format(text)
    if "decode" in text:  # it quotes the text, on several lines
        return _DAMAGED.format("a part of it is no text")
    if "readonly" in text or "unable to open" in text:
        return f"cannot be written ({text}); name another file"
    return f"cannot be used ({text}); name another file"


class _WriterLock:
    """A lock that is held while a process writes the file; the system releases it when the process dies in any way.

    The lock is a file beside the results, because closing any handle of the database itself would drop SQLite's locks.
    """

    def __init__(self, path: Path):
        # The lock lies beside the file itself, so that a link to the file has the same lock.
        place = Path(os.path.realpath(path))
        self._path = place.with_name(place.name + ".lock")
        self._handle: int | None = None
        try:
            import fcntl
        except ImportError:  # Windows: SQLite still keeps writers apart, transaction by transaction
            return
        if not place.parent.is_dir():
            return
        while True:
            try:
                handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            except OSError as error:
                raise StoreError(f"{path}: cannot be written ({error.strerror}); name another file") from error
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                os.close(handle)
                raise StoreError(
                    f"{path}: another process is writing it; wait for that one or name another file"
                ) from error
            if self._is_current(handle):
                self._handle = handle
                return
            os.close(handle)  # the last owner removed the file between our two calls

    def _is_current(self, handle: int) -> bool:
        try:
            return os.fstat(handle).st_ino == os.stat(self._path).st_ino
        except FileNotFoundError:
            return False

    def release(self) -> None:
        if self._handle is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            os.close(self._handle)
            self._handle = None
