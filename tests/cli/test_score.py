"""``fallline score``: every output, the figures, and bad input in one line."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli import Command
from tests.score import reach


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Three submissions on two workloads in five studies; the last one never arrives."""
    root = tmp_path / "logs"
    for study in range(5):
        for workload in ("fastmri", "wmt"):
            reach(root, "quick", study, workload, 1, 10.0 + study)
            reach(root, "slow", study, workload, 1, 25.0 + study)
            reach(root, "never", study, workload, 1, None)
    return root


def test_text_has_leaderboard_intervals_cost_and_verdict(fallline: Command, logs: Path) -> None:
    ended = fallline("score", str(logs))
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert [line.split()[1] for line in lines if line[:2].strip().isdigit()] == ["quick", "slow", "never"]
    assert "1.0000" in ended.out and "95 % interval" in ended.out
    assert "30 trials" in ended.out
    assert lines[-1].startswith("quick is the fastest: separated from all 2 others (5 studies, α = 2 %")


def test_in_eighty_columns_no_name_is_broken(
    fallline: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for study in range(2):
        reach(tmp_path / "logs", "schedule_free_prodigy", study, "wmt", 1, 10.0)
        reach(tmp_path / "logs", "baseline", study, "wmt", 1, 12.0)
    monkeypatch.setenv("COLUMNS", "80")
    lines = fallline("score", str(tmp_path / "logs")).out.splitlines()
    first, second = (line.split() for line in lines if line.startswith("1  schedule_free_prodigy "))
    assert first[2] == "1.0000" and first[-1] == "1.20×"
    assert second[2:] == ["1", "of", "1", "0"] and max(map(len, lines)) <= 80


def test_json_is_alone_on_stdout_and_has_no_infinity(fallline: Command, logs: Path) -> None:
    data = json.loads(fallline("score", str(logs), "--json").out)
    assert [row["contestant"] for row in data["rows"]] == ["quick", "slow", "never"]
    assert data["rows"][1]["ratios"]["wmt"] == pytest.approx(27 / 12)
    assert data["rows"][2]["times"]["wmt"] is None
    assert data["logs"]["files"] == 30


def test_csv_and_markdown(fallline: Command, logs: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(fallline("score", str(logs), "--csv").out)))
    assert rows[0]["contestant"] == "quick" and float(rows[0]["seconds:wmt"]) == 12.0
    text = fallline("score", str(logs), "--md", "-q").out
    assert text.splitlines()[2].startswith("| 1 | quick | 1.0000 |")


def test_figures_are_written_and_named(fallline: Command, logs: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    ended = fallline("score", str(logs), "--figures", str(tmp_path / "figures"), "-q")
    assert ended.code == 0
    files = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert files == ["profiles.png", "profiles.svg", "score_vs_tau_max.png", "score_vs_tau_max.svg"]
    assert (tmp_path / "figures" / "profiles.png").read_bytes().startswith(b"\x89PNG")


def test_damaged_files_are_reported_and_not_fatal(fallline: Command, logs: Path) -> None:
    (logs / "slow/study_0/wmt_jax/trial_1/eval_measurements.csv").write_text("nonsense")
    ended = fallline("score", str(logs))
    assert ended.code == 0
    assert "1 damaged" in ended.out and "slow/study_0/wmt_jax/trial_1" in ended.out


def test_compat_says_how_many_published_scores_come_out(fallline: Command, tmp_path: Path) -> None:
    for study in range(3):
        reach(tmp_path / "logs", "amos", study, "wmt", 1, 10.0)
        reach(tmp_path / "logs", "schedule_free_prodigy", study, "wmt", 1, None)
    text = fallline("score", str(tmp_path / "logs"), "--algoperf-compat").out
    assert "1 of 2 published scores of v0.5 come out to four decimals; published otherwise: amos 0.4918." in text
    later = fallline("score", str(tmp_path / "logs"), "--algoperf-compat", "--no-held-out").out
    assert "published scores" not in later, "those are by the rules of v0.5"
    assert "speed-up" not in text, "there is no baseline among these"


def test_a_miss_counts_as_the_budget_of_the_rules_that_are_asked_for(fallline: Command, tmp_path: Path) -> None:
    reach(tmp_path / "logs", "baseline", 0, "fastmri", 1, None)
    reach(tmp_path / "logs", "late", 0, "fastmri", 1, 2 * 8859.0)

    def speedup(*options: str) -> float:
        rows = json.loads(fallline("score", str(tmp_path / "logs"), "--json", *options).out)["rows"]
        return float({row["contestant"]: row["speedup"] for row in rows}["late"])

    assert speedup() == pytest.approx(8860 / 17718)
    assert speedup("--self-tuning") == pytest.approx((3 * 8859 + 1) / 17718), "reached at twice the budget of others"
    assert speedup("--no-held-out") == pytest.approx(4431 / 17718)
    assert speedup("--no-held-out", "--self-tuning") == pytest.approx((1.5 * 4430 + 1) / 17718)
    text = fallline("score", str(tmp_path / "logs"), "--self-tuning", "--algoperf-compat").out
    assert "AlgoPerf's arithmetic" in text and "published scores" not in text, "those are of external tuning"


def test_logs_of_variants_alone_are_bad_input(fallline: Command, tmp_path: Path) -> None:
    for submission in ("a", "b"):
        reach(tmp_path / "logs", submission, 0, "wmt_glu_tanh", 1, 10.0)
    for rules in ("--held-out", "--no-held-out"):
        ended = fallline("score", str(tmp_path / "logs"), rules)
        assert ended.code == 2 and "nothing to score: its logs are of variants alone (wmt_glu_tanh)" in ended.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["/no/such/folder"], "no such folder"),
        ([__file__], "not a tar archive"),
        (["--json", "--csv", "."], "exclude each other"),
        (["LOGS", "--seed", "-1"], "'--seed'"),
        (["LOGS", "--figures", __file__], "this is a file; name a folder"),
        (["LOGS", "--reference", "nobody"], "there is no submission 'nobody'; there are never, quick, slow"),
    ],
)
def test_bad_input_is_one_line(fallline: Command, logs: Path, arguments: list[str], said: str) -> None:
    ended = fallline("score", *(str(logs) if a == "LOGS" else a for a in arguments))
    assert ended.code == 2 and said in ended.err
    assert len(ended.err.strip().splitlines()) == 1
