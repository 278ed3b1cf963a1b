"""The served page in a browser: it follows a race that goes on."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fallline.report.server import serve
from tests.pages.conftest import Show
from tests.pages.test_page import drawn
from tests.report import stored_race


@pytest.fixture
def race(tmp_path: Path) -> Path:
    return stored_race(tmp_path, killed=True)


@pytest.fixture
def address(race: Path) -> Iterator[str]:
    """The address of a server that follows the race, in a thread."""
    loop = asyncio.new_event_loop()
    found: list[str] = []
    ready = threading.Event()

    def tell(address: str) -> None:
        found.append(address)
        ready.set()

    serving = loop.create_task(serve([race], 0, tell, lambda _: None))

    def run() -> None:
        asyncio.set_event_loop(loop)
        with contextlib.suppress(asyncio.CancelledError):
            loop.run_until_complete(serving)

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(30)
    yield found[0]
    loop.call_soon_threadsafe(serving.cancel)
    thread.join(30)
    loop.close()


def test_the_page_follows_the_results_and_keeps_what_the_reader_chose(race: Path, address: str, show: Show) -> None:
    opened = show("", address=address)
    drawn(opened)
    opened.get_by_role("searchbox", name="Filter the rows of Leaderboard").fill("a")
    opened.locator(".legend:visible button").first.click()
    assert opened.locator("h2").inner_text().startswith("The race has not ended")
    stored_race(race.parent)
    opened.get_by_role("heading", name="Take a").wait_for()
    assert "Updated" in opened.locator("#live").inner_text()
    assert opened.get_by_role("searchbox", name="Filter the rows of Leaderboard").input_value() == "a"
    assert opened.locator(".legend:visible button").first.get_attribute("aria-pressed") == "false"
    drawn(opened)
