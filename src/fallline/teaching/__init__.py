"""Methods for small problems, in plain torch; they show what the practical methods approximate."""

from fallline.teaching.full_matrix_adagrad import FullMatrixAdagrad
from fallline.teaching.line_search import LineSearchGD

__all__ = ["FullMatrixAdagrad", "LineSearchGD"]
