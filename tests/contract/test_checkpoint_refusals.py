"""A checkpoint that does not fit is refused in one line, and nothing has changed."""

import copy

import pytest
import torch

import fallline
from fallline.optim.checkpoint_origin import _options as known_classes

from .trajectories import Unchanged, assert_near, assert_same, parameters, run, values


def good(state_dtype="float32", name="AdamW"):
    opt = getattr(fallline, name)(parameters((64, 65), (5,)), lr=0.5, state_dtype=state_dtype)
    run(opt, 2)
    return copy.deepcopy(opt.state_dict())


def changed(state_dtype="float32", **edits):
    """A good checkpoint with some of parameter 0's entries replaced, or removed by None."""
    saved = good(state_dtype)
    for key, value in edits.items():
        if value is None:
            del saved["state"][0][key.replace("__", ":")]
        else:
            saved["state"][0][key.replace("__", ":")] = value
    return saved


def with_header(**header):
    return {**good(), "fallline": header}


def with_groups(edit):
    saved = good()
    saved["param_groups"] = edit(saved["param_groups"])
    return saved


def with_option(saved, name, value):
    return {**saved, "param_groups": [{**group, name: value} for group in saved["param_groups"]]}


def torch_checkpoint(name, **options):
    opt = getattr(torch.optim, name)(parameters((64, 65), (5,)), **options)
    return opt.state_dict()


CASES = {
    "another optimizer of fallline": (lambda: good(name="Lion"), ["'lion'", "AdamW", "fallline.Lion"]),
    "another optimizer of torch with states": (
        lambda: _stepped(torch.optim.RMSprop(parameters((64, 65), (5,)))),
        ["AdamW", "torch.optim.RMSprop", "fallline.RMSprop"],
    ),
    "another optimizer of torch without states": (
        lambda: torch_checkpoint("SGD"),
        ["AdamW", "torch.optim.SGD", "fallline.SGD"],
    ),
    "torch's Adam, whose decay is coupled": (
        lambda: torch_checkpoint("Adam", weight_decay=0.1),
        ["AdamW", "torch.optim.Adam", "fallline.Adam"],
    ),
    "coupled decay of an unknown optimizer": (
        lambda: with_option(torch_checkpoint("Adam"), "their_own", 1),
        ["group 0", "decoupled_weight_decay=False", "another optimizer than AdamW", "class that wrote it"],
    ),
    "options of an unknown optimizer": (
        lambda: with_option(torch_checkpoint("SGD"), "their_own", 1),
        ["group 0", "'betas'", "another optimizer than AdamW", "class that wrote it"],
    ),
    "newer version": (lambda: with_header(version=99, rule="adamw"), ["99", "2", "fallline"]),
    "header that is none": (lambda: {**good(), "fallline": 7}, ["fallline", "7"]),
    "header with a number for names": (lambda: with_header(version=1, rule="adamw", own=7), ["'own': 7", "fallline"]),
    "no groups": (lambda: {"state": {}}, ["param_groups"]),
    "a model's checkpoint": (lambda: torch.nn.Linear(2, 2).state_dict(), ["param_groups", "model"]),
    "not a dictionary": (lambda: [1, 2], ["list"]),
    "more groups": (
        lambda: with_groups(lambda g: [*g, {**g[0], "params": [2]}]),
        ["2 parameter groups", "1"],
    ),
    "fewer parameters": (
        lambda: with_groups(lambda g: [{**g[0], "params": [0]}]),
        ["group 0", "1 parameter", "2"],
    ),
    "wrong shape": (
        lambda: changed(exp_avg=torch.zeros(65, 64)),
        ["parameter 0", "exp_avg", "(65, 64)", "(64, 65)"],
    ),
    "broadcastable shape": (
        lambda: changed(exp_avg=torch.zeros(1, 65)),
        ["parameter 0", "exp_avg", "(1, 65)"],
    ),
    "scalar instead of a tensor": (lambda: changed(exp_avg=1.0), ["parameter 0", "exp_avg", "float"]),
    "integers": (lambda: changed(exp_avg=torch.zeros(64, 65, dtype=torch.int64)), ["exp_avg", "int64"]),
    "complex state of a real parameter": (
        lambda: changed(exp_avg=torch.zeros(64, 65, dtype=torch.complex64)),
        ["exp_avg", "complex64"],
    ),
    "missing scale": (lambda: changed("int8", exp_avg__scale=None), ["parameter 0", "exp_avg:scale"]),
    "missing codes": (lambda: changed("int8", exp_avg__int8=None), ["parameter 0", "exp_avg", "scale"]),
    "short scale": (
        lambda: changed("int8", exp_avg__scale=torch.zeros(3)),
        ["parameter 0", "exp_avg:scale", "(3,)", "(17,)"],
    ),
    "codes of another dtype": (
        lambda: changed("int8", exp_avg__int8=torch.zeros(64, 65)),
        ["parameter 0", "exp_avg:int8", "float32", "int8"],
    ),
    "codes of another shape": (
        lambda: changed("int8", exp_avg__int8=torch.zeros(65, 64, dtype=torch.int8)),
        ["parameter 0", "exp_avg:int8", "(65, 64)", "(64, 65)"],
    ),
    "missing state": (
        lambda: changed(exp_avg=None),
        ["parameter 0", "no 'exp_avg'", "AdamW", "whole checkpoint"],
    ),
    "state that is None": (
        lambda: {**good(), "state": {0: {**good()["state"][0], "exp_avg_sq": None}}},
        ["parameter 0", "no 'exp_avg_sq'"],
    ),
    "unknown format": (
        lambda: changed(exp_avg__int3=torch.zeros(5), exp_avg=None),
        ["parameter 0", "exp_avg:int3"],
    ),
    "unknown state": (lambda: changed(exp_inf=torch.zeros(64, 65)), ["exp_inf", "parameter 0", "AdamW"]),
    "step is no number": (lambda: changed(step=torch.zeros(2)), ["parameter 0", "step"]),
    "negative step": (lambda: changed(step=torch.tensor(-1.0)), ["parameter 0", "step", "-1"]),
    "state of a parameter that no group has": (
        lambda: {**good(), "state": {**good()["state"], 7: good()["state"][1]}},
        ["7"],
    ),
    "state that is no dictionary": (lambda: {**good(), "state": {0: torch.zeros(3)}}, ["parameter 0"]),
    "hyperparameter out of range": (lambda: with_groups(lambda g: [{**g[0], "lr": -1.0}]), ["lr", "-1"]),
    "hyperparameter missing": (
        lambda: with_groups(lambda g: [{k: v for k, v in g[0].items() if k != "betas"}]),
        ["group 0", "betas"],
    ),
}


