"""Tasks to race optimizers on: the contract, the built-in ones (one file each) and a user's own.

Everything runs offline: data is generated from a seed or already on the machine, and a result names the data it used.
"""

from fallline.workloads.errors import WorkloadError
from fallline.workloads.loading import ALGOPERF, BUILT_IN, HELD_OUT, load
from fallline.workloads.seeding import minibatch
from fallline.workloads.workload import HIGHER, LOWER, About, Workload

__all__ = [
    "ALGOPERF",
    "BUILT_IN",
    "HELD_OUT",
    "HIGHER",
    "LOWER",
    "About",
    "Workload",
    "WorkloadError",
    "load",
    "minibatch",
]
