"""Parameters in pieces: each rank steps its own, and together they are what the whole would be.

Elementwise rules agree bit for bit, in every format of states; reductions up to the order of their sums, so that a
code of a low-bit state may differ by one.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import fallline
from fallline.optim.registry import find
from tests.lower.ranks import Ranks
from tests.native import needs_native

pytestmark = pytest.mark.usefixtures("one_thread")

SHAPES = [(70, 61), (13,), (9, 4, 5), (6, 3)]
STEPS = 3
LOWERINGS: dict[str, dict[str, Any]] = {
    "native": dict(fused=True),
    "foreach": dict(foreach=True, fused=False),
    "eager": dict(foreach=False, fused=False),
}
NAMES = [name for name in fallline.list_optimizers() if not find(name).rule.calls_matrix_functions]
"""Matrix functions need whole matrices."""


class Both:
    """The whole parameters beside their pieces."""

    def __init__(self, name: str, pieces: int, dtype: torch.dtype = torch.float32, **options: Any):
        torch.manual_seed(5)
        self.whole = [torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape in SHAPES]
        self.optimizer = fallline.create(name, self.whole, **options)
        self.ranks = Ranks(lambda params: fallline.create(name, params, **options), self.whole, pieces)
        self.number = 0

    def step(self, method: str = "step") -> None:
        generator = torch.Generator().manual_seed(self.number)
        self.number += 1
        grads = [torch.randn(p.shape, generator=generator).to(p.dtype) * 0.3 for p in self.whole]
        for p, g in zip(self.whole, grads, strict=True):
            p.grad = g.clone()
        getattr(self.optimizer, method)()
        self.ranks.step(grads, method)

    @property
    def elementwise(self) -> bool:
        return all(bucket.program.elementwise for bucket in self.optimizer._plan.buckets)

    def check(self) -> None:
        for i, p in enumerate(self.whole):
            self.compare(self.ranks.gathered(i), p.detach(), f"parameter {i}")
            entries = [o.state[params[i]] for o, params in zip(self.ranks.optimizers, self.ranks.params, strict=True)]
            for name, value in self.optimizer.state[p].items():
                self.compare_state(name, value, [entry[name] for entry in entries], p, f"{name} of parameter {i}")
        for group, *others in zip(
            self.optimizer.param_groups, *(o.param_groups for o in self.ranks.optimizers), strict=True
        ):
            for name in set(group) - {"params"}:
                for other in others:
                    if isinstance(group[name], float):
                        assert other[name] == pytest.approx(group[name], rel=1e-6), name
                    else:
                        assert other[name] == group[name], name

    def compare_state(self, name: str, value: Tensor, pieces: list[Tensor], p: Tensor, what: str) -> None:
        if name.endswith((":int8", ":int4", ":scale")):
            return  # by decoded values, below
        if value.ndim == 0:
            for piece in pieces:
                self.compare(piece, value, what)
        elif value.shape[0] == p.shape[0]:
            self.compare(torch.cat(pieces), value, what)
        else:  # reduced over the axis that is cut: every rank has all of it
            for piece in pieces:
                self.compare(piece, value, what)

    def compare(self, found: Tensor, expected: Tensor, what: str) -> None:
        assert found.shape == expected.shape, what
        if self.elementwise:
            assert torch.equal(found, expected), what
        else:
            size = expected.abs().max() if expected.numel() else 0.0
            torch.testing.assert_close(
                found, expected, rtol=1e-6, atol=float(1e-6 * size), msg=lambda m: f"{what}: {m}"
            )


@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("pieces", [2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_pieces_step_as_the_whole(name: str, pieces: int, lowering: str) -> None:
    if lowering == "native":
        needs_native()
    if lowering == "eager" and pieces == 2:
        pytest.skip("shares its code with foreach; cut once")
    options = {} if find(name).defaults.get("state_dtype") is None else {"state_dtype": "float32"}
    both = Both(name, pieces, **LOWERINGS[lowering], **options)
    for _ in range(STEPS):
        both.step()
        both.check()
    assert {part.lowering for part in both.optimizer.explain().parts} == {lowering}
    assert all(p._version for p in both.whole)


WITH_STATES: dict[str, dict[str, Any]] = {
    "sgd": dict(momentum=0.9),
    "adafactor": dict(variant="hf", beta1=0.9),
    "amos": dict(momentum=0.9),
}
"""Options without which there is no state of a matrix to store in few bits."""
LOW_BIT = [name for name in NAMES if "int8" in fallline.info(name).formats]


def codes_of(both: Both, name: str, i: int, format: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(codes, scales) of the whole, and those of its pieces put together."""
    from fallline.formats import block_format

    p = both.whole[i]
    kind = both.optimizer.description.rule.states[name].kind
    form = block_format(format, kind)
    whole = both.optimizer.state[p]

    def bytes_of(codes: Tensor, numel: int, first: int) -> Tensor:
        return codes.reshape(-1) if form.bits == 8 else form.unpacked(codes, numel, first)

    found, scales, first = [], {}, 0
    for optimizer, params in zip(both.ranks.optimizers, both.ranks.params, strict=True):
        entry, piece = optimizer.state[params[i]], params[i]
        found.append(bytes_of(entry[f"{name}:{format}"], piece.numel(), first))
        for k, scale in enumerate(entry[f"{name}:scale"]):
            block = first // form.block + k
            assert scales.setdefault(block, scale) == scale, "pieces of one block agree on its scale"
        first += piece.numel()
    joined = torch.stack([scales[block] for block in sorted(scales)])
    return bytes_of(whole[f"{name}:{format}"], p.numel(), 0), whole[f"{name}:scale"], torch.cat(found), joined


