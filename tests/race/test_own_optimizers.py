"""An optimizer class of one's own: from a rule or in plain torch, named as FILE.py:Class."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import fallline
from fallline.cli.race.request import read_contestants
from fallline.race.contestants import BadContestant, Contestant, named
from fallline.race.contestants.checks import check
from fallline.race.contestants.toml_file import from_toml
from fallline.race.engine.messages import GO_ON, Assignment, End, Evaluation
from fallline.race.engine.trial import run_trial
from fallline.race.plan import Entry, Rules, trials
from fallline.race.results import Results, resume
from fallline.training.optimizer_factory import build
from fallline.workloads import Workload, load
from tests.cli import command
from tests.race import every, write_workload

EXAMPLES = Path(__file__).parents[2] / "examples"

RULES = """
import fallline
from fallline.rules import rule


@rule
def descent(p, g, m, *, lr, beta, weight_decay):
    m = beta * m + (1 - beta) * g
    return p - lr * (m + weight_decay * p), m


Descent = fallline.optimizer(descent, lr=0.02, beta=0.9, weight_decay=0.1)
"""

PLAIN = """
import torch

print("read")


class HeavyBall(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.9, betas=None):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    buffer = self.state[p].setdefault("buffer", torch.zeros_like(p))
                    buffer.mul_(group["momentum"]).add_(p.grad)
                    p.sub_(group["lr"] * buffer)


class PassesOn(HeavyBall):
    def __init__(self, params, boost=1.0, **others):
        super().__init__(params, **others)


class TakesAnything(torch.optim.Optimizer):
    def __init__(self, params, **defaults):
        super().__init__(params, defaults)


class Needs(HeavyBall):
    def __init__(self, params, lr):
        super().__init__(params, lr)


class Averages(HeavyBall):
    def train(self):
        pass

    def eval(self):
        pass


class NoRate(torch.optim.Optimizer):
    def __init__(self, params, strength=0.1):
        super().__init__(params, {"strength": strength})


class Cycles(HeavyBall):
    def __init__(self, params, lr=0.1, cycles=3):
        super().__init__(params, lr)
        self.cycles = cycles


def function(params):
    return HeavyBall(params)
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "rules.py"
    path.write_text(RULES)
    return path


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    path = tmp_path / "plain.py"
    path.write_text(PLAIN)
    return path


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.LayerNorm(5), torch.nn.Linear(5, 1))


def task(contestant: Contestant, checkpoint: Path | None = None, recorded: int = 0) -> Assignment:
    path = None if checkpoint is None else str(checkpoint)
    return Assignment(1, contestant, contestant.one_setting(), 5, 60, True, path, recorded, save_every=0.0)


def curve(workload: Workload, task: Assignment, stop_after: int | None = None) -> dict[int, float | None]:
    """Values by step; with ``stop_after`` as if the process were killed after so many."""
    run, found = run_trial(workload, task), {}
    event = next(run)
    while isinstance(event, Evaluation):
        found[event.step] = event.value
        if len(found) == stop_after:
            break
        event = run.send(GO_ON)
    return found


@pytest.mark.parametrize("spec", ["rules.py:Descent", "plain.py:HeavyBall"])
@pytest.mark.parametrize("averaging", [None, "weight_ema"])
def test_a_trial_goes_on_from_its_checkpoint_with_the_same_curve(
    tmp_path: Path, rules: Path, plain: Path, spec: str, averaging: str | None
) -> None:
    workload = load(str(write_workload(tmp_path, target=1e-9)))
    made = named(f"{tmp_path}/{spec}")
    contestant = Contestant("mine", made.optimizer, averaging=averaging)
    whole = curve(workload, task(contestant))
    path = tmp_path / "1.pt"
    first = curve(workload, task(contestant, path), stop_after=3)
    rest = curve(workload, task(contestant, path, recorded=30))
    assert min(rest) == 40, "it did not begin anew"
    assert {**first, **rest} == whole
    assert whole[60] < whole[10]


def test_the_example_trains_the_example_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES.parent)
    contestant = named("examples/signum.py:Signum")
    check(contestant)
    assert (contestant.name, contestant.schedule) == ("signum", "warmup_cosine")
    assert contestant.optimizer == f"{EXAMPLES / 'signum.py'}:Signum"
    workload = load(str(EXAMPLES / "sine.py")).replace(max_steps=150, eval_every=50)
    net = workload.new_model(0)
    assert curve(workload, task(contestant))[50] < workload.validate(net)
    assert len((EXAMPLES / "signum.py").read_text().splitlines()) <= 15


