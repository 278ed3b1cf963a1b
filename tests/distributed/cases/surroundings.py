"""Further duties of a step over pieces: norms, scalers, missing gradients, formats, placements, entry points."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

import fallline
from fallline.distributed.dtensors import ranges
from tests.distributed.cases.models import (
    cut,
    full,
    give_gradients,
    largest_difference,
    mesh_of_all,
    sharded_net,
    whole_params,
)
from tests.distributed.cases.sharded import Both


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(17, 33), nn.Tanh(), nn.Linear(33, 33), nn.Tanh(), nn.Linear(33, 1))


def fully_shard_trains_as_one_process() -> None:
    # Gradients that are averaged over three processes differ in rounding; Muon makes all directions equally long, also
    # those that are little more than rounding.
    for name, near in (("adamw", 1e-5), ("prodigy", 1e-5), ("muon", 2e-3)):
        alone, together = net(), sharded_net(net)
        optimizers = [fallline.create(name, model, clip_norm=1.0) for model in (alone, together)]
        x, y = torch.randn(96, 17, generator=torch.Generator().manual_seed(1)), torch.ones(96, 1)
        for _ in range(4):
            for model, optimizer in zip((alone, together), optimizers, strict=True):
                nn.functional.mse_loss(model(x), y).backward()
                optimizer.step()
                optimizer.zero_grad()
        difference = largest_difference(list(together.parameters()), list(alone.parameters()))
        assert difference < near, (name, difference)
        torch.testing.assert_close(optimizers[0].grad_norm, optimizers[1].grad_norm, rtol=near, atol=0.0)


class Tied(nn.Module):
    """An embedding whose weights are also the head's; its rows and the hidden layer's are cut unevenly."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.hidden, self.head = nn.Embedding(11, 17), nn.Linear(17, 17), nn.Linear(17, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.hidden(self.embedding(tokens))))


def tied_weights_are_stepped_once() -> None:
    for name in ("adamw", "muon"):
        alone, together = Tied(), Tied()
        fully_shard(together)
        models = (alone, together)
        optimizers = [fallline.create(name, model) for model in models]
        tokens = torch.randint(0, 11, (24,), generator=torch.Generator().manual_seed(1))
        for _ in range(3):
            for model, optimizer in zip(models, optimizers, strict=True):
                nn.functional.cross_entropy(model(tokens), tokens.roll(1)).backward()
                optimizer.step()
                optimizer.zero_grad()
        assert together.head.weight is together.embedding.weight
        assert [sum(len(g["params"]) for g in optimizer.param_groups) for optimizer in optimizers] == [3, 3]
        difference = largest_difference(list(together.parameters()), list(alone.parameters()))
        assert difference < (1e-5 if name == "adamw" else 2e-3), (name, difference)


def clipping_has_one_norm() -> None:
    both = Both("adamw", clip_norm=0.5)
    both.step(3)
    torch.testing.assert_close(both.together.grad_norm, both.alone.grad_norm, rtol=1e-6, atol=0.0)
    assert both.difference() < 1e-6


def a_norm_counts_copies_once() -> None:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    whole = whole_params()
    plain = [nn.Parameter(p.detach().clone()) for p in whole[4:]]
    pieces = [*cut(whole[:2]), *cut(whole[2:4], mesh, [Replicate()]), *plain]
    both = Both("prodigy", whole, pieces, clip_norm=0.5)
    both.step(3)
    torch.testing.assert_close(both.together.grad_norm, both.alone.grad_norm, rtol=1e-6, atol=0.0)
    assert both.difference() < 1e-6


def an_overflow_in_one_piece_skips_the_step_everywhere() -> None:
    for fused in (None, True):
        params = cut(whole_params())
        before = [full(p).clone() for p in params]
        opt = fallline.AdamW(params, fused=fused)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        scaler.scale(torch.ones(()))
        give_gradients(params, 0)
        if dist.get_rank() == dist.get_world_size() - 1:
            params[0].grad.to_local()[-1, -1] = float("inf")
        scaler.step(opt)
        scaler.update()
        assert scaler.get_scale() == 2.0
        assert all(torch.equal(full(p), b) for p, b in zip(params, before, strict=True))
        assert not any("step" in entry and float(entry["step"]) for entry in opt.state.values())
        give_gradients(params, 0, 2.0)
        scaler.step(opt)
        assert {float(entry["step"]) for entry in opt.state.values()} == {1.0}


