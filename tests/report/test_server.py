"""The served page: on this machine only, for two methods and three names, whatever clients send."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from fallline.race.results import Results
from fallline.report.server import HOST, Server, Source
from tests.report import stored_race

Client = Callable[[Server], Awaitable[None]]


@pytest.fixture(scope="module")
def raced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored_race(tmp_path_factory.mktemp("race"))


def served(path: Path, client: Client) -> None:
    async def run() -> None:
        async with Server(Source([path], lambda _: None)) as server:
            await asyncio.wait_for(client(server), 60)

    asyncio.run(run())


async def sent(server: Server, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(HOST, server.port)
    writer.write(request)
    if b"\r\n\r\n" not in request:
        writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


def asked(server: Server, path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: localhost:{server.port}\r\n\r\n".encode()


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def test_the_page_its_content_and_its_version_are_served(raced: Path) -> None:
    async def client(server: Server) -> None:
        page = await sent(server, asked(server, "/"))
        head, _, body = page.partition(b"\r\n\r\n")
        assert status(page) == 200 and body.startswith(b"<!doctype html>")
        assert f"Content-Length: {len(body)}".encode() in head
        assert b"connect-src 'self'" in body
        content = await sent(server, asked(server, "/content"))
        assert b'<main id="content"' in content and b"<!doctype" not in content
        version = (await sent(server, asked(server, "/version"))).partition(b"\r\n\r\n")[2]
        assert version.decode() == server.source.version

    served(raced, client)


def test_head_has_the_length_and_no_body(raced: Path) -> None:
    async def client(server: Server) -> None:
        head, _, body = (await sent(server, asked(server, "/", "HEAD"))).partition(b"\r\n\r\n")
        assert body == b"" and int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]) > 100_000

    served(raced, client)


@pytest.mark.parametrize(
    "path", ["/../r.sqlite", "/..%2f..%2fetc/passwd", "//etc/passwd", "/race-tiny.sqlite", "/%00", "/page", "http://x/"]
)
def test_no_other_path_leads_anywhere(raced: Path, path: str) -> None:
    async def client(server: Server) -> None:
        assert status(await sent(server, asked(server, path))) == 404

    served(raced, client)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "get"])
def test_other_methods_are_not_allowed(raced: Path, method: str) -> None:
    async def client(server: Server) -> None:
        answer = await sent(server, asked(server, "/", method))
        assert status(answer) == 405 and b"Allow: GET, HEAD" in answer

    served(raced, client)


def test_names_that_lead_here_from_elsewhere_are_turned_away(raced: Path) -> None:
    """A page of another site may resolve its own name to this machine and ask for the results."""

    async def client(server: Server) -> None:
        for host in (f"evil.example:{server.port}", "localhost", ""):
            assert status(await sent(server, f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())) == 421
        assert status(await sent(server, b"GET / HTTP/1.1\r\n\r\n")) == 421

    served(raced, client)


def test_malformed_requests_end_their_own_connection_only(raced: Path) -> None:
    async def client(server: Server) -> None:
        for request in (b"\x00\xff\x16\x03", b"GET\r\n\r\n", b"GET / SPDY/3\r\n\r\n", b"GET  /  HTTP/1.1\r\n\r\n"):
            assert status(await sent(server, request)) == 400, request
        assert status(await sent(server, b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n")) == 431
        assert await sent(server, b"") == b""
        _, writer = await asyncio.open_connection(HOST, server.port)
        writer.write(asked(server, "/"))
        writer.transport.abort()
        assert status(await sent(server, asked(server, "/version"))) == 200

    served(raced, client)


def test_a_thousand_connections_that_say_nothing_keep_nobody_waiting(raced: Path) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))  # both ends are in this process

    async def client(server: Server) -> None:
        idle = [await asyncio.open_connection(HOST, server.port) for _ in range(1000)]
        answers = await asyncio.gather(*(sent(server, asked(server, "/version")) for _ in range(50)))
        assert {status(answer) for answer in answers} == {200}
        for _, writer in idle:
            writer.close()

    try:
        served(raced, client)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_only_this_machine_is_listened_to(raced: Path) -> None:
    async def client(server: Server) -> None:
        assert server._server is not None
        (listening,) = server._server.sockets
        assert listening.getsockname()[0] == "127.0.0.1" and listening.family == socket.AF_INET

    served(raced, client)


def test_the_version_changes_when_results_do_and_only_then(tmp_path: Path) -> None:
    path = stored_race(tmp_path)
    told: list[str] = []
    source = Source([path], told.append)
    first = source.version
    source.renew()
    assert source.version == first
    with Results(path) as results, results.store.transaction() as database:
        database.execute("update calibration set step_seconds = step_seconds")
        database.execute("update trial set steps_to_target = steps_to_target + 7")
    source.renew()
    assert source.version != first and told == []


def test_a_file_that_cannot_be_read_leaves_the_page_as_it_was(tmp_path: Path) -> None:
    path = stored_race(tmp_path)
    told: list[str] = []
    source = Source([path], told.append)
    first = source.version
    for beside in tmp_path.glob("race-tiny.sqlite*"):
        beside.unlink()
    path.write_bytes(b"SQLite format 3\0" + bytes(2000))
    source.renew()
    assert source.version == first and len(told) == 1 and told[0].startswith("not updated: ")
