"""The part of each parameter in this process: all, a piece that the user has named, or the local part of a DTensor."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from fallline.distributed.dtensors import is_counted, is_distributed, local_of, place_of
from fallline.lower.item import Place
from fallline.lower.transfer import Owner
from fallline.optim.states import Piece


class Pieces:
    """``counts_copies``: whether reductions count this process's copies of parameters that all processes have whole."""

    def __init__(
        self,
        places: Mapping[Tensor, Place] | None = None,
        counts_copies: bool = True,
        owners: Mapping[Tensor, Owner] | None = None,
    ):
        self.places = dict(places or {})
        self.owners = {} if owners is None else owners
        """The processes that step parameters with matrix functions."""
        self.counts_copies = counts_copies

    def of(self, param: Tensor) -> Piece:
        if is_distributed(param):
            return Piece(local_of(param), place_of(param), is_counted(param))
        return Piece(param, self.places.get(param), self.counts_copies or param in self.places)
