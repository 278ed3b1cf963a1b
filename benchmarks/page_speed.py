"""The CPU time of a page's main thread until a chart of 100,000 samples is drawn, in Debian's chromium.

CPU time of the thread, as the browser's own protocol gives it, is not that of other programs on the machine.
Needs ``make test-pages``, which installs the browser and what drives it.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from fallline.document.blocks import Document, Verdict
from fallline.document.figures import Axis, Chart, Series
from fallline.document.html.page import Section, page

LINES = 5
ARGUMENTS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, help="pages to time in place of one with samples")
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        files = chosen.files or [_written(Path(folder) / "samples.html", chosen.samples)]
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=ARGUMENTS)
        for file in files:
            seconds = [_seconds(browser, file) for _ in range(chosen.times)]
            listed = ", ".join(f"{one:.2f}" for one in seconds)
            print(f"{file.name}: {statistics.median(seconds):.2f} s of CPU time on the main thread ({listed})")
        browser.close()


def _written(path: Path, samples: int) -> Path:
    chart = chart_of(samples)
    path.write_text(page("Samples", [Section("samples", "Race", Document([chart, Verdict("a")]))]), encoding="utf-8")
    return path


def chart_of(samples: int) -> Chart:
    """Noisy curves with bands."""
    generator = random.Random(0)
    each = samples // LINES
    x = [float(step) for step in range(each)]
    series = []
    for at in range(LINES):
        y = [3.0 / (1 + step / 1000) + 0.05 * at + generator.gauss(0, 0.02) for step in range(each)]
        series.append(Series(f"c{at}", x, y, [one - 0.1 for one in y], [one + 0.1 for one in y]))
    return Chart("samples", "Samples", Axis("step", 0, each), Axis("loss", 0, 3.5), series)


def _seconds(browser: Any, file: Path) -> float:
    """From an empty page to one whose first figure is drawn and painted."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    opened = context.new_page()
    protocol = context.new_cdp_session(opened)
    protocol.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = _task_seconds(protocol)
    opened.goto(file.resolve().as_uri())
    opened.locator(".plot[data-drawn=true]").first.wait_for(timeout=60_000)
    opened.evaluate("() => new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    found = _task_seconds(protocol) - before
    context.close()
    return found


def _task_seconds(protocol: Any) -> float:
    metrics = {one["name"]: one["value"] for one in protocol.send("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"])


if __name__ == "__main__":
    main()