def test_it_races_beside_others_in_processes_of_their_own(
    tmp_path: Path, rules: Path, plain: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_workload(tmp_path)
    call = command(monkeypatch, capsys)
    who = ["-o", "adamw", "-o", "rules.py:Descent,heavy=plain.py:HeavyBall"]
    options = ["--trials", "2", "--studies", "1", "--clock", "steps", "-j", "1", "--results", "r.sqlite", "--json"]
    ended = call("race", "tiny.py", *who, *options)
    assert ended.code == 0, ended.err
    statuses = json.loads(ended.out)["statuses"]
    assert {name: sum(found.values()) for name, found in statuses.items()} == {"adamw": 2, "descent": 1, "heavy": 1}
    assert not any("crashed" in found for found in statuses.values())
    planned = call("race", "tiny.py", *who, *options, "--plan")
    assert planned.code == 0 and set(json.loads(planned.out)["by_workload"]["tiny"]["step_seconds"]) == set(statuses)


def test_a_class_of_a_rule_gets_the_groups_of_create(rules: Path) -> None:
    net = model()
    built = build(named(f"{rules}:Descent"), {"lr": 0.5, "layer_lr_decay": 0.5}, net, total_steps=10)
    expected = fallline.create("adamw", net, lr=0.5, weight_decay=0.1, layer_lr_decay=0.5)

    def groups(optimizer: torch.optim.Optimizer) -> list[Any]:
        return [(g["param_names"], g["weight_decay"], g["lr"]) for g in optimizer.param_groups]

    assert groups(built.optimizer) == groups(expected)
    assert len(expected.param_groups) == 5


def test_a_class_in_plain_torch_gets_the_parameters_and_its_settings(plain: Path) -> None:
    net = model()
    built = build(named(f"{plain}:HeavyBall"), {"momentum": 0.5}, net, total_steps=10)
    (group,) = built.optimizer.param_groups
    assert [id(p) for p in group["params"]] == [id(p) for p in net.parameters()]
    assert (group["lr"], group["momentum"]) == (0.02, 0.5)


def test_without_a_space_it_has_its_defaults_and_one_trial(plain: Path) -> None:
    contestant = named(f"{plain}:HeavyBall")
    assert contestant.name == "heavy_ball" and not contestant.own_draws
    assert contestant.trial_points(trials=5, study=0, seed=1, tuned=True) == [{}]


def test_what_averages_itself_or_has_no_rate_runs_without_a_schedule(plain: Path) -> None:
    assert [named(f"{plain}:{name}").schedule for name in ("Averages", "NoRate")] == ["constant", "constant"]
    build(named(f"{plain}:NoRate"), {}, model(), total_steps=10).set_rates(3)
    scheduled = Contestant("mine", f"{plain}:NoRate", schedule="warmup_cosine")
    with pytest.raises(ValueError, match='NoRate has no lr that warmup_cosine could set; take schedule = "constant"'):
        build(scheduled, {}, model(), total_steps=10)


def test_a_setting_of_its_own_goes_to_it_though_a_schedule_has_one_of_that_name(plain: Path) -> None:
    contestant = Contestant("mine", f"{plain}:Cycles", {"cycles": 5}, schedule="equal_cycles")
    check(contestant)
    assert build(contestant, contestant.settings, model(), 100).optimizer.cycles == 5  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("spec", "settings", "said"),
    [
        ("plain.py:HeavyBall", {"momentun": 0.9}, "mine: HeavyBall has no setting 'momentun'; did you mean momentum?"),
        ("plain.py:HeavyBall", {"x": 0.9}, "mine: HeavyBall has no setting 'x'; it has lr, momentum, betas"),
        ("plain.py:HeavyBall", {"layer_lr_decay": 0.9}, "has no setting 'layer_lr_decay'"),
        ("plain.py:HeavyBall", {"lr": "high"}, "lr must be a number"),
        ("rules.py:Descent", {"y": 1}, "mine: Descent has no setting 'y'; it has lr, beta, weight_decay"),
        ("plain.py:PassesOn", {"z": 1}, "PassesOn has no setting 'z'"),
        ("plain.py:Needs", {}, "mine: Needs has no default of lr; give it one, or lr in settings"),
        ("plain.py:HeavyBall", {"momentum": 0.5, "boost": 2.0}, "no setting 'boost'"),
        ("plain.py:PassesOn", {"momentum": 0.5, "boost": 2.0}, None),
        ("plain.py:TakesAnything", {"whatever": 1}, None),
        ("plain.py:Needs", {"lr": 0.1}, None),
        ("rules.py:Descent", {"clip_norm": 1.0, "layer_lr_decay": 0.9, "warmup_factor": 0.1}, None),
    ],
)
def test_settings_that_it_does_not_know_are_refused(
    tmp_path: Path, rules: Path, plain: Path, spec: str, settings: dict[str, Any], said: str | None
) -> None:
    contestant = Contestant("mine", f"{tmp_path}/{spec}", settings)
    if said is None:
        check(contestant)
        return
    with pytest.raises(BadContestant) as error:
        check(contestant)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_what_has_no_default_needs_to_be_in_every_point(plain: Path) -> None:
    spec = f"{plain}:Needs"
    check(Contestant("mine", spec, points=({"lr": 0.1}, {"lr": 0.2})))
    for lacking in (
        Contestant("mine", spec, points=({"lr": 0.1}, {})),
        Contestant("mine", spec, space={"lr": {"min": 0.1, "max": 1.0, "scaling": "log"}}),
    ):
        with pytest.raises(BadContestant, match="no default of lr"):
            check(lacking)


