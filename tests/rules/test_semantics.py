"""Each construct of the language means the same in every lowering: what numpy says in float64."""

# mypy: disable-error-code="no-untyped-def, valid-type"
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import fallline
from fallline.rules import (
    abs,
    axis,
    exp,
    log,
    max,
    maximum,
    mean,
    minimum,
    nonneg,
    norm,
    positive,
    rsqrt,
    rule,
    scalar,
    sign,
    signed,
    sqrt,
    static,
    sum,
    tanh,
    where,
)
from tests.native import needs_native_and_a_compiler

pytestmark = pytest.mark.usefixtures("one_thread")

Array = NDArray[np.float64]
Step = Callable[..., tuple[Array, ...]]

LOWERINGS: dict[str, dict[str, Any]] = {
    "eager": dict(foreach=False, fused=False),
    "foreach": dict(foreach=True, fused=False),
    "native": dict(foreach=True, fused=True),
}


def agree(
    make: Any,
    reference: Step,
    lowering: str,
    shapes: Sequence[tuple[int, ...]] = ((6,), (), (5, 4)),
    steps: int = 3,
    **hypers: float,
) -> None:
    """Runs the optimizer and ``reference(t, p, g, *states)`` (t from 1) on the same gradients."""
    if lowering == "native":
        needs_native_and_a_compiler()
    rng = np.random.default_rng(3)
    dtype = torch.float32 if lowering == "native" else torch.float64
    rtol = 1e-6 if lowering == "native" else 1e-14
    # The first parameter is made twice: one launch steps two tensors of one shape, and lists have two items.
    expected = [rng.normal(size=s).astype(np.float32).astype(np.float64) for s in (shapes[0], *shapes)]
    params = [torch.tensor(p, dtype=dtype, requires_grad=True) for p in expected]
    optimizer = make(params, **hypers, **LOWERINGS[lowering])
    names = list(make.description.rule.states)
    states: list[list[Any]] = [[None] * len(names) for _ in params]
    for t in range(1, steps + 1):
        for i, p in enumerate(params):
            g = rng.normal(size=p.shape).astype(np.float32).astype(np.float64)
            p.grad = torch.tensor(g, dtype=dtype)
            with np.errstate(all="ignore"):
                found = reference(t, expected[i], g, *states[i])
            expected[i], states[i] = np.asarray(found[0]), list(found[1:])
        optimizer.step()
        for i, p in enumerate(params):
            checked = [(p, expected[i]), *zip((optimizer.state[p][n] for n in names), states[i], strict=True)]
            for name, (actual, wanted) in zip(("p", *names), checked, strict=True):
                np.testing.assert_allclose(
                    actual.detach().double().numpy(),
                    np.broadcast_to(np.asarray(wanted), tuple(actual.shape)),
                    rtol=rtol,
                    atol=rtol,
                    err_msg=f"{name} of {tuple(p.shape)} at step {t}",
                )
    assert lowering in optimizer.explain()


every_lowering = pytest.mark.parametrize("lowering", LOWERINGS)


@every_lowering
def test_a_state_can_keep_the_previous_parameter(lowering: str) -> None:
    @rule
    def previous(p, g, before, *, lr):
        return p - lr * g + 0.1 * (p - before), p

    def reference(t, p, g, before):
        before = 0.0 if before is None else before
        return p - 0.5 * g + 0.1 * (p - before), p

    agree(fallline.optimizer(previous, lr=0.5), reference, lowering)


@every_lowering
def test_states_can_be_exchanged(lowering: str) -> None:
    @rule
    def exchanged(p, g, a: signed(init=1.0), b):
        return p + a, b, where(g > 0, a, a)

    def reference(t, p, g, a, b):
        a, b = (1.0, 0.0) if a is None else (a, b)
        return p + a, b, a

    agree(fallline.optimizer(exchanged), reference, lowering)


