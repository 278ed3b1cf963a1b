"""Contestants: every optimizer, AlgoPerf's entries, a file of one's own, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import fallline
from fallline.cli.contestants import listing
from fallline.cli.race.request import read_contestants
from fallline.race import step_costs
from fallline.race.contestants import BadContestant, Contestant, named
from fallline.race.contestants.checks import check
from fallline.race.contestants.presets import PRESETS
from fallline.race.contestants.spaces import NOT_RACED, TUNING
from fallline.race.contestants.toml_file import from_toml
from fallline.race.engine.messages import QuickStepTime, WorkloadRequest
from fallline.training.optimizer_factory import build


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.ReLU(), torch.nn.Linear(5, 1))


def test_every_registered_optimizer_has_a_documented_space_or_a_reason() -> None:
    assert {*TUNING, *NOT_RACED} == set(fallline.list_optimizers())


def test_fixed_settings_lie_in_their_spaces_and_rates_have_room() -> None:
    for name, tuning in TUNING.items():
        for key, dimension in tuning.space.items():
            if key in tuning.settings:
                value = tuning.settings[key]
                allowed = dimension.get("feasible_points") or [dimension["min"], dimension["max"]]
                assert min(allowed) <= value <= max(allowed), f"{name}: {key} = {value}"
        if "lr" in tuning.space:
            assert tuning.space["lr"]["scaling"] == "log"
            assert 25 <= tuning.space["lr"]["max"] / tuning.space["lr"]["min"] <= 120, name


def test_all_eleven_entries_of_algoperf_can_race() -> None:
    assert len(PRESETS) == 11
    for name, preset in PRESETS.items():
        assert len(preset.points) == 5
        assert named(name).optimizer in fallline.list_optimizers()


def test_the_winning_preset_of_shampoo_is_the_first_point_of_its_entry() -> None:
    point = named("algoperf_shampoo").one_setting()
    own = build(named("algoperf_shampoo"), point, model(), total_steps=100).optimizer.param_groups[0]
    preset = fallline.ShampooAlgoPerf(model().parameters()).param_groups[0]
    schedule = {"initial_lr", "lr", "params", "param_names"}
    assert preset["lr"] == point["lr"]
    for name in set(preset) - schedule:
        assert own[name] == pytest.approx(preset[name]), name


@pytest.mark.parametrize("name", [*TUNING, *PRESETS])
def test_every_contestant_takes_steps_at_every_point_of_a_study(name: str) -> None:
    contestant = named(name)
    check(contestant)
    for point in [
        *contestant.trial_points(trials=5, study=0, seed=1, tuned=True),
        *contestant.trial_points(trials=5, study=0, seed=1, tuned=False),
    ]:
        net = model()
        before = [p.detach().clone() for p in net.parameters()]
        built = build(contestant, point, net, total_steps=100)
        for step in range(3):
            built.set_rates(step)
            built.optimizer.zero_grad()
            net(torch.ones(2, 4)).square().sum().backward()
            built.optimizer.step()
        built.to_evaluate()
        built.to_train()
        assert all(torch.isfinite(p).all() for p in net.parameters())
        assert any(not torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True))


def test_single_betas_and_schedules_reach_where_they_belong() -> None:
    contestant = Contestant("mine", "adamw", schedule="warmup_cosine")
    point = {"lr": 0.5, "one_minus_beta1": 0.2, "beta2": 0.9, "warmup_factor": 0.1}
    built = build(contestant, point, model(), total_steps=100)
    assert built.optimizer.param_groups[0]["betas"] == pytest.approx((0.8, 0.9))
    rates = []
    for step in (0, 5, 10, 55, 100):
        built.set_rates(step)
        rates.append(built.optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([0.0, 0.25, 0.5, 0.25, 0.0])


def test_schedule_free_warms_up_by_itself_and_keeps_its_rate() -> None:
    built = build(named("schedule_free_adamw"), {"lr": 0.01, "warmup_factor": 0.1}, model(), total_steps=200)
    assert built.optimizer.param_groups[0]["warmup_steps"] == 20
    assert built.rate is None and built.has_modes


def test_a_warm_up_in_steps_is_kept_unless_its_share_is_given() -> None:
    def steps(**point: float) -> int:
        group = build(named("schedule_free_adamw"), point, model(), total_steps=200).optimizer.param_groups[0]
        return int(group["warmup_steps"])

    assert (steps(warmup_steps=7), steps(), steps(warmup_factor=0.1)) == (7, 0, 20)


def test_amos_counts_a_warm_up_in_steps_when_it_sets_its_rate() -> None:
    def rate(**point: float) -> float:
        built = build(named("amos_algoperf"), {"converge": 0.75, **point}, model(), total_steps=200)
        return float(built.optimizer.param_groups[0]["lr"])

    assert rate(warmup_steps=20) == rate(warmup_factor=0.1) != rate()


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("algoperf_generalized_adam", 1),  # the first one is without preconditioning
        ("algoperf_amos", 1),  # the first one has a style of its own
        ("algoperf_nadamp", 0),
        ("algoperf_schedule_free_adamw", 0),
    ],
)
def test_the_one_setting_of_a_list_is_the_first_of_the_usual_structure(name: str, chosen: int) -> None:
    contestant = named(name)
    expected = {**contestant.settings, **contestant.points[chosen]}
    assert contestant.one_setting() == expected
    assert contestant.trial_points(trials=5, study=3, seed=1, tuned=False) == [expected]


def test_the_one_setting_without_a_list_is_the_fixed_one() -> None:
    assert named("adamw").one_setting() == dict(TUNING["adamw"].settings)
    flags = Contestant("mine", "sgd", {"lr": 1.0}, points=({"nesterov": True}, {"lr": 2.0}, {"nesterov": True}))
    assert flags.one_setting() == {"lr": 1.0, "nesterov": True}


def test_steps_are_measured_with_the_one_setting() -> None:
    class Recording:
        """An engine that keeps what it is asked for."""

        def submit(self, slot: int, request: Any) -> None:
            self.arm = request.arm

        def wait(self) -> tuple[int, QuickStepTime]:
            return 0, QuickStepTime(1.0, 8, None)

    engine: Any = Recording()
    step_costs.quick_step_time(engine, WorkloadRequest("chars"), named("algoperf_amos"))
    assert engine.arm.point["style"] == "adam"


LEADERBOARD = Path(__file__).parents[2] / "benchmarks" / "leaderboard.toml"


def test_the_leaderboards_contestants_pass() -> None:
    assert len(from_toml(LEADERBOARD)) == 11


def test_matrix_optimizers_are_tuned_like_adamw() -> None:
    adamw, *others = from_toml(LEADERBOARD.with_name("matrix_optimizers.toml"))
    assert {other.optimizer for other in others} == {"muon", "shampoo", "soap"}
    for other in others:
        check(other)
        for name in ("weight_decay", "warmup_factor"):
            assert other.space[name] == adamw.space[name]
        for name in set(other.space) & {"lr", "companion_lr"}:
            assert other.space[name]["max"] / other.space[name]["min"] == pytest.approx(40)


@pytest.mark.parametrize(
    ("contestant", "said"),
    [
        (
            Contestant("a", "adamw", {"warmup_factor": 0.1}, schedule="constant"),
            "a: warmup_factor does nothing with schedule = 'constant'; it is for warmup_cosine, warmup_stable_decay, "
            "equal_cycles, nested_restarts",
        ),
        (Contestant("a", "adamw", {"lr_end": 0.1}, schedule="constant"), "a: lr_end does nothing with"),
        (Contestant("a", "schedule_free_adamw", {"cycles": 2}, schedule="constant"), "a: cycles does nothing"),
        (
            Contestant("a", "adamw", points=({"cycles": 2},)),
            "a: cycles does nothing with schedule = 'warmup_cosine'; it is for equal_cycles",
        ),
        (
            Contestant("a", "adamw", space={"decay_fraction": {"feasible_points": [0.1]}}, schedule="equal_cycles"),
            "a: decay_fraction does nothing with schedule = 'equal_cycles'; it is for warmup_stable_decay",
        ),
        (Contestant("a", "adamw", {"first_step": "jax"}, schedule="nested_restarts"), "a: first_step does nothing"),
        (
            Contestant("a", "adamw", {"average_decay": 0.9}),
            "a: average_decay does nothing without averaging; it is for weight_ema",
        ),
        (
            Contestant("a", "adamw", {"average_k": 3}, averaging="lawa_ema"),
            "a: average_k does nothing with averaging = 'lawa_ema'; it is for lawa_queue",
        ),
        (
            Contestant("a", "schedule_free_adamw", {"warmup_steps": 3, "warmup_factor": 0.1}, schedule="constant"),
            "a: warmup_steps and warmup_factor are both given; leave one of them away",
        ),
    ],
)
def test_settings_that_cannot_act_are_refused_by_name(contestant: Contestant, said: str) -> None:
    with pytest.raises(BadContestant) as error:
        check(contestant)
    assert str(error.value).startswith(said) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("schedule", "settings"),
    [
        ("warmup_cosine", {"cosine_decay_fraction": 0.7, "lr_end": 0.1, "first_step": "peak-first"}),
        ("warmup_stable_decay", {"decay_fraction": 0.5, "lr_end": 0.1, "first_step": "peak-first"}),
        ("equal_cycles", {"cycles": 2, "lr_min": 0.1, "first_step": "jax"}),
        ("nested_restarts", {"restarts": [0.5]}),
    ],
)
def test_every_setting_that_a_schedule_takes_acts(schedule: str, settings: dict[str, Any]) -> None:
    def rates(point: dict[str, Any]) -> list[float]:
        contestant = Contestant("a", "adamw", point, schedule=schedule)
        check(contestant)
        built = build(contestant, {"lr": 1.0, **point}, model(), total_steps=100)
        found = []
        for step in range(100):
            built.set_rates(step)
            found.append(built.optimizer.param_groups[0]["lr"])
        return found

    warm = {"warmup_factor": 0.1}
    assert rates(warm) != rates({})
    for name, value in settings.items():
        assert rates({**warm, name: value}) != rates(warm), name


@pytest.mark.parametrize(
    ("averaging", "settings"),
    [
        ("lawa_queue", {"average_start_fraction": 0.1, "average_interval_fraction": 0.1, "average_k": 3}),
        ("lawa_ema", {"average_start_fraction": 0.1, "average_interval_fraction": 0.1, "average_beta": 0.5}),
        ("weight_ema", {"average_decay": 0.5, "average_warmup": True}),
    ],
)
def test_every_setting_that_an_average_takes_reaches_it(averaging: str, settings: dict[str, Any]) -> None:
    contestant = Contestant("a", "adamw", settings, averaging=averaging)
    check(contestant)
    average: Any = build(contestant, settings, model(), total_steps=100).optimizer
    for name, value in settings.items():
        own = name.removeprefix("average_")
        if own.endswith("_fraction"):
            own, value = own.removesuffix("_fraction"), 100 * value
        assert getattr(average, own) == value


def test_a_table_with_settings_or_a_space_has_nothing_of_the_documented_setting(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    space = 'space.lr = { min = 0.1, max = 1.0, scaling = "log" }\n'
    path.write_text(
        '[neither]\noptimizer = "sgd"\n'
        '[settings]\noptimizer = "sgd"\nsettings = { lr = 0.5 }\n'
        f'[space]\noptimizer = "sgd"\n{space}'
        '[constant]\noptimizer = "sgd"\nschedule = "constant"\n'
    )
    neither, settings, space_only, constant = from_toml(path)
    documented = dict(TUNING["sgd"].settings)
    assert neither.one_setting() == documented
    assert settings.one_setting() == {"lr": 0.5} and space_only.one_setting() == {}
    assert documented.pop("warmup_factor") and constant.one_setting() == documented, "what its schedule takes"


def test_the_listing_has_the_setting_of_every_contestant() -> None:
    rows = {row["name"]: row for row in listing()}
    for name in [*TUNING, *PRESETS]:
        assert rows[name]["settings"] == named(name).one_setting()


def test_a_label_makes_the_same_contestant_another_one() -> None:
    twin = named("twin=adamw")
    assert (twin.name, twin.optimizer) == ("twin", "adamw")
    assert twin.definition() == named("adamw").definition()


TOML = """
[mine]
optimizer = "lion"
settings = { weight_decay = 0.1 }
space.lr = { min = 1e-5, max = 1e-3, scaling = "log" }
averaging = "weight_ema"

