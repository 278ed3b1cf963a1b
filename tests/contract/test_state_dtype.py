"""``state_dtype`` may be given as torch's dtype where torch has one."""

import pytest
import torch

import fallline

from .trajectories import parameters, run


@pytest.mark.parametrize(("given", "name"), [(torch.bfloat16, "bfloat16"), (torch.float32, "float32")])
def test_a_dtype_of_torch_is_its_name(given, name):
    opt = fallline.AdamW([{"params": parameters((3,))}, {"params": parameters((5,)), "state_dtype": given}])
    assert [group["state_dtype"] for group in opt.param_groups] == ["float32", name]
    opt = fallline.AdamW(parameters((3,)), state_dtype=given)
    opt.add_param_group({"params": parameters((5,))})
    assert opt.defaults["state_dtype"] == name
    assert [group["state_dtype"] for group in opt.param_groups] == [name, name]


def test_states_are_stored_in_the_dtype_of_torch():
    (p,) = parameters((5,))
    opt = fallline.AdamW([p], state_dtype=torch.bfloat16)
    run(opt, 1)
    assert opt.state[p]["exp_avg"].dtype == torch.bfloat16
    other = fallline.AdamW([p], state_dtype="bfloat16")
    other.load_state_dict(opt.state_dict())


@pytest.mark.parametrize("given", [torch.float16, torch.int32])
def test_a_dtype_that_is_no_format_is_refused(given):
    with pytest.raises(ValueError, match=r"state_dtype must be one of 'float32', .*got '(float16|int32)'"):
        fallline.AdamW(parameters((3,)), state_dtype=given)
    with pytest.raises(ValueError, match="state_dtype must be one of"):
        fallline.AdamW([{"params": parameters((3,)), "state_dtype": given}])
