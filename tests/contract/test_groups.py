"""Parameter groups: own options, added at any time, named, merged inside when equal."""

import pytest
import torch

import fallline
from fallline.lower.native.executor import NativeExecutor

from .trajectories import assert_near, assert_same, copies, parameters, run, set_gradients, values


def test_groups_have_their_own_hyperparameters():
    a, b = parameters((5, 3), (7,))
    c, d = copies([a, b])
    ours = fallline.AdamW([{"params": [a], "lr": 0.1}, {"params": [b], "betas": (0.5, 0.6), "weight_decay": 0.3}])
    theirs = torch.optim.AdamW([{"params": [c], "lr": 0.1}, {"params": [d], "betas": (0.5, 0.6), "weight_decay": 0.3}])
    run(ours, 5)
    run(theirs, 5)
    assert_near(values([a, b]), values([c, d]))


def test_groups_carry_notes_of_users_and_other_packages():
    """As in torch: PyTorch Lightning reads a name, timm and others keep a factor of the rate."""
    a, b = parameters((3,), (2,))
    notes = {"name": "decoder", "lr_scale": 0.5, "lr_mult": 2.0}
    opt = fallline.AdamW([{"params": [a], **notes}, {"params": [b]}])
    run(opt, 1)
    again = fallline.AdamW([{"params": [a]}, {"params": [b]}])
    again.load_state_dict(opt.state_dict())
    assert notes.items() <= again.param_groups[0].items()
    assert not notes.keys() & again.param_groups[1].keys()


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ({"weight_deacy": 0.1}, "no group option 'weight_deacy'; did you mean 'weight_decay'"),
        ({"nesterov": True}, "AdamW has no group option 'nesterov'; it has amsgrad, betas"),
        ({"clip_norm": 1.0}, "clip_norm is an option of the optimizer, not of a group"),
    ],
)
def test_what_looks_like_an_option_of_a_group_and_is_none_is_refused(option, says):
    with pytest.raises(TypeError, match=says):
        fallline.AdamW([{"params": parameters((3,)), **option}])


def test_group_added_after_steps_starts_from_its_own_first_step():
    a, b = parameters((5, 3), (7,))
    c, d = copies([a, b])
    ours, theirs = fallline.Adam([a], lr=0.1), torch.optim.Adam([c], lr=0.1)
    for optimizer, new in ((ours, b), (theirs, d)):
        run(optimizer, 4)
        optimizer.add_param_group({"params": [new], "lr": 0.01, "betas": (0.7, 0.8)})
        run(optimizer, range(4, 9))
    assert_near(values([a, b]), values([c, d]))
    assert [ours.state[p]["step"].item() for p in (a, b)] == [9, 5]


def test_group_added_before_the_first_step():
    a, b = parameters((5, 3), (7,))
    c, d = copies([a, b])
    ours = fallline.SGD([a], lr=0.1, momentum=0.9)
    ours.add_param_group({"params": b, "momentum": 0.5})
    theirs = torch.optim.SGD([{"params": [c]}, {"params": [d], "momentum": 0.5}], lr=0.1, momentum=0.9)
    run(ours, 3)
    run(theirs, 3)
    assert_near(values([a, b]), values([c, d]))


def test_state_dtype_per_group_is_the_hybrid():
    wide, narrow = parameters((128, 64), (128, 64))
    opt = fallline.AdamW([{"params": [wide]}, {"params": [narrow], "state_dtype": "int8"}], lr=0.01)
    run(opt, 3)
    assert set(opt.state[wide]) == {"step", "exp_avg", "exp_avg_sq"}
    assert set(opt.state[narrow]) == {
        "step",
        "exp_avg:int8",
        "exp_avg:scale",
        "exp_avg_sq:int8",
        "exp_avg_sq:scale",
    }
    assert opt.state[narrow]["exp_avg:int8"].dtype == torch.int8
    alone = parameters((128, 64), (128, 64))[:1]
    plain = fallline.AdamW(alone, lr=0.01)
    # The first parameter of each step's gradients is the same one.
    run(plain, 3)
    assert_same(values([wide]), values(alone))


