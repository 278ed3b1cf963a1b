"""How fast the optimizers are, against the limit of the machine and against other packages."""
