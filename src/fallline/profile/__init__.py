"""A training under several optimizers, side by side: how fast each is, what it holds, where the loss ends.

Read it in the order in which a profile runs: ``arms`` (what is trained) → ``plan`` (how long, how often) → ``rounds``
(interleaved steps) → ``results`` (samples in SQLite) → ``estimate`` (intervals over blocks) → ``document``.
"""
