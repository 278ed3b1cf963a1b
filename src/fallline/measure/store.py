"""A results file: SQLite, one writer, everything written when it happens.

What is in a transaction that has ended survives ``kill -9``; what is not was never there. The connection layer
knows nothing of what is measured: a verb brings a :class:`Schema` and its own statements.
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
    """A results file that cannot be used; the message is one line: which, why, and what to do."""


@dataclasses.dataclass(frozen=True)
class Schema:
    """The tables of one kind of results file."""

    name: str
    """The content of the file, for messages: "step results"."""
    application_id: int
    """Written into the file, so that one kind is not taken for another."""
    version: int
    statements: str
    """SQL that makes the tables of this version."""
    upgrades: Sequence[str] = ()
    """SQL from version 1 to 2, from 2 to 3, …"""


class Store:
    """An open results file; use it in a ``with`` statement.

    ``writable=False`` reads a file while another process writes it; one of an older format is read as a copy in memory
    that is upgraded, and stays as it is.

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
        # Another user may be writing it: then the two files beside it that SQLite needs are there, and can be read.
        database = self._connect_reading("mode=ro")
        try:
            database.execute("select count(*) from sqlite_master").fetchone()
        except sqlite3.OperationalError:
            database.close()
            log = Path(f"{self.path.resolve()}-wal")
            if log.exists() and log.stat().st_size:
                # The file alone does not have the rows that are in the log.
                raise StoreError(
                    f"{self.path}: its last rows are in {log.name}, which cannot be read; ask its owner, or copy both"
                ) from None
            # They are not there and cannot be made, so nobody is writing: the file alone has everything.
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
            raise StoreError(f"{self.path}: a database, but not one of {self.schema.name}; name another file")
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
        """All of it or nothing; errors of the disk or of another writer are explained in one line."""
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
    """One at a time: ``executescript`` would commit in between."""
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement


def _explain(error: sqlite3.DatabaseError) -> str:
    text = str(error)
    if "full" in text:
        return "the disk is full; what was finished is kept: make room and give the same command again"
    if "locked" in text or "busy" in text:
        return "another process is writing it; wait for that one or name another file"
    if "not a database" in text:
        return "not a results file, or one whose beginning is damaged; name another file"
    if "malformed" in text or "no such table" in text or "no such column" in text or "disk I/O" in text:
        return f"a damaged results file ({text}); restore a copy, or name another file"
    if "readonly" in text or "unable to open" in text:
        return f"cannot be written ({text}); name another file"
    return f"cannot be used ({text}); name another file"


class _WriterLock:
    """Held as long as a process writes the file; the system lets go of it when the process dies, however it does.

    A file beside the results: closing any handle of the database itself would drop SQLite's own locks.
    """

    def __init__(self, path: Path):
        # Beside the file itself, so that a link to it has no lock of its own.
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
