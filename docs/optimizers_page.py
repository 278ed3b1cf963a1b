"""Writes ``docs/optimizers.md`` from the data of `fallline.info`: ``python docs/optimizers_page.py``.

``--check`` writes nothing and fails if the page is not current.
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import fallline
from fallline import schedules
from fallline.catalogue import Info
from fallline.formats.blockwise import MIN_ELEMENTS
from fallline.optim.options import GROUP_OPTIONS, OPTIMIZER_OPTIONS, REFUSED

PAGE = Path(__file__).with_name("optimizers.md")
BITS = {"float32": "32", "bfloat16": "16", "int8": "8", "int4": "4"}

INTRODUCTION = """\
# Optimizers

`make docs` writes this page from the data behind `fallline.info(name)`, and a test keeps it current. Each optimizer
is one file in `src/fallline/optimizers/`, which holds its equations once; every lowering and format runs these
equations. [library.md](library.md) says how to use them, [rules.md](rules.md) how to write one of your own, and
[elsewhere.md](elsewhere.md) where other packages compute something else under the same name.

Bytes are per float32 parameter of a large matrix, with the defaults of each class. "Moved" counts the bytes that one
step reads and writes, including the gradient and every pass over memory; the time of a step follows from them.

Below the optimizers are [averages of weights](#averages), [schedules](#schedules), a way of [finding a learning
rate](#finding) and [methods for small problems](#small_problems).

All optimizers take the following options by name; `cautious` needs equations that have a direction to mask. They
refuse `capturable` and `differentiable` by name, and step DTensors ([distributed.md](distributed.md)):
"""

OPTIONS = {
    "maximize": "Climbs instead of descending: the gradient enters with the opposite sign.",
    "foreach": "Chooses the lowering together with `fused`. With both `None`, the fastest lowering that is correct "
    "runs; `foreach=True, fused=False` runs torch's foreach operations; both `False` run the eager reference.",
    "fused": "`True` runs the native kernels, one launch for many tensors; with `foreach=False` one launch for each.",
    "compiled": "`True` lets `torch.compile` make the kernels.",
    "lowering": "Names the lowering instead of these flags: `native`, `native each`, `foreach`, `eager`, "
    "`compiled`, or one that was registered.",
    "cautious": "Masks the direction u, which lr multiplies, by k, which is 1 where u·g > 0 and 0 elsewhere, and "
    "scales up the rest: u ← u·k / max(mean(k), 1e-3), with the mean of each tensor. States and weight decay are not "
    "masked.",
    "state_dtype": "Says how states are stored: in `float32`; in `bfloat16`, rounded stochastically; or in codes of 8 "
    f"or 4 bits, `int8` and `int4`, in tensors of at least {MIN_ELEMENTS:,} elements, while smaller tensors stay "
    "float32. States of float64 parameters stay float64. Each optimizer says which states always stay in 32 bits.",
    "stochastic_rounding": "Rounds 16-bit parameters up or down at random, so that small steps count on average.",
    "master_weights": "Keeps a float32 copy of 16-bit parameters, which is another way not to lose small steps; it "
    "costs 4 bytes per parameter.",
    "rounding_seed": "An integer that, with the step and the number of the parameter, decides all random roundings; "
    "they are the same in every lowering.",
    "clip_norm": "Multiplies all gradients by min(1, clip_norm / (norm + 1e-6)), as `torch.nn.utils.clip_grad_norm_` "
    "does, but does not write to them. Their common norm is then in `optimizer.grad_norm`; it is infinite after a step "
    "that a GradScaler skips.",
    "skip_nonfinite": "Makes no step, and counts none, if a gradient has an infinity or NaN.",
}

AFTER_OPTIONS = """\
A checkpoint carries `maximize`, `cautious` and `rounding_seed`. The other options keep the values that the optimizer
was made with, and loaded states are converted to them.
"""


def page(infos: Sequence[Info]) -> str:
    parts = [INTRODUCTION, options(), AFTER_OPTIONS, overview(infos)]
    parts += [section(info) for info in infos]
    parts += around()
    return "\n".join(parts).rstrip() + "\n"


def options() -> str:
    """The options that every optimizer takes; an option without a text here is an error."""
    rows = ["| option | default | belongs to | what it does |", "|---|---|---|---|"]
    for name, default in {**GROUP_OPTIONS, **OPTIMIZER_OPTIONS}.items():
        if name not in REFUSED:
            owner = "a group" if name in GROUP_OPTIONS else "the optimizer"
            rows.append(f"| `{name}` | `{default!r}` | {owner} | {OPTIONS[name]} |")
    rows.append(
        "| `layer_lr_decay` | `None` | `fallline.create` with a model | Multiplies lr by this factor in (0, 1] once "
        "for each layer between a parameter and the output; the first number in a parameter's name is that of its "
        "layer. |"
    )
    return "\n".join(rows) + "\n"


def overview(infos: Sequence[Info]) -> str:
    rows = ["| optimizer | what it is | state bytes, 32 → 8 bits | moved per step, 32 → 8 bits | torch.optim |"]
    rows.append("|---|---|---|---|---|")
    for info in infos:
        link = f"[{info.class_name}](#{info.name})"
        kept, moved = _pair(info.bytes_per_parameter), _pair(info.bytes_moved)
        rows.append(f"| {link} | {_what(info)} | {kept} | {moved} | {info.torch_class or '–'} |")
    return "\n".join(rows) + "\n"


def _pair(by_format: Mapping[str, float]) -> str:
    wide = f"{by_format['float32']:.3g}"
    return (
        f"{wide} → {by_format['int8']:.3g}"
        if by_format.get("int8", by_format["float32"]) != by_format["float32"]
        else wide
    )


def _what(info: Info) -> str:
    text = info.summary.removeprefix(f"{info.class_name}: ")
    return inline(text[:1].upper() + text[1:].rstrip(".")).replace("|", "\\|")


# ---------------------------------------------------------------------------- one optimizer


def section(info: Info) -> str:
    lines = [f'<a id="{info.name}"></a>', "", f"## {info.class_name}", ""]
    lines += [f'`fallline.{info.class_name}`, `fallline.create("{info.name}", …)`', ""]
    if info.preset_of:
        base = fallline.info(info.preset_of)
        lines += [
            inline(info.doc),
            "",
            f"A preset of [{base.class_name}](#{base.name}), whose checkpoints it loads.",
            "",
        ]
        return "\n".join(lines)
    lines += docstring(info.doc)
    lines += ["**Defaults**: " + _settings(info.defaults), ""]
    for variant, changed in info.variants.items():
        lines += [f'**`variant="{variant}"`** changes: ' + _settings(changed), ""]
    lines += states(info)
    lines += formats(info)
    lines += facts(info)
    lines += ["<details><summary>The rule</summary>", "", "```python", info.equations.rstrip(), "```", "", "</details>"]
    return "\n".join([*lines, ""])


def _settings(values: Mapping[str, object]) -> str:
    return ", ".join(f"`{name}={value!r}`" for name, value in values.items())


def states(info: Info) -> list[str]:
    if not info.states:
        return ["**States**: none", ""]
    lines = ["| state | kind | of a matrix, by default | formats |", "|---|---|---|---|"]
    for name, kind in info.states.items():
        exists = "no" if name in info.optional_states else "yes"
        exists += f"; depends on {info.depends_on[name]}" if name in info.depends_on else ""
        bits = "32 bits" if name in info.stays_float32 else "32, 16, 8, 4 bits"
        bits += f"; 32 with {info.float32_with[name]}" if name in info.float32_with else ""
        lines.append(f"| `{name}` | {kind} | {exists} | {bits} |")
    return [*lines, ""]


def formats(info: Info) -> list[str]:
    distinct = {(info.bytes_per_parameter[name], info.bytes_moved[name]) for name in info.formats}
    shown = info.formats if len(distinct) > 1 else info.formats[:1]
    lines = ["| bits of states | state bytes per parameter | bytes moved per parameter and step |", "|---|---|---|"]
    for name in shown:
        lines.append(f"| {BITS[name]} | {info.bytes_per_parameter[name]:.4g} | {info.bytes_moved[name]:.4g} |")
    if info.extra_memory:
        lines += ["", _sentence(info.extra_memory)]
    return [*lines, ""]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def facts(info: Info) -> list[str]:
    lines = ["- Follows " + "; ".join(f"`{source}`" for source in info.sources) + "."]
    if info.left_to_companion:
        lines.append(f"- The companion: {inline(info.left_to_companion)}.")
    if info.torch_class:
        lines.append(f"- Exchanges checkpoints with `torch.optim.{info.torch_class}`, both ways.")
    if info.sparse_gradients:
        lines.append("- Takes sparse gradients.")
    if "complex parameters" in info.cannot:
        lines.append("- Refuses complex parameters: its equations depend on the axes of a tensor.")
    if "cautious" in info.cannot:
        lines.append("- Refuses `cautious=True`, because its equations have no direction that could be masked.")
    lines += [f"- Deviation: {inline(text)}." for text in info.deviations]
    if info.class_name in elsewhere():
        lines.append(
            f"- Other packages compute [something else](elsewhere.md#{info.class_name.lower()}) under this name."
        )
    return [*lines, ""]


def elsewhere() -> list[str]:
    """Classes with a chapter on the page about other packages."""
    return re.findall(r"^## (\w+)$", PAGE.with_name("elsewhere.md").read_text(encoding="utf-8"), flags=re.MULTILINE)


# ---------------------------------------------------------------------------- around an optimizer


def around() -> list[str]:
    """The companions of optimizers: the same kind of page, from the same kind of docstring."""
    averages = {(fallline.LawaQueue, fallline.LawaEma): "lawa_queue", (fallline.WeightEma,): "weight_ema"}
    parts = [AVERAGES, kept_by_averages([cls for classes in averages for cls in classes])]
    parts += [companion(classes, name) for classes, name in averages.items()]
    parts.append(SCHEDULES)
    parts += [companion((getattr(schedules, _camel(name)),), name) for name in schedules.__all__ if name.islower()]
    parts += [FINDING, *docstring(sys.modules[fallline.lr_range_test.__module__].__doc__ or "")]
    parts += [companion((fallline.lr_range_test,), "lr_range_test")]
    parts.append(SMALL)
    parts += [companion((fallline.FullMatrixAdagrad,), "full_matrix_adagrad")]
    parts += [companion((fallline.LineSearchGD,), "line_search_gd")]
    return parts


AVERAGES = """\
<a id="averages"></a>

## Averages

These wrap any optimizer, of torch or of fallline: the raw weights are trained, and their average is evaluated.
`eval()` swaps the average into the model, `train()` swaps the raw weights back, and `with avg.averaged():` does both.
A step in between raises an error, and a checkpoint made in between warns once. The wrappers are optimizers
themselves, so schedulers, `GradScaler` and checkpoints accept them. The Schedule-Free optimizers average their
weights by themselves and have the same two modes.
"""

SCHEDULES = """\
<a id="schedules"></a>

## Schedules

Each schedule is a `torch.optim.lr_scheduler.LRScheduler` and, in `fallline.schedules`, a function of the number of
updates. Published implementations treat the first step differently; `first_step=` names the forms.
"""

FINDING = """\
<a id="finding"></a>

## Finding a learning rate
"""

SMALL = """\
<a id="small_problems"></a>

## Small problems

These methods show what the practical ones approximate. They are plain torch, without rules and kernels.
"""


def kept_by_averages(classes: Sequence[Any]) -> str:
    """The bytes that each average keeps, counted in a checkpoint."""
    lines = ["| average | bytes kept per float32 parameter |", "|---|---|"]
    for cls in classes:
        param = torch.nn.Parameter(torch.ones(1000))
        sizes = {"start": 0, "interval": 1} if "start" in cls.settings else {}
        average = cls(fallline.SGD([param]), **sizes)
        param.grad = torch.ones(1000)
        for _ in range(getattr(average, "k", 1)):
            average.step()
        kept = average.state_dict()["averaging"]["kept"][0]
        size = sum(t.numel() * t.element_size() for t in kept) / param.numel()
        length = f", k = {average.k}" if hasattr(average, "k") else ""
        lines.append(f"| {cls.__name__}{length} | {size:.4g} |")
    return "\n".join(lines) + "\n"


def companion(objects: Sequence[Any], name: str) -> str:
    """One page for classes that share a docstring."""
    title = ", ".join(o.__name__ for o in objects)
    calls = ", ".join(f"`fallline.{o.__name__}({_call(o)})`" for o in objects)
    lines = [f'<a id="{name}"></a>', "", f"### {title}", "", calls, ""]
    return "\n".join([*lines, *docstring(inspect.cleandoc(objects[0].__doc__))])


def _call(made: Any) -> str:
    """Arguments and defaults without their types, which the text below names."""
    arguments = inspect.signature(made).parameters.values()
    return ", ".join(a.name if a.default is a.empty else f"{a.name}={a.default!r}" for a in arguments)


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


# ---------------------------------------------------------------------------- docstrings


def docstring(text: str) -> list[str]:
    """Markdown from the docstring of an optimizer's file."""
    lines: list[str] = []
    for block in _blocks(text):
        first, _, rest = block.partition("\n")
        body = textwrap.dedent(rest).strip("\n")
        if first == ".. math::":
            lines += ["```math", _aligned(body), "```", ""]
        elif first == ".. code-block:: python":
            lines += ["```python", body, "```", ""]
        elif first == "Arguments:":
            lines += [*_arguments(body), ""]
        elif first == "Example:":
            lines += ["```python", body, "```", ""]
        elif first == "References:":
            lines += [f"*{inline(body)}*", ""]
        else:
            lines += [*_paragraph(block), ""]
    return lines


def _blocks(text: str) -> Iterator[str]:
    """Paragraphs; an indented one belongs to the line that announces it."""
    held = ""
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if held and paragraph.startswith("    "):
            held += "\n\n" + paragraph
            continue
        if held:
            yield held
        held = paragraph
    yield held


def _aligned(maths: str) -> str:
    return f"\\begin{{aligned}}\n{maths}\n\\end{{aligned}}" if "&" in maths or "\\\\" in maths else maths


def _paragraph(block: str) -> list[str]:
    """Text, and the indented list that may follow it."""
    if "\n\n    " not in block:
        return [inline(block)]
    text, _, listed = block.partition("\n\n")
    items = re.split(r"\n(?! )", textwrap.dedent(listed))
    return [inline(text), "", *(f"- {inline(item)}" for item in items)]


def _arguments(body: str) -> list[str]:
    lines = []
    for item in re.split(r"\n(?! )", body):
        names, _, text = item.partition(":")
        shown = ", ".join(f"`{name.strip()}`" for name in names.split(","))
        lines.append(f"- {shown}: {inline(text.strip())}")
    return lines


def inline(text: str) -> str:
    """One line of Markdown."""
    text = re.sub(r"\s+", " ", text.strip())
    text = re.sub(r":math:`([^`]*)`", r"$`\1`$", text)
    text = re.sub(r":class:`(\w+)`", lambda found: _link(found[1]), text)
    return text.replace("``", "`")


def _link(class_name: str) -> str:
    return f"[{class_name}](#{fallline.info(class_name).name})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0] + ".")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is not current")
    chosen = parser.parse_args()
    text = page([fallline.info(name) for name in fallline.list_optimizers()])
    if chosen.check:
        current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        print(f"{PAGE.name} is {'' if current else 'not '}current" + ("" if current else "; run `make docs`"))
        return int(not current)
    PAGE.write_text(text, encoding="utf-8")
    print(f"Written: {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
