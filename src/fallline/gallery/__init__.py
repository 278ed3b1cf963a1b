"""The figures of a lecture on optimizers, each computed when it is asked for, with a caption from its own numbers.

One file per figure, whose ``exhibit`` makes it; ``catalogue`` lists them.
"""
