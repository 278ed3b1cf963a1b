"""``create(…, assign=…)``: selectors decide which rule steps which parameters, and nothing is dropped on the way."""

import copy

import pytest
import torch
from torch import nn

import fallline
from fallline import select

from .trajectories import assert_near, assert_same, copies, parameters, run, set_gradients, values


class Model(nn.Module):
    """A language model in miniature: the head shares the weight of the embedding."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(80, 60)
        self.layers = nn.ModuleList(nn.Linear(60, 60) for _ in range(2))
        self.norm = nn.LayerNorm(60)
        self.head = nn.Linear(60, 80)
        self.head.weight = self.embed.weight


def rules_by_name(opt):
    return {name: part.rule for part in opt.describe().parts for name in part.names}


def settings_by_name(opt, setting):
    return {name: group[setting] for group in opt.param_groups for name in group["param_names"]}


HIDDEN = {"layers.0.weight", "layers.1.weight"}
EVERYONE = {name for name, _ in Model().named_parameters()}


@pytest.mark.parametrize(
    ("assign", "taken"),
    [
        ({"embed*": "adamw"}, {"embed.weight"}),
        ({"layers.?.weight": "adamw"}, HIDDEN),
        ({nn.LayerNorm: "adamw"}, {"norm.weight", "norm.bias"}),
        ({select.vectors: "adamw"}, EVERYONE - HIDDEN - {"embed.weight"}),
        ({select.matrices: "adamw"}, HIDDEN | {"embed.weight"}),
        ({select.ndim(1): "adamw"}, EVERYONE - HIDDEN - {"embed.weight"}),
        ({lambda name, param: name.endswith("bias") and param.numel() == 80: "adamw"}, {"head.bias"}),
        ([("embed*", "adamw"), (nn.LayerNorm, "adamw")], {"embed.weight", "norm.weight", "norm.bias"}),
    ],
)
def test_selectors_take_what_they_match_and_the_rest_stays(assign, taken):
    opt = fallline.create("lion", Model(), assign=assign)
    assert rules_by_name(opt) == {name: "adamw" if name in taken else "lion" for name in EVERYONE}


def test_the_first_selector_that_matches_takes_a_parameter():
    opt = fallline.create("lion", Model(), assign=[("*.1.*", "sgd"), ("layers.*", "adamw")])
    rules = rules_by_name(opt)
    assert {name: rules[name] for name in ("layers.0.weight", "layers.1.weight", "norm.weight")} == {
        "layers.0.weight": "adamw",
        "layers.1.weight": "sgd",
        "norm.weight": "lion",
    }


@pytest.mark.parametrize("pattern", ["embed.weight", "head.weight"])
def test_a_tied_parameter_is_found_under_each_of_its_names_and_stepped_once(pattern):
    model = Model()
    for given in (model, model.named_parameters(remove_duplicate=False)):
        opt = fallline.create("lion", given, assign={pattern: "adamw"})
        assert [n for n, rule in rules_by_name(opt).items() if rule == "adamw"] == ["embed.weight"]
        assert sum(part.tensors for part in opt.describe().parts) == len(EVERYONE)


def test_parts_step_as_optimizers_of_their_own_would():
    model = Model()
    twin = copy.deepcopy(model)
    opt = fallline.create("lion", model, lr=1e-3, assign={"embed*": {"rule": "adamw", "lr": 1e-2}})
    rest = [p for name, p in twin.named_parameters() if name != "embed.weight"]
    others = [fallline.Lion(rest, lr=1e-3), fallline.AdamW([twin.embed.weight], lr=1e-2)]
    for step in range(3):
        set_gradients(model.parameters(), step)
        set_gradients(twin.parameters(), step)
        opt.step()
        for other in others:
            other.step()
    assert_same(values(model.parameters()), values(twin.parameters()))


def test_another_rule_has_its_own_defaults_and_own_settings_stay_with_the_own_rule():
    opt = fallline.create(
        "lion",
        Model(),
        lr=0.5,
        betas=(0.5, 0.6),
        assign={"embed*": "adamw", "head*": {"lr": 0.25}, "norm*": {"rule": "lion"}},
    )
    rates, betas = settings_by_name(opt, "lr"), settings_by_name(opt, "betas")
    assert (rates["embed.weight"], betas["embed.weight"]) == (1e-3, (0.9, 0.999))
    assert (rates["head.bias"], betas["head.bias"]) == (0.25, (0.5, 0.6))
    assert (rates["norm.bias"], betas["norm.bias"]) == (0.5, (0.5, 0.6))


def test_biases_and_norms_do_not_decay_under_any_rule():
    opt = fallline.create(
        "lion",
        Model(),
        weight_decay=0.1,
        assign={"layers.1.*": {"rule": "adamw", "weight_decay": 0.2}, "embed*": "sgd"},
    )
    decays = settings_by_name(opt, "weight_decay")
    assert decays == {
        **dict.fromkeys(EVERYONE, 0.0),
        "layers.0.weight": 0.1,
        "layers.1.weight": 0.2,
        "embed.weight": 0,
    }


def test_layer_lr_decay_scales_the_rates_of_every_rule():
    model = Model()
    opt = fallline.create("lion", model, lr=1.0, layer_lr_decay=0.5, assign={"*.weight": {"rule": "adamw", "lr": 0.1}})
    rates = settings_by_name(opt, "lr")
    assert [rates[f"{name}.weight"] for name in ("embed", "layers.0", "layers.1", "norm")] == [
        0.1 / 8,
        0.1 / 4,
        0.1 / 2,
        0.1,
    ]
    assert [rates[f"{name}.bias"] for name in ("layers.0", "layers.1", "norm")] == [1 / 4, 1 / 2, 1.0]


def test_named_parameters_keep_names_and_decay_as_they_are_told():
    opt = fallline.create(
        "lion", Model().named_parameters(), weight_decay=0.1, assign={"*.bias": {"rule": "adamw", "weight_decay": 0.3}}
    )
    decays = settings_by_name(opt, "weight_decay")
    assert decays == {name: 0.3 if name.endswith("bias") else 0.1 for name in EVERYONE}


def test_bare_parameters_are_selected_by_shape_and_predicate():
    params = parameters((5, 4), (4,), (3, 2, 2), ())
    seen = []

    def is_long(name, param):
        seen.append(name)
        return param.numel() == 12

    opt = fallline.create("lion", params, assign=[(select.vectors, "adamw"), (is_long, "sgd")])
    assert [(part.rule, part.tensors, part.names) for part in opt.describe().parts] == [
        ("lion", 1, ()),
        ("adamw", 2, ()),
        ("sgd", 1, ()),
    ]
    assert set(seen) == {None}


REFUSED = {
    "misspelt pattern": (
        {"embd*": "adamw"},
        ValueError,
        r"'embd\*' matches no parameter.*near names are embed\.weight",
    ),
    "pattern of a beginning": ({"embed": "adamw"}, ValueError, r"whole names.*near names are embed\.weight"),
    "pattern like no name": ({"qqq": "adamw"}, ValueError, r"'qqq' matches no parameter.*describe\(\)"),
    "class of no module": ({nn.Conv2d: "adamw"}, ValueError, "Conv2d matches no parameter"),
    "shape of no parameter": ({select.ndim(4): "adamw"}, ValueError, r"select\.ndim\(4\) matches no parameter"),
    "behind a wider one": (
        [("*", "adamw"), ("embed*", "sgd")],
        ValueError,
        r"'embed\*' takes no parameter, since '\*' comes before it",
    ),
    "nothing left": ({"*": "adamw"}, ValueError, "leaves no parameter to lion; create 'adamw' instead"),
    "unknown rule": ({"embed*": "adamv"}, ValueError, "there is no optimizer 'adamv'; did you mean"),
    "unknown setting": ({"embed*": {"lrr": 0.1}}, TypeError, "no group option 'lrr'; did you mean 'lr'"),
    "option of the optimizer": ({"embed*": {"clip_norm": 1.0}}, TypeError, "option of the optimizer, not of a group"),
    "a rule with methods": ({"embed*": "schedule_free_adamw"}, ValueError, r"needs eval\(\) and train\(\)"),
    "no selector": ({3: "adamw"}, TypeError, "selector 3; use a pattern"),
    "no settings": ({"embed*": 0.1}, TypeError, r"'embed\*' 0\.1; it must be the name of a rule"),
    "no pairs": (["embed*"], TypeError, "a dict or pairs"),
    "members": ({"embed*": {"params": []}}, TypeError, "'params'; the selector says"),
    "decay that reaches nothing": ({"*bias": {"weight_decay": 0.1}}, ValueError, "weight_decay=0.1 would reach no"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_assignments_that_cannot_be_meant_are_refused(case):
    assign, kind, says = REFUSED[case]
    with pytest.raises(kind, match=says):
        fallline.create("lion", Model(), assign=assign)


def test_parameters_without_names_or_modules_are_not_selected_by_them():
    with pytest.raises(ValueError, match=r"the name 'embed\*', and these parameters have none; pass the model, or"):
        fallline.create("lion", Model().parameters(), assign={"embed*": "adamw"})
    with pytest.raises(ValueError, match=r"module Embedding, and parameters alone do not say.*pass the model"):
        fallline.create("lion", Model().named_parameters(), assign={nn.Embedding: "adamw"})
    with pytest.raises(TypeError, match="not groups; give each group its rule"):
        fallline.create("lion", [{"params": parameters((3,))}], assign={select.vectors: "adamw"})


def test_low_bits_on_one_part():
    model = nn.Linear(80, 80)
    opt = fallline.create("adamw", model, assign={select.matrices: {"rule": "lion", "state_dtype": "int8"}})
    run(opt, 1)
    assert "exp_avg:int8" in opt.state[model.weight] and "exp_avg_sq" in opt.state[model.bias]
    assert [part.settings.get("state_dtype") for part in opt.describe().parts] == [None, "int8"]


def test_schedules_and_clipping_go_over_all_parts():
    model = Model()
    opt = fallline.create("lion", model, lr=1e-4, clip_norm=0.5, assign={"embed*": {"rule": "adamw", "lr": 1e-2}})
    schedule = torch.optim.lr_scheduler.ExponentialLR(opt, 0.5)
    run(opt, 1)
    norm = torch.cat([p.grad.reshape(-1) for p in model.parameters()]).norm()
    assert_near([opt.grad_norm], [norm])
    schedule.step()
    assert sorted({group["lr"] for group in opt.param_groups}) == [5e-5, 5e-3]


def test_checkpoint_of_an_assignment_goes_on_bit_for_bit(tmp_path):
    assign = {nn.Embedding: {"rule": "adamw", "state_dtype": "int8"}, select.vectors: {"lr": 1e-2}}
    model = Model()
    opt = fallline.create("lion", model, weight_decay=0.1, assign=assign)
    run(opt, 3)
    torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, tmp_path / "saved.pt")
    run(opt, range(3, 6))

    resumed = Model()
    other = fallline.create("lion", resumed, weight_decay=0.1, assign=assign)
    saved = torch.load(tmp_path / "saved.pt", weights_only=True)
    resumed.load_state_dict(saved["model"])
    other.load_state_dict(saved["opt"])
    run(other, range(3, 6))
    assert_same(values(model.parameters()), values(resumed.parameters()))
    assert other.describe() == opt.describe()
    with pytest.raises(ValueError, match="is stepped by"):
        fallline.create("lion", Model(), weight_decay=0.1, assign={**assign, nn.Embedding: "sgd"}).load_state_dict(
            saved["opt"]
        )


def test_describe_says_who_went_where():
    opt = fallline.create(
        "lion", Model(), lr=1e-4, weight_decay=0.1, assign={"embed*": {"rule": "adamw", "betas": [0.9, 0.95]}}
    )
    assert opt.describe() == (
        "lion: lr=0.0001, weight_decay=0.1: 2 tensors, 7,200 elements: layers.0.weight, layers.1.weight\n"
        "lion: lr=0.0001: 5 tensors, 320 elements: layers.0.bias, layers.1.bias, norm.weight, norm.bias, head.bias\n"
        "adamw: lr=0.001, betas=(0.9, 0.95): 1 tensor, 4,800 elements: embed.weight"
    )
    last = opt.describe().parts[-1]
    assert (last.rule, last.settings, last.groups) == ("adamw", {"lr": 1e-3, "betas": (0.9, 0.95)}, (2,))
    assert [part.rule for part in opt.explain().parts] == ["lion", "adamw"]


def test_describe_shortens_long_lists_and_follows_changes():
    params = [(f"p{i}", p) for i, p in enumerate(copies(parameters(*[(2,)] * 9)))]
    opt = fallline.SGD(params, lr=torch.tensor(0.5))
    assert opt.describe() == "sgd: lr=0.5: 9 tensors, 18 elements: p0, p1, p2, p3, p4, p5 and 3 more"
    assert len(opt.describe().parts[0].names) == 9
    opt.param_groups[0]["momentum"] = 0.9
    assert "momentum=0.9" in opt.describe()
