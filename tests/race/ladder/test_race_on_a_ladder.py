"""Whole races on ladders, in real worker processes: common draws, targets of their own, interruptions, equal time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from fallline.race.contestants import Contestant
from fallline.race.engine import LocalEngine
from fallline.race.ladder.document import document_of
from fallline.race.ladder.rungs import entries, parse
from fallline.race.ladder.summary import TIME, Climb, climb
from fallline.race.plan import BUDGET, SELF, Entry, Rules
from fallline.race.progress import Progress
from fallline.race.results import Results, resume
from fallline.race.run import Race
from fallline.race.verdict.summary import Summary, summarize
from fallline.workloads import load
from tests.race import write_workload

SIZED = """
def sized(hidden: int = 64):
    import dataclasses

    def model(seed):
        return nn.Sequential(nn.Linear(6, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    return dataclasses.replace(workload(), model=model)
"""
CONTESTANTS = [
    Contestant("adamw", "adamw", {"lr": 0.01}, schedule="constant"),
    Contestant("faster", "adamw", {"lr": 0.03}, schedule="constant"),
    Contestant("hopeless", "sgd", {"lr": 1e-7}, schedule="constant"),
]
RULES = Rules(ruleset=SELF, self_factor=1.0, trials=1, studies=3, clock="steps")


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    made = LocalEngine(1)
    yield made
    made.close()


def base(folder: Path) -> Entry:
    spec = str(write_workload(folder, target=None, max_steps=60, eval_every=2))
    return Entry(spec, load(spec))


def raced(engine: LocalEngine, path: Path, rungs: list[Entry], rules: Rules = RULES) -> Summary:
    with Results(path) as results:
        Race(rungs, CONTESTANTS, rules, results, engine).run()
        return summarize(results)


def of(summary: Summary) -> Climb:
    found = climb(summary)
    assert found is not None
    return found


def test_advantages_trends_and_the_hopeless(engine: LocalEngine, tmp_path: Path) -> None:
    rungs = entries(base(tmp_path), parse("steps=0.5,1,2"))
    summary = raced(engine, tmp_path / "r.sqlite", rungs)
    found = of(summary)
    assert found.measure == TIME and found.clock == "steps" and found.known.rungs == (0.5, 1.0, 2.0)
    targets = [summary.workloads[entry.name]["target"] for entry in rungs]
    assert targets == sorted(targets, reverse=True), "more steps reach a lower error"
    # Computed here from the rows themselves.
    for k, entry in enumerate(rungs):
        cells = [summary.times["steps"].cell(name, entry.name) for name in ("adamw", "faster")]
        logs = [[math.log(min(t, entry.workload.max_steps)) for t in cell.values()] for cell in cells]
        assert found.known.values[0, k] == pytest.approx(sum(logs[0]) / 3 - sum(logs[1]) / 3)
    (trend,) = found.trends
    assert trend.contestant == "faster" and trend.last.mean > 0 and found.ahead == (4.0,)
    assert set(found.unknown) == {"hopeless"} and "tiny×2" in found.unknown["hopeless"]
    assert found.missed["hopeless", "tiny×1"] == (3, 3)
    document = document_of(summary, tmp_path / "r.sqlite")
    assert [figure.name for figure in document.figures] == ["ladder"]
    assert set(document.result["ladder"]["sentences"]) == {"faster", "hopeless"}
    with Results(tmp_path / "r.sqlite") as results:
        seeds = {(row.workload, row.study): row.seed for row in results.rows()}
        assert all(seeds["tiny×0.5", study] == seeds["tiny×2", study] for study in range(3))
        again = resume.entries_again(results, [rungs[0].spec])
    assert [(e.name, e.workload.max_steps, e.draws) for e in again] == [
        ("tiny×0.5", 30, "tiny"),
        ("tiny×1", 60, "tiny"),
        ("tiny×2", 120, "tiny"),
    ]


def test_a_ladder_that_was_interrupted_ends_as_the_other_does(engine: LocalEngine, tmp_path: Path) -> None:
    rungs = entries(base(tmp_path), parse("steps=1,2"))
    whole = of(raced(engine, tmp_path / "whole.sqlite", rungs))

    class Interrupted(Exception):
        pass

    def fall(*_: object) -> None:
        raise Interrupted

    for _ in range(3):
        with Results(tmp_path / "r.sqlite") as results:
            other, progress = LocalEngine(1), Progress(trial_ended=fall)
            try:
                with pytest.raises(Interrupted):
                    Race(rungs, CONTESTANTS, RULES, results, other, progress).run()
            finally:
                other.close()
            summary = summarize(results)
        text = document_of(summary, tmp_path / "r.sqlite")
        assert not any(figure.name == "ladder" for figure in text.figures), "nothing is said of a half of it"
    again = of(raced(engine, tmp_path / "r.sqlite", rungs))
    assert again.as_data() == whole.as_data()


def test_a_ladder_grows_by_studies_and_rungs(engine: LocalEngine, tmp_path: Path) -> None:
    entry = base(tmp_path)
    short = of(raced(engine, tmp_path / "r.sqlite", entries(entry, parse("steps=1,2"))))
    longer = entries(entry, parse("steps=0.5,1,2"))
    more = of(raced(engine, tmp_path / "r.sqlite", longer, dataclasses.replace(RULES, studies=4)))
    assert short.rungs == (1.0, 2.0) and more.rungs == (0.5, 1.0, 2.0)
    assert more.missed["hopeless", "tiny×0.5"] == (4, 4)


def test_sizes_of_a_users_function(engine: LocalEngine, tmp_path: Path) -> None:
    path = Path(base(tmp_path).spec)
    path.write_text(path.read_text() + SIZED)
    spec = f"{path}:sized"
    rungs = entries(Entry(spec, load(spec)), parse("hidden=16,64"))
    found = of(raced(engine, tmp_path / "r.sqlite", rungs))
    assert found.axis == "hidden" and found.rungs == (16.0, 64.0) and found.workloads[0] == "tiny hidden=16"


def test_with_equal_time_the_metric_at_the_end_is_compared(engine: LocalEngine, tmp_path: Path) -> None:
    rules = Rules(ruleset=BUDGET, trials=1, studies=2)
    summary = raced(engine, tmp_path / "r.sqlite", entries(base(tmp_path), parse("steps=1,2")), rules)
    found = of(summary)
    assert found.measure == "mse" and {trend.contestant for trend in found.trends} == {"faster", "hopeless"}
    quality = {q.workload: q for q in summary.quality}["tiny×2"]
    row = found.known.contestants.index("hopeless")
    means = {name: sum(values) / len(values) for name, values in quality.values.items()}
    assert found.known.values[row, 1] == pytest.approx(means["adamw"] - means["hopeless"])
    assert found.known.values[row, 1] < 0
