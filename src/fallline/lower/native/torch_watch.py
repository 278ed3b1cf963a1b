"""Watches parameters, gradients and states from C: a thousand tensors that Python asks one by one take longer than
their step.

torch exports the C functions that this needs, but as no public interface: they are looked up by name in the running
process and tried on a few tensors first.  Where one is missing or answers otherwise, ``lower/watch.py`` does the same
in Python.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Sequence
from ctypes import POINTER, Structure, addressof, c_int32, c_int64, c_uint64, c_void_p, py_object

import torch
from torch import Tensor

from fallline.lower.native.library import NativeUnavailable, library

FUNCTIONS = {
    "dtype": "aoti_torch_get_dtype",
    "layout": "aoti_torch_get_layout",
    "device_type": "aoti_torch_get_device_type",
    "dim": "aoti_torch_get_dim",
    "sizes": "aoti_torch_get_sizes",
    "strides": "aoti_torch_get_strides",
    "data_ptr": "aoti_torch_get_data_ptr",
    "is_neg": "_ZN2at6native6is_negERKNS_6TensorE",
    "grad": "_ZNK3c1010TensorImpl4gradEv",
    "bump_version": "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE",
}
"""Members of ``fl_torch`` and torch's names for them."""


class CTorch(Structure):
    _fields_ = [
        *((name, c_void_p) for name in FUNCTIONS),
        ("list_size", c_void_p),
        ("list_item", c_void_p),
        ("strided", c_int32),
        ("cpu", c_int32),
        ("class_offset", c_int64),
    ]


class TorchReader:
    """torch's functions, and where a Python tensor object holds the C++ one."""

    def __init__(self) -> None:
        # Calls through PyDLL keep Python's lock: no other thread can take a gradient away meanwhile.
        self.native = ctypes.PyDLL(str(library().path))
        process = ctypes.CDLL(torch._C.__file__)
        self.c = CTorch(**{name: _address(getattr(process, symbol)) for name, symbol in FUNCTIONS.items()})
        self.c.list_size = _address(ctypes.pythonapi.PyList_Size)
        self.c.list_item = _address(ctypes.pythonapi.PyList_GetItem)
        self._declare()
        self.offset = _offset_of_tensor(process)
        self.c.class_offset = _offset_of_class() - self.offset
        plain, none = torch.zeros(2, device="cpu"), torch.nn.Parameter(torch.zeros(2, device="cpu"))
        self.c.strided, self.c.cpu = self._code("layout", plain), self._code("device_type", plain)
        gradient = ctypes.CFUNCTYPE(c_void_p, c_void_p)(self.c.grad)(_word(id(none) + self.offset))
        self.undefined = self._code("dtype", gradient)

    def _declare(self) -> None:
        functions = self.native
        functions.fl_watch_new.restype = c_void_p
        functions.fl_watch_new.argtypes = [POINTER(CTorch), c_void_p, c_int64, c_void_p, c_int64, c_void_p, c_int32]
        for function in (functions.fl_watch_free, functions.fl_watch_look, functions.fl_watch_wrote):
            function.argtypes = [c_void_p]
        functions.fl_watch_free.restype = None
        functions.fl_with_gradient.restype = c_int64
        functions.fl_with_gradient.argtypes = [POINTER(CTorch), c_void_p, c_void_p, c_int64, c_int32, c_void_p]
        functions.fl_same_objects.argtypes = [POINTER(CTorch), py_object, c_void_p, c_void_p, c_int64]

    def _code(self, name: str, of: Tensor | int) -> int:
        """A property that torch gives as a number; ``of``: a tensor, or the address of a C++ one."""
        found = c_int32()
        get = ctypes.CFUNCTYPE(c_int32, c_void_p, c_void_p)(getattr(self.c, name))
        if get(of if isinstance(of, int) else id(of) + self.offset, addressof(found)):
            raise NativeUnavailable(f"torch does not tell the {name} of a tensor")
        return found.value

    def watch(
        self, params: Sequence[Tensor], states: Sequence[Tensor], pointers: ctypes.Array[c_uint64] | None
    ) -> TorchWatch | None:
        """None if one of the tensors is complex, lazy, sparse, on another device, or has no gradient, or one of its own
        making."""
        if any(param.is_complex() for param in params) or not has_torch_gradients(params):
            return None
        found = TorchWatch(self, params, states, (c_uint64 * max(1, len(params)))() if pointers is None else pointers)
        return found if found.is_possible else None

    def members(self, lists: Sequence[Sequence[Tensor]]) -> TorchMembers | None:
        """None if one of the lists is another container, or a parameter has a gradient of its own making."""
        made_for = all(type(one) is list for one in lists) and all(map(has_torch_gradients, lists))
        return TorchMembers(self, lists) if made_for else None

    def addresses(self, tensors: Sequence[Tensor]) -> ctypes.Array[c_void_p]:
        """Where the C++ tensors are.  The objects must outlive this: it holds no reference."""
        return (c_void_p * max(1, len(tensors)))(*(id(tensor) + self.offset for tensor in tensors))


