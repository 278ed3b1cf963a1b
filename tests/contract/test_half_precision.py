"""16-bit parameters: float32 states, stochastic rounding, master weights, mixtures."""

import warnings

import pytest
import torch
from torch.nn import Parameter

import fallline
from fallline.memory import memory_of

from . import trajectories
from .trajectories import (
    LOWERINGS,
    assert_near,
    assert_same,
    copies,
    named,
    parameters,
    run,
    set_gradients,
    values,
)

HALF = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
NAMES = ["SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Lion", "AMSGrad", "Adam8bit"]


@HALF
@pytest.mark.parametrize("name", NAMES)
def test_states_of_16_bit_parameters_are_float32(name, dtype):
    (p,) = parameters((5, 3), dtype=dtype)
    opt = getattr(fallline, name)([p])
    run(opt, 2)
    assert {v.dtype for v in opt.state[p].values()} == {torch.float32}
    assert p.dtype == dtype


@HALF
@pytest.mark.parametrize("lowering", LOWERINGS)
def test_arithmetic_is_float32_and_rounded_once(dtype, lowering):
    (p,) = parameters((8, 8), dtype=dtype)
    wide = Parameter(p.detach().float())
    opt = fallline.AdamW([p], lr=0.1, **LOWERINGS[lowering])
    reference = fallline.AdamW([wide], lr=0.1, **LOWERINGS["eager"])
    for step in range(3):
        wide.data.copy_(p.data)
        set_gradients([p], step)
        wide.grad = p.grad.float()
        opt.step()
        reference.step()
        # The largest difference that a last bit of float32 can make, once rounded.
        assert_near(p.detach().float(), wide.detach().to(dtype).float(), rtol=torch.finfo(dtype).eps, atol=1e-7)
        assert float((p.detach() != wide.detach().to(dtype)).float().mean()) < 0.05


RULES = [
    ("SGD", {"lr": 0.01}),
    ("Lion", {"lr": 1e-3}),
    ("AdamW", {"lr": 1e-3}),
    ("SGD", {"lr": 1e-3, "momentum": 0.9}),
]


@HALF
@pytest.mark.parametrize(
    ("name", "options", "lowering"),
    [
        *((*rule, how) for rule in RULES for how in ("foreach", "native", "native each")),
        (*RULES[2], "compiled"),
    ],
    ids=named,
)
def test_stochastic_rounding_is_the_same_in_every_lowering(name, options, dtype, lowering):
    start = parameters((70, 33), (257,), dtype=dtype)
    results = []
    for how in ("eager", lowering):
        params = copies(start)
        run(
            getattr(fallline, name)(params, stochastic_rounding=True, rounding_seed=3, **options, **LOWERINGS[how]),
            4,
        )
        results.append(torch.cat([p.detach().float().view(-1) for p in params]))
    # Where the float32 values differ in their last bit, a draw may fall between them.
    same = float((results[0] == results[1]).float().mean())
    assert same == 1.0 if options == {"lr": 0.01} else same > 0.999


@HALF
def test_stochastic_rounding_is_unbiased(dtype):
    """Steps of an eighth of the spacing of numbers near 1: on average all of them arrive."""
    count, steps = 20_000, 16
    lr = torch.finfo(dtype).eps / 8
    (p,) = [Parameter(torch.ones(count, dtype=dtype))]
    opt = fallline.SGD([p], lr=lr, stochastic_rounding=True)
    nearest = Parameter(torch.ones(count, dtype=dtype))
    plain = fallline.SGD([nearest], lr=lr)
    for _ in range(steps):
        p.grad = torch.full((count,), -1.0, dtype=dtype)
        nearest.grad = p.grad
        opt.step()
        plain.step()
    moved = (p.detach().double() - 1).mean().item() / (steps * lr)
    # A draw's deviation is below half a spacing = 4 steps of lr: 4 * sqrt(16) / 16 / sqrt(20000) < 0.008.
    assert abs(moved - 1) < 0.03
    assert bool((nearest == 1).all())


