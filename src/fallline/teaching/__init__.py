"""Methods for small problems, to see what the practical ones approximate: plain torch, not rules."""

from fallline.teaching.full_matrix_adagrad import FullMatrixAdagrad
from fallline.teaching.line_search import LineSearchGD

__all__ = ["FullMatrixAdagrad", "LineSearchGD"]
