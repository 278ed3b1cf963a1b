"""The answer as stacked bars: the moment when most is needed, and optimizers beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fallline.document.figures import Bar, Mark, Part, StackedBars
from fallline.footprint.answer import Answer
from fallline.footprint.devices import Verdict

FRAGMENTATION = "fragmentation"


def bars(answer: Answer) -> StackedBars:
    """The bar of the moment when most is needed, with what the allocator reserves beyond it."""
    sections = dict(answer.prediction.at_peak)
    over = answer.replayed.reserved - answer.prediction.peak
    if over > 0:
        sections[FRAGMENTATION] = over
    return _bars("memory", f"At the peak, in {answer.prediction.moment}", {answer.name: sections}, answer.fits)


def compared_bars(answer: Answer) -> StackedBars:
    """A bar for each optimizer; states of all names are one section."""
    found = {}
    for one in answer.compared:
        states = sum(one.share.states.values())
        rest = {name: size for name, size in one.at_peak.items() if name not in one.share.states}
        found[one.setting.optimizer] = {"states": states, **rest}
    return _bars("memory-compared", "Optimizers at their peaks", found, answer.fits)


def _bars(name: str, title: str, found: Mapping[str, Mapping[str, int]], fits: Sequence[Verdict]) -> StackedBars:
    longest = max((sum(sections.values()) for sections in found.values()), default=0)
    scale, unit = (1e9, "GB") if longest >= 0.9995e9 else (1e6, "MB")
    made = [
        Bar(title, [Part(section, size / scale) for section, size in sections.items() if size >= longest / 2000])
        for title, sections in found.items()
    ]
    limits = [Mark(fit.device.size / scale, fit.device.name) for fit in fits]
    return StackedBars(name, title, unit, made, limits, detail=True)
