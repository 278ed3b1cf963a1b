"""One optimizer, several rules: each group is stepped by its own, as an optimizer of that rule alone would step it."""

import copy

import pytest
import torch

import fallline

from .trajectories import assert_near, copies, parameters, run, set_gradients, values

SHAPES = [(70, 70), (9, 4), (5,), (3, 2)]


def mixed(params, **options):
    return fallline.Lion(
        [
            {"params": params[:2], "lr": 1e-3},
            {"params": params[2:], "rule": "adamw", "lr": 1e-2, "weight_decay": 0.1},
        ],
        **options,
    )


def test_each_group_steps_as_its_own_optimizer_would():
    params = parameters(*SHAPES)
    apart = copies(params)
    opt = mixed(params)
    others = [fallline.Lion(apart[:2], lr=1e-3), fallline.AdamW(apart[2:], lr=1e-2, weight_decay=0.1)]
    for step in range(5):
        for group in (params, apart):
            set_gradients(group, step)
        opt.step()
        for other in others:
            other.step()
    assert all(torch.equal(a, b) for a, b in zip(values(params), values(apart), strict=True))
    assert [part.rule for part in opt.explain().parts] == ["lion", "adamw"]
    assert "lion, " in opt.explain() and "adamw, " in opt.explain()


def test_groups_have_the_options_of_their_own_rule():
    opt = mixed(parameters(*SHAPES))
    lion, adamw = opt.param_groups
    assert "eps" not in lion and adamw["eps"] == 1e-8
    assert lion["betas"] == (0.9, 0.99) and adamw["betas"] == (0.9, 0.999)


def test_schedules_clipping_and_low_bits_go_over_all_groups():
    params = parameters(*SHAPES)
    opt = mixed(params, clip_norm=0.5, state_dtype="int8")
    schedule = torch.optim.lr_scheduler.ExponentialLR(opt, 0.5)
    run(opt, 2)
    schedule.step()
    assert [group["lr"] for group in opt.param_groups] == [5e-4, 5e-3]
    assert "exp_avg:int8" in opt.state[params[0]]
    norm = torch.cat([p.grad.reshape(-1) for p in params]).norm()
    assert_near([opt.grad_norm], [norm])


def test_a_checkpoint_continues_every_group_by_its_rule():
    params = parameters(*SHAPES)
    opt = mixed(params)
    run(opt, 3)
    twins = copies(params)
    other = mixed(twins)
    other.load_state_dict(copy.deepcopy(opt.state_dict()))
    run(opt, range(3, 6))
    run(other, range(3, 6))
    assert all(torch.equal(a, b) for a, b in zip(values(params), values(twins), strict=True))


def test_a_checkpoint_of_another_assignment_is_refused():
    opt = mixed(parameters(*SHAPES))
    run(opt, 1)
    params = parameters(*SHAPES)
    alone = fallline.Lion([{"params": params[:2]}, {"params": params[2:]}])
    with pytest.raises(
        ValueError, match="group 1 of the checkpoint is stepped by 'adamw', that of this optimizer by 'lion'"
    ):
        alone.load_state_dict(opt.state_dict())


def test_unknown_rules_and_those_with_methods_of_their_own_are_refused():
    (p,) = parameters((3,))
    with pytest.raises(ValueError, match="there is no optimizer 'adamv'; did you mean"):
        fallline.Lion([{"params": [p], "rule": "adamv"}])
    with pytest.raises(ValueError, match=r"rule='schedule_free_adamw' needs eval\(\) and train\(\)"):
        fallline.Lion([{"params": [p], "rule": "schedule_free_adamw"}])


@pytest.mark.parametrize("saved, loaded", [("AdamW", "Adam"), ("Adam", "AdamW")])
def test_decoupled_adam_and_adamw_load_each_others_checkpoints(saved, loaded):
    def make(name, params):
        more = {"decoupled_weight_decay": True} if name == "Adam" else {}
        return getattr(fallline, name)(params, lr=0.01, weight_decay=0.1, **more)

    params = parameters((5, 3))
    first = make(saved, params)
    run(first, 3)
    twins = copies(params)
    second = make(loaded, twins)
    second.load_state_dict(first.state_dict())
    run(first, range(3, 6))
    run(second, range(3, 6))
    assert_near(values(params), values(twins))


def test_a_state_in_the_middle_that_is_moved_is_stepped_where_it_is():
    params, twins = parameters((5,), (4,), (3,)), parameters((5,), (4,), (3,))
    opt, other = fallline.AdamW(params), fallline.AdamW(twins)
    run(opt, 1)
    run(other, 1)
    moved = opt.state[params[1]]["exp_avg"]
    moved.data = moved.data.clone()
    run(opt, range(1, 3))
    run(other, range(1, 3))
    assert torch.equal(opt.state[params[1]]["exp_avg"], other.state[twins[1]]["exp_avg"])
