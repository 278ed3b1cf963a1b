"""Reading AlgoPerf's folders and archives: what counts, and what is reported and left out."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from fallline.score.logs import NoLogs, read
from tests.score import reach, write_log


def test_a_folder_and_its_archive_give_the_same_trials(tmp_path: Path) -> None:
    logs = tmp_path / "external_tuning"
    for study in (0, 1):
        reach(logs, "adamw", study, "fastmri", 1, 30.0)
    with tarfile.open(tmp_path / "logs.tar.xz", "w:xz") as archive:
        archive.add(logs, "external_tuning")
    before = sorted(tmp_path.rglob("*"))
    from_folder, from_archive = read(logs), read(tmp_path / "logs.tar.xz")
    assert sorted(tmp_path.rglob("*")) == before, "nothing is unpacked"
    assert from_folder.files == from_archive.files == 2
    for a, b in zip(from_folder.trials, from_archive.trials, strict=True):
        assert (a.submission, a.study, a.workload, a.number) == (b.submission, b.study, b.workload, b.number)
        assert a.seconds.tolist() == b.seconds.tolist() == [15.0, 30.0, 35.0]
    assert {trial.study for trial in from_folder.trials} == {0, 1}


def test_the_folder_of_one_submission_is_enough(tmp_path: Path) -> None:
    reach(tmp_path, "lion", 3, "wmt", 2, 50.0)
    (trial,) = read(tmp_path / "lion").trials
    assert (trial.submission, trial.study, trial.workload, trial.number) == ("lion", 3, "wmt", 2)


def test_hours_are_those_of_the_last_evaluation(tmp_path: Path) -> None:
    write_log(tmp_path, "a", 0, "wmt", 1, seconds=[3600.0, 7200.0], values=[1.0, 2.0])
    logs = read(tmp_path)
    assert logs.training_hours == pytest.approx(2.0)
    assert logs.total_hours == pytest.approx(2.2)


def test_stray_damaged_and_unknown_files_are_reported_and_the_rest_counts(tmp_path: Path) -> None:
    reach(tmp_path, "a", 0, "fastmri", 1, 30.0)
    stray = tmp_path / "a" / "study_0" / "trial_1"
    stray.mkdir()
    (stray / "eval_measurements.csv").write_text("score\n1\n")
    write_log(tmp_path, "a", 0, "fastmri", 2, seconds=[1.0], values=[0.1]).write_bytes(b"\xff\xfe\x00")
    write_log(tmp_path, "a", 0, "fastmri", 3, seconds=[1.0], values=[0.1]).write_text("")
    write_log(tmp_path, "a", 0, "fastmri", 4, seconds=[2.0, 1.0], values=[0.1, 0.1])
    unknown = tmp_path / "a" / "study_0" / "cifar_jax" / "trial_1"
    unknown.mkdir(parents=True)
    (unknown / "eval_measurements.csv").write_text("score\n1\n")
    cut = write_log(tmp_path, "a", 0, "wmt", 1, seconds=[1.0, 2.0], values=[30.0, 31.0])
    cut.write_text(cut.read_text()[:-6])  # the last line was being written when the run was stopped
    logs = read(tmp_path)
    assert [(trial.workload, trial.number) for trial in logs.trials] == [("fastmri", 1), ("wmt", 1)]
    assert logs.trials[1].metric.tolist() == [30.0]
    kinds = sorted((problem.kind, Path(problem.path).parts[-3:-1]) for problem in logs.problems)
    assert kinds == [
        ("damaged", ("fastmri_jax", "trial_2")),
        ("damaged", ("fastmri_jax", "trial_3")),
        ("damaged", ("fastmri_jax", "trial_4")),
        ("damaged", ("wmt_jax", "trial_1")),
        ("stray", ("study_0", "trial_1")),
        ("unknown workload", ("cifar_jax", "trial_1")),
    ]


def test_a_truncated_archive_gives_what_it_still_holds(tmp_path: Path) -> None:
    for number in range(1, 6):
        # Values that do not compress, so that the cut falls between files.
        noise = [f"{(number * 7919 + i * 104729) % 999983 / 1e6}" for i in range(3000)]
        write_log(tmp_path / "logs", "a", 0, "fastmri", number, seconds=list(range(3000)), values=noise)
    whole = tmp_path / "logs.tar"
    with tarfile.open(whole, "w") as archive:
        archive.add(tmp_path / "logs", ".")
    whole.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    logs = read(whole)
    assert 0 < len(logs.trials) < 5
    assert any("ends early" in problem.reason for problem in logs.problems)


@pytest.mark.parametrize("form", ["gz", "xz", "bz2"])
def test_a_compressed_archive_with_wrong_bytes_gives_what_comes_before_them(tmp_path: Path, form: str) -> None:
    for number in range(1, 41):
        noise = [f"{(number * 7919 + i * 104729) % 999983 / 1e6}" for i in range(3000)]
        write_log(tmp_path / "logs", "a", 0, "fastmri", number, seconds=list(range(3000)), values=noise)
    path = tmp_path / f"logs.tar.{form}"
    with tarfile.open(path, f"w:{form}") as archive:  # type: ignore[call-overload]
        for folder in sorted((tmp_path / "logs").rglob("trial_*"), key=lambda p: int(p.name[6:])):
            archive.add(folder, folder.relative_to(tmp_path).as_posix())
    content = bytearray(path.read_bytes())
    middle = 3 * len(content) // 4
    content[middle : middle + 64] = bytes(64)
    path.write_bytes(content)
    try:
        logs = read(path)
    except NoLogs as error:
        assert "\n" not in str(error) and form in {"xz", "bz2"}, "their blocks are large: nothing came before"
        return
    assert 0 < len(logs.trials) < 40
    # Wrong bytes can still be a valid stream: then it is not the archive that is damaged but the log that it became.
    assert logs.problems and {problem.kind for problem in logs.problems} == {"damaged"}


@pytest.mark.parametrize("make", ["missing", "empty folder", "text file"])
def test_nothing_to_score_is_an_error_that_says_what_is_wanted(tmp_path: Path, make: str) -> None:
    path = tmp_path / "logs"
    if make == "empty folder":
        path.mkdir()
    elif make == "text file":
        path.write_text("hello")
    with pytest.raises(NoLogs, match=r"no such folder|no trial could be read|not a folder and not a tar archive"):
        read(path)
