"""``fallline race``: which optimizer trains a workload fastest, each tuned with the same care."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fallline.cli.exits import BadInput
from fallline.cli.output import Json, Out, check_out, emit

if TYPE_CHECKING:
    from rich.console import Console

    from fallline.race.contestants import Contestant
    from fallline.race.plan import Entry, Rules
    from fallline.race.summary import Summary


def race(
    workloads: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORKLOAD]...", help="Built-in names, FILE.py or FILE.py:function, or `algoperf`."),
    ] = None,
    optimizers: Annotated[
        list[str] | None,
        typer.Option("--optimizer", "-o", metavar="NAME", help="An optimizer or AlgoPerf entry; may be repeated."),
    ] = None,
    toml: Annotated[
        str | None,
        typer.Option(
            "--contestants", metavar="FILE", help="Contestants of your own, TOML; `list` shows those there are."
        ),
    ] = None,
    ruleset: Annotated[
        str | None,
        typer.Option("--ruleset", help="external (tuned), self (untuned, 3× budget) or budget (equal time)."),
    ] = None,
    trials: Annotated[int | None, typer.Option("--trials", min=1, help="Quasirandom trials per study.")] = None,
    studies: Annotated[
        int | None, typer.Option("--studies", min=1, help="Repetitions of the tuning; AlgoPerf: 5.")
    ] = None,
    target: Annotated[
        float | None, typer.Option("--target", help="The metric to reach, instead of the workload's.")
    ] = None,
    max_steps: Annotated[int | None, typer.Option("--max-steps", min=1, help="The budget in steps.")] = None,
    self_factor: Annotated[
        float, typer.Option("--self-factor", min=1.0, help="Budget of self-tuning over the normal one; 1.5 since v0.6.")
    ] = 3.0,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="Race the held-out variants of the workloads too.")
    ] = False,
    clock: Annotated[
        str, typer.Option("--clock", help="calibrated, or steps: no seconds, no calibration.")
    ] = "calibrated",
    early_stop: Annotated[
        bool, typer.Option("--early-stop/--no-early-stop", help="End trials that can no longer count.")
    ] = True,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Trials side by side; default: cores.")
    ] = None,
    engine: Annotated[str, typer.Option("--engine", help="local or ray.")] = "local",
    address: Annotated[
        str | None, typer.Option("--address", help="Of the Ray cluster; default: start one here.")
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option("--results", metavar="FILE", help="The results file; the same command goes on with it."),
    ] = None,
    anew: Annotated[
        bool, typer.Option("--anew", help="Begin anew if the race in --results has ended; an unfinished one goes on.")
    ] = False,
    status: Annotated[bool, typer.Option("--status", help="Say how far the race in --results is, and end.")] = False,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would run: counts, hours, memory, and end.")] = False,
    export: Annotated[
        str | None, typer.Option("--export", help="csv or parquet: write --results as tables, and end.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option("--figures", metavar="DIR", help="Write profiles and scores there, as PNG and SVG.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of trial points and of trainings.")] = 0,
    as_json: Json = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress; the leaderboard and the verdict only.")
    ] = False,
    out: Out = None,
) -> None:
    """Race optimizers to a target; without arguments, five of them on `chars` with three seeds each."""
    if export is None:
        check_out(out)
    if toml == "list":
        emit(_listing(), _show_listing, as_json=as_json, out=out)
        return
    from fallline.measure.store import StoreError
    from fallline.race.run import RaceError
    from fallline.workloads import WorkloadError

    try:
        if status or export:
            _read(results or _only_results(workloads or []), export, out, as_json, quiet)
            return
        rules = _rules(workloads, ruleset, trials, studies, seed, self_factor, clock, early_stop)
        entries = _entries(workloads or ["chars"], target, max_steps, held_out)
        contestants = _contestants(optimizers or [], toml)
        path = results or _default_results(entries)
        if plan:
            _plan(entries, contestants, rules, jobs, path, as_json, out)
            return
        if anew:
            _remove_if_ended(path)
        summary = _run(entries, contestants, rules, path, jobs, engine, address, quiet or as_json)
    except (StoreError, WorkloadError) as error:
        raise BadInput(str(error)) from None
    except RaceError as error:
        typer.echo(f"fallline: {error}", err=True)
        raise typer.Exit(1) from None
    if figures is not None:
        from fallline.cli.score import draw_figures

        draw_figures(summary.board, figures, quiet)
    emit(summary.as_data(), lambda console: show(console, summary, path, quiet=quiet), as_json=as_json, out=out)


# ------------------------------------------------------------------ what is asked for


def _rules(
    workloads: list[str] | None,
    ruleset: str | None,
    trials: int | None,
    studies: int | None,
    seed: int,
    self_factor: float,
    clock: str,
    early_stop: bool,
) -> Rules:
    from fallline.race.defaults import RULES
    from fallline.race.plan import BUDGET, RULESETS, Rules

    default = RULES if not workloads and ruleset is None else Rules()
    chosen = ruleset or default.ruleset
    if chosen not in RULESETS:
        raise BadInput(f"--ruleset must be one of {', '.join(RULESETS)}, got {chosen!r}")
    if clock not in ("calibrated", "steps"):
        raise BadInput(f"--clock must be calibrated or steps, got {clock!r}")
    if chosen == BUDGET and clock == "steps":
        raise BadInput("--clock steps: an equal budget of time needs seconds; leave --clock away")
    return Rules(
        ruleset=chosen,
        trials=trials or (1 if chosen == BUDGET else default.trials),
        studies=studies or default.studies,
        seed=seed,
        self_factor=self_factor,
        clock=clock,
        early_stop=early_stop,
    )


def _entries(names: list[str], target: float | None, max_steps: int | None, held_out: bool) -> list[Entry]:
    from fallline.race.plan import Entry
    from fallline.workloads import ALGOPERF, HELD_OUT, load

    wanted = [name for given in names for name in (ALGOPERF if given == "algoperf" else (given,))]
    if held_out:
        wanted += [variant for variant, base in HELD_OUT.items() if base in wanted]
    if target is not None and len(wanted) > 1:
        raise BadInput("--target: is for one workload; race them one by one")
    changes: dict[str, Any] = {} if target is None else {"target": target}
    changes |= {} if max_steps is None else {"max_steps": max_steps}
    made = []
    for name in wanted:
        spec = _absolute(name)
        try:
            made.append(Entry(spec, load(spec).replace(**changes), changes))
        except ValueError as error:
            raise BadInput(f"{name}: {error}") from None
    doubled = [entry.name for entry in made if sum(other.name == entry.name for other in made) > 1]
    if doubled:
        raise BadInput(f"two workloads are called {doubled[0]!r}; give one of them another name")
    return made


def _absolute(name: str) -> str:
    """Workers may run elsewhere, so a file is named from the root."""
    head, separator, function = name.rpartition(":")
    path, function = (head, f":{function}") if separator and head.endswith(".py") else (name, "")
    return f"{Path(path).expanduser().resolve()}{function}" if path.endswith(".py") else name


def _contestants(names: list[str], toml: str | None) -> list[Contestant]:
    from fallline.race.contestants import BadContestant, check, from_toml, named
    from fallline.race.defaults import contestants

    try:
        made = [named(name) for given in names for name in given.split(",")]
        made += from_toml(Path(toml)) if toml else []
        made = made or contestants()
        for contestant in made:
            check(contestant)
    except BadContestant as error:
        raise BadInput(str(error)) from None
    doubled = [c.name for c in made if sum(other.name == c.name for other in made) > 1]
    if doubled:
        raise BadInput(f"{doubled[0]} is entered twice; give one another label, for instance twin={doubled[0]}")
    return made


def _default_results(entries: list[Entry]) -> Path:
    name = entries[0].name if len(entries) == 1 else f"{len(entries)}-workloads"
    return Path(f"race-{name}.sqlite")


def _remove_if_ended(path: Path) -> None:
    if not path.exists():
        return
    from fallline.race.results import Results

    with Results(path) as store:
        rows = store.rows()
        if not rows or any(row.status is None for row in rows):
            return
        # SQLite keeps two more files beside a database that is open.
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)


def _only_results(workloads: list[str]) -> Path:
    found = [Path(f"race-{name}.sqlite") for name in workloads] or sorted(Path().glob("race-*.sqlite"))
    if len(found) != 1:
        raise BadInput("--results: name the results file")
    return found[0]


def _listing() -> list[dict[str, Any]]:
    from fallline.race.presets import PRESETS
    from fallline.race.spaces import NOT_RACED, TUNING

    rows: list[dict[str, Any]] = [
        {"name": name, "optimizer": name, "schedule": t.schedule, "settings": dict(t.settings), "space": dict(t.space)}
        for name, t in TUNING.items()
    ]
    rows += [{"name": name, "optimizer": name, "missing": why} for name, why in NOT_RACED.items()]
    for name, preset in PRESETS.items():
        rows.append(
            {
                "name": name,
                "optimizer": preset.optimizer,
                "schedule": preset.schedule,
                "averaging": preset.averaging,
                "points": len(preset.points),
                "missing": preset.missing,
            }
        )
    return rows


def _show_listing(console: Console) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("name", "schedule", "tuned in"):
        table.add_column(column, overflow="fold")
    for row in _listing():
        if row.get("missing"):
            table.add_row(row["name"], "–", f"not there: {row['missing']}")
            continue
        if "points" in row:
            average = f", {row['averaging']}" if row["averaging"] else ""
            table.add_row(row["name"], row["schedule"] + average, f"{row['points']} points of its AlgoPerf entry")
            continue
        table.add_row(row["name"], row["schedule"], ", ".join(_dimension(n, d) for n, d in row["space"].items()))
    console.print(table)


def _dimension(name: str, dimension: Any) -> str:
    if "feasible_points" in dimension:
        return f"{name} in {'/'.join(f'{p:g}' for p in dimension['feasible_points'])}"
    return f"{name} {dimension['min']:g}–{dimension['max']:g} ({dimension['scaling']})"


# ------------------------------------------------------------------ running


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _engine(kind: str, jobs: int | None, address: str | None) -> Any:
    if kind == "local":
        from fallline.race.engine import LocalEngine

        return LocalEngine(jobs or _cores())
    if kind == "ray":
        from fallline.race.ray_engine import RayEngine, RayUnavailable

        try:
            return RayEngine(jobs, address)
        except RayUnavailable as error:
            raise BadInput(f"--engine ray: {error}") from None
    raise BadInput(f"--engine must be local or ray, got {kind!r}")


def _run(
    entries: list[Entry],
    contestants: list[Contestant],
    rules: Rules,
    path: Path,
    jobs: int | None,
    engine: str,
    address: str | None,
    quiet: bool,
) -> Summary:
    from fallline.cli.race_progress import progress_of
    from fallline.race.results import Results
    from fallline.race.run import Race
    from fallline.race.summary import summarize

    with Results(path) as store:
        runner = _engine(engine, jobs, address)
        try:
            with progress_of(quiet) as progress:
                Race(entries, contestants, rules, store, runner, progress).run()
        finally:
            runner.close()
        return summarize(store)


def _plan(
    entries: list[Entry],
    contestants: list[Contestant],
    rules: Rules,
    jobs: int | None,
    path: Path,
    as_json: bool,
    out: Path | None,
) -> None:
    from fallline.race.estimate import estimate

    found = estimate(entries, contestants, rules, jobs or _cores(), path)

    def show_plan(console: Console) -> None:
        for line in found.lines():
            console.print(line)

    emit(found.as_data(), show_plan, as_json=as_json, out=out)


def _read(path: Path, export: str | None, out: Path | None, as_json: bool, quiet: bool) -> None:
    from fallline.race.results import Results
    from fallline.race.summary import summarize

    with Results(path, writable=False) as store:
        if export:
            from fallline.race.export import ExportUnavailable
            from fallline.race.export import export as write

            if export not in ("csv", "parquet"):
                raise BadInput(f"--export must be csv or parquet, got {export!r}")
            try:
                written = write(store, out or path.parent, export)
            except (ExportUnavailable, OSError) as error:
                raise BadInput(f"--export {export}: {error}") from None
            typer.echo("\n".join(map(str, written)))
            return
        summary = summarize(store)
    emit(summary.as_data(), lambda console: show(console, summary, path, quiet=quiet), as_json=as_json, out=out)


def show(console: Console, summary: Summary, path: Path, *, quiet: bool) -> None:
    from fallline.cli.race_text import show_race

    show_race(console, summary, path, quiet=quiet)
