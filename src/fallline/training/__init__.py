"""One trainer for every verb: the loop, its phases, its checkpoints, and the optimizers that it steps.

``loop`` takes steps of anything that gives batches and losses; ``training`` runs a workload with it.  A race, its
calibration, the search for targets and ``lr_range_test`` train here and nowhere else.
"""