@pytest.mark.parametrize("state_dtype", ["int8", "int4"])
def test_small_tensors_of_a_low_bit_group_stay_float32(state_dtype):
    small, large = parameters((4095,), (4096,))
    opt = fallline.Lion([small, large], state_dtype=state_dtype)
    run(opt, 1)
    assert opt.state[small]["exp_avg"].dtype == torch.float32
    assert "exp_avg" not in opt.state[large] and f"exp_avg:{state_dtype}" in opt.state[large]


def test_changing_state_dtype_of_a_group_converts_its_states():
    (p,) = parameters((64, 64))
    opt = fallline.AdamW([p], lr=0.01)
    run(opt, 3)
    before = opt.state[p]["exp_avg"].clone()
    opt.param_groups[0]["state_dtype"] = "int8"
    run(opt, range(3, 4))
    assert "exp_avg:int8" in opt.state[p] and "exp_avg" not in opt.state[p]
    assert opt.state[p]["step"] == 4
    opt.param_groups[0]["state_dtype"] = "float32"
    set_gradients([p], 4)
    opt.step()
    expected = 0.9 * (0.9 * before + 0.1 * _gradient(p, 3)) + 0.1 * _gradient(p, 4)
    assert_near(opt.state[p]["exp_avg"], expected, atol=0.02, rtol=0.02)


def _gradient(p, step):
    (other,) = copies([p])
    set_gradients([other], step)
    return other.grad


@pytest.mark.parametrize("where", ["constructor", "add_param_group"])
def test_unknown_group_key_is_refused_by_name(where):
    a, b = parameters((3,), (2,))
    with pytest.raises(TypeError, match="'learning_rate'") as error:
        if where == "constructor":
            fallline.AdamW([{"params": [a], "learning_rate": 0.1}])
        else:
            opt = fallline.AdamW([a])
            opt.add_param_group({"params": [b], "learning_rate": 0.1})
    assert "lr" in str(error.value) and "\n" not in str(error.value)


def test_keys_that_schedulers_put_into_groups_are_accepted():
    a, b = parameters((3,), (2,))
    opt = fallline.AdamW([a], lr=0.1)
    torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.1, total_steps=10)
    again = fallline.AdamW([{**opt.param_groups[0], "params": [b]}])
    assert again.param_groups[0]["max_momentum"] == opt.param_groups[0]["max_momentum"]


def test_option_fixed_by_the_class_cannot_be_contradicted():
    (p,) = parameters((3,))
    with pytest.raises(ValueError, match=r"decoupled_weight_decay.*fallline\.Adam"):
        fallline.AdamW([{"params": [p], "decoupled_weight_decay": False}])


def test_named_parameters():
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.LayerNorm(3))
    opt = fallline.AdamW(model.named_parameters(), lr=0.1)
    assert opt.param_groups[0]["param_names"] == ["0.weight", "0.bias", "1.weight", "1.bias"]
    assert [p is q for p, q in zip(opt.param_groups[0]["params"], model.parameters(), strict=True)] == [True] * 4
    run(opt, 2)
    assert opt.state_dict()["param_groups"][0]["param_names"] == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_messages_name_a_named_parameter():
    p = torch.nn.Parameter(torch.zeros(3))
    opt = fallline.AdamW([("encoder.weight", p)])
    p.grad = torch.zeros(3).to_sparse()
    with pytest.raises(TypeError, match=r"encoder\.weight"):
        opt.step()


def test_mixing_named_and_unnamed_groups_is_refused_and_leaves_groups_alone():
    a, b = parameters((3,), (2,))
    opt = fallline.AdamW([("a", a)])
    with pytest.raises(ValueError, match="names"):
        opt.add_param_group({"params": [b]})
    assert len(opt.param_groups) == 1


