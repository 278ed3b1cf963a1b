"""The processes that step an optimizer's parameters together: what they agree on, and how they join."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from fallline.distributed.agreement import agree
from fallline.distributed.dtensors import is_distributed, mesh_of, owner_of, placements_of, sharded_axis
from fallline.distributed.joiner import CopiesJoiner, GroupJoiner
from fallline.distributed.owners import Loads
from fallline.distributed.ranks import Ranks
from fallline.lower.coupled import Joiner
from fallline.lower.transfer import Owner
from fallline.optim.group_reader import MODE, RULE, GroupReader
from fallline.optim.hyperparameters import STEP
from fallline.optim.roster import all_params

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from fallline.optim.optimizer import RuleOptimizer

Groups = Sequence[Mapping[str, Any]]


class Team:
    """The processes of the mesh that an optimizer's DTensors lie on; or, without a mesh, processes that have all
    parameters and gradients whole, and split the work on matrices."""

    def __init__(self, ranks: Ranks, mesh: DeviceMesh | None = None):
        self.ranks, self.mesh = ranks, mesh
        self.joiner: Joiner = CopiesJoiner(ranks) if mesh is None else GroupJoiner(ranks)
        self.owners: dict[Tensor, Owner] = {}
        """The processes that step parameters with matrix functions."""
        self._loads: dict[int, Loads] = {}
        """The work of owners, by the axis of the mesh along which matrices are cut."""
        self._agreed: dict[Any, tuple[list[int], int]] = {}
        """By the parameters that have a gradient here: those that lack one here and have one elsewhere, and a number of
        all that take part."""
        self._numbers: dict[tuple[int, ...], int] = {}
        """By the parameters that take part, a number for them."""
        self._members = 0
        """The number of those that take part in the current step."""

    @property
    def counts_copies(self) -> bool:
        """Whether this process counts the parameters that all have whole."""
        return self.mesh is None or self.ranks.is_first

    @classmethod
    def of(cls, params: Sequence[Tensor], known: Team | None) -> Team | None:
        """The team of these parameters; None if they are all plain tensors."""
        for param in params:
            if not is_lazy(param) and is_distributed(param):
                mesh = mesh_of(param)
                if known is None:
                    known = cls(Ranks.of_mesh(mesh), mesh)
                elif known.mesh is None:
                    raise ValueError(
                        "split_over() is for parameters that every process has whole; DTensors, whose matrices have "
                        "owners anyway, do not need it"
                    )
                elif mesh != known.mesh:
                    raise ValueError(
                        f"parameters lie on different meshes of processes, {known.mesh} and {mesh}; make an optimizer "
                        "for the parameters of each"
                    )
        return known

    def assign(self, params: Sequence[Tensor]) -> None:
        """Gives every one of these matrices that is in pieces, or that all processes have, an owner."""
        if self.mesh is None:
            loads = self._loads.setdefault(0, Loads(self.ranks.size))
            for param, rank in zip(params, loads.assign([param.shape for param in params]), strict=True):
                self.owners[param] = Owner(rank, rank == self.ranks.at[0], 0, 0, (), copied=True)
            return
        by_axis: dict[int, list[Tensor]] = {}
        for param in params:
            if is_distributed(param) and (found := sharded_axis(param)) is not None:
                by_axis.setdefault(found[0], []).append(param)
        for axis, cut in by_axis.items():
            loads = self._loads.setdefault(axis, Loads(self.ranks.sizes[axis]))
            for param, rank in zip(cut, loads.assign([param.shape for param in cut]), strict=True):
                owner = owner_of(param, rank)
                assert owner is not None
                self.owners[param] = owner

    def forget(self) -> None:
        """After a checkpoint or new groups: the next step agrees again."""
        self._agreed.clear()

    def take_part(self, optimizer: RuleOptimizer) -> None:
        """Agrees with the others on the parameters that this step is over.  A parameter that has a gradient in another
        process, but not here (the part that is here may be empty), gets zeros."""
        params = all_params(optimizer.param_groups)
        present = [i for i, param in enumerate(params) if param.grad is not None]
        key = (len(params), tuple(present))
        known = self._agreed.get(key)
        if known is None:
            members = agree(self.ranks, _record(optimizer), present)
            number = self._numbers.setdefault(tuple(members), len(self._numbers))
            known = self._agreed[key] = sorted(set(members).difference(present)), number
        missing, self._members = known
        for i in missing:
            params[i].grad = torch.zeros_like(params[i])

    def sum_of_pieces(self, values: Tensor, param: Tensor) -> None:
        """Adds, in place, what the processes among which a parameter is cut have of something."""
        found = sharded_axis(param)
        assert found is not None
        self.ranks.sum_along(found[0], values)

    def from_owner(self, value: Tensor, owner: Owner) -> Tensor:
        """A tensor that the owner of a matrix has; the others have one of its shape without memory."""
        found = torch.empty_like(value, device=self.ranks.device) if value.is_meta else value.contiguous()
        as_bytes = found.view(-1).view(torch.uint8) if found.numel() else found.view(-1)
        self.ranks.broadcast(owner.mesh_axis, as_bytes, owner.rank)
        return found

    def begin(self, forms: Hashable) -> None:
        """The runs that follow stop where those of the same forms did, over the same parameters."""
        self.joiner.begin((forms, self._members))


def _record(optimizer: RuleOptimizer) -> dict[str, Any]:
    """The facts that must be the same in all processes."""
    readers = [optimizer._readers.of(group) for group in optimizer.param_groups]
    return {
        "the optimizer": type(optimizer).__name__,
        "clip_norm": optimizer.clip_norm,
        "skip_nonfinite": optimizer.skip_nonfinite,
        "groups": [
            _group_record(optimizer, reader, group)
            for reader, group in zip(readers, optimizer.param_groups, strict=True)
        ],
    }


def _group_record(optimizer: RuleOptimizer, reader: GroupReader, group: Mapping[str, Any]) -> dict[str, Any]:
    names = (RULE, MODE, *reader.options, *reader.description.defaults, *reader.group_states)
    settings = {name: _plain(group[name]) for name in dict.fromkeys(names) if name in group}
    return {**settings, "parameters": [_param_record(optimizer, param) for param in group["params"]]}


def _param_record(optimizer: RuleOptimizer, param: Tensor) -> dict[str, Any]:
    entry = optimizer.state.get(param) or {}
    record = {
        "the shape": list(param.shape),
        "the dtype": str(param.dtype),
        "the number of steps": _plain(entry.get(STEP, 0)),
    }
    if is_distributed(param):
        record["the placement"] = str(placements_of(param))
    return record


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_plain(one) for one in value]
    return value.tolist() if hasattr(value, "tolist") else value
