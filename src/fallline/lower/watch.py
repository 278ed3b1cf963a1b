"""Recognises parameters and gradients that lie as they did in the last step, so that none needs a closer look."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import attrgetter, is_

from torch import Tensor

from fallline.lower.fingerprint import Fingerprint
from fallline.lower.native.torch_watch import (
    NativeSameObjects,
    NativeWithGradient,
    has_torch_gradients,
    torch_reader,
)

_grad_of = attrgetter("grad")


class Watch:
    """Parameters that all have a gradient, which is read where it is."""

    def __init__(self, params: Sequence[Tensor]):
        self.params = list(params)
        self._pointers = list(map(Tensor.data_ptr, self.params))
        self._fingerprint = Fingerprint((*self.params, *map(_grad_of, self.params)))

    def gradients(self) -> list[Tensor] | None:
        """This step's gradients, if nothing but their memory has changed."""
        grads = list(map(_grad_of, self.params))
        if list(map(Tensor.data_ptr, self.params)) != self._pointers:
            return None
        return grads if self._fingerprint.matches((*self.params, *grads)) else None


class WithGradient:
    """Finds the parameters that have a gradient."""

    def __init__(self, params: Sequence[Tensor]):
        self._params = list(params)

    def find(self) -> list[int]:
        """Their positions."""
        return [i for i, grad in enumerate(map(_grad_of, self._params)) if grad is not None]


def with_gradient(params: Sequence[Tensor]) -> WithGradient | NativeWithGradient:
    """The fastest that there is for these."""
    reader = torch_reader() if has_torch_gradients(params) else None
    return WithGradient(params) if reader is None else NativeWithGradient(reader, params)


class SameObjects:
    """Recognises lists that hold the same objects as copies of them did."""

    def __init__(self, lists: Sequence[Sequence[object]]):
        self._lists = [list(one) for one in lists]

    def are_in(self, lists: Sequence[Sequence[object]]) -> bool:
        return list(map(len, lists)) == list(map(len, self._lists)) and all(
            map(is_, chain.from_iterable(lists), chain.from_iterable(self._lists))
        )


def same_objects(lists: Sequence[Sequence[object]]) -> SameObjects | NativeSameObjects:
    """The fastest that there is for these."""
    reader = torch_reader() if all(type(one) is list for one in lists) else None
    return SameObjects(lists) if reader is None else NativeSameObjects(reader, lists)