@every_lowering
def test_choices_of_the_host_between_values_of_different_shapes(lowering: str) -> None:
    @rule
    def chosen(p, g, m, s: scalar, *, first, step):
        m = where(first, 0.5, m + g)
        mixed = where(step > 2, norm(g), g)
        # The sum runs over all elements, whichever of the two was chosen.
        return p - sqrt(abs(mixed)) * m, m, sum(where(first, 2.0, g)) + sum(mixed)

    def reference(t, p, g, m, s):
        m = np.full_like(g, 0.5) if t == 1 else m + g
        mixed = np.full_like(g, np.sqrt(np.sum(g * g))) if t > 2 else g
        return p - np.sqrt(np.abs(mixed)) * m, m, np.sum(np.full_like(g, 2.0) if t == 1 else g) + np.sum(mixed)

    agree(fallline.optimizer(chosen), reference, lowering)


@every_lowering
def test_choices_between_two_numbers_have_full_precision(lowering: str) -> None:
    @rule
    def numbers(p, g, s: scalar, *, lr):
        rate = where(g > 0, lr, 0.1)
        s = where(norm(g) > 1.5, 0.3, lr)
        return p - rate - where(g > p, s, norm(p)) * 1e-3, s

    def reference(t, p, g, s):
        s = 0.3 if np.sqrt(np.sum(g * g)) > 1.5 else 0.7
        return p - np.where(g > 0, 0.7, 0.1) - np.where(g > p, s, np.sqrt(np.sum(p * p))) * 1e-3, s

    agree(fallline.optimizer(numbers, lr=0.7), reference, lowering)


@every_lowering
def test_truth_values_count_and_join(lowering: str) -> None:
    @rule
    def truths(p, g, a, b, n: scalar, *, first, step):
        up, high = g > 0, p > 0
        b = where((first & up) | (~high & (step != 2)), 1.0, 0.0) - (up == high)
        return p - 0.1 * (up + high) + 0.01 * -up, abs(up - high) * g, b, sum(up) + (step > 1)

    def reference(t, p, g, a, b, n):
        up, high = (g > 0).astype(float), (p > 0).astype(float)
        b = np.where((t == 1) & (up > 0) | (high == 0) & (t != 2), 1.0, 0.0) - (up == high)
        return p - 0.1 * (up + high) - 0.01 * up, np.abs(up - high) * g, b, np.sum(up) + (t > 1)

    agree(fallline.optimizer(truths), reference, lowering)


@every_lowering
def test_scalar_states_belong_to_their_parameter(lowering: str) -> None:
    @rule
    def weighted(p, g, w: scalar, biggest: scalar(init=0.25), m, *, beta, lr):
        w = 1 + beta * w
        m = (1 - 1 / w) * m + g / w
        return p - lr * m / maximum(biggest, 1e-3), w, maximum(biggest, max(abs(g))), m

    def reference(t, p, g, w, biggest, m):
        w, biggest, m = (0.0, 0.25, 0.0) if m is None else (w, biggest, m)
        w = 1 + 0.9 * w
        m = (1 - 1 / w) * m + g / w
        return p - 0.5 * m / np.maximum(biggest, 1e-3), w, np.maximum(biggest, np.max(np.abs(g))), m

    agree(fallline.optimizer(weighted, lr=0.5, beta=0.9), reference, lowering)


@every_lowering
def test_a_state_can_start_as_the_first_gradient(lowering: str) -> None:
    @rule
    def differences(p, g, before: signed(init="grad"), d, *, lr):
        d = 0.5 * d + (g - before)
        return p - lr * (g + d), g, d

    def reference(t, p, g, before, d):
        before, d = (g, 0.0) if before is None else (before, d)
        d = 0.5 * d + (g - before)
        return p - 0.5 * (g + d), g, d

    agree(fallline.optimizer(differences, lr=0.5), reference, lowering)


@every_lowering
def test_numbers_can_be_written_to_tensors(lowering: str) -> None:
    @rule
    def written(p, g, constant, hyper, one, *, lr, step):
        return p - lr * g * (constant + hyper), 0.25, lr * step, norm(g)

    def reference(t, p, g, constant, hyper, one):
        constant, hyper = (0.0, 0.0) if constant is None else (constant, hyper)
        return p - 0.5 * g * (constant + hyper), 0.25, 0.5 * t, np.sqrt(np.sum(g * g))

    agree(fallline.optimizer(written, lr=0.5), reference, lowering)


