"""AlgoPerf's logs as a leaderboard, and as a document for a page."""

from __future__ import annotations

from pathlib import Path

from fallline.document.blocks import Document
from fallline.score.algoperf import MISS_SECONDS, budgets
from fallline.score.document import document
from fallline.score.leaderboard import Leaderboard, leaderboard
from fallline.score.logs import Logs, NoLogs, read
from fallline.score.times import from_logs

BASELINE = "baseline"


def board_of(
    found: Logs,
    *,
    held_out: bool = True,
    compat: bool = False,
    self_tuning: bool = False,
    reference: str | None = None,
    seed: int = 0,
) -> Leaderboard:
    """The leaderboard of logs; :class:`NoLogs` where they hold nothing that counts, or no such reference."""
    table = from_logs(found.trials, held_out=held_out, compat=compat)
    if not table.workloads:
        ran = ", ".join(sorted({trial.workload for trial in found.trials}))
        raise NoLogs(
            f"{found.source}: nothing to score: its logs are of variants alone ({ran}), and a variant counts only "
            "beside the workload it belongs to"
        )
    if reference is not None and reference not in table.contestants:
        raise NoLogs(f"--reference: there is no submission {reference!r}; there are {', '.join(table.contestants)}")
    seconds = budgets(held_out=held_out, self_tuning=self_tuning)
    return leaderboard(
        table,
        compat=compat,
        reference=reference or (BASELINE if BASELINE in table.contestants else None),
        allowed={(name, w): seconds[w] + MISS_SECONDS for name in table.contestants for w in table.workloads},
        seed=seed,
    )


def stored_document(path: Path) -> Document:
    """Logs by the rules that ``fallline score`` has without options."""
    found = read(path)
    return document(board_of(found), found, published=False)