def _stepped(optimizer):
    run(optimizer, 1)
    return optimizer.state_dict()


@pytest.mark.parametrize("state_dtype", ["float32", "int8"])
@pytest.mark.parametrize("case", CASES)
def test_checkpoint_that_does_not_fit_is_refused_and_nothing_changes(case, state_dtype):
    make, says = CASES[case]
    opt = fallline.AdamW(params := parameters((64, 65), (5,)), lr=0.1, state_dtype=state_dtype)
    run(opt, 1)
    reference = fallline.AdamW(twins := parameters((64, 65), (5,)), lr=0.1, state_dtype=state_dtype)
    run(reference, 1)
    with Unchanged(opt), pytest.raises(ValueError) as error:
        opt.load_state_dict(make())
    message = str(error.value)
    assert "\n" not in message
    for word in says:
        assert word in message, message
    run(opt, range(1, 3))
    run(reference, range(1, 3))
    assert_same(values(params), values(twins))


def test_the_checkpoint_itself_is_not_changed_by_a_refusal():
    saved = changed(exp_avg=torch.zeros(3))
    kept = copy.deepcopy(saved)
    opt = fallline.AdamW(parameters((64, 65), (5,)))
    with pytest.raises(ValueError):
        opt.load_state_dict(saved)
    assert_same(saved["state"], kept["state"])
    assert saved["param_groups"] == kept["param_groups"]


def test_good_checkpoint_is_what_the_cases_start_from():
    for state_dtype in ("float32", "int8"):
        fallline.AdamW(parameters((64, 65), (5,))).load_state_dict(good(state_dtype))


GROUP_NUMBERS = [
    ("Prodigy", "d", None, "group 1 of the checkpoint has no 'd', without which Prodigy cannot go on"),
    ("Prodigy", "k", "3rd", "group 1 of the checkpoint: k is '3rd'; it should be a finite number"),
    ("Prodigy", "d_max", torch.ones(2), r"d_max is a tensor of shape \(2,\); it should be a finite number"),
    ("NAGGS", "gamma_t", None, "has no 'gamma_t'"),
    ("MARS", "lr_init", None, "has no 'lr_init'"),
    ("LAMB", "step", None, "has no 'step'"),
    ("LAMB", "step", -1, "step is -1; it should be >= 0"),
    ("ScheduleFreeAdamW", "weight_sum", float("nan"), "weight_sum is nan; it should be a finite number"),
    ("ScheduleFreeAdamW", "train_mode", None, "has no 'train_mode'"),
    ("ScheduleFreeAdamW", "train_mode", 0, "train_mode is 0; it should be True or False"),
]