def a_gradient_that_is_not_finite_skips_the_step_everywhere() -> None:
    params = cut(whole_params())
    opt = fallline.Lion(params, skip_nonfinite=True)
    give_gradients(params, 0)
    if dist.get_rank() == 1:
        params[0].grad.to_local()[0, 0] = float("nan")
    before = [full(p).clone() for p in params]
    opt.step()
    assert all(torch.equal(full(p), b) for p, b in zip(params, before, strict=True))
    assert not torch.isfinite(opt.grad_norm)


def a_process_without_a_gradient_steps_with_zeros() -> None:
    for name in ("adamw", "lamb", "muon"):
        options = {"companion": "adamw"} if name == "muon" else {}
        whole = [p for p in whole_params() if p.ndim > 1]
        pieces = cut(whole)
        alone, together = (fallline.create(name, params, **options) for params in (whole, pieces))
        for number in range(3):
            for params in (whole, pieces):
                give_gradients(params, number)
            assert whole[3].shape == (1, 7)
            if dist.get_rank() > 0:
                pieces[3].grad = None  # its part here is empty
            alone.step()
            together.step()
        assert largest_difference(pieces, whole) < 1e-6
        assert float(together.state[pieces[3]]["step"]) == 3.0


def parameters_join_later_and_rest() -> None:
    whole = whole_params()
    pieces = cut(whole)
    optimizers = [fallline.AdamW(params[:3]) for params in (whole, pieces)]
    for number in range(4):
        for params, opt in zip((whole, pieces), optimizers, strict=True):
            if number == 2:
                opt.add_param_group({"params": params[3:], "lr": 0.01})
            give_gradients(params, number)
            if number == 3:
                params[1].grad = None
            opt.step()
    assert largest_difference(pieces, whole) == 0.0


def formats_follow_the_whole() -> None:
    for options in (dict(stochastic_rounding=True), dict(state_dtype="bfloat16"), dict(master_weights=True)):
        for name in ("adamw", "muon"):
            params = [p for p in whole_params(dtype=torch.bfloat16) if p.ndim > 1]
            both = Both(name, params, **options)
            both.step(4)
            assert both.difference() == 0.0, (name, options)
    for name in ("adamw", "muon", "prodigy"):
        both = Both(name, [p for p in whole_params() if p.ndim > 1], state_dtype="int4")
        both.step(4)
        assert both.difference() < 1e-6, name


def lowerings_agree() -> None:
    for options in (dict(foreach=True, fused=False), dict(foreach=False, fused=False), dict(foreach=False, fused=True)):
        for name in ("adamw", "adafactor"):
            both = Both(name, **options)
            both.step(2)
            assert both.difference() < 1e-6


def a_step_is_seen_by_autograd() -> None:
    for opt_name in ("adamw", "muon"):
        params = [p for p in cut(whole_params()) if p.ndim > 1]
        opt = fallline.create(opt_name, params)
        give_gradients(params, 0)
        before = [(p._version, p.to_local()._version) for p in params]
        opt.step()
        found = [(p._version, p.to_local()._version) for p in params]
        assert all(v > b and w > c for (v, w), (b, c) in zip(found, before, strict=True)), (opt_name, before, found)


def states_are_dtensors() -> None:
    params = cut(whole_params())
    opt = fallline.AdamW(params)
    give_gradients(params, 0)
    opt.step()
    for p in params:
        state = opt.state[p]["exp_avg"]
        assert isinstance(state, DTensor) and state.shape == p.shape and state.placements == p.placements
    kept = [opt.state[p]["exp_avg"] for p in params]
    opt.zero_grad()
    give_gradients(params, 1)
    opt.step()
    assert all(opt.state[p]["exp_avg"] is state for p, state in zip(params, kept, strict=True))


