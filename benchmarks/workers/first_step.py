"""The first and the second step of AdamW in a new process, and whether anything was compiled.

python -m benchmarks.workers.first_step CACHE_DIRECTORY
"""

import itertools
import json
import os
import sys
import time

import torch

import fallline

os.environ["FALLLINE_CACHE_DIR"] = sys.argv[1]
torch.set_num_threads(min(2, torch.get_num_threads()))
params = [torch.nn.Parameter(torch.randn(256, 256)) for _ in range(16)]
for param in params:
    param.grad = torch.randn_like(param)

times = [time.perf_counter()]
torch.optim.AdamW(params)  # torch imports its compiler when the first optimizer is made, whosever it is
times.append(time.perf_counter())
optimizer = fallline.AdamW(params, lr=1e-4)
times.append(time.perf_counter())
for _ in range(5):
    optimizer.step()
    times.append(time.perf_counter())
spent = [later - earlier for earlier, later in itertools.pairwise(times)]
compiled = len(os.listdir(sys.argv[1])) if os.path.isdir(sys.argv[1]) else 0
print(json.dumps({"torch_construct": spent[0], "construct": spent[1], "steps": spent[2:], "compiled": compiled}))