@pytest.fixture
def launches(monkeypatch):
    """How many sets of scalars each native launch had."""
    sets = []
    run_launch = NativeExecutor.run
    monkeypatch.setattr(
        NativeExecutor, "run", lambda self, scalars: (sets.append(len(scalars.sets)), run_launch(self, scalars))[1]
    )
    return sets


def test_groups_with_equal_hyperparameters_are_one_launch_with_one_row(launches):
    params = parameters(*[(5,)] * 20)
    opt = fallline.AdamW([{"params": [p]} for p in params], lr=0.1)
    run(opt, 3)
    assert launches == [1, 1, 1]
    for group in opt.param_groups[10:]:
        group["lr"] = 0.2
    run(opt, 1)
    assert launches[3:] == [2]


def test_merging_groups_does_not_change_results():
    params = parameters((50, 3), (17,), (4, 4, 4), ())
    together, apart = params, copies(params)
    run(fallline.AdamW(together, lr=0.01), 5)
    run(fallline.AdamW([{"params": [p]} for p in apart], lr=0.01), 5)
    assert_same(values(together), values(apart))


def test_one_launch_per_tensor_gives_the_same_bits(launches):
    params = parameters((50, 3), (70_001,), (4, 4, 4), ())
    together, apart = params, copies(params)
    run(fallline.AdamW(together, lr=0.01, foreach=True, fused=True), 5)
    run(fallline.AdamW(apart, lr=0.01, foreach=False, fused=True), 5)
    assert_same(values(together), values(apart))


def test_parameters_at_different_steps_share_a_launch(launches):
    a, b = parameters((5,), (6,))
    c, d = copies([a, b])
    ours, theirs = fallline.AdamW([a, b], lr=0.1), torch.optim.AdamW([c, d], lr=0.1)
    for optimizer, (first, second) in ((ours, (a, b)), (theirs, (c, d))):
        set_gradients([first, second], 0)
        second.grad = None
        optimizer.step()
        run(optimizer, range(1, 3))
    assert launches == [1, 2, 2]
    assert_near(values([a, b]), values([c, d]))


def test_step_counters_are_views_of_one_tensor():
    """A thousand 0-d increments cost more than the kernel."""
    params = parameters((5,), (6,), (7,))
    opt = fallline.AdamW(params)
    run(opt, 2)
    memory = {opt.state[p]["step"].untyped_storage().data_ptr() for p in params}
    assert len(memory) == 1
    assert all(opt.state[p]["step"].shape == () for p in params)


def test_step_counter_set_by_the_user_counts():
    (p,), (q,) = parameters((5,)), parameters((5,))
    ours, theirs = fallline.AdamW([p], lr=0.1), torch.optim.AdamW([q], lr=0.1)
    for opt, param in ((ours, p), (theirs, q)):
        run(opt, 2)
        opt.state[param]["step"].fill_(40.0)
        run(opt, range(2, 4))
        opt.state[param]["step"] = torch.tensor(7.0)
        run(opt, range(4, 6))
    assert ours.state[p]["step"] == 9
    assert_near(values([p]), values([q]))


def test_maximize_per_group():
    a, b = parameters((5,), (6,))
    c, d = copies([a, b])
    groups = [{"params": [a], "maximize": True}, {"params": [b]}]
    run(fallline.AdamW(groups, lr=0.1), 3)
    run(torch.optim.AdamW([{"params": [c], "maximize": True}, {"params": [d]}], lr=0.1), 3)
    assert_near(values([a, b]), values([c, d]))


def test_parameter_removed_from_its_group_is_not_stepped_any_more():
    a, b, c = parameters((5,), (6,), (3,))
    opt = fallline.AdamW([a, b, c], lr=0.1)
    run(opt, 2)
    frozen = values([b])
    del opt.param_groups[0]["params"][1]
    run(opt, range(2, 4))
    assert_same(values([b]), frozen)
    assert [opt.state[p]["step"].item() for p in (a, b, c)] == [4, 2, 4]
