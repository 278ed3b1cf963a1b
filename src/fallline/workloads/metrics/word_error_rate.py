"""Word error rate: edits that turn what was heard into what was said, per word said."""

from __future__ import annotations

from collections.abc import Sequence


def edit_distance(first: Sequence[str], second: Sequence[str]) -> int:
    """The fewest insertions, deletions and substitutions that make one sequence of the other.

    >>> edit_distance("kitten", "sitting")
    3
    """
    row = list(range(len(second) + 1))
    for i, a in enumerate(first, 1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(second, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (a != b))
    return row[-1]


def word_error_rate(heard: Sequence[str], said: Sequence[str]) -> float:
    """Edits over all utterances by the number of words said; can exceed 1.

    >>> word_error_rate(["the cat sat"], ["the cat sat down"])
    0.25
    """
    edits = sum(edit_distance(a.split(), b.split()) for a, b in zip(heard, said, strict=True))
    words = sum(len(b.split()) for b in said)
    if words == 0:
        raise ValueError("word error rate of nothing: no words were said")
    return edits / words
