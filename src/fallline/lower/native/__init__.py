"""The native lowering: C++ generated from the graph, compiled once, launched over all tensors at once."""
