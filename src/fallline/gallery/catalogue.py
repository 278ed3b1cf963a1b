"""The figures by name, in the order of the lecture; nothing is imported before a figure is made."""

from __future__ import annotations

import dataclasses
import difflib
import importlib

from fallline.gallery.exhibit import Exhibit, NoExhibit, Wishes


@dataclasses.dataclass(frozen=True)
class Entry:
    name: str
    """Also the name of its file in this folder."""
    title: str


ENTRIES = (
    Entry("rosenbrock", "Four optimizers in the Rosenbrock valley"),
    Entry("sparse_features", "AdaGrad on sparse features"),
    Entry("bias_correction", "The first steps of Adam, with and without bias correction"),
    Entry("adam_counterexample", "A convex problem on which Adam fails"),
    Entry("weight_decay", "Decoupled weight decay against L2 in the gradient"),
    Entry("algoperf", "AlgoPerf: performance profiles, and the score against τ_max"),
    Entry("language_and_vision", "Adam's edge over SGD, on language and on vision"),
    Entry("speedrun", "The NanoGPT speedrun: 13 records"),
    Entry("losses", "Activations, and the two losses"),
    Entry("fashion_samples", "Fashion-MNIST: ten classes"),
    Entry("fashion_training", "Fashion-MNIST: SGD, momentum, Nesterov and Adam in six panels"),
    Entry("gpt2_memory", "The memory of GPT-2 with 1.5 G parameters in training"),
)
NAMES = tuple(entry.name for entry in ENTRIES)


def entry(name: str) -> Entry:
    """The entry of that name; raises :class:`NoExhibit` with the nearest names."""
    found = next((one for one in ENTRIES if one.name == name), None)
    if found is None:
        close = difflib.get_close_matches(name, NAMES, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(NAMES)}"
        raise NoExhibit(f"there is no figure {name!r}; {hint}")
    return found


def make(name: str, wishes: Wishes) -> Exhibit:
    exhibit: Exhibit = importlib.import_module(f"fallline.gallery.{entry(name).name}").exhibit(wishes)
    return exhibit
