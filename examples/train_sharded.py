"""A small GPT, sharded over processes, that may be killed at any time and goes on with another number of processes.

    torchrun --nproc-per-node 2 examples/train_sharded.py --steps 60
    torchrun --nproc-per-node 3 examples/train_sharded.py --steps 60

Every process steps its pieces of the parameters; Muon's matrices are gathered by one process each.  The same command
goes on from the last checkpoint.  Batches depend on the number of the step only, so that the losses do not depend on
when a training was killed, nor on how many processes it has.
"""

import argparse
import os
import warnings
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

import fallline
from fallline.workloads.gpt import model as gpt

TEXT = torch.frombuffer(bytearray(Path(argparse.__file__).read_bytes()), dtype=torch.uint8).long()
SEQUENCES, LENGTH = 12, 64
"""A batch of all processes together: 12 can be split among 1, 2, 3, 4 or 6."""


def batch(step, rank, processes):
    """This process's share of the batch of a step."""
    starts = torch.randint(len(TEXT) - LENGTH - 1, (SEQUENCES,), generator=torch.Generator().manual_seed(step))
    rows = [TEXT[start : start + LENGTH + 1] for start in starts[rank::processes].tolist()]
    tokens = torch.stack(rows)
    return tokens[:, :-1], tokens[:, 1:]


def save(folder, step, model, optimizer):
    """A checkpoint counts once its name is in the file `latest`, which is replaced at one stroke."""
    of_model, of_optimizer = get_state_dict(model, optimizer)
    dcp.save({"model": of_model, "optimizer": of_optimizer}, checkpoint_id=folder / f"step-{step}")
    if dist.get_rank() == 0:
        (folder / "latest.new").write_text(str(step))
        os.replace(folder / "latest.new", folder / "latest")


def load(folder, model, optimizer):
    """The number of steps that the last checkpoint has made; 0 if there is none."""
    if not (folder / "latest").exists():
        return 0
    step = int((folder / "latest").read_text())
    of_model, of_optimizer = get_state_dict(model, optimizer)
    dcp.load({"model": of_model, "optimizer": of_optimizer}, checkpoint_id=folder / f"step-{step}")
    set_state_dict(model, optimizer, model_state_dict=of_model, optim_state_dict=of_optimizer)
    return step


def main(options):
    dist.init_process_group("gloo", timeout=timedelta(seconds=options.timeout))
    rank, processes = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)  # all processes make the same model, and keep their pieces of it
    model = gpt("tiny", layers=2, heads=4, width=128, context=LENGTH)
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    optimizer = fallline.create("muon", model, lr=0.02, companion={"lr": 3e-3}, clip_norm=1.0)
    options.folder.mkdir(parents=True, exist_ok=True)
    first = load(options.folder, model, optimizer)
    print(f"process {rank} of {processes} goes on from step {first}; its pid is {os.getpid()}", flush=True)
    for step in range(first, options.steps):
        tokens, targets = batch(step, rank, processes)
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if (step + 1) % options.every == 0:
            mean = loss.detach()
            dist.all_reduce(mean)
            if rank == 0:
                print(f"step {step + 1}: loss {mean.item() / processes:.4f}", flush=True)
            save(options.folder, step + 1, model, optimizer)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--every", type=int, default=10, help="steps between two checkpoints")
    parser.add_argument("--folder", type=Path, default=Path("checkpoints"))
    parser.add_argument("--timeout", type=int, default=120, help="seconds in which a process must answer the others")
    warnings.filterwarnings("ignore", message=".*barrier.*")
    main(parser.parse_args())
