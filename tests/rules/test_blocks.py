"""How parameters are merged and cut into blocks for matrix functions."""

import pytest

from fallline.rules.blocks import Squares


@pytest.mark.parametrize(
    ("shape", "merge", "merged"),
    [
        ((7, 5), "last", (35,)),
        ((70, 5), "last", (70, 5)),
        ((4, 3, 5, 9), "last", (12, 45)),
        ((4, 3, 5, 9), "first", (60, 9)),
        ((1, 1), "last", (1,)),
        ((8, 1, 9), "last", (8, 9)),
        ((8, 1, 9), "none", (8, 1, 9)),
        ((), "none", (1,)),
        ((), "last", (1,)),
    ],
)
def test_short_neighbouring_axes_become_one(shape, merge, merged):
    assert Squares(64, merge).merged(shape) == merged


def test_blocks_cover_every_element_once():
    squares = Squares(4, "none")
    seen = {}
    for block in squares.blocks((10, 3)):
        for i in range(block.slices[0].start, block.slices[0].stop):
            for j in range(block.slices[1].start, block.slices[1].stop):
                seen[i, j] = seen.get((i, j), 0) + 1
    assert seen == {(i, j): 1 for i in range(10) for j in range(3)}


def test_matrices_lie_one_behind_the_other():
    squares = Squares(4, "none")
    ends = [0]
    for block in squares.blocks((10, 3)):
        for square in block.squares:
            assert square.first == ends[-1]
            assert square.dim == block.shape[square.axis]
            ends.append(square.first + square.dim**2)
    assert ends[-1] == squares.numel((10, 3)) == 16 + 9 + 16 + 9 + 4 + 9


def test_a_long_axis_that_is_not_cut_has_no_matrix():
    (block,) = Squares(8, "none", cut=False).blocks((100, 3))
    assert [(square.axis, square.dim) for square in block.squares] == [(1, 3)]


def test_an_empty_parameter_has_no_blocks():
    assert Squares(8, "last").blocks((0, 5)) == []
    assert Squares(8, "last").numel((0, 5)) == 0


def test_fields_may_name_static_arguments():
    assert Squares("most", "how").settled({"most": 16, "how": "first"}) == Squares(16, "first")
