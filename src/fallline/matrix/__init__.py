"""Functions of matrices that optimizers need: pure, on batches of equal shapes, and told when they fail."""
