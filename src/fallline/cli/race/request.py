"""Turns the options of ``fallline race`` into rules, workloads, contestants and a results file, or refuses them."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fallline.cli.exit_codes import BadInput
from fallline.cli.race.options import Design, Entered

if TYPE_CHECKING:
    from fallline.race.contestants import Contestant
    from fallline.race.plan import Entry, Rules
    from fallline.race.results import Results


MOST_SECONDS = 1e9
"""Thirty years; a results file could not hold the steps of longer trials."""


@dataclasses.dataclass(frozen=True)
class Request:
    """A race that can be run, and its results file."""

    entries: list[Entry]
    contestants: list[Contestant]
    rules: Rules
    path: Path


def read_request(entered: Entered, design: Design, results: Path | None) -> Request:
    """The race that the options ask for, or :class:`BadInput` that names one of them."""
    from fallline.race.defaults import WORKLOAD

    rules = read_rules(design, entered.workloads, entered.max_steps, several=entered.several)
    entries = read_entries(entered.workloads or [WORKLOAD], entered.target, entered.max_steps, entered.held_out)
    contestants = read_contestants(entered.optimizers or [], entered.toml)
    contestants = in_spaces(contestants, entered.space or [], rules)
    name = None
    if entered.ladder is not None:
        from fallline.cli.race.ladder import on_ladder

        entries, rules, name = on_ladder(entered, design, entries, rules, contestants)
    check_size(entries, contestants, rules)
    return Request(entries, contestants, rules, results or default_results(entries, name))


def read_rules(
    design: Design, workloads: list[str] | None, max_steps: int | None = None, *, several: bool = False
) -> Rules:
    """``several``: more than one workload is raced, or one at several sizes."""
    from fallline.race.plan import BUDGET, CLOCKS, RULESETS, SELF, STEPS_CLOCK, Rules
    from fallline.race.plan.rules import DEFAULT_MINUTES, DEFAULT_WITHIN, DEFAULT_WITHIN_METRIC

    default = default_rules(design, workloads or [], several)
    chosen = design.ruleset or default.ruleset
    trials, seconds, clock = design.trials, design.seconds, design.clock
    if chosen not in RULESETS:
        raise BadInput(f"--ruleset must be one of {', '.join(RULESETS)}, got {chosen!r}")
    if clock not in CLOCKS:
        raise BadInput(f"--clock must be {' or '.join(CLOCKS)}, got {clock!r}")
    if chosen == SELF and (trials or 1) > 1:
        raise BadInput(f"--trials {trials}: self-tuning has one trial a study; leave it out, or --ruleset external")
    if chosen == BUDGET and clock == STEPS_CLOCK:
        raise BadInput("--clock steps: an equal budget of time needs seconds; leave --clock out")
    if seconds is not None:
        if not 0 < seconds <= MOST_SECONDS:
            raise BadInput(f"--seconds must be a number > 0 and at most {MOST_SECONDS:g}, got {seconds:g}")
        if chosen != BUDGET:
            raise BadInput(f"--seconds {seconds:g}: is for an equal-time race; give --ruleset budget too")
        if max_steps is not None:
            raise BadInput(f"--seconds {seconds:g}, --max-steps {max_steps}: are two budgets; give one of them")
    unlimited = design.minutes is None and design.until is None and design.within is None
    return Rules(
        search=default.search,
        minutes_after_a_look=DEFAULT_MINUTES if default.search and unlimited else None,
        ruleset=chosen,
        trials=trials or (1 if chosen == BUDGET else default.trials),
        studies=design.studies or default.studies,
        seed=design.seed,
        self_factor=default.self_factor if design.self_factor is None else design.self_factor,
        clock=clock,
        early_stop=design.early_stop,
        seconds=seconds,
        memory_budget=read_memory_budget(design.memory_budget, clock),
        **read_ending(design, DEFAULT_WITHIN_METRIC if chosen == BUDGET else DEFAULT_WITHIN),
    )


def default_rules(design: Design, workloads: list[str], several: bool) -> Rules:
    """The rules of a race where its options say nothing else.

    On one workload everybody finds its learning rate in a short search and races with it; on ``chars`` documented
    settings are there already.  A ruleset, trials or studies ask for AlgoPerf's way: tuning in every study.
    """
    from fallline.race.defaults import RULES, WORKLOAD
    from fallline.race.plan import ROUNDS, Rules
    from fallline.race.plan.rules import SEARCHED
    from fallline.score.decision import FIRST_LOOK

    asked = {"--ruleset": design.ruleset, "--trials": design.trials, "--studies": design.studies}
    given = [f"{name} {value}" for name, value in asked.items() if value is not None]
    if design.search is not None and (given or several):
        with_what = given[0] if given else "several workloads"
        raise BadInput(f"--search {design.search}: is for one race with settings found before it, not with {with_what}")
    if design.search is not None:
        return dataclasses.replace(RULES, search=design.search)
    if not workloads:
        return RULES if design.ruleset is None else Rules(studies=FIRST_LOOK, design=ROUNDS)
    if given or several:
        return Rules(studies=FIRST_LOOK, design=ROUNDS)
    documented = [spec_of(name) for name in workloads] == [WORKLOAD]
    return RULES if documented else dataclasses.replace(RULES, search=SEARCHED)


def in_spaces(contestants: list[Contestant], given: list[str], rules: Rules) -> list[Contestant]:
    """The contestants with the ranges of ``--space``, and where a search precedes the race with what that varies."""
    from fallline.race.contestants import BadContestant
    from fallline.race.contestants.checks import check
    from fallline.race.contestants.ranges import BadRange, narrowed, read_range, with_range

    try:
        ranges = [read_range(text) for text in given]
        made = list(contestants)
        for wanted in ranges:
            made = with_range(made, wanted)
        made = [narrowed(contestant, ranges) for contestant in made] if rules.search else made
    except BadRange as error:
        raise BadInput(f"--space {error}") from None
    if given and not (rules.search or rules.tuned):
        raise BadInput(f"--space {given[0]}: nothing is tuned in this race; give --search 5 or --trials 5 too")
    try:
        for contestant in made:
            check(contestant)
    except BadContestant as error:
        raise BadInput(f"--space: {error}" if given else str(error)) from None
    return made


def read_ending(design: Design, within: float) -> dict[str, Any]:
    """When the race ends: the fields of the rules that say so."""
    from fallline.race.plan import FIXED, ROUNDS
    from fallline.score.decision import LEADER

    if design.until not in (None, LEADER):
        raise BadInput(f"--until must be {LEADER}, got {design.until!r}")
    minutes = design.minutes
    if minutes is not None and not 0 < minutes <= MOST_SECONDS / 60:
        raise BadInput(f"--minutes must be a number > 0 and at most {MOST_SECONDS / 60:.0f}, got {minutes:g}")
    if design.studies is not None:
        for name, value in (("minutes", minutes), ("until", design.until)):
            if value is not None:
                raise BadInput(
                    f"--{name} {value}: is for rounds, and --studies {design.studies} fixes how many there are; "
                    "give one of them"
                )
    if design.until is not None and design.within is not None:
        raise BadInput(f"--within {design.within}: --until {design.until} goes on whatever the loss; give one of them")
    share = within if design.within is None else read_share("--within", design.within)
    fixed = design.studies is not None
    return {"design": FIXED if fixed else ROUNDS, "within": share, "until": design.until, "minutes": minutes}


def read_memory_budget(text: str | None, clock: str) -> int | None:
    from fallline.race.plan import STEPS_CLOCK
    from fallline.race.verdict.memory_budget import read_size

    if text is None:
        return None
    if clock == STEPS_CLOCK:
        raise BadInput(f"--memory-budget {text}: states are measured with steps; leave --clock steps out")
    try:
        return read_size(text)
    except ValueError as error:
        raise BadInput(f"--memory-budget {error}") from None


def read_share(option: str, text: str) -> float:
    """A share as people write it.

    >>> read_share("--within", "5%"), read_share("--within", "0.05"), read_share("--within", "2.5 %")
    (0.05, 0.05, 0.025)
    """
    number, percent = text.strip().removesuffix("%"), text.strip().endswith("%")
    try:
        value = float(number) / (100 if percent else 1)
    except ValueError:
        value = math.nan
    if not 0.0 <= value < 1.0:  # NaN too
        meant = f", perhaps {number.strip()}%" if not percent and value >= 1.0 and math.isfinite(value) else ""
        raise BadInput(f"{option} must be a share from 0 to less than 1, such as 5% or 0.05, got {text!r}{meant}")
    return value


def read_entries(names: list[str], target: float | None, max_steps: int | None, held_out: bool) -> list[Entry]:
    from fallline.race.plan import Entry
    from fallline.workloads import ALGOPERF, HELD_OUT, load

    wanted = [name for given in names for name in (ALGOPERF if given == "algoperf" else (spec_of(given),))]
    if held_out:
        variants = [variant for variant, base in HELD_OUT.items() if base in wanted]
        if not variants:
            having = ", ".join(HELD_OUT.values())
            raise BadInput(f"--held-out: {', '.join(names)} has no held-out variant; leave it out, or race {having}")
        wanted += [variant for variant in variants if variant not in wanted]
    if target is not None and not math.isfinite(target):
        raise BadInput(f"--target must be a finite number, got {target:g}")
    if target is not None and len(wanted) > 1:
        raise BadInput("--target: is for one workload; race them one by one")
    changes: dict[str, Any] = {} if target is None else {"target": target}
    changes |= {} if max_steps is None else {"max_steps": max_steps}
    made = []
    for spec in wanted:
        try:
            loaded = load(spec)
            # A budget shorter than the interval between evaluations gets the usual thirty, not one at its end.
            rare = max_steps is not None and max_steps < (loaded.eval_every or 1)
            own = {**changes, "eval_every": max(1, changes["max_steps"] // 30)} if rare else changes
            made.append(Entry(spec, loaded.replace(**own), own))
        except ValueError as error:
            raise BadInput(f"{spec}: {error}") from None
    nameless = [entry for entry in made if not entry.name.strip() or not entry.name.isprintable()]
    if nameless:
        raise BadInput(f"{nameless[0].spec}: a workload's name is one printable line, got {nameless[0].name!r}")
    doubled = [entry.name for entry in made if sum(other.name == entry.name for other in made) > 1]
    if doubled:
        raise BadInput(f"two workloads are called {doubled[0]!r}; give one of them another name")
    return made


def check_size(entries: list[Entry], contestants: list[Contestant], rules: Rules) -> None:
    """Refuses a race that nobody could run, before its points are drawn."""
    from fallline.race.plan import MOST_TRIALS, trials_in_study

    count = len(entries) * rules.studies * sum(trials_in_study(contestant, rules) for contestant in contestants)
    if count > MOST_TRIALS:
        raise BadInput(
            f"--trials {rules.trials}, --studies {rules.studies}: that are {count:,} trials, a race has at most "
            f"{MOST_TRIALS:,}; give fewer"
        )


def file_of(spec: str) -> Path:
    """The file of ``FILE.py`` or ``FILE.py:name``, from the root."""
    head, _, _ = spec.rpartition(":")
    return Path(head if head.endswith(".py") else spec).expanduser().resolve()


def spec_of(name: str) -> str:
    """As it is stored: workers may run elsewhere, so a file is named from the root; built-in ones have one spelling."""
    from fallline.workloads import BUILT_IN

    head, separator, function = name.rpartition(":")
    if name.endswith(".py") or head.endswith(".py"):
        return f"{file_of(name)}{separator}{function}" if head.endswith(".py") else str(file_of(name))
    known = name.replace("-", "_").lower()
    return known if known in BUILT_IN else name


def read_contestants(names: list[str], toml: str | None) -> list[Contestant]:
    """Contestants that are named, and all of a file's unless some of these are named."""
    from fallline.race.contestants import BadContestant, named
    from fallline.race.contestants.checks import check
    from fallline.race.contestants.toml_file import from_toml
    from fallline.race.defaults import contestants
    from fallline.training.optimizer_files import is_file

    wanted = [name.strip() for given in names for name in given.split(",")]
    try:
        own = {contestant.name: contestant for contestant in from_toml(Path(toml))} if toml else {}
        made = [named(name, own) for name in wanted]
        if not any(name.rpartition("=")[2] in own for name in wanted):
            made += own.values()
        made = made or contestants()
        for contestant in made:
            check(contestant)
    except BadContestant as error:
        raise BadInput(str(error)) from None
    doubled = [c for c in made if sum(other.name == c.name for other in made) > 1]
    if doubled:
        again = doubled[-1].optimizer if is_file(doubled[-1].optimizer) else doubled[-1].name
        raise BadInput(f"{doubled[0].name} is entered twice; give one another label, for instance twin={again}")
    return made


def default_results(entries: list[Entry], name: str | None = None) -> Path:
    from fallline.race.results.location import default_path

    return default_path(entries, name=name)


def results_of(workloads: list[str], held_out: bool) -> Path:
    """The file that a race on these workloads writes by default; without workloads, the only one in this folder."""
    if workloads:
        return default_results(read_entries(workloads, None, None, held_out))
    found = sorted(Path().glob("race-*.sqlite"))
    if len(found) == 1:
        return found[0]
    here = ", ".join(map(str, found))
    raise BadInput(f"FILE: name the results file; {f'here are {here}' if found else 'there is no race-*.sqlite here'}")


def files_that_would_run(store: Results) -> list[Path]:
    """Users' files with the workloads and the optimizers of a race."""
    from fallline.training.optimizer_files import is_file
    from fallline.workloads import BUILT_IN

    workloads = [row["spec"] for row in store.workloads().values() if row["problem"] is None]
    optimizers = [contestant.optimizer for contestant in store.contestants() if is_file(contestant.optimizer)]
    own = [spec for spec in workloads if spec not in BUILT_IN]
    return list(dict.fromkeys(file_of(spec) for spec in (*own, *optimizers)))
