"""Drawing in matplotlib's axes, one file per kind of figure; ``picture`` makes files of them."""
