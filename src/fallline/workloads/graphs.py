"""graphs: a graph network finds the properties of generated molecules; cross-entropy, mean average precision.

A molecule is a tree of atoms with a few rings closed.  A property is a chain of atoms and bonds of certain kinds that
the molecule has or has not; as in OGBG, most properties are rare and some labels are unknown.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fallline.workloads.metrics.average_precision import mean_average_precision
from fallline.workloads.seeding import minibatch, numpy_generator
from fallline.workloads.workload import HIGHER, About, Workload

ATOMS, BONDS, KINDS = 16, 3, 6
PROPERTIES, UNKNOWN = 24, 0.2
TRAINING, VALIDATION, BATCH = 6000, 600, 64
DROPOUT = 0.1


class Graphs(NamedTuple):
    kinds: Tensor  # (count, ATOMS) int64; KINDS where there is no atom
    bonds: Tensor  # (count, BONDS, ATOMS, ATOMS) 0 or 1
    labels: Tensor  # (count, PROPERTIES) 0, 1 or NaN

    def rows(self, index: Tensor | slice) -> Graphs:
        return Graphs(self.kinds[index], self.bonds[index].float(), self.labels[index])


class Layer(nn.Module):
    """Each atom adds up what its neighbours say over each kind of bond, and updates itself."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.say = nn.Linear(width, BONDS * width)
        self.update = nn.Sequential(nn.Linear(2 * width, hidden), nn.ReLU(), nn.Linear(hidden, width))
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, atoms: Tensor, bonds: Tensor) -> Tensor:
        normed = self.norm(atoms)
        said = self.say(normed).unflatten(-1, (BONDS, -1)).transpose(1, 2)
        heard = (bonds @ said).sum(1)
        return atoms + self.dropout(self.update(torch.cat([normed, heard], dim=-1)))


class GNN(nn.Module):
    def __init__(self, width: int, hidden: int, layers: int):
        super().__init__()
        self.kinds = nn.Embedding(KINDS + 1, width, padding_idx=KINDS)
        self.layers = nn.ModuleList(Layer(width, hidden) for _ in range(layers))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.ReLU())
        self.output = nn.Linear(2 * width, PROPERTIES)

    def forward(self, kinds: Tensor, bonds: Tensor) -> Tensor:
        atoms = self.kinds(kinds)
        for layer in self.layers:
            atoms = layer(atoms, bonds)
        present = (kinds != KINDS).unsqueeze(-1)
        return self.output((self.head(atoms) * present).sum(1) / ATOMS**0.5)


@functools.cache
def data() -> tuple[Graphs, Graphs]:
    random = numpy_generator(0, "graphs")
    count = TRAINING + VALIDATION
    atoms = random.integers(ATOMS // 2, ATOMS + 1, count)
    present = numpy.arange(ATOMS) < atoms[:, None]
    kinds = numpy.where(present, (random.random((count, ATOMS)) ** 1.5 * KINDS).astype(numpy.int64), KINDS)
    bonds = numpy.zeros((count, BONDS, ATOMS, ATOMS), dtype=numpy.float32)
    every = numpy.arange(count)
    for atom in range(1, ATOMS + 2):
        # Every atom hangs on an earlier one; two more bonds between any atoms close rings.
        new = numpy.full(count, atom) if atom < ATOMS else (random.random(count) * atoms).astype(numpy.int64)
        old = (random.random(count) * numpy.minimum(atom, atoms)).astype(numpy.int64)
        kind = (random.random(count) ** 1.5 * BONDS).astype(numpy.int64)
        valid = (new < atoms) & (new != old)
        bonds[every[valid], kind[valid], new[valid], old[valid]] = 1
        bonds[every[valid], kind[valid], old[valid], new[valid]] = 1
    everything = Graphs(torch.from_numpy(kinds), torch.from_numpy(bonds).bool(), _properties(kinds, bonds, random))
    return everything.rows(slice(0, TRAINING)), everything.rows(slice(TRAINING, None))


def _properties(kinds: numpy.ndarray, bonds: numpy.ndarray, random: numpy.random.Generator) -> Tensor:
    """Random chains atom–bond–atom–bond–atom–bond–atom, those that neither few nor most molecules have."""
    is_kind = torch.from_numpy(kinds[None] == numpy.arange(KINDS)[:, None, None]).float()
    bond = torch.from_numpy(bonds)
    labels: list[Tensor] = []
    while len(labels) < PROPERTIES:
        atoms, links = random.integers(KINDS, size=4), random.integers(BONDS, size=3)
        if 0.03 < _has_chain(is_kind[:, :500], bond[:500], atoms, links).mean() < 0.5:
            labels.append(_has_chain(is_kind, bond, atoms, links))
    truth = torch.stack(labels, dim=1)
    truth[torch.from_numpy(random.random(truth.shape) < UNKNOWN)] = torch.nan
    return truth


def _has_chain(is_kind: Tensor, bond: Tensor, atoms: numpy.ndarray, links: numpy.ndarray) -> Tensor:
    ends = is_kind[atoms[0]]
    for atom, link in zip(atoms[1:], links, strict=True):
        ends = (bond[:, link] @ ends.unsqueeze(-1)).squeeze(-1) * is_kind[atom]
    return (ends.sum(1) > 0).float()


def loss(model: nn.Module, graphs: Graphs) -> Tensor:
    known = ~graphs.labels.isnan()
    scores = model(graphs.kinds, graphs.bonds)
    return F.binary_cross_entropy_with_logits(scores, graphs.labels.nan_to_num(), weight=known.float())


def evaluate(model: nn.Module) -> float:
    graphs = data()[1]
    return mean_average_precision(model(graphs.kinds, graphs.bonds), graphs.labels)


def workload(name: str = "graphs", width: int = 48, hidden: int = 96, layers: int = 3) -> Workload:
    return Workload(
        name=name,
        model=lambda seed: GNN(width, hidden, layers),
        batch=lambda step, seed: data()[0].rows(minibatch(step, seed, TRAINING, BATCH)),
        loss=loss,
        evaluate=evaluate,
        metric="mAP",
        direction=HIGHER,
        max_steps=900,
        eval_every=30,
        data_name="generated molecules",
        about=About("molecular properties", f"GNN, {layers} × {width}", "CE"),
    )


def model_size() -> Workload:
    """Held out: two wide layers in place of three narrow ones."""
    return workload("graphs_model_size", width=64, hidden=256, layers=2)
