"""The best peer of an optimizer through ``torch.compile``, side by side with ours.

python -m benchmarks.workers.compiled_peer NAME SECONDS [--quick]
"""

import dataclasses
import gc
import json
import sys
import warnings

import torch

from benchmarks.arms import tensors
from benchmarks.cases.rule_peers import CONTESTS, OURS, allowance, candidates, seconds
from benchmarks.settings import Settings
from benchmarks.shapes import gpt2_small
from benchmarks.timing import interleave

COMPILED = "through torch.compile"
FIRST_STEPS = 3
"""In which it compiles; a counter that is a number compiles once more each."""

name, limit, quick = sys.argv[1], float(sys.argv[2]), "--quick" in sys.argv
settings = Settings.for_quick() if quick else Settings(seconds=2 * limit)
torch.set_num_threads(settings.threads)
(contest,) = (contest for contest in CONTESTS if contest.name == name)
params = tensors(gpt2_small(6 if quick else 1), settings.seed)
arms, tried, missing = candidates(contest, params)
if not arms:
    sys.exit("; ".join(missing.values()))
peer = min(arms, key=lambda label: tried[label])
step = arms.pop(peer)
arms.clear()
gc.collect()
ours = contest.make_ours(params)
compiled = torch.compile(step)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    spent = sum(seconds(compiled) for _ in range(FIRST_STEPS))
    samples = interleave({OURS: ours.step, COMPILED: compiled}, allowance(settings, tried[peer]), [(COMPILED, OURS)])
found = {
    "peer": peer,
    "compiling": spent,
    "ratio": dataclasses.asdict(samples.ratio(COMPILED, OURS)),
    "ours": dataclasses.asdict(samples.median(OURS)),
    "theirs": dataclasses.asdict(samples.median(COMPILED)),
    "samples": samples.as_json(),
}
print(json.dumps(found))