def test_files_of_a_toml_are_looked_for_from_its_folder(
    tmp_path: Path, rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    (tmp_path / "mine.toml").write_text(
        '[tuned]\noptimizer = "rules.py:Descent"\nsettings = { beta = 0.8 }\n'
        'space.lr = { min = 1e-4, max = 1e-2, scaling = "log" }\n'
    )
    (tuned,) = from_toml(Path("../mine.toml"))
    assert tuned.optimizer == f"{rules.resolve()}:Descent"
    points = tuned.trial_points(trials=3, study=0, seed=1, tuned=True)
    assert len({point["lr"] for point in points}) == 3 and {point["beta"] for point in points} == {0.8}
    with pytest.raises(BadContestant, match=r"there is no such file"):
        named("rules.py:Descent")


def test_a_label_gives_another_name_and_a_path_may_have_the_sign_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lr=3").mkdir()
    (tmp_path / "lr=3" / "odd.py").write_text(RULES)
    monkeypatch.chdir(tmp_path)
    path = f"{tmp_path.resolve()}/lr=3/odd.py:Descent"
    (plain_name,) = read_contestants(["lr=3/odd.py:Descent"], None)
    assert (plain_name.name, plain_name.optimizer, plain_name.own_draws) == ("descent", path, False)
    (labelled,) = read_contestants(["other=lr=3/odd.py:Descent"], None)
    assert (labelled.name, labelled.optimizer, labelled.own_draws) == ("other", path, True)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("none.py:Mine", "none.py: there is no such file"),
        ("plain.py", "plain.py: name its optimizer class too, for instance"),
        ("plain:HeavyBall", "is given as FILE.py:Class"),
        ("plain.py:Heavy-Ball", "after the colon comes the name of a class, got 'Heavy-Ball'"),
        ("plain.py:Heavy", "plain.py: there is no optimizer class Heavy; it has HeavyBall, PassesOn"),
        ("empty.py:Mine", "define `class Mine(torch.optim.Optimizer)`"),
        ("plain.py:function", "function must be a subclass of torch.optim.Optimizer, got function"),
        (
            "rules.py:descent",
            "descent must be a subclass of torch.optim.Optimizer, got Rule; of a rule, fallline.optim",
        ),
        ("plain.py:torch", "torch must be a subclass"),
        ("bare.py:Optimizer", "Optimizer must be a subclass of torch.optim.Optimizer, got Optimizer"),
    ],
)
def test_what_is_no_optimizer_class_is_refused_in_one_line(
    tmp_path: Path, rules: Path, plain: Path, spec: str, said: str
) -> None:
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "bare.py").write_text("from torch.optim import Optimizer\n")
    with pytest.raises(BadContestant) as error:
        named(f"{tmp_path}/{spec}")
    assert said in str(error.value) and "\n" not in str(error.value)
    (tmp_path / "mine.toml").write_text(f'[mine]\noptimizer = "{tmp_path}/{spec}"\n')
    with pytest.raises(BadContestant, match=r"mine.toml: \[mine\]: ") as error:
        from_toml(tmp_path / "mine.toml")
    assert said in str(error.value) and "\n" not in str(error.value)