class TorchWatch:
    """Real parameters that all have a gradient, and their states; pointers of gradients go to ``pointers``."""

    def __init__(
        self, reader: TorchReader, params: Sequence[Tensor], states: Sequence[Tensor], pointers: ctypes.Array[c_uint64]
    ):
        self.params = list(params)
        self._kept = (list(states), pointers)
        self._native = reader.native
        self._watch = reader.native.fl_watch_new(
            reader.c,
            reader.addresses(self.params),
            len(self.params),
            reader.addresses(states),
            len(states),
            addressof(pointers),
            reader.undefined,
        )
        self.look = functools.partial(self._native.fl_watch_look, self._watch)
        """Whether nothing but the memory of gradients has changed; their pointers are then this step's."""
        self.tell_autograd = functools.partial(self._native.fl_watch_wrote, self._watch)
        """Counts a write to every parameter; false if torch refuses, as for tensors of inference mode."""
        self.is_possible = bool(self._watch)
        """False if one of the tensors, or of their gradients, is not plain."""

    def gradients(self) -> dict[int, Tensor]:
        return {i: param.grad for i, param in enumerate(self.params) if param.grad is not None}

    def __del__(self) -> None:
        if getattr(self, "_watch", None):
            self._native.fl_watch_free(self._watch)


class TorchMembers:
    """Lists of parameters."""

    def __init__(self, reader: TorchReader, lists: Sequence[Sequence[Tensor]]):
        self._kept = [param for some in lists for param in some]
        self._reader, self._count = reader, len(self._kept)
        self._objects = (c_void_p * max(1, self._count))(*map(id, self._kept))
        self._lengths = (c_int64 * max(1, len(lists)))(*map(len, lists))
        self._lists = len(lists)
        self._tensors = reader.addresses(self._kept)
        self._classes = (c_void_p * max(1, self._count))(*(id(type(param)) for param in self._kept))
        self._found = (c_int64 * max(1, self._count))()

    def are_in(self, lists: list[list[Tensor]]) -> bool:
        reader = self._reader
        try:
            return bool(reader.native.fl_same_objects(reader.c, lists, self._objects, self._lengths, self._lists))
        except SystemError:  # one is no list
            return False

    def with_gradient(self) -> list[int]:
        reader = self._reader
        count = reader.native.fl_with_gradient(
            reader.c, self._tensors, self._classes, self._count, reader.undefined, self._found
        )
        if count < 0:  # one has another class by now, which may have a gradient of its own making
            return [i for i, param in enumerate(self._kept) if param.grad is not None]
        return self._found[:count]


_TORCH_FUNCTIONS = (Tensor.__torch_function__, torch.nn.Parameter.__torch_function__)


def has_torch_gradients(params: Sequence[Tensor]) -> bool:
    """Whether the gradients of these are what torch has stored: a class may define ``grad`` anew."""
    return all(map(_has_torch_gradient, {*map(type, params)}))


def _has_torch_gradient(kind: type[Tensor]) -> bool:
    return kind.grad is Tensor.grad and kind.__torch_function__ in _TORCH_FUNCTIONS


def _address(function: Callable[..., object]) -> int:
    address = ctypes.cast(function, c_void_p).value  # type: ignore[arg-type]
    assert address is not None
    return address


def _word(address: int) -> int:
    return c_void_p.from_address(address).value or 0


def _offset_of_class() -> int:
    """How far into a Python object the pointer to its class lies: at the end of what every object has."""
    at = object.__basicsize__ - ctypes.sizeof(c_void_p)
    if _word(id(torch) + at) != id(type(torch)):
        raise NativeUnavailable("objects of Python are laid out otherwise")
    return at


