from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fallline.document.html.page import Section, page

ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]

Show = Callable[..., Any]
"""Opens an address or a page's text; returns Playwright's page."""


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: make test-pages")
    pytest.importorskip("plotly", reason="plotly is not installed: make setup")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed: make test-pages")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Show]:
    """Opens a page, and fails the test if it asked a network for anything or wrote an error to the console."""
    contexts: list[Any] = []
    troubles: list[str] = []

    def open_page(what: str, *, width: int = 1440, scheme: str = "light", address: str | None = None) -> Any:
        if address is None:
            file = tmp_path / f"page{len(contexts)}.html"
            file.write_text(what, encoding="utf-8")
            address = file.as_uri()
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, accept_downloads=True
        )
        contexts.append(context)
        opened = context.new_page()
        opened.set_default_timeout(20_000)
        opened.on("request", lambda request: None if _is_own(request.url, address) else troubles.append(request.url))
        opened.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
        opened.on("pageerror", lambda error: troubles.append(str(error)))
        opened.on("dialog", lambda dialog: (troubles.append(dialog.message), dialog.dismiss()))
        opened.goto(address)
        return opened

    yield open_page
    for context in contexts:
        context.close()
    assert troubles == []


def _is_own(asked: str, address: str) -> bool:
    return asked.startswith((address, "data:", "blob:"))


def page_of(*documents: Any) -> str:
    return page("A page", [Section(f"result {at}", "Race", document) for at, document in enumerate(documents)])