@pytest.mark.parametrize(("name", "key", "value", "says"), GROUP_NUMBERS)
def test_numbers_of_a_group_do_not_begin_anew(name, key, value, says):
    """They are states: with Prodigy's d back at its start, the steps are a thousandth of what they were."""
    first, second = parameters((3, 4), (5,))
    opt = getattr(fallline, name)([{"params": [first]}, {"params": [second]}])
    run(opt, 2)
    saved = copy.deepcopy(opt.state_dict())
    if value is None:
        del saved["param_groups"][1][key]
    else:
        saved["param_groups"][1][key] = value
    with Unchanged(opt), pytest.raises(ValueError, match=says):
        opt.load_state_dict(saved)


def test_capturable_checkpoint_of_torch_is_loaded_as_an_ordinary_one():
    saved = torch_checkpoint("AdamW")
    saved["param_groups"][0]["capturable"] = True
    opt = fallline.AdamW(parameters((64, 65), (5,)))
    opt.load_state_dict(saved)
    assert opt.param_groups[0]["capturable"] is False


TORCH_CLASSES = [
    name
    for name, value in vars(torch.optim).items()
    if isinstance(value, type) and issubclass(value, torch.optim.Optimizer) and name != "Optimizer"
]
# Adam has AdamW's form of decay as an option.
LOADS = {(name, name) for name in TORCH_CLASSES} | {("AdamW", "Adam")}


@pytest.mark.parametrize("scheduled", [False, True], ids=["", "scheduled"])
@pytest.mark.parametrize(
    "mine", ["AdamW", "Adam", "AMSGrad", "SGD", "NAdam", "RAdam", "Adafactor", "Lion", "NAdamW", "ScheduleFreeAdamW"]
)
@pytest.mark.parametrize("theirs", TORCH_CLASSES)
def test_checkpoint_of_another_class_of_torch_names_the_class_to_load_it_into(theirs, mine, scheduled):
    wrote = getattr(torch.optim, theirs)(parameters((3, 4)))
    if scheduled:
        torch.optim.lr_scheduler.CosineAnnealingLR(wrote, 10)
    opt = getattr(fallline, mine)(parameters((3, 4)), lr=0.5)
    if (theirs, "Adam" if mine == "AMSGrad" else mine) in LOADS:
        opt.load_state_dict(wrote.state_dict())
        assert opt.param_groups[0]["lr"] == wrote.param_groups[0]["lr"]
        return
    remedy = f"load it into fallline.{theirs}" if hasattr(fallline, theirs) else "fallline has no such optimizer"
    with Unchanged(opt), pytest.raises(ValueError) as error:
        opt.load_state_dict(wrote.state_dict())
    assert str(error.value).startswith(f"{mine} cannot load a checkpoint of torch.optim.{theirs}; {remedy}")


@pytest.mark.parametrize("name", [name for name in TORCH_CLASSES if hasattr(fallline, name)])
def test_the_class_that_is_named_loads_it(name):
    wrote = getattr(torch.optim, name)(parameters((3, 4)))
    opt = getattr(fallline, name)(parameters((3, 4)))
    opt.load_state_dict(wrote.state_dict())
    run(opt, 1)
    run(wrote, 1)
    # torch's Muon orthogonalises in bfloat16.
    near = dict(rtol=0, atol=1e-4) if name == "Muon" else {}
    assert_near(values(opt.param_groups[0]["params"]), values(wrote.param_groups[0]["params"]), **near)


def test_an_optimizer_among_torchs_that_cannot_be_made_does_not_hinder_loading(monkeypatch):
    class Stubborn(torch.optim.Optimizer):
        def __init__(self, params):
            raise RuntimeError("it wants more than parameters")

    monkeypatch.setattr(torch.optim, "Stubborn", Stubborn, raising=False)
    known_classes.cache_clear()
    try:
        wrote = torch.optim.Adam(parameters((3, 4)))
        run(wrote, 1)
        with pytest.raises(ValueError, match=r"cannot load a checkpoint of torch\.optim\.Adam;"):
            fallline.Lion(parameters((3, 4))).load_state_dict(wrote.state_dict())
        fallline.Adam(parameters((3, 4))).load_state_dict(wrote.state_dict())
    finally:
        known_classes.cache_clear()
