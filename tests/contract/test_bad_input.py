"""Bad input: the message names the argument, the value and the remedy, and nothing has changed."""

import math

import pytest
import torch
from torch.nn import Parameter

import fallline
from fallline.optimizers import description_of, descriptions

from .trajectories import Unchanged, assert_same, parameters, run, values


def stepped(optimizer, param, **options):
    """The first step of a parameter with a gradient: what cannot be known before is refused there."""
    param.grad = torch.zeros_like(param)
    optimizer([param], **options).step()


def p(*shape, dtype=torch.float32):
    return torch.zeros(shape or (3,), dtype=dtype)


SAME = p()

# What is called → the error and the words it must contain.
CASES = {
    "negative lr": (lambda: fallline.AdamW([p()], lr=-0.1), ValueError, ["lr must be >= 0", "-0.1"]),
    "nan lr": (lambda: fallline.AdamW([p()], lr=math.nan), ValueError, ["lr must be finite", "nan"]),
    "infinite lr": (lambda: fallline.SGD([p()], lr=math.inf), ValueError, ["lr must be finite and >= 0", "inf"]),
    "infinite tensor lr": (lambda: fallline.SGD([p()], lr=torch.tensor(math.inf)), ValueError, ["lr must be finite"]),
    "infinite beta": (lambda: fallline.AdamW([p()], betas=(math.inf, 0.9)), ValueError, ["betas[0]", "[0, 1)", "inf"]),
    "lr is no number": (lambda: fallline.AdamW([p()], lr="fast"), TypeError, ["lr", "number", "'fast'"]),
    "lr as YAML reads 1e-3": (lambda: fallline.AdamW([p()], lr="1e-3"), TypeError, ["lr", "number", "'1e-3'"]),
    "beta as text": (lambda: fallline.AdamW([p()], betas=("0.9", 0.99)), TypeError, ["betas[0]", "number", "'0.9'"]),
    "lr of several numbers": (lambda: fallline.AdamW([p()], lr=torch.ones(2)), ValueError, ["lr", "number"]),
    "lr of many numbers": (lambda: fallline.AdamW([p()], lr=torch.rand(99, 99)), ValueError, ["lr", "number"]),
    "beta of 1": (lambda: fallline.AdamW([p()], betas=(0.9, 1.0)), ValueError, ["betas[1]", "[0, 1)", "1"]),
    "negative beta": (
        lambda: fallline.Lion([p()], betas=(-0.1, 0.9)),
        ValueError,
        ["betas[0]", "[0, 1)", "-0.1"],
    ),
    "one beta": (lambda: fallline.AdamW([p()], betas=(0.9,)), ValueError, ["betas", "2 numbers", "(0.9,)"]),
    "three betas": (lambda: fallline.AdamW([p()], betas=(0.9, 0.9, 0.9)), ValueError, ["betas", "2 numbers"]),
    "betas is a number": (
        lambda: fallline.AdamW([p()], betas=0.9),
        ValueError,
        ["betas", "2 numbers", "0.9"],
    ),
    "negative eps": (lambda: fallline.AdamW([p()], eps=-1e-8), ValueError, ["eps must be >= 0", "-1e-08"]),
    "negative weight decay": (
        lambda: fallline.SGD([p()], weight_decay=-1.0),
        ValueError,
        ["weight_decay", "-1"],
    ),
    "negative momentum": (lambda: fallline.SGD([p()], momentum=-1.0), ValueError, ["momentum", "-1"]),
    "alpha of 1": (lambda: fallline.RMSprop([p()], alpha=1.0), ValueError, ["alpha", "[0, 1)", "1"]),
    "negative accumulator": (
        lambda: fallline.Adagrad([p()], initial_accumulator_value=-1.0),
        ValueError,
        ["initial_accumulator_value", "-1"],
    ),
    "nesterov without momentum": (
        lambda: fallline.SGD([p()], nesterov=True),
        ValueError,
        ["nesterov", "momentum > 0"],
    ),
    "flag is a number": (lambda: fallline.AdamW([p()], amsgrad=2), ValueError, ["amsgrad", "True", "2"]),
    "unknown state_dtype": (
        lambda: fallline.AdamW([p()], state_dtype="int7"),
        ValueError,
        ["state_dtype", "'int7'", "int8"],
    ),
    "state_dtype that is no format": (
        lambda: fallline.AdamW([p()], state_dtype=torch.float16),
        ValueError,
        ["state_dtype", "float16", "'int8'"],
    ),
    "int8 without states": (
        lambda: fallline.SGD([p()], state_dtype="int8"),
        ValueError,
        ["state_dtype", "'int8'", "SGD", "float32"],
    ),
    "int8 without states in a group": (
        lambda: fallline.SGD([{"params": [p()], "momentum": 0.0, "state_dtype": "int8"}], momentum=0.9),
        ValueError,
        ["state_dtype", "SGD"],
    ),
    "unknown argument": (
        lambda: fallline.AdamW([p()], learning_rate=1),
        TypeError,
        ["'learning_rate'", "AdamW", "lr"],
    ),
    "argument twice": (lambda: fallline.AdamW([p()], 0.1, lr=0.1), TypeError, ["lr", "twice"]),
    "too many arguments": (lambda: fallline.Lion([p()], 0.1, (0.9, 0.9), 0.0, 1), TypeError, ["Lion", "3"]),
    "no parameters argument": (lambda: fallline.AdamW(), TypeError, ["params"]),
    "empty list": (lambda: fallline.AdamW([]), ValueError, ["optimizer got an empty parameter list"]),
    "a tensor": (lambda: fallline.AdamW(p()), TypeError, ["params", "torch.FloatTensor"]),
    "not tensors": (lambda: fallline.AdamW([1.0]), TypeError, ["Tensors", "float"]),
    "a set": (lambda: fallline.AdamW([{"params": {p()}}]), TypeError, ["ordered"]),
    "not a leaf": (lambda: fallline.AdamW([p().requires_grad_() * 2]), ValueError, ["non-leaf"]),
    "duplicate in a group": (
        lambda: fallline.AdamW([SAME, p(), SAME]),
        ValueError,
        ["parameters 0 and 2", "same", "once"],
    ),
    "duplicate by name": (
        lambda: fallline.AdamW([("a", SAME), ("b", SAME)]),
        ValueError,
        ["parameters 0 and 1", "same"],
    ),
    "duplicate in two groups": (
        lambda: fallline.AdamW([{"params": [SAME]}, {"params": [SAME]}]),
        ValueError,
        ["more than one parameter group"],
    ),
    "integer parameter": (
        lambda: fallline.AdamW([p(dtype=torch.int64)]),
        TypeError,
        ["parameter 0", "int64", "convert"],
    ),
    "boolean parameter": (
        lambda: fallline.AdamW([p(), p(dtype=torch.bool)]),
        TypeError,
        ["parameter 1", "bool"],
    ),
    "sparse parameter": (
        lambda: fallline.AdamW([p(3, 3).to_sparse()]),
        TypeError,
        ["parameter 0", "sparse_coo"],
    ),
    "overlapping memory": (
        lambda: fallline.AdamW([p(1).expand(4)]),
        ValueError,
        ["parameter 0", "overlaps itself", "(4,)", "clone"],
    ),
    "native on float64": (
        lambda: fallline.AdamW([p(dtype=torch.float64)], lowering="native"),
        ValueError,
        ["lowering='native'", "float64", "lowering=None"],
    ),
    "native on another device": (
        lambda: stepped(fallline.AdamW, torch.zeros(3, device="meta"), lowering="native"),
        ValueError,
        ["lowering='native'", "meta"],
    ),
    "compiled and fused": (
        lambda: fallline.AdamW([p()], compiled=True, fused=True),
        ValueError,
        ["compiled=True", "fused"],
    ),
    "compiled and foreach": (
        lambda: fallline.AdamW([p()], compiled=True, foreach=True),
        ValueError,
        ["compiled=True", "foreach"],
    ),
    "capturable": (
        lambda: fallline.AdamW([p()], capturable=True),
        ValueError,
        ["capturable=True", "capturable=False"],
    ),
    "differentiable": (
        lambda: fallline.AdamW([p()], differentiable=True),
        ValueError,
        ["differentiable=True", "False"],
    ),
    "maximize is a number": (
        lambda: fallline.AdamW([p()], maximize=3),
        TypeError,
        ["maximize", "True or False", "3"],
    ),
    "fused is a string": (
        lambda: fallline.AdamW([p()], fused="yes"),
        TypeError,
        ["fused", "True, False or None", "'yes'"],
    ),
    "rounding and master": (
        lambda: fallline.AdamW([p()], stochastic_rounding=True, master_weights=True),
        ValueError,
        ["stochastic_rounding", "master_weights", "choose one"],
    ),
    "seed is no integer": (
        lambda: fallline.AdamW([p()], rounding_seed=0.5),
        TypeError,
        ["rounding_seed", "0.5"],
    ),
    "clip_norm of 0": (lambda: fallline.AdamW([p()], clip_norm=0.0), ValueError, ["clip_norm", "> 0", "0"]),
    "negative clip_norm": (lambda: fallline.AdamW([p()], clip_norm=-1), ValueError, ["clip_norm", "-1"]),
    "clip_norm is nan": (lambda: fallline.AdamW([p()], clip_norm=math.nan), ValueError, ["clip_norm", "nan"]),
    "skip_nonfinite is a number": (
        lambda: fallline.AdamW([p()], skip_nonfinite=1),
        TypeError,
        ["skip_nonfinite", "1"],
    ),
    "group that is a list": (
        lambda: fallline.AdamW([p()]).add_param_group([p(3, 4)]),
        TypeError,
        ["'params'", "a list"],
    ),
    "state as an option of a group": (
        lambda: fallline.AdamW([{"params": [p()], "exp_avg": 0.5}]),
        TypeError,
        ["group option 'exp_avg'"],
    ),
    "class instead of a name": (
        lambda: fallline.create(fallline.AdamW, [p()]),
        TypeError,
        ['"adamw"', "fallline.AdamW"],
    ),
    "export of something else": (
        lambda: fallline.export_for_torch(torch.optim.AdamW([p()])),
        TypeError,
        ["export_for_torch", "AdamW"],
    ),
    "bad value in a group": (
        lambda: fallline.AdamW([{"params": [p()]}, {"params": [p()], "lr": -2.0}]),
        ValueError,
        ["lr must be >= 0", "-2"],
    ),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused_with_argument_value_and_remedy(case):
    call, kind, words = CASES[case]
    with pytest.raises(kind) as error:
        call()
    message = str(error.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message


GROUPS = {
    "bad value": ({"params": [p()], "lr": -1.0}, ValueError),
    "unknown key": ({"params": [p()], "beta": 0.9}, TypeError),
    "integer parameter": ({"params": [p(dtype=torch.int64)]}, TypeError),
    "second of two bad": ({"params": [p(), p(1).expand(3)]}, ValueError),
    "parameter of another group": ({"params": "old"}, ValueError),
    "repeated": ({"params": [SAME, SAME]}, ValueError),
    "impossible lowering": ({"params": [p(dtype=torch.float64)], "lowering": "native"}, ValueError),
    "not a dict": ([p()], TypeError),
    "no params": ({"lr": 0.1}, TypeError),
}


@pytest.mark.parametrize("case", GROUPS)
def test_refused_group_leaves_the_optimizer_as_it_was(case):
    group, kind = GROUPS[case]
    opt = fallline.AdamW(params := parameters((3,)), lr=0.1)
    run(opt, 1)
    if isinstance(group, dict) and group.get("params") == "old":
        group = {"params": params}
    with Unchanged(opt), pytest.raises(kind):
        opt.add_param_group(group)
    assert len(opt.param_groups) == 1
    twin = fallline.AdamW(twins := parameters((3,)), lr=0.1)
    run(opt, range(1, 3))
    run(twin, 3)
    assert_same(values(params), values(twins))


def test_lowering_that_becomes_impossible_is_refused_before_anything_changes():
    a, b = (Parameter(p()) for _ in range(2))
    opt = fallline.AdamW([a, b], lr=0.1, lowering="native")
    run(opt, 1)
    b.grad = None
    b.data = b.data.double()
    b.grad = torch.ones(3, dtype=torch.float64)
    a.grad = torch.ones(3)
    with Unchanged(opt), pytest.raises(ValueError, match=r"lowering='native'.*parameter 1.*float64"):
        opt.step()


BOUNDED = [(d.class_name, name) for d in descriptions() for name, note in d.rule.hypers.items() if note.finite]


@pytest.mark.parametrize(("optimizer", "name"), BOUNDED)
@pytest.mark.parametrize("value", [math.inf, math.nan])
def test_what_is_not_finite_is_told_so(optimizer, name, value):
    make, described = getattr(fallline, optimizer), description_of(optimizer)
    alias, parts = next(((a, ps) for a, ps in described.rule.aliases.items() if name in ps), (name, ()))
    spelled = f"{alias}[{parts.index(name)}]" if parts else name
    given = (
        [value if part == name else old for part, old in zip(parts, described.defaults[alias], strict=True)]
        if parts
        else value
    )
    with pytest.raises(ValueError) as error:
        make([p()], **{alias: given})
    says = described.rule.hypers[name].says
    assert str(error.value) == f"{spelled} must be finite and {says}, got {value}"


SET_LATER = {
    "capturable": (True, ValueError, "capturable=True is not supported"),
    "differentiable": (True, ValueError, "differentiable=True is not supported"),
    "decoupled_weight_decay": (False, ValueError, "decoupled_weight_decay=False is not possible with AdamW"),
    "rounding_seed": (0.5, TypeError, "rounding_seed must be an integer, got 0.5"),
    "maximize": (2, TypeError, "maximize must be True or False, got 2"),
    "state_dtype": ("int7", ValueError, "state_dtype must be one of"),
    "amsgrad": ("yes", ValueError, "amsgrad must be False or True, got 'yes'"),
    "lr": (math.inf, ValueError, "lr must be finite and >= 0, got inf"),
}


@pytest.mark.parametrize("name", SET_LATER)
def test_what_is_set_in_a_group_between_steps_is_read_and_checked(name):
    value, kind, says = SET_LATER[name]
    opt = fallline.AdamW([{"params": [q]} for q in parameters((3,), (4,))], lr=0.1, state_dtype="bfloat16")
    run(opt, 2)
    had, opt.param_groups[1][name] = opt.param_groups[1][name], value
    with Unchanged(opt), pytest.raises(kind, match=says):
        opt.step()
    opt.param_groups[1][name] = had
    run(opt, 1)
    assert [entry["step"].item() for entry in opt.state.values()] == [3, 3]


@pytest.mark.parametrize(("name", "value"), [("clip_norm", -1.0), ("clip_norm", "1"), ("skip_nonfinite", 1)])
def test_what_is_set_on_the_optimizer_between_steps_is_checked(name, value):
    opt = fallline.AdamW(parameters((3,)), lr=0.1)
    run(opt, 1)
    setattr(opt, name, value)
    with Unchanged(opt), pytest.raises((TypeError, ValueError), match=f"{name} must be .*, got {value!r}"):
        run(opt, 1)


def test_message_names_the_group_of_a_parameter():
    a, b = parameters((3,), (4,))
    opt = fallline.AdamW([{"params": [a]}, {"params": [b]}], lr=0.1)
    run(opt, 1)
    opt.state[b]["exp_avg"] = torch.zeros(5)
    with pytest.raises(ValueError, match=r"^the state of parameter 0 of group 1: exp_avg has shape \(5,\); .* \(4,\)$"):
        opt.step()
