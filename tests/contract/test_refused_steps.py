"""A step that is refused leaves everything as it was, bit for bit, and the steps after it know nothing of it."""

import functools
import math
import weakref

import pytest
import torch
from torch.nn import Parameter

import fallline
from fallline.rules import rule
from tests.gradients import let_gradients_have

from .trajectories import LOWERINGS, Unchanged, assert_same, parameters, run, set_gradients, values

SHAPES = (70, 70), (6,)  # the first is large enough for 8 bits


class OnMeta(Parameter):
    """torch lets no gradient be on another device; a class of one's own can."""

    @property
    def grad(self):
        return torch.zeros(self.shape, device="meta")


def nothing():
    pass


def set_dtype(dtype):
    def spoil(opt, a, b):
        let_gradients_have(None, [b])
        b.grad = torch.ones(b.shape).to(dtype)
        return nothing

    return spoil


def set_sparse(opt, a, b):
    a.grad = a.grad.to_sparse()
    return nothing


def set_gradient_data(shape):
    def spoil(opt, a, b):
        b.grad.data = torch.ones(shape)
        return nothing

    return spoil


def set_device(opt, a, b):
    b.__class__ = OnMeta
    return lambda: setattr(b, "__class__", Parameter)


def set_data(make):
    def spoil(opt, a, b):
        had, b.data = b.data, make(a, b)
        return lambda: setattr(b, "data", had)

    return spoil


def set_shape_and_gradient(opt, a, b):
    had, b.data = b.data, b.data[:4]
    b.grad = torch.ones(4)
    return lambda: setattr(b, "data", had)


def set_state(opt, a, b):
    name = next(key for key in opt.state[a] if key.startswith("exp_avg_sq"))
    had, opt.state[a][name] = opt.state[a][name], torch.zeros(5)
    return lambda: opt.state[a].__setitem__(name, had)


def set_option(name, value):
    def spoil(opt, a, b):
        had, opt.param_groups[0][name] = opt.param_groups[0][name], value
        return lambda: opt.param_groups[0].__setitem__(name, had)

    return spoil


def set_attribute(name, value):
    def spoil(opt, a, b):
        had = getattr(opt, name)
        setattr(opt, name, value)
        return lambda: setattr(opt, name, had)

    return spoil


def add_hook(opt, a, b):
    def refuse(*arguments):
        raise ZeroDivisionError("in the hook")

    return opt.register_step_pre_hook(refuse).remove


def failing_closure():
    raise ZeroDivisionError("in the closure")


# What is done to the optimizer or its two parameters → the words of the error.
SPOILED = {
    "int32 gradient": (
        set_dtype(torch.int32),
        r"gradient of parameter 1 .*torch.int32.*use one of dtype torch.float32",
    ),
    "uint8 gradient": (set_dtype(torch.uint8), "gradient of parameter 1 .*torch.uint8"),
    "bool gradient": (set_dtype(torch.bool), "gradient of parameter 1 .*torch.bool"),
    "complex gradient": (set_dtype(torch.complex64), "gradient of parameter 1 .*torch.complex64"),
    "complex gradient of equal size": (set_dtype(torch.complex32), "gradient of parameter 1 .*torch.complex32"),
    "gradient on another device": (set_device, r"gradient of parameter 1 .* on meta.*on cpu; use"),
    "sparse gradient": (set_sparse, "AdamW does not take sparse gradients"),
    "gradient of another shape": (set_gradient_data((2, 3)), r"shape \(2, 3\), the parameter \(6,\); call zero_grad"),
    "gradient of another size": (set_gradient_data((7,)), r"shape \(7,\), the parameter \(6,\); call zero_grad"),
    "parameter cut off": (set_data(lambda a, b: b.data[:4]), r"shape \(6,\).* \(4,\)"),
    "parameter reshaped": (set_data(lambda a, b: b.data.view(2, 3)), r"shape"),
    "parameter overlaps itself": (set_data(lambda a, b: torch.ones(1).expand(6)), "parameter 1 .*overlaps itself"),
    "parameters share memory": (set_data(lambda a, b: a.data[0, :6]), "parameter . .*parameter . .*share memory"),
    "infinite lr": (set_option("lr", torch.tensor(math.inf)), "lr must be finite"),
    "negative lr": (set_option("lr", -1.0), "lr must be >= 0, got -1"),
    "one beta": (set_option("betas", (0.9,)), "betas must be"),
    "unknown format": (set_option("state_dtype", "int7"), "state_dtype must be"),
    "flag that is none": (set_option("maximize", 2), "maximize must be"),
    "clip_norm": (set_attribute("clip_norm", -1.0), "clip_norm must be"),
    "clip_norm as a flag": (set_attribute("clip_norm", True), "clip_norm must be"),
    "skip_nonfinite": (set_attribute("skip_nonfinite", 1), "skip_nonfinite must be"),
    "hook that raises": (add_hook, "in the hook"),
    "closure that raises": (lambda opt, a, b: nothing, "in the closure"),
}
# These need states to be there.
SPOILED_LATER = {
    "parameter and gradient of another shape": (set_shape_and_gradient, r"state of parameter 1 .*shape \(6,\).*\(4,\)"),
    "state of another shape": (set_state, r"state of parameter 0 .*exp_avg_sq.*\(5,\)"),
}
CASES = [(case, steps) for case in SPOILED for steps in (0, 1)] + [(case, 1) for case in SPOILED_LATER]


