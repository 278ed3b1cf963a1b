"""All parameters of an optimizer, and which of them have a gradient."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

from torch import Tensor

from fallline.lower.watch import members

Groups = Sequence[Mapping[str, Any]]

params_of = itemgetter("params")


def all_params(groups: Groups) -> list[Tensor]:
    return list(chain.from_iterable(map(params_of, groups)))


class Roster:
    """The parameters in the order of the groups: a parameter's position here is its number."""

    def __init__(self, groups: Groups):
        lists = list(map(params_of, groups))
        self.params = list(chain.from_iterable(lists))
        self.group_of = [g for g, params in enumerate(lists) for _ in params]
        self._first_of_group = [0]
        for params in lists:
            self._first_of_group.append(self._first_of_group[-1] + len(params))
        self.members = members(lists)

    def is_of(self, groups: Groups) -> bool:
        """Whether the groups still have these parameters."""
        return self.members.are_in(list(map(params_of, groups)))

    def index_in_group(self, number: int) -> int:
        return number - self._first_of_group[self.group_of[number]]