def replicas_of_pieces_step_alike() -> None:
    """HSDP: replicated over one axis of the mesh, cut along the other."""
    world = dist.get_world_size()
    for shape in ((world, 1), (1, world), *([(2, world // 2)] if world > 2 and world % 2 == 0 else [])):
        mesh = init_device_mesh("cpu", shape)
        for name in ("adamw", "lamb", "prodigy", "muon"):
            whole = [p for p in whole_params() if p.ndim > 1]
            both = Both(name, whole, cut(whole, mesh, [Replicate(), Shard(0)]), clip_norm=0.5)
            both.step(3)
            assert both.difference() < 1e-6, (name, shape)


def cuts_along_another_axis_step_as_the_whole() -> None:
    for name in ("adamw", "lamb", "adafactor", "adamp", "muon"):
        whole = [p for p in whole_params() if p.ndim > 1]
        both = Both(name, whole, cut(whole, placements=[Shard(1)]))
        both.step(3)
        assert both.difference() < 1e-6, name


def pieces_lie_where_torch_cuts() -> None:
    """torch's own function is private; ours must agree with it."""
    mesh = mesh_of_all()
    for length in range(20):
        shape, offsets = compute_local_shape_and_global_offset((length, 3), mesh, [Shard(0)])
        start, count = ranges(length, mesh.size())[mesh.get_local_rank()]
        assert (start, count) == (offsets[0], shape[0]), length


def modes_and_entries_run() -> None:
    both = Both("schedule_free_adamw", lr=0.01)
    both.step(3)
    for opt in (both.alone, both.together):
        opt.eval()
    assert both.difference() == 0.0
    for opt in (both.alone, both.together):
        opt.train()
    both.step(2)
    assert both.difference() == 0.0
    both = Both("sophiag", lr=0.01)
    both.step(2)
    for params, opt in ((both.whole, both.alone), (both.pieces, both.together)):
        give_gradients(params, 9)
        opt.update_hessian()
    both.step(2)
    assert both.difference() == 0.0


def placements_that_cannot_be_stepped_are_refused() -> None:
    world = dist.get_world_size()
    mesh, grid = init_device_mesh("cpu", (world,)), init_device_mesh("cpu", (world, 1))
    pending = nn.Parameter(DTensor.from_local(torch.ones(4, 3), mesh, [Partial()]))
    with pytest.raises(ValueError, match=r"pending sums.*redistribute it"):
        fallline.AdamW([pending])
    with pytest.raises(ValueError, match="may be cut along one axis by one axis of the mesh"):
        fallline.AdamW(cut(whole_params([(8, 6)]), grid, [Shard(0), Shard(1)]))
    whole = whole_params([(8, 6)])
    with pytest.raises(ValueError, match="different meshes"):
        fallline.AdamW([*cut(whole, mesh), *cut(whole, grid, [Shard(0), Replicate()])])
    uneven = DTensor.from_local(
        torch.ones(7 + dist.get_rank(), 3), mesh, [Shard(0)], shape=torch.Size([9, 3]), stride=(3, 1)
    )
    with pytest.raises(ValueError, match="not cut as torch cuts"):
        fallline.AdamW([nn.Parameter(uneven)])
    param = cut(whole_params([(8, 6)]))[0]
    opt = fallline.AdamW([param])
    param.grad = DTensor.from_local(torch.ones(8, 6), mesh, [Replicate()])
    with pytest.raises(ValueError, match=r"placements.*the parameter.*p.grad.redistribute"):
        opt.step()
    with pytest.raises(ValueError, match=r"state_dtype='int8' is not possible.*cut along axis 1"):
        param = cut(whole_params([(70, 61)]), placements=[Shard(1)])[0]
        opt = fallline.AdamW([param], state_dtype="int8")
        give_gradients([param], 0)
        opt.step()


CASES: dict[str, Callable[[], None]] = {
    case.__name__: case
    for case in (
        fully_shard_trains_as_one_process,
        tied_weights_are_stepped_once,
        clipping_has_one_norm,
        a_norm_counts_copies_once,
        an_overflow_in_one_piece_skips_the_step_everywhere,
        a_gradient_that_is_not_finite_skips_the_step_everywhere,
        a_process_without_a_gradient_steps_with_zeros,
        parameters_join_later_and_rest,
        formats_follow_the_whole,
        lowerings_agree,
        a_step_is_seen_by_autograd,
        states_are_dtensors,
        replicas_of_pieces_step_alike,
        cuts_along_another_axis_step_as_the_whole,
        pieces_lie_where_torch_cuts,
        modes_and_entries_run,
        placements_that_cannot_be_stepped_are_refused,
    )
}
