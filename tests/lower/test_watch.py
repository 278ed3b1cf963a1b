"""Steps that find everything as it was, and steps that do not: by C where torch has what it takes, and by Python."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import Parameter

import fallline
from fallline.lower import watch
from fallline.lower.native import torch_watch
from fallline.lower.native.torch_watch import TorchMembers, TorchReader, torch_reader

READERS = ["C", "Python"]


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "Python":
        monkeypatch.setattr(watch, "torch_reader", lambda: None)
    elif torch_reader() is None:
        pytest.skip("this torch does not have the functions")
    return str(request.param)


def made(count: int = 3) -> list[Parameter]:
    generator = torch.Generator().manual_seed(0)
    params = [Parameter(torch.randn(4, 5, generator=generator)) for _ in range(count)]
    for param in params:
        param.grad = torch.randn(4, 5, generator=generator)
    return params


def new_gradients(params: list[Parameter]) -> None:
    for param in params:
        assert param.grad is not None
        param.grad = param.grad + 1


def no_gradient(params: list[Parameter]) -> None:
    params[1].grad = None


def turned_gradient(params: list[Parameter]) -> None:
    assert params[1].grad is not None
    params[1].grad = params[1].grad.t().contiguous().t()


def double_gradient(params: list[Parameter]) -> None:
    grad = params[1].grad
    assert grad is not None
    params[1].grad = None
    params[1].data = params[1].data.double()
    params[1].grad = grad.double()


def negated_gradient(params: list[Parameter]) -> None:
    assert params[1].grad is not None
    params[1].grad = torch._neg_view(params[1].grad)


def moved_parameter(params: list[Parameter]) -> None:
    params[1].data = params[1].data.clone()


def turned_parameter(params: list[Parameter]) -> None:
    params[1].data = params[1].data.t().contiguous().t()


def swapped_parameter(params: list[Parameter]) -> None:
    other = Parameter(params[1].detach() * 2)
    other.grad = params[1].grad
    torch.utils.swap_tensors(params[1], other)


CHANGES: list[Callable[[list[Parameter]], None]] = [
    new_gradients,
    no_gradient,
    turned_gradient,
    double_gradient,
    negated_gradient,
    moved_parameter,
    turned_parameter,
    swapped_parameter,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_step_after_a_change_is_that_of_an_optimizer_that_watches_nothing(
    reader: str, change: Callable[[list[Parameter]], None]
) -> None:
    params, others = made(), made()
    ours, eager = fallline.AdamW(params), fallline.AdamW(others, foreach=False, fused=False)
    for some, optimizer in ((params, ours), (others, eager)):
        for step in range(5):
            if step == 3:
                change(some)
            optimizer.step()
    for param, other in zip(params, others, strict=True):
        torch.testing.assert_close(param, other, rtol=1e-6, atol=1e-7)


def test_states_that_somebody_moves_are_stepped_where_they_are(reader: str) -> None:
    params, others = made(), made()
    ours, eager = fallline.AdamW(params), fallline.AdamW(others, foreach=False, fused=False)
    for step in range(5):
        if step == 3:
            state = ours.state[params[1]]["exp_avg"]
            state.data = state.data.clone()
        ours.step()
        eager.step()
    torch.testing.assert_close(params[1], others[1], rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(ours.state[params[1]]["exp_avg"], eager.state[others[1]]["exp_avg"])


def test_a_parameter_that_changes_its_group_is_stepped_as_there(reader: str) -> None:
    params = made(2)
    optimizer = fallline.SGD([{"params": params[:1], "lr": 1.0}, {"params": params[1:], "lr": 0.0}])
    optimizer.step()
    optimizer.step()
    before = params[1].detach().clone()
    optimizer.param_groups[0]["params"].append(optimizer.param_groups[1]["params"].pop())
    optimizer.step()
    assert not torch.equal(params[1], before)


def test_a_group_whose_parameters_became_a_tuple_is_stepped(reader: str) -> None:
    params = made(2)
    optimizer = fallline.SGD(params, lr=1.0)
    optimizer.step()
    before = params[1].detach().clone()
    optimizer.param_groups[0]["params"] = tuple(params)
    optimizer.step()
    optimizer.step()
    assert not torch.equal(params[1], before)


def test_autograd_hears_of_every_step(reader: str) -> None:
    params = made()
    optimizer = fallline.AdamW(params)
    optimizer.step()
    versions = [param._version for param in params]
    optimizer.step()
    assert [param._version for param in params] == [version + 1 for version in versions]


def test_a_norm_follows_the_gradients_of_the_step(reader: str) -> None:
    params = made()
    optimizer = fallline.AdamW(params, clip_norm=1.0)
    for step in range(4):
        for param in params:
            param.grad = torch.full((4, 5), float(step + 1))
        optimizer.step()
        expected = (step + 1) * (3 * 20) ** 0.5
        assert float(optimizer.grad_norm) == pytest.approx(expected)  # type: ignore[arg-type]


def test_parameters_are_free_when_their_optimizer_is(reader: str) -> None:
    import weakref

    params = made()
    optimizer = fallline.AdamW(params)
    for _ in range(3):
        optimizer.step()
    alive = weakref.ref(params[0])
    copied = copy.deepcopy(optimizer)
    copied.step()
    del optimizer, copied, params
    assert alive() is None


def test_gradients_are_free_after_the_step(reader: str) -> None:
    import weakref

    params = made()
    optimizer = fallline.AdamW(params)
    for _ in range(3):
        optimizer.step()
    alive = weakref.ref(params[0].grad)
    params[0].grad = None
    assert alive() is None


class Refusing(TorchReader):
    """A torch that lacks one of the functions."""

    def __init__(self) -> None:
        raise AttributeError("undefined symbol: aoti_torch_get_dtype")


def test_a_torch_without_these_functions_is_read_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_watch, "TorchReader", Refusing)
    assert torch_reader.__wrapped__() is None


@pytest.mark.skipif(torch_reader() is None, reason="this torch does not have the functions")
class TestReader:
    def test_functions_that_answer_otherwise_are_not_used(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(TorchMembers, "with_gradient", lambda self: [0])
        assert torch_reader.__wrapped__() is None

    @pytest.mark.parametrize(
        "tensor",
        [torch.zeros(3, dtype=torch.float16), torch.zeros(0), torch.zeros(()), torch.zeros(2, 3, 4).transpose(0, 2)],
    )
    def test_pointers_are_those_of_the_gradients(self, tensor: Tensor) -> None:
        reader, param = torch_reader(), Parameter(tensor)
        assert reader is not None
        param.grad = torch.zeros_like(param)
        pointers = (torch_watch.c_uint64 * 1)()
        looked = reader.watch([param], [], pointers)
        assert looked is not None and looked.look() and pointers[0] == param.grad.data_ptr()

    @pytest.mark.parametrize("grad", [None, torch.zeros(3).to_sparse(), torch._neg_view(torch.zeros(3))])
    def test_gradients_that_are_not_plain_are_left_to_python(self, grad: Tensor | None) -> None:
        reader, param = torch_reader(), Parameter(torch.zeros(3))
        assert reader is not None
        param.grad = grad
        assert reader.watch([param], [], None) is None

    def test_complex_parameters_are_left_to_python(self) -> None:
        """Their gradients may be lazily conjugated, which C does not see."""
        reader, param = torch_reader(), Parameter(torch.zeros(3, dtype=torch.complex64))
        assert reader is not None
        param.grad = torch.zeros(3, dtype=torch.complex64)
        assert reader.watch([param], [], None) is None