def test_stochastic_rounding_depends_on_seed_step_parameter_and_element():
    def after(seed, steps, which):
        params = [Parameter(torch.ones(2000, dtype=torch.bfloat16)) for _ in range(2)]
        opt = fallline.SGD(params, lr=2**-9, stochastic_rounding=True, rounding_seed=seed)
        drawn = []
        for _ in range(steps):
            for p in params:
                p.data.fill_(1.0)
                p.grad = torch.full((2000,), -1.0, dtype=torch.bfloat16)
            opt.step()
            drawn.append(params[which].detach() > 1)
        return drawn[-1]

    base = after(0, 1, 0)
    assert 0.2 < float(base.float().mean()) < 0.8
    assert_same(after(0, 1, 0), base)
    for other in (after(1, 1, 0), after(0, 2, 0), after(0, 1, 1)):
        agree = float((other == base).float().mean())
        assert agree < 0.75


def test_stochastic_rounding_of_float32_parameters_changes_nothing():
    a, b = parameters((50,)), parameters((50,))
    run(fallline.AdamW(a, stochastic_rounding=True), 3)
    run(fallline.AdamW(b), 3)
    assert_same(values(a), values(b))


@pytest.mark.parametrize("lowering", LOWERINGS)
@HALF
def test_master_weights_track_a_float32_run(dtype, lowering):
    start = parameters((40, 12), (9,), dtype=dtype)
    params = copies(start)
    wide = [Parameter(p.detach().float()) for p in start]
    opt = fallline.AdamW(params, lr=1e-4, master_weights=True, **LOWERINGS[lowering])
    reference = fallline.AdamW(wide, lr=1e-4, **LOWERINGS["eager"])
    for step in range(20):
        set_gradients(params, step)
        for p, q in zip(params, wide, strict=True):
            q.grad = p.grad.float()
        opt.step()
        reference.step()
    for p, q in zip(params, wide, strict=True):
        assert_near(opt.state[p]["master"], q.detach())
        assert_same(p.detach(), opt.state[p]["master"].to(dtype))


def test_small_updates_are_lost_without_master_weights():
    (p,) = [Parameter(torch.ones(10, dtype=torch.bfloat16))]
    plain, master = fallline.SGD([p], lr=1e-4), copies([p])[0]
    opt = fallline.SGD([master], lr=1e-4, master_weights=True)
    for _ in range(100):
        for q in (p, master):
            q.grad = torch.ones(10, dtype=torch.bfloat16)
        plain.step()
        opt.step()
    assert bool((p == 1).all())
    assert_near(master.detach().float(), torch.full((10,), 0.99), rtol=4e-3)


@pytest.mark.parametrize("how", ["copy_", "data", "data.copy_ and new states"])
def test_master_weights_follow_what_is_written_to_the_parameter(how):
    """A model's weights loaded in the middle of a run must not be undone by the next step."""
    (p,) = parameters((6, 5), dtype=torch.bfloat16)
    opt = fallline.SGD([p], lr=1e-4, master_weights=True)
    run(opt, 2)
    fresh = torch.full((6, 5), 3.0, dtype=torch.bfloat16)
    if how == "copy_":
        with torch.no_grad():
            p.copy_(fresh)
    elif how == "data":
        p.data = fresh
    else:
        p.data.copy_(fresh)
        opt.load_state_dict(opt.state_dict())
    run(opt, range(2, 3))
    assert_near(opt.state[p]["master"], 3.0 - 1e-4 * p.grad.float())


def test_master_weights_keep_their_precision_where_the_parameter_was_not_written():
    (p,) = parameters((6, 5), dtype=torch.bfloat16)
    (q,) = copies([p])
    opt, other = (fallline.SGD([x], lr=1e-4, master_weights=True) for x in (p, q))
    run(opt, 3)
    run(other, 3)
    with torch.no_grad():
        p[0] = 2.0
    run(opt, range(3, 4))
    run(other, range(3, 4))
    assert_same(opt.state[p]["master"][1:], other.state[q]["master"][1:])


def test_master_weights_switched_on_in_the_middle():
    (p,) = parameters((6, 5), dtype=torch.bfloat16)
    opt = fallline.SGD([p], lr=1e-4)
    run(opt, 1)
    assert "master" not in opt.state[p]
    opt.param_groups[0]["master_weights"] = True
    run(opt, 1)
    assert opt.state[p]["master"].dtype == torch.float32
    opt.param_groups[0]["master_weights"] = False
    run(opt, 1)
    assert "master" not in opt.state[p]


