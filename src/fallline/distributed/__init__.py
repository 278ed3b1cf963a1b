"""Parameters in pieces over processes: DTensors, joined reductions, owners of matrices, agreement."""