[listed]
optimizer = "sgd"
points = [{ lr = 0.1 }, { lr = 0.2 }]
schedule = "constant"
"""


def test_contestants_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TOML)
    mine, listed = from_toml(path)
    point = mine.trial_points(trials=3, study=0, seed=1, tuned=True)[0]
    assert set(point) == {"lr", "weight_decay"} and 1e-5 <= point["lr"] <= 1e-3
    drawn = listed.trial_points(trials=2, study=0, seed=1, tuned=True)
    assert sorted(p["lr"] for p in drawn) == [0.1, 0.2]


@pytest.mark.parametrize(
    ("names", "entered"),
    [
        ([], ["mine", "listed"]),
        (["adamw"], ["adamw", "mine", "listed"]),
        (["mine"], ["mine"]),
        (["listed, adamw"], ["listed", "adamw"]),
        (["twin=mine"], ["twin"]),
    ],
)
def test_of_a_file_those_that_are_named_race_or_all(tmp_path: Path, names: list[str], entered: list[str]) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(TOML)
    made = read_contestants(names, str(path))
    assert [contestant.name for contestant in made] == entered
    if "twin" in entered:
        assert made[0].optimizer == "lion" and made[0].own_draws


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[a]\noptimizer = "adamw"\nspace.lr = { min = 1.0, max = 0.1, scaling = "log" }', "min 1 is above max 0.1"),
        ('[a]\noptimizer = "adamx"', "did you mean"),
        ("[a]\nlr = 1", "optimizer is missing"),
        ('[a]\noptimizer = "adamw"\ncolour = 1', "unknown key 'colour'"),
        ('[a]\noptimizer = "adamw"\nsettings = { momentun = 1 }', "has no setting 'momentun'"),
        ('[a]\noptimizer = "adamw"\nschedule = "cosinus"', "schedule must be one of"),
        ('[a]\noptimizer = "adamw"\naveraging = "mean"', "averaging must be one of"),
        ('[a]\noptimizer = "sophiag"', "cannot race"),
        ("[a]\noptimizer = 5", "optimizer must be a name"),
        ('[a]\noptimizer = "adamw"\nsettings = 3', "settings must be a table"),
        ('[a]\noptimizer = "adamw"\nspace = [1]', "space must be a table"),
        ('[a]\noptimizer = "adamw"\npoints = 4', "points must be a list"),
        ('[a]\noptimizer = "adamw"\npoints = []', "points must be a list of tables"),
        ('["a\\nb"]\noptimizer = "adamw"', "one printable line"),
        ('[""]\noptimizer = "adamw"', "one printable line"),
        ('["a=b"]\noptimizer = "adamw"', "without , and ="),
        ('[a]\noptimizer = "adamw"\npoints = [3]', "points must be a list of tables"),
        ('[a]\noptimizer = "adamw"\nsettings = { lr = "high" }', "lr must be a number, got 'high'"),
        ('[a]\noptimizer = "adamw"\nspace.lr = { feasible_points = [1e-3, "x"] }', "lr must be a number, got 'x'"),
        ('[a]\noptimizer = "adamw"\npoints = [{ one_minus_beta1 = nan }]', "one_minus_beta1 must be a number"),
        ('[a]\noptimizer = "adamw"\nsettings = { lr = 2026-01-01 }', r"lr must be of numbers or text, got datetime"),
        ('[a]\noptimizer = "adamw"\nsettings = { betas = [0.9, 07:30:00] }', "betas must be of numbers or text"),
        (
            '[a]\noptimizer = "adamw"\nspace.lr = { min = 0.1, max = 1.0, scaling = "log", since = 2026-01-01 }',
            "lr must be of numbers or text",
        ),
        ('[a]\noptimizer = "adamw"\nschedule = ["x"]', "schedule must be a name"),
        ("", "no contestants"),
        ("[a", "not a TOML file"),
    ],
)
def test_bad_files_are_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(BadContestant, match=said) as error:
        from_toml(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"settings": {"lr": -1.0}}, "lr must be >= 0, got -1"),
        ({"settings": {"one_minus_beta1": 2.0}}, r"betas\[0\] must be in \[0, 1\), got -1"),
        ({"settings": {"warmup_factor": 2.0}}, "warmup_factor must be a share of the training, 0 to 1, got 2"),
        ({"space": {"warmup_factor": {"min": 0.5, "max": 3.0, "scaling": "log"}}}, "warmup_factor must be .* got 3"),
        ({"space": {"lr": {"min": -3.0, "max": 1.0, "scaling": "linear"}}}, "lr must be >= 0, got -3"),
        ({"points": [{"lr": 0.1}, {"lr": -2.0}]}, "lr must be >= 0, got -2"),
        ({"settings": {"betas": [0.9, 0.99], "one_minus_beta2": 0.1}}, "betas and a single one of them are both given"),
    ],
)
def test_what_no_trial_could_run_with_is_refused_before_the_race(table: dict[str, Any], said: str) -> None:
    with pytest.raises(BadContestant, match=f"mine: {said}"):
        check(Contestant("mine", "adamw", **table))


@pytest.mark.parametrize(
    ("written", "scaling"),
    [
        ("{ min = 1e-4, max = 1e-2 }", "log"),
        ("{ min = 0.02, max = 0.2 }", "log"),  # a factor of ten
        ("{ min = 0.8, max = 0.95 }", "linear"),
        ("{ min = 0.0, max = 1.0 }", "linear"),
        ('{ min = 1e-4, max = 1e-2, scaling = "linear" }', "linear"),
    ],
)
def test_the_scaling_of_a_range_need_not_be_given(tmp_path: Path, written: str, scaling: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'[mine]\noptimizer = "adamw"\nspace.lr = {written}\n')
    (contestant,) = from_toml(path)
    assert contestant.definition()["space"]["lr"]["scaling"] == scaling, "the results file says which"
