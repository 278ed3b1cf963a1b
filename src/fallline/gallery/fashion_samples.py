"""Ten classes of Fashion-MNIST, some pictures of each."""

from __future__ import annotations

import torch

from fallline.document.figures import Strip
from fallline.document.numbers import span
from fallline.gallery.exhibit import Exhibit, Wishes
from fallline.workloads.data import fashion_mnist
from fallline.workloads.fashion_mlp import STAND_IN
from fallline.workloads.images import CLASSES, Images, images
from fallline.workloads.seeding import generator

NAMES = (
    "T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
"""The classes in the order of their labels, as the authors of the data name them."""
EACH = 4


def exhibit(wishes: Wishes) -> Exhibit:
    known = images(STAND_IN)
    real = is_real(known)
    names = list(NAMES) if real else [f"class {label}" for label in range(CLASSES)]
    chosen = [picked(known, label, wishes.seed) for label in range(CLASSES)]
    counts = known.train_labels.bincount(minlength=CLASSES).tolist()
    figure = Strip(
        "fashion_samples", known.name, names,
        [[known.train[chosen[label][row], 0].tolist() for label in range(CLASSES)] for row in range(EACH)],
    )  # fmt: skip
    caption = (
        f"{known.name}: {len(known.train):,} pictures of 28 × 28 in {CLASSES} classes, {span(counts, 'thousands')} of "
        f"each; {EACH} of each class, drawn with seed {wishes.seed}."
    )
    if not real:
        caption += " " + GENERATED
    return Exhibit([figure], caption, {"data": known.name, "counts": counts, "real": real}, source(known))


GENERATED = f"Fashion-MNIST is not installed: `apt install {fashion_mnist.DEBIAN_PACKAGE}`, or `fallline data`."


def is_real(known: Images) -> bool:
    return known.name == fashion_mnist.NAME


def source(known: Images) -> str:
    if is_real(known):
        return "Fashion-MNIST, Xiao, Rasul & Vollgraf 2017"
    return f"{known.name} in place of Fashion-MNIST, which is not installed"


def picked(known: Images, label: int, seed: int) -> list[int]:
    """The numbers of some training pictures of a class."""
    places = (known.train_labels == label).nonzero()[:, 0]
    order = torch.randperm(len(places), generator=generator(seed, "samples", label))
    found: list[int] = places[order[:EACH]].tolist()
    return found