def refuse_one(opt, case):
    a, b = (p for group in opt.param_groups for p in group["params"])
    spoil, says = (SPOILED | SPOILED_LATER)[case]
    set_gradients([a, b], 99)
    repair = spoil(opt, a, b)
    closure = (failing_closure,) if case.startswith("closure") else ()
    with Unchanged(opt), pytest.raises((TypeError, ValueError, ZeroDivisionError), match=says) as error:
        opt.step(*closure)
    assert "\n" not in str(error.value)
    repair()


def new(lowering, state_dtype):
    return fallline.AdamW(parameters(*SHAPES), lr=0.1, state_dtype=state_dtype, **LOWERINGS[lowering])


def content(opt):
    return values(p for group in opt.param_groups for p in group["params"]), opt.state_dict()["state"]


@functools.cache
def undisturbed(lowering, state_dtype, steps):
    opt = new(lowering, state_dtype)
    run(opt, steps)
    return content(opt)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("state_dtype", ["float32", "int8"])
@pytest.mark.parametrize("lowering", [name for name in LOWERINGS if name != "compiled"])
@pytest.mark.parametrize(("case", "steps"), CASES)
def test_refused_step_changes_nothing(case, steps, lowering, state_dtype):
    opt = new(lowering, state_dtype)
    run(opt, steps)
    refuse_one(opt, case)
    assert steps or not opt.state_dict()["state"]
    run(opt, range(steps, steps + 1))
    assert_same(content(opt), undisturbed(lowering, state_dtype, steps + 1))


def test_refused_step_of_a_compiled_optimizer_changes_nothing():
    opt = fallline.Lion(parameters(*SHAPES), lr=0.1, compiled=True)
    refuse_one(opt, "int32 gradient")
    run(opt, 1)
    refuse_one(opt, "infinite lr")
    run(opt, range(1, 2))
    twin = fallline.Lion(parameters(*SHAPES), lr=0.1, compiled=True)
    run(twin, 2)
    assert_same(content(opt), content(twin))


def test_step_that_cannot_be_compiled_changes_nothing():
    from torch._inductor import config

    @rule
    def compiled_by_nobody(p, g, m, *, lr):
        m = 0.8125 * m + g
        return p - lr * m, m

    opt = fallline.optimizer(compiled_by_nobody, lr=0.1)(parameters(*SHAPES), compiled=True)
    set_gradients(opt.param_groups[0]["params"], 0)
    broken = config.patch({"cpp.cxx": ("/nonexistent/c++",), "force_disable_caches": True})
    with Unchanged(opt), broken, pytest.raises(Exception, match="compiler"):
        opt.step()


@pytest.mark.parametrize("lowering", ["eager", "native"])
def test_master_weights_follow_nothing_when_the_step_is_refused(lowering):
    (p,) = parameters((9,), dtype=torch.bfloat16)
    opt = fallline.AdamW([p], lr=0.1, master_weights=True, **LOWERINGS[lowering])
    run(opt, 2)
    with torch.no_grad():
        p.add_(1.0)
    opt.param_groups[0]["lr"] = torch.tensor(math.inf)
    with Unchanged(opt), pytest.raises(ValueError, match="lr must be finite"):
        run(opt, 1)


def test_sparse_gradient_of_another_dtype_is_refused_by_rules_that_take_sparse_ones():
    (p,) = parameters((5, 3))
    let_gradients_have(None, [p])
    opt = fallline.SGD([p], lr=0.1)
    p.grad = torch.ones(5, 3, dtype=torch.int32).to_sparse()
    with Unchanged(opt), pytest.raises(TypeError, match=r"gradient of parameter 0 .*torch.int32"):
        opt.step()


@pytest.mark.parametrize("lowering", [name for name in LOWERINGS if name != "compiled"])
def test_real_gradient_of_a_complex_parameter_is_refused(lowering):
    (p,) = parameters((5,), dtype=torch.complex64)
    let_gradients_have(None, [p])
    opt = fallline.AdamW([p], lr=0.1, **LOWERINGS[lowering])
    p.grad = torch.ones(5)
    with Unchanged(opt), pytest.raises(TypeError, match=r"torch.float32, with which .*torch.complex64 cannot"):
        opt.step()


def test_refused_step_of_a_new_optimizer_does_not_keep_the_weights_of_that_time():
    """States that begin as a copy of the weights are copied when a step is made, not when one is refused."""
    opt = fallline.ScheduleFreeAdamW(params := parameters((6,)), lr=0.1)
    opt.param_groups[0]["lr"] = torch.tensor(math.inf)
    with pytest.raises(ValueError, match="lr must be finite"):
        run(opt, 1)
    opt.param_groups[0]["lr"] = 0.1
    twin = fallline.ScheduleFreeAdamW(twins := parameters((6,)), lr=0.1)
    with torch.no_grad():
        params[0].add_(1.0)
        twins[0].add_(1.0)
    run(opt, 2)
    run(twin, 2)
    assert_same(values(params), values(twins))


def test_gradients_of_a_refused_step_are_let_go():
    a, b = parameters((5,), (6,))
    opt = fallline.AdamW([{"params": [a]}, {"params": [b], "maximize": True}], lr=0.1)
    run(opt, 2)
    set_gradients([a, b], 2)
    b.grad.data = torch.ones(2, 3)
    with pytest.raises(ValueError, match="shape"):
        opt.step()
    alive = weakref.ref(a.grad)
    opt.zero_grad()
    assert alive() is None
