"""AlgoPerf's own archive, where it is present: the published leaderboard to four decimals."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from fallline.score.algoperf import PUBLISHED
from fallline.score.known_pairs import replay
from fallline.score.leaderboard import leaderboard
from fallline.score.logs import Logs, read
from fallline.score.times import from_logs

NAME = "algoperf_v05_external_logs.tar.xz"
PLACES = [
    os.environ.get("FALLLINE_ALGOPERF_LOGS", ""),
    *(str(p / "shared" / "data" / NAME) for p in Path(__file__).parents),
]
ARCHIVE = next((Path(place) for place in PLACES if place and Path(place).is_file()), None)

pytestmark = pytest.mark.skipif(ARCHIVE is None, reason=f"{NAME} is not here; FALLLINE_ALGOPERF_LOGS may name it")


@pytest.fixture(scope="module")
def logs() -> Logs:
    assert ARCHIVE is not None
    return read(ARCHIVE)


def test_published_scores_to_four_decimals(logs: Logs) -> None:
    board = leaderboard(from_logs(logs.trials, compat=True), compat=True)
    assert {row.contestant: f"{row.score:.4f}" for row in board.rows} == {
        name: f"{score:.4f}" for name, score in PUBLISHED.items()
    }
    assert [row.contestant for row in board.rows] == list(PUBLISHED)


def test_files_strays_and_hours(logs: Logs) -> None:
    assert logs.files == 3718
    assert [problem.kind for problem in logs.problems] == ["stray"] * 18
    assert logs.training_hours == pytest.approx(30_032, abs=1)


def test_honest_arithmetic_differs_where_the_defects_are(logs: Logs) -> None:
    rows = {row.contestant: row.score for row in leaderboard(from_logs(logs.trials)).rows}
    assert rows["lawa_ema"] == pytest.approx(0.3431, abs=5e-5)
    assert all(abs(rows[name] - score) < 0.005 for name, score in PUBLISHED.items())


def test_pairs_that_all_studies_separate_were_known_at_70_percent_of_the_hours_and_none_was_reversed(
    logs: Logs,
) -> None:
    found = replay(logs.trials, from_logs(logs.trials))
    assert len(found.separated) == 21 and found.total_hours == pytest.approx(29_897, abs=1)
    stage = found.all_known_at()
    assert stage is not None and stage.lockstep_share <= 0.7
    assert found.reversed == ()
    assert [len(stage.known) for stage in found.stages] == [11, 16, 25, 29]
    later = [set(stage.sequentially) for stage in found.stages]
    assert all(before <= after for before, after in itertools.pairwise(later)), "what was known stays known"