@every_lowering
def test_rows_columns_and_matrices_of_stacks(lowering: str) -> None:
    @rule(derive={"matrix": lambda ndim: ndim > 1})
    def axes(
        p, g, r: nonneg(shape=axis(-1), when="matrix"), c: nonneg(shape=axis(-2), when="matrix"),
        m: signed(shape=axis(-1), when="matrix"), *, matrix: static,
    ):  # fmt: skip
        if not matrix:
            return p, r, c, m
        r = 0.5 * r + max(abs(g), -1)
        c = 0.5 * c + mean(g * g, -2)
        m = where(max(r, -2) > 1.0, mean(c, -1), m)
        spread = where(r > 1.0, r, sum(r)) * where(c < 0.5, c, 0.5)
        return p - spread * g / (3 + sum(spread * abs(g), -1)), r, c, m

    def reference(t, p, g, r, c, m):
        r, c, m = (0.0, 0.0, 0.0) if r is None else (r, c, m)
        r = 0.5 * r + np.max(np.abs(g), axis=-1, keepdims=True)
        c = 0.5 * c + np.mean(g * g, axis=-2, keepdims=True)
        m = np.where(np.max(r, axis=-2, keepdims=True) > 1.0, np.mean(c, axis=-1, keepdims=True), m)
        m = np.broadcast_to(m, r.shape)
        spread = np.where(r > 1.0, r, np.sum(r)) * np.where(c < 0.5, c, 0.5)
        return p - spread * g / (3 + np.sum(spread * np.abs(g), axis=-1, keepdims=True)), r, c, m

    # Long ones are cut into tiles in every direction.
    shapes = ((5, 4), (1, 3), (3, 1), (2, 3, 4), (2, 1, 3, 2), (300, 2), (3, 1500), (2, 70, 1100))
    agree(fallline.optimizer(axes), reference, lowering, shapes)


@every_lowering
def test_rows_of_the_first_axis(lowering: str) -> None:
    @rule(derive={"has_rows": lambda ndim: ndim > 0})
    def rows(p, g, r: nonneg(shape=axis("rows"), when="has_rows"), n: scalar, *, has_rows: static):
        if not has_rows:
            return p, r, n
        r = 0.5 * r + norm(g, "rows")
        worst = max(r / (1 + max(abs(p), "rows")))
        return p - g / (1 + r) * worst, r, worst + mean(r)

    def reference(t, p, g, r, n):
        others = tuple(range(1, g.ndim))
        r = 0.5 * (0.0 if r is None else r) + np.sqrt(np.sum(g * g, axis=others, keepdims=True))
        worst = np.max(r / (1 + np.max(np.abs(p), axis=others, keepdims=True)))
        return p - g / (1 + r) * worst, r, worst + np.mean(r)

    agree(fallline.optimizer(rows), reference, lowering, ((5, 4), (7,), (1,), (3, 2, 2, 2), (40, 1200), (2, 1), (1, 9)))


@rule(derive={"matrix": lambda ndim: ndim > 1})
def normalised(p, g, r: nonneg(shape=axis(-1), when="matrix"), top: scalar(init=2.0), *, lr: positive, matrix: static):
    """Reductions of every kind, for parameters that have nothing to reduce."""
    if matrix:
        r = r + max(abs(g), -1)
        g = g / (1 + r + mean(abs(g), -2))
    return p - lr * g / (1 + norm(g) + max(abs(g), "all")), r, top + sum(g * g)


@every_lowering
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (2, 0, 3), (0, 2, 2)], ids=str)
def test_empty_parameters_change_nothing_elsewhere(lowering: str, shape: tuple[int, ...]) -> None:
    if lowering == "native":
        needs_native_and_a_compiler()
    make = fallline.optimizer(normalised, lr=0.5)

    def run(extra: list[torch.Tensor]) -> tuple[Any, list[torch.Tensor]]:
        torch.manual_seed(1)
        params = [torch.randn(4, 3, requires_grad=True), torch.randn(5, requires_grad=True)]
        everything = [params[0], *extra, params[1]]
        optimizer = make(everything, **LOWERINGS[lowering])
        for _ in range(3):
            for p in params:
                p.grad = torch.randn_like(p)
            for p in extra:
                p.grad = torch.zeros_like(p)
            optimizer.step()
        return optimizer, params

    _, expected = run([])
    empty = torch.zeros(shape, requires_grad=True)
    optimizer, actual = run([empty])
    for p, q in zip(actual, expected, strict=True):
        assert torch.equal(p, q)
    assert optimizer.state[empty]["step"] == 3
    assert optimizer.state[empty]["top"] == 2.0