def _offset_of_tensor(process: ctypes.CDLL) -> int:
    """How far into a Python tensor object the C++ tensor lies, which is a pointer to its data structure.

    A handle of torch's own tells the pointer to look for.
    """
    offsets = []
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = c_void_p, [py_object, ctypes.c_char_p]
    for tensor in (torch.zeros(3, device="cpu"), torch.nn.Parameter(torch.ones(2, 2, device="cpu"))):
        (capsule,) = torch._C._aoti.unsafe_alloc_void_ptrs_from_tensors([tensor])
        handle = pointer_of(capsule, None)
        words = range(0, tensor.__sizeof__() // 8 * 8, 8)
        offsets.append(next(at for at in words if _word(id(tensor) + at) == _word(handle)))
        process.aoti_torch_delete_tensor_object(c_void_p(handle))
    if len({*offsets}) != 1:
        raise NativeUnavailable("tensors of different kinds are laid out differently")
    return offsets[0]


@functools.cache
def torch_reader() -> TorchReader | None:
    """The reader of tensors from C, if this torch has the functions and the reader sees what it should."""
    try:
        reader = TorchReader()
        return reader if _sees(reader) else None
    except (NativeUnavailable, AttributeError, TypeError, OSError, StopIteration):
        return None


def _sees(reader: TorchReader) -> bool:
    """Tries a watch on tensors that change in every way that matters."""
    tries = (_follows_gradients, _finds_gradients, _notices_changes, _notices_other_objects)
    return all(works(reader) for works in tries)


def _probe(reader: TorchReader) -> tuple[Tensor, Tensor, ctypes.Array[c_uint64], TorchWatch | None]:
    param, state = torch.nn.Parameter(torch.zeros(2, 3, device="cpu")), torch.zeros(2, 3, device="cpu")
    param.grad = torch.zeros(2, 3, device="cpu")
    pointers = (c_uint64 * 1)()
    return param, state, pointers, reader.watch([param], [state], pointers)


def _follows_gradients(reader: TorchReader) -> bool:
    param, _, pointers, watch = _probe(reader)
    if watch is None or not watch.look() or param.grad is None or pointers[0] != param.grad.data_ptr():
        return False
    other, version = torch.ones(2, 3, device="cpu"), param._version
    param.grad = other
    looked = watch.look() and pointers[0] == other.data_ptr()
    return bool(looked and watch.tell_autograd()) and param._version == version + 1


def _finds_gradients(reader: TorchReader) -> bool:
    params = [torch.nn.Parameter(torch.zeros(2, device="cpu")) for _ in range(3)]
    found = TorchMembers(reader, [params])
    params[1].grad = torch.zeros(2, device="cpu")
    return found.with_gradient() == [1]


def _notices_changes(reader: TorchReader) -> bool:
    def gradient(value: Tensor | None) -> Callable[[Tensor, Tensor], None]:
        def change(param: Tensor, _: Tensor) -> None:
            param.grad = value

        return change

    def data(value: Tensor) -> Callable[[Tensor, Tensor], None]:
        def change(param: Tensor, _: Tensor) -> None:
            param.data = value

        return change

    def state_data(_: Tensor, state: Tensor) -> None:
        state.data = torch.zeros(2, 3, device="cpu")

    def other_class(param: Tensor, _: Tensor) -> None:
        param.__class__ = type("Other", (torch.nn.Parameter,), {})

    def swap(param: Tensor, _: Tensor) -> None:
        torch.utils.swap_tensors(param, torch.nn.Parameter(torch.zeros(2, 3, device="cpu")))

    turned = torch.zeros(3, 2, device="cpu").t()
    square = torch.zeros(2, 3, device="cpu")
    changes = [
        gradient(None),
        gradient(turned),
        gradient(square.to_sparse()),
        gradient(torch._neg_view(square)),
        data(square),
        state_data,
        other_class,
        swap,
    ]
    for change in changes:
        param, state, _, watch = _probe(reader)
        if watch is None or not watch.look():
            return False
        change(param, state)
        if watch.look():
            return False
    return True


def _notices_other_objects(reader: TorchReader) -> bool:
    first, second = torch.zeros(1, device="cpu"), torch.zeros(1, device="cpu")
    same = TorchMembers(reader, [[first], [second]])
    others: list[list[list[Tensor]]] = [[[second], [first]], [[first, second], []], [[first]], [[first], [second], []]]
    return same.are_in([[first], [second]]) and not any(map(same.are_in, others))
