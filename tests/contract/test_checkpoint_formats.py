"""Low-bit states in checkpoints: kept bit for bit, or converted to the wanted format; exact resumption."""

import io

import pytest
import torch

import fallline
from fallline.formats import block_format

from .trajectories import (
    OWN_CASES,
    TORCH_CASES,
    assert_near,
    assert_rounded_alike,
    assert_same,
    named,
    parameters,
    run,
    values,
)

SHAPES = [(70, 65), (4097,), (9,), ()]


def through_a_file(saved):
    buffer = io.BytesIO()
    torch.save(saved, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


def plain_types(value):
    if isinstance(value, dict):
        assert type(value) is dict
        for key, inner in value.items():
            assert type(key) in (str, int)
            plain_types(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            plain_types(inner)
    else:
        assert value is None or type(value) in (torch.Tensor, int, float, bool, str), type(value)


@pytest.mark.parametrize("state_dtype", ["float32", "bfloat16", "int8", "int4"])
def test_checkpoint_holds_plain_types_only_and_says_its_version(state_dtype):
    opt = fallline.Adam(parameters(*SHAPES), state_dtype=state_dtype, amsgrad=True)
    run(opt, 2)
    saved = opt.state_dict()
    plain_types(saved)
    assert saved["fallline"] == {"version": 1, "rule": "adam"}
    assert_same(through_a_file(saved)["state"], saved["state"])


@pytest.mark.parametrize("state_dtype", ["int8", "int4"])
def test_low_bit_states_have_keys_of_their_own(state_dtype):
    opt = fallline.AdamW(parameters((64, 64), (9,)), state_dtype=state_dtype)
    run(opt, 2)
    large, small = opt.state_dict()["state"].values()
    assert set(large) == {
        "step",
        *(f"{s}:{k}" for s in ("exp_avg", "exp_avg_sq") for k in (state_dtype, "scale")),
    }
    assert set(small) == {"step", "exp_avg", "exp_avg_sq"}


@pytest.mark.parametrize("state_dtype", ["float32", "bfloat16", "int8", "int4"])
@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
def test_states_are_loaded_bit_for_bit(state_dtype, layout):
    params = parameters((70, 65), (9,))
    if layout == "transposed":
        params[0].data = params[0].data.t().contiguous().t()
    opt = fallline.AdamW(params, lr=0.1, state_dtype=state_dtype)
    run(opt, 3)
    saved = opt.state_dict()
    again = fallline.AdamW(parameters((70, 65), (9,)), state_dtype=state_dtype)
    again.load_state_dict(through_a_file(saved))
    assert_same(again.state_dict()["state"], saved["state"])


@pytest.mark.parametrize("before", ["float32", "bfloat16", "int8", "int4"])
@pytest.mark.parametrize("after", ["float32", "bfloat16", "int8", "int4"])
def test_formats_are_converted_when_loaded(before, after):
    opt = fallline.AdamW(parameters((64, 64)), state_dtype=before)
    run(opt, 3)
    saved = through_a_file(opt.state_dict())
    again = fallline.AdamW(parameters((64, 64)), state_dtype=after)
    again.load_state_dict(saved)
    entry = again.state_dict()["state"][0]
    if before == after:
        assert_same(entry, saved["state"][0])
    for name, kind in (("exp_avg", "signed"), ("exp_avg_sq", "nonneg")):
        decoded = _dense(saved["state"][0], name, kind)
        if after in ("int8", "int4") and before != after:
            codes, scale = block_format(after, kind).encode(decoded)
            assert name not in entry
            assert_same(entry[f"{name}:{after}"], codes)
            assert_same(entry[f"{name}:scale"], scale)
        elif before != after:
            assert f"{name}:scale" not in entry
            assert_same(entry[name], decoded.to(getattr(torch, after)))
    run(again, range(3, 5))
    assert again.state_dict()["state"][0]["step"] == 5


def _dense(entry, name, kind):
    for low in ("int8", "int4"):
        if f"{name}:{low}" in entry:
            return block_format(low, kind).decode(entry[f"{name}:{low}"], entry[f"{name}:scale"], (64, 64))
    return entry[name].float()


def test_torch_checkpoint_into_int8():
    theirs = torch.optim.AdamW(parameters((64, 64)), lr=0.1)
    run(theirs, 3)
    ours = fallline.AdamW8bit(params := parameters((64, 64)))
    ours.load_state_dict(theirs.state_dict())
    saved = theirs.state_dict()["state"][0]["exp_avg"]
    decoded = block_format("int8", "signed").decode(
        ours.state[params[0]]["exp_avg:int8"], ours.state[params[0]]["exp_avg:scale"], (64, 64)
    )
    assert_near(decoded, saved, rtol=0, atol=float(saved.abs().max()) * 0.02)


def test_format_per_group_decides_what_is_loaded():
    opt = fallline.AdamW(parameters((64, 64), (64, 65)))
    run(opt, 2)
    a, b = parameters((64, 64), (64, 65))
    hybrid = fallline.AdamW([{"params": [a]}, {"params": [b], "state_dtype": "int4"}])
    single = opt.state_dict()
    single["param_groups"] = [{**single["param_groups"][0], "params": [n]} for n in (0, 1)]
    hybrid.load_state_dict(single)
    assert "exp_avg" in hybrid.state[a] and "exp_avg:int4" in hybrid.state[b]


@pytest.mark.parametrize(("name", "options"), TORCH_CASES + OWN_CASES, ids=named)
def test_resumed_run_repeats_the_uninterrupted_one_exactly(name, options):
    _check_resumption(name, options)


@pytest.mark.parametrize(
    "options",
    [
        {"state_dtype": "int8"},
        {"state_dtype": "int4"},
        {"state_dtype": "bfloat16", "rounding_seed": 3},
        {"dtype": torch.bfloat16, "stochastic_rounding": True, "rounding_seed": 5},
        {"dtype": torch.float16, "stochastic_rounding": True, "state_dtype": "bfloat16"},
        {"dtype": torch.bfloat16, "master_weights": True},
        {"dtype": torch.bfloat16, "master_weights": True, "state_dtype": "int8"},
        {"clip_norm": 0.3},
        {"dtype": torch.complex64},
    ],
    ids=named,
)
def test_resumed_run_of_other_formats_repeats_exactly(options):
    _check_resumption("AdamW", {"lr": 0.05, **options})


def _check_resumption(name, options):
    options = dict(options)
    dtype = options.pop("dtype", torch.float32)
    make = getattr(fallline, name)
    whole = parameters(*SHAPES, dtype=dtype)
    reference = make(whole, **options)
    run(reference, 7)

    start = parameters(*SHAPES, dtype=dtype)
    opt = make(start, **options)
    run(opt, 3)
    saved = through_a_file({"weights": values(start), "optimizer": opt.state_dict()})
    resumed = [torch.nn.Parameter(w) for w in saved["weights"]]
    # The seed, like the learning rate, comes from the checkpoint.
    again = make(resumed, **{k: v for k, v in options.items() if k != "rounding_seed"})
    again.load_state_dict(saved["optimizer"])
    run(again, range(3, 7))
    assert_same(values(resumed), values(whole))
    assert_same(again.state_dict()["state"], reference.state_dict()["state"])


def test_loading_does_not_alias_the_checkpoint():
    opt = fallline.AdamW(parameters(*SHAPES), state_dtype="int8", lr=torch.tensor(0.1))
    run(opt, 2)
    saved = through_a_file(opt.state_dict())
    kept = through_a_file(opt.state_dict())
    again = fallline.AdamW(parameters(*SHAPES), state_dtype="int8")
    again.load_state_dict(saved)
    run(again, 3)
    again.param_groups[0]["lr"].fill_(7.0)
    assert_same(saved["state"], kept["state"])
    assert saved["param_groups"][0]["lr"] == 0.1


def test_two_optimizers_loaded_from_one_checkpoint_are_independent():
    opt = fallline.AdamW(parameters((5,)))
    run(opt, 2)
    saved = opt.state_dict()
    a, b = fallline.AdamW(params := parameters((5,))), fallline.AdamW(twins := parameters((5,)))
    a.load_state_dict(saved)
    b.load_state_dict(saved)
    run(a, 5)
    assert b.state[twins[0]]["step"] == 2 and a.state[params[0]]["step"] == 7


def test_saved_counters_do_not_move_with_the_optimizer():
    opt = fallline.AdamW(parameters((5,), (3,)))
    run(opt, 2)
    saved = opt.state_dict()
    assert saved["state"][0]["step"].untyped_storage().nbytes() == 4
    run(opt, 2)
    assert saved["state"][0]["step"] == 2


@pytest.mark.parametrize("missing", ["step", "everything"])
def test_partial_state_is_completed(missing):
    opt = fallline.AdamW(params := parameters((5,), (3,)), lr=0.1)
    run(opt, 2)
    saved = through_a_file(opt.state_dict())
    if missing == "everything":
        del saved["state"][1]
    else:
        del saved["state"][1][missing]
    again = fallline.AdamW(fresh := parameters((5,), (3,)), lr=0.1)
    again.load_state_dict(saved)
    run(again, 1)
    assert set(again.state[fresh[1]]) == {"step", "exp_avg", "exp_avg_sq"}
    assert again.state[fresh[0]]["step"] == 3
    assert params[1] is not fresh[1]


def test_loading_over_existing_states_replaces_them():
    a, b = fallline.AdamW(params := parameters((5,)), lr=0.1), fallline.AdamW(parameters((5,)), lr=0.1)
    run(a, 5)
    run(b, 1)
    a.load_state_dict(b.state_dict())
    assert a.state[params[0]]["step"] == 1
    a.load_state_dict(fallline.AdamW(parameters((5,))).state_dict())
    assert not a.state.get(params[0])


def test_checkpoint_of_float32_into_other_parameter_dtypes():
    """torch would cast every state to the parameter's dtype."""
    opt = fallline.AdamW(parameters((5, 3)), lr=0.1)
    run(opt, 2)
    half = fallline.AdamW(params := parameters((5, 3), dtype=torch.bfloat16))
    half.load_state_dict(opt.state_dict())
    assert_same(half.state[params[0]]["exp_avg"], opt.state_dict()["state"][0]["exp_avg"])
    double = fallline.AdamW(params := parameters((5, 3), dtype=torch.float64))
    double.load_state_dict(opt.state_dict())
    assert double.state[params[0]]["exp_avg"].dtype == torch.float64


def test_master_weights_are_saved_and_loaded():
    opt = fallline.AdamW(params := parameters((5, 3), dtype=torch.bfloat16), lr=1e-4, master_weights=True)
    run(opt, 3)
    saved = through_a_file(opt.state_dict())
    assert saved["state"][0]["master"].dtype == torch.float32
    assert not torch.equal(saved["state"][0]["master"], params[0].float())
    again = fallline.AdamW(fresh := parameters((5, 3), dtype=torch.bfloat16), master_weights=True)
    for p, q in zip(fresh, params, strict=True):
        p.data.copy_(q.data)
    again.load_state_dict(saved)
    assert_same(again.state[fresh[0]]["master"], saved["state"][0]["master"])


def test_compressed_state_of_a_smaller_shard_does_not_depend_on_layout():
    """Blocks are cut in logical order: a channels_last parameter has the codes of a contiguous one.

    A few may differ by one, as only the contiguous parameter's sums and products are rounded together.
    """
    entries = []
    for memory_format in (torch.contiguous_format, torch.channels_last):
        (p,) = parameters((16, 8, 6, 6))
        p.data = p.data.contiguous(memory_format=memory_format)
        opt = fallline.AdamW8bit([p], lr=0.1)
        run(opt, 2)
        entries.append(opt.state_dict()["state"][0])
    assert_rounded_alike(entries[1], entries[0], lr=0.1)


OWN = {"my_note": 1.5, "my_name": "embedding", "my_mean": torch.arange(3.0), "my_dict": {"seen": [1, 2], "why": None}}


@pytest.mark.parametrize("state_dtype", ["float32", "int8"])
def test_entries_of_the_users_in_a_state_are_kept_as_by_torch(state_dtype):
    opt = fallline.AdamW(parameters((64, 65), (5,)), lr=0.1, state_dtype=state_dtype)
    run(opt, 2)
    opt.state[opt.param_groups[0]["params"][0]].update(OWN)
    saved = through_a_file(opt.state_dict())
    assert saved["fallline"] == {"version": 1, "rule": "adamw", "own": sorted(OWN)}
    again = fallline.AdamW(parameters((64, 65), (5,)), lr=0.1, state_dtype=state_dtype)
    again.load_state_dict(saved)
    saved["state"][0]["my_mean"].zero_()
    saved["state"][0]["my_dict"]["seen"].clear()
    run(again, range(2, 3))
    state, other = (again.state[p] for p in again.param_groups[0]["params"])
    assert torch.equal(state.pop("my_mean"), OWN["my_mean"]), "the checkpoint's memory is not used"
    assert {key: state[key] for key in OWN if key in state} == {k: v for k, v in OWN.items() if k != "my_mean"}
    assert not set(OWN) & set(other)


def test_an_entry_made_before_the_first_step_is_kept_too():
    opt = fallline.NAdam(parameters((3, 4)))
    (param,) = opt.param_groups[0]["params"]
    opt.state[param]["my_note"] = 1.5
    again = fallline.NAdam(parameters((3, 4)))
    again.load_state_dict(opt.state_dict())
    assert dict(again.state[again.param_groups[0]["params"][0]]) == {"my_note": 1.5}
    run(opt, 2)
    run(again, 2)
    assert_same(values(again.param_groups[0]["params"]), values([param]))
    assert fallline.export_for_torch(again)["state"][0]["my_note"] == 1.5


def test_a_state_that_an_edited_rule_has_no_more_is_not_the_users():
    def edited(p, g, kept, *, lr):
        return p - lr * g, kept + g

    def before(p, g, kept, dropped, *, lr):
        return p - lr * g, kept + g, dropped + g

    edited.__name__ = before.__name__ = "mine"
    opt = fallline.optimizer(fallline.rule(before), lr=0.1)(parameters((3, 4)))
    run(opt, 1)
    with pytest.raises(ValueError, match=r"has 'dropped', which .* does not know"):
        fallline.optimizer(fallline.rule(edited), lr=0.1)(parameters((3, 4))).load_state_dict(opt.state_dict())
