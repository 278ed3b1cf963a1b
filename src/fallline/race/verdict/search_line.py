"""The search for settings before a race, in a line: its cost and its risk."""

from __future__ import annotations

from fallline.document.numbers import counted, duration
from fallline.race.plan import SEARCH, Rules
from fallline.race.results import Results


def search_line(results: Results, rules: Rules) -> str | None:
    """What the search cost, and what it risks; None if there was none."""
    rows = [row for row in results.rows(SEARCH) if row.status is not None]
    if not rows:
        return None
    spent = sum((row.training_seconds or 0.0) + (row.evaluation_seconds or 0.0) for row in rows)
    return (
        f"Settings were chosen from {rules.search} each on one seed, {counted(len(rows), 'trial')}, "
        f"{duration(spent / 3600)} of training; a finer search could change the order: --search {2 * rules.search}"
    )