def test_master_weights_of_float32_parameters_do_not_exist():
    (p,) = parameters((6, 5))
    opt = fallline.SGD([p], master_weights=True)
    run(opt, 1)
    assert "master" not in opt.state[p]


@pytest.mark.parametrize("lowering", ["eager", "foreach", "native", None])
def test_mixture_of_dtypes_in_one_optimizer(lowering):
    kinds = [torch.float32, torch.bfloat16, torch.float16]
    if lowering != "native":
        kinds += [torch.float64, torch.complex64]
    together = [parameters((9, 4), dtype=dtype)[0] for dtype in kinds]
    apart = copies(together)
    options = LOWERINGS[lowering] if lowering else {}
    opt = fallline.AdamW(together, lr=0.1, **options)
    alone = [fallline.AdamW([p], lr=0.1, **options) for p in apart]
    for step in range(3):
        set_gradients(together, step)
        for p, q, single in zip(together, apart, alone, strict=True):
            q.grad = p.grad.clone()
            single.step()
        opt.step()
    assert_same(values(together), values(apart))


@pytest.mark.parametrize("lowering", ["foreach", "compiled", "native"])
def test_bfloat16_states_are_the_same_in_every_lowering(lowering):
    results = []
    for how in ("eager", lowering):
        params = parameters((70, 33))
        opt = fallline.SGD(params, lr=0.5, momentum=0.5, state_dtype="bfloat16", rounding_seed=11, **LOWERINGS[how])
        run(opt, 4)
        results.append(opt.state[params[0]]["momentum_buffer"])
    assert results[0].dtype == torch.bfloat16
    assert float((results[0] == results[1]).float().mean()) > 0.999


def test_second_moment_in_bfloat16_does_not_freeze():
    """Rounded to nearest, 0.999 * v + 0.001 * g² stops moving at half of g²."""
    (p,) = [Parameter(torch.zeros(4096))]
    opt = fallline.Adam([p], lr=0.0, state_dtype="bfloat16")
    for _ in range(1500):
        p.grad = torch.ones(4096)
        opt.step()
    expected = 1 - 0.999**1500
    assert_near(opt.state[p]["exp_avg_sq"].float().mean(), torch.tensor(expected), rtol=0.03)


def warnings_of(params, steps=2, **options):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        opt = fallline.AdamW(params, **options)
        run(opt, steps)
        opt.add_param_group({"params": parameters((2,), dtype=params[-1].dtype)})
        run(opt, 1)
    return seen


@pytest.mark.parametrize(("dtype", "share"), [(torch.bfloat16, "0.39%"), (torch.float16, "0.05%")])
def test_16_bit_parameters_rounded_to_nearest_warn_once_per_optimizer(dtype, share):
    seen = warnings_of([*parameters((4,)), *parameters((3,), dtype=dtype)])
    name = str(dtype).removeprefix("torch.")
    assert [str(w.message) for w in seen] == [
        f"AdamW steps {name} parameters rounded to nearest: updates below {share} of a weight are lost; use "
        "master_weights=True (4 bytes more per parameter) or stochastic_rounding=True (none more)"
    ]
    assert seen[0].filename == trajectories.__file__, "where step() was called"


@pytest.mark.parametrize("option", ["master_weights", "stochastic_rounding"])
def test_16_bit_parameters_that_keep_small_updates_do_not_warn(option):
    assert not warnings_of(parameters((3,), dtype=torch.bfloat16), **{option: True})
    assert not warnings_of(parameters((3,)))


def test_a_line_that_makes_many_optimizers_warns_once():
    """Python shows a warning once for each line of the user's, without a memory of ours."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(3):
            p = parameters((3,), dtype=torch.bfloat16)[0]
            p.grad = torch.ones_like(p)
            fallline.SGD([p]).step()
    assert len(seen) == 1


def test_counting_memory_loses_nothing_and_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        memory_of(fallline.AdamW(parameters((3,), dtype=torch.bfloat16)), "foreach")