@pytest.mark.parametrize("lowering", ["native", "foreach"])
@pytest.mark.parametrize("format", ["int8", "int4"])
@pytest.mark.parametrize("name", LOW_BIT)
def test_blocks_follow_the_whole_wherever_it_is_cut(name: str, format: str, lowering: str) -> None:
    """The floor of 4,096 elements, blocks, scales and dither are those of the whole parameter."""
    if lowering == "native":
        needs_native()
    both = Both(name, 3, state_dtype=format, **LOWERINGS[lowering], **WITH_STATES.get(name, {}))
    stored = 0
    for _ in range(STEPS):
        both.step()
        if both.elementwise:
            both.check()
        for i, p in enumerate(both.whole):
            for key in both.optimizer.state[p]:
                if key.endswith(f":{format}"):
                    stored += 1
                    codes, scale, found, joined = codes_of(both, key.partition(":")[0], i, format)
                    apart = 0 if both.elementwise else 1
                    assert (found.int() - codes.int()).abs().max() <= apart, f"{key} of parameter {i}"
                    torch.testing.assert_close(joined, scale, rtol=1e-6 * apart, atol=0.0)
    assert stored, "nothing is stored in few bits"


def test_the_floor_of_low_bit_formats_is_of_the_whole_parameter() -> None:
    """Its pieces have fewer than 4,096 elements each."""
    both = Both("adamw", 3, state_dtype="int8")
    both.step()
    entries = [o.state[params[0]] for o, params in zip(both.ranks.optimizers, both.ranks.params, strict=True)]
    assert all("exp_avg:int8" in entry for entry in entries) and max(e["exp_avg:int8"].numel() for e in entries) < 4096


@pytest.mark.parametrize("lowering", LOWERINGS)
def test_a_value_that_is_not_finite_marks_its_block_in_every_piece(lowering: str) -> None:
    if lowering == "native":
        needs_native()
    both = Both("adamw", 2, state_dtype="int8", **LOWERINGS[lowering])
    both.step()
    at = both.ranks.lengths[0][0]  # the first row of the second piece lies in a block that begins in the first
    for p, grad in ((both.whole[0], torch.zeros(70, 61)),):
        grad[at, 0] = float("nan")
        p.grad = grad
    grads = [p.grad.clone() for p in both.whole]
    both.optimizer.step()
    both.ranks.step(grads)
    codes, scale, found, joined = codes_of(both, "exp_avg", 0, "int8")
    assert torch.equal(found, codes) and torch.equal(joined.signbit(), scale.signbit()) and scale.signbit().any()


@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize(
    "options", [dict(stochastic_rounding=True), dict(state_dtype="bfloat16"), dict(master_weights=True)]
)
def test_random_bits_follow_the_whole(options: dict[str, Any], lowering: str) -> None:
    if lowering == "native":
        needs_native()
    both = Both("adamw", 3, torch.bfloat16, **options, **LOWERINGS[lowering])
    for _ in range(STEPS):
        both.step()
        both.check()


def test_clipping_has_one_norm_for_all_pieces() -> None:
    both = Both("adamw", 3, clip_norm=0.5)
    for _ in range(STEPS):
        both.step()
        for optimizer in both.ranks.optimizers:
            torch.testing.assert_close(optimizer.grad_norm, both.optimizer.grad_norm, rtol=1e-6, atol=0.0)
        for i, p in enumerate(both.whole):
            torch.testing.assert_close(both.ranks.gathered(i), p.detach(), rtol=1e-5, atol=1e-7)


def test_entry_points_run_on_pieces() -> None:
    both = Both("schedule_free_adamw", 3, lr=0.01)
    both.step()
    both.step()
    both.step("eval")
    both.check()


def test_a_cut_along_another_axis_keeps_its_states_in_32_bits() -> None:
    from fallline.lower.item import Place

    p = torch.nn.Parameter(torch.ones(70, 61))
    p.grad = torch.ones_like(p)
    opt = fallline.AdamW([p], state_dtype="int8")
    opt.shard({p: Place((70, 122), start=61, axis=1)}, None)
    with pytest.raises(
        ValueError, match=r"state_dtype='int8' is not possible for parameter 0 of group 0, cut along axis 1"
    ):
        opt.step()
