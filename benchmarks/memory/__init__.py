"""How well ``fallline memory`` predicts: five models, three optimizers, with and without checkpointing.

``python -m benchmarks.memory`` measures what is not yet in its results file, and writes the tables of docs/memory.md.
"""
