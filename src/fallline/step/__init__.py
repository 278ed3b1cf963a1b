"""Which implementation of an optimizer's step, from which size, and how far from the limit."""
