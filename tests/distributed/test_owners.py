"""The work on matrices is shared out evenly, among owners and among the rounds of each."""

from __future__ import annotations

from fallline.distributed.owners import ROUNDS, Loads, cost, rounds

SHAPES = [(512, 512)] * 12 + [(512, 2048)] * 4 + [(64, 3, 3, 3), (7, 5), (0, 4)]


def test_every_owner_has_about_equal_work_in_each_round() -> None:
    owners = Loads(2).assign(SHAPES)
    found = rounds(SHAPES, owners)
    for owner in range(2):
        own = [i for i in range(len(SHAPES)) if owners[i] == owner]
        parts = [sum(cost(SHAPES[i]) for i in own if found[i] == k) for k in range(ROUNDS)]
        assert sum(parts) > 0
        # A matrix is in one round: none has more than an equal part and one matrix besides.
        assert max(parts) <= sum(parts) / ROUNDS + max(cost(SHAPES[i]) for i in own)


def test_rounds_of_a_single_matrix_and_of_none_are_the_first() -> None:
    assert rounds([(4, 4)], [1]) == [0] and rounds([(0, 4)], [0]) == [0] and rounds([], []) == []
