"""Trajectories of other packages against ours.  Not part of the default run: ``make test-authors`` installs them."""