@every_lowering
def test_the_largest_of_elements_with_nan_is_nan(lowering: str) -> None:
    @rule
    def largest(p, g, top: scalar):
        return p, max(g)

    if lowering == "native":
        needs_native_and_a_compiler()
    for at in (0, 1, 700, 999):
        p = torch.zeros(1000, requires_grad=True)
        optimizer = fallline.optimizer(largest)([p], **LOWERINGS[lowering])
        p.grad = torch.arange(1000.0)
        optimizer.step()
        assert optimizer.state[p]["top"] == 999.0
        p.grad[at] = math.nan
        optimizer.step()
        assert math.isnan(optimizer.state[p]["top"])


# ---------------------------------------------------------------- functions, one by one

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0, 3.0, -3.0, 1e-42, 1e38, -1e38, 89.0, math.inf, -math.inf, math.nan]


@rule
def functions(p, g, f_sqrt, f_rsqrt, f_exp, f_log, f_tanh, f_abs, f_sign, f_min, f_max, f_pow):
    return (
        p, sqrt(g), rsqrt(g), exp(g), log(g), tanh(g), abs(g), sign(g), minimum(p, g), maximum(p, g), p**g,
    )  # fmt: skip


def evaluate(lowering: str, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
    if lowering == "native":
        needs_native_and_a_compiler()
    p = x.clone().requires_grad_()
    optimizer = fallline.optimizer(functions)([p], **LOWERINGS[lowering])
    p.grad = y.clone()
    optimizer.step()
    return {name: value for name, value in optimizer.state[p].items() if name.startswith("f_")}


@pytest.mark.parametrize("lowering", ["foreach", "native"])
def test_special_values_are_those_of_eager(lowering: str) -> None:
    x, y = (t.reshape(-1) for t in torch.meshgrid(torch.tensor(SPECIAL), torch.tensor(SPECIAL), indexing="ij"))
    expected, actual = evaluate("eager", x, y), evaluate(lowering, x, y)
    for name, value in expected.items():
        for a, b, e, f in zip(x.tolist(), y.tolist(), actual[name].tolist(), value.tolist(), strict=True):
            assert e == pytest.approx(f, rel=2e-7, nan_ok=True), f"{name} of {a}, {b}"
            if f == 0.0 and name not in ("f_min", "f_max"):
                assert math.copysign(1.0, e) == math.copysign(1.0, f), f"{name} of {a}, {b}: the sign of zero"


def test_native_functions_are_correctly_rounded() -> None:
    generator = torch.Generator().manual_seed(5)
    wide = torch.randn(20000, generator=generator) * torch.exp(4 * torch.randn(20000, generator=generator))
    x, y = wide.abs(), torch.cat((wide[:10000], torch.rand(10000, generator=generator) * 160 - 80))
    actual = evaluate("native", x, y)
    with np.errstate(all="ignore"):
        p, g = x.double().numpy(), y.double().numpy()
        expected = {
            "f_sqrt": np.sqrt(g),
            "f_rsqrt": 1 / np.sqrt(g),
            "f_exp": np.exp(g),
            "f_log": np.log(g),
            "f_tanh": np.tanh(g),
            "f_pow": np.power(p, g),
        }
        for name, exact in expected.items():
            wanted = exact.astype(np.float32)
            found = actual[name].numpy()
            usual = np.isfinite(wanted) & (np.abs(exact) > np.finfo(np.float32).tiny)
            error = np.abs(found.astype(np.float64) - exact)[usual] / np.spacing(np.abs(wanted[usual])).astype(
                np.float64
            )
            # Half a unit is correct rounding; 1 / sqrt(x) rounds twice.
            assert error.max() <= (1.5 if name == "f_rsqrt" else 0.501), name
            np.testing.assert_array_equal(found[~np.isfinite(wanted)], wanted[~np.isfinite(wanted)], err_msg=name)
