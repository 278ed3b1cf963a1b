"""The NanoGPT speedrun: minutes to a validation loss of 3.28 on FineWeb, on eight H100, record by record."""

from __future__ import annotations

import datetime

from fallline.document.figures import Axis, Chart, Series
from fallline.gallery.exhibit import Exhibit, Wishes

SOURCE = "https://github.com/KellerJordan/modded-nanogpt, the table of records"
RECORDS = (
    ("2024-05-28", 45.0, "llm.c"),
    ("2024-06-06", 31.4, "newer architecture, tuned rate"),
    ("2024-10-04", 24.9, "Muon"),
    ("2024-10-11", 22.3, ""),
    ("2024-10-14", 15.2, "padded embeddings"),
    ("2024-10-18", 13.1, ""),
    ("2024-10-18", 12.0, "PyTorch 2.5"),
    ("2024-11-03", 10.8, "untied head"),
    ("2024-11-06", 8.2, ""),
    ("2024-11-08", 7.8, ""),
    ("2024-11-10", 7.2, "U-net"),
    ("2024-11-19", 5.03, "FlexAttention"),
    ("2024-11-24", 4.66, "window warm-up"),
)
"""Date, minutes, and a word for what was new where there is room for one."""
MONTHS = ((2024, 6), (2024, 7), (2024, 8), (2024, 9), (2024, 10), (2024, 11), (2024, 12))


def exhibit(wishes: Wishes) -> Exhibit:
    dates = [datetime.date.fromisoformat(date) for date, _, _ in RECORDS]
    minutes = [taken for _, taken, _ in RECORDS]
    days = [(date - dates[0]).days for date in dates]
    months = {
        float((datetime.date(*month, 1) - dates[0]).days): f"{datetime.date(*month, 1):%b %Y}" for month in MONTHS
    }
    chart = Chart(
        "speedrun", "NanoGPT speedrun: minutes to a validation loss of 3.28 on 8 × H100",
        Axis("date of the record", -4, days[-1] + 44, months),
        Axis("minutes", 4.3, 56.0, {5: "5", 7: "7", 10: "10", 15: "15", 20: "20", 30: "30", 45: "45"}, log=True),
        [Series("", days, minutes, words=[_words(taken, words) for _, taken, words in RECORDS])],
        steps=True,
        direct=True,
    )  # fmt: skip
    gains = {words or date: before / after for (date, after, words), before in zip(RECORDS[1:], minutes, strict=False)}
    largest = max(gains, key=lambda name: gains[name])
    caption = (
        f"{len(RECORDS)} records in {days[-1]} days: from {minutes[0]:g} minutes on {dates[0]} to {minutes[-1]:g} on "
        f"{dates[-1]}, {minutes[0] / minutes[-1]:.1f} times as fast. The largest single step is “{largest}”, "
        f"{gains[largest]:.2f} times; Muon made it {gains['Muon']:.2f} times as fast. Every record changed more than "
        "the optimizer (architecture, PyTorch, attention), so that this is no comparison of optimizers."
    )
    numbers = {"records": len(RECORDS), "factor": minutes[0] / minutes[-1], "days": days[-1], "gains": gains}
    return Exhibit([chart], caption, numbers, f"published: {SOURCE}")


def _words(minutes: float, words: str) -> str:
    return f"{minutes:g}  {words}" if words else ""