def test_a_file_that_raises_shows_the_users_traceback_alone(tmp_path: Path) -> None:
    path = tmp_path / "raises.py"
    path.write_text('def inner():\n    return {}["missing"]\n\n\ninner()\n')
    with pytest.raises(BadContestant) as error:
        named(f"{path}:Mine")
    first, *rest = str(error.value).splitlines()
    assert first == f"{path} raised KeyError: 'missing'"
    assert 'return {}["missing"]' in "\n".join(rest) and "optimizer_files.py" not in str(error.value)


def test_a_file_may_import_what_lies_beside_it(tmp_path: Path) -> None:
    (tmp_path / "beside_the_optimizer.py").write_text("RATE = 0.25\n")
    path = tmp_path / "imports.py"
    path.write_text(
        "import torch\nfrom beside_the_optimizer import RATE\n\n\n"
        "class Mine(torch.optim.SGD):\n    def __init__(self, params, lr=RATE):\n        super().__init__(params, lr)\n"
    )
    built = build(named(f"{path}:Mine"), {}, model(), total_steps=10)
    assert built.optimizer.param_groups[0]["lr"] == 0.25


def test_what_a_file_prints_stays_out_of_stdout(plain: Path, capfd: pytest.CaptureFixture[str]) -> None:
    named(f"{plain}:HeavyBall")
    printed = capfd.readouterr()
    assert printed.out == "" and printed.err == "read\n"


COUNTS = """
import threading

import torch


class Counts(torch.optim.Optimizer):
    def __init__(self, params, lr=0.05):
        super().__init__(params, {"lr": lr})
        self.count, self.seen, self.all = 0, [0.0], [p for group in self.param_groups for p in group["params"]]

    @torch.no_grad()
    def step(self, closure=None):
        self.count += 1
        self.seen.append(float(self.count))
        for p in self.all:
            if p.grad is not None:
                p.sub_(self.param_groups[0]["lr"] * p.grad / self.seen[-1] ** 0.5)


class Locked(Counts):
    def step(self, closure=None):
        super().step(closure)
        self.state[self.all[0]]["lock"] = threading.Lock()
"""


@pytest.fixture
def workload(tmp_path: Path) -> Workload:
    return load(str(write_workload(tmp_path, target=1e-9)))


@pytest.fixture
def counts(tmp_path: Path) -> Path:
    path = tmp_path / "counts.py"
    path.write_text(COUNTS)
    return path


def test_what_a_class_keeps_in_attributes_is_in_its_checkpoint(
    workload: Workload, counts: Path, tmp_path: Path
) -> None:
    contestant = named(f"{counts}:Counts")

    def values(checkpoint: str | None, recorded: int, most: int) -> dict[int, float | None]:
        run = run_trial(workload, Assignment(1, contestant, {}, 5, 60, True, checkpoint, recorded, 0.0))
        found = [next(run), *(run.send(GO_ON) for _ in range(most - 1))]
        return {event.step: event.value for event in found if isinstance(event, Evaluation)}

    file = str(tmp_path / "1.pt")
    whole, first, rest = values(None, 0, 6), values(file, 0, 3), values(file, 30, 3)
    assert min(rest) == 40, "it did not begin anew"
    assert {**first, **rest} == whole


def test_a_state_that_cannot_be_saved_is_told_and_the_trial_goes_on(
    workload: Workload, counts: Path, tmp_path: Path
) -> None:
    contestant = named(f"{counts}:Locked")
    events = every(run_trial(workload, Assignment(1, contestant, {}, 5, 60, True, str(tmp_path / "1.pt"), 0, 0.0)))
    assert [type(event) for event in events] == [Evaluation] * 6 + [End]
    assert all("lock" in str(event.unsaved) for event in events if isinstance(event, Evaluation))
    assert list(tmp_path.glob("1.pt*")) == []


def test_an_optimizer_file_that_was_edited_since_is_told(counts: Path, tmp_path: Path) -> None:
    workload = write_workload(tmp_path)
    entry, contestants = Entry(str(workload), load(str(workload))), [named(f"{counts}:Counts")]
    with Results(tmp_path / "r.sqlite") as results:
        results.begin([entry], contestants, Rules())
        results.add_trials(trials([entry], contestants, Rules()))
        results.start(results.rows()[0].id, 120)
        files = resume.optimizer_files(contestants)
        assert resume.changed_files(results, files) == []
        counts.write_text(COUNTS.replace("0.5", "0.25"))
        results.begin([entry], contestants, Rules())
        (line,) = resume.changed_files(results, files)
        assert line.startswith(f"{counts} has changed since this race began")
