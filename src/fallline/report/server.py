"""A page on this machine alone that follows its results files while something writes them.

The server answers GET and HEAD for three names: the page, its content, and the version of both. No name leads to a
file, so no path can leave a folder. Connections cost a task each, not a thread, and are cut off when they say nothing
for a while, so that a thousand of them keep nobody waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import socket
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path

from fallline.measure.store import StoreError
from fallline.report.composing import Report, report

HOST = "127.0.0.1"
LONGEST_HEAD = 16_384
PATIENCE = 10.0
"""Seconds that a client may take for its request, and then for reading the answer."""
BACKLOG = 1024
RARELY = 4.0
"""Reading files again takes at most one part in so many of the time, however often a page asks."""

HTML, PLAIN = "text/html; charset=utf-8", "text/plain; charset=utf-8"


class Source:
    """The page of some files, made again when a file has changed."""

    def __init__(self, paths: Sequence[Path], told: Callable[[str], None]):
        self.paths, self._told = tuple(paths), told
        self._seen = self._signature()
        self.report: Report = report(self.paths)
        self.version = _version(self.report)
        self._busy_until = 0.0

    def renew(self) -> None:
        """Reads the files again if they have changed; one that cannot be read now leaves the page as it was."""
        now = self._signature()
        if now == self._seen or time.monotonic() < self._busy_until:
            return
        began = time.monotonic()
        try:
            self.report = report(self.paths)
            self.version = _version(self.report)
        except (StoreError, OSError) as error:
            self._told(f"not updated: {error}")
        self._seen = now
        self._busy_until = time.monotonic() + RARELY * (time.monotonic() - began)

    def _signature(self) -> list[tuple[int, int]]:
        """When the files, and the logs of SQLite beside them, were written last."""
        found = []
        for path in self.paths:
            for beside in (path, Path(f"{path}-wal")):
                with contextlib.suppress(OSError):
                    about = beside.stat()
                    found.append((about.st_mtime_ns, about.st_size))
        return found


def _version(made: Report) -> str:
    return hashlib.sha256(made.content().encode("utf-8")).hexdigest()[:16]


class Server:
    """Use it in ``async with``; ``port`` 0 takes any that is free."""

    def __init__(self, source: Source, port: int = 0):
        self.source, self._wanted = source, port
        self._renewing = asyncio.Lock()
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.port}/"

    async def __aenter__(self) -> Server:
        self._server = await asyncio.start_server(
            self._client, HOST, self._wanted, limit=LONGEST_HEAD, backlog=BACKLOG, family=socket.AF_INET
        )
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request, and the connection ends; whatever a client does, only its own connection fails."""
        with contextlib.suppress(ConnectionError, asyncio.TimeoutError, OSError):
            try:
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
            except asyncio.LimitOverrunError:
                answer = _answer(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
            except asyncio.IncompleteReadError as error:
                answer = _answer(HTTPStatus.BAD_REQUEST) if error.partial else b""
            else:
                answer = await self._respond(head)
            writer.write(answer)
            await asyncio.wait_for(writer.drain(), PATIENCE)
        writer.close()
        with contextlib.suppress(ConnectionError, asyncio.TimeoutError, OSError):
            await asyncio.wait_for(writer.wait_closed(), PATIENCE)

    async def _respond(self, head: bytes) -> bytes:
        request, *lines = head.decode("latin-1").split("\r\n")
        method, path, protocol = [*request.split(" "), "", "", ""][:3]
        if request.count(" ") != 2 or not protocol.startswith("HTTP/1."):
            return _answer(HTTPStatus.BAD_REQUEST)
        if method not in ("GET", "HEAD"):
            return _answer(HTTPStatus.METHOD_NOT_ALLOWED, more=("Allow: GET, HEAD",))
        if not self._is_ours(lines):
            # A page elsewhere whose name leads to this machine would otherwise read the results.
            return _answer(HTTPStatus.MISDIRECTED_REQUEST)
        pages = {"/": self._page, "/content": self._content, "/version": self._version}
        make = pages.get(path.partition("?")[0])
        if make is None:
            return _answer(HTTPStatus.NOT_FOUND)
        async with self._renewing:
            # In a thread, so that other clients are answered meanwhile.
            body, kind = await asyncio.get_running_loop().run_in_executor(None, make)
        return _answer(HTTPStatus.OK, body, kind, with_body=method == "GET")

    def _is_ours(self, lines: Sequence[str]) -> bool:
        hosts = [value.strip() for name, _, value in (line.partition(":") for line in lines) if name.lower() == "host"]
        return hosts in ([f"{name}:{self.port}"] for name in (HOST, "localhost"))

    def _page(self) -> tuple[str, str]:
        self.source.renew()
        return self.source.report.page(live=True), HTML

    def _content(self) -> tuple[str, str]:
        return self.source.report.content(), HTML

    def _version(self) -> tuple[str, str]:
        self.source.renew()
        return self.source.version, PLAIN


def _answer(
    status: HTTPStatus, body: str | None = None, kind: str = PLAIN, *, with_body: bool = True, more: Sequence[str] = ()
) -> bytes:
    text = (f"{status.value} {status.phrase}\n" if body is None else body).encode("utf-8")
    head = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(text)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
        *more,
    ]
    return "\r\n".join([*head, "", ""]).encode("latin-1") + (text if with_body else b"")


async def serve(paths: Sequence[Path], port: int, ready: Callable[[str], None], told: Callable[[str], None]) -> None:
    """Serves until it is cancelled; ``ready`` gets the address."""
    async with Server(Source(paths, told), port) as server:
        ready(server.address)
        await asyncio.Event().wait()
