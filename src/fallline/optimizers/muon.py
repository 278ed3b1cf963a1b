r"""Muon: the momentum of a matrix, orthogonalised: all of its directions are stepped equally far.

Use it for the hidden matrices of a network, where it needs fewer steps than AdamW and half of its states; embeddings,
heads, norms and biases belong to another rule.  ``fallline.create("muon", model)`` sends them to AdamW.

.. math::
    B &\leftarrow \mu B + (1-\mu) g, \qquad \tilde B = (1-\mu) g + \mu B \\
    O &\approx UV^\top \quad\text{where}\quad \tilde B = U\Sigma V^\top \\
    \theta &\leftarrow (1-\alpha\lambda)\,\theta - \alpha\,s\,O

The factor s depends on the shape of the matrix, A × B: √max(1, A/B), or 0.2·√max(A, B), with which a step is about as
long as one of AdamW.  Several forms are in use; ``variant`` chooses one of them:

    "torch", "jordan": five steps of the Newton–Schulz iteration with coefficients that leave the singular values
        spread between 0.7 and 1.2, computed in float32.  "jordan" adds ε to the norm and has the author's defaults.
    "moonlight": the same iteration; B ← μB + g, B̃ = g + μB; s = 0.2·√max(A, B).
    "polar_express": an iteration whose coefficients change from step to step, nearer to UVᵀ.
    "zolotarev": UVᵀ nearly exactly, by a rational function; less work than five steps of the iteration.

Parameters of more than two axes are matrices of their first axis against the others, as filters of convolutions.

Arguments:
    lr: learning rate α.
    weight_decay: λ, decoupled.
    momentum: μ.
    nesterov: step along B̃; False steps along B.
    ns_coefficients: (a, b, c) of the Newton–Schulz iteration X ← aX + (bA + cA²)X, A = XXᵀ.
    eps: the smallest norm that a matrix is divided by.
    ns_steps: steps of the iteration.
    adjust_lr_fn: None or "original": s = √max(1, A/B); "match_rms_adamw": s = 0.2·√max(A, B).
    variant: "torch", "jordan", "moonlight", "polar_express" or "zolotarev".
    stacked: a parameter of three or more axes is a stack of matrices (experts).
    split_sizes: rows of the matrices that one parameter holds, (768, 768, 768) for fused queries, keys and values.
    num_heads: each matrix, or each one of a split, consists of so many of equally many rows; 0 for one.
    ns_dtype: "float32", or "bfloat16" for products in 16 bits, as torch.optim.Muon's: faster on processors with units
        for them, and less exact.

Example:
    >>> import torch, fallline
    >>> w = torch.nn.Parameter(torch.ones(2, 2))
    >>> opt = fallline.Muon([w], lr=0.1, weight_decay=0.0, variant="zolotarev")
    >>> (w * torch.tensor([[3.0, 0.0], [0.0, 1.0]])).sum().backward()
    >>> opt.step()
    >>> [round(x, 1) for x in w.flatten().tolist()]
    [0.9, 1.0, 1.0, 0.9]

References:
    Jordan et al. 2024, Muon: an optimizer for hidden layers in neural networks.
    Liu et al. 2025, Muon is scalable for LLM training (arXiv 2502.16982).
    Amsel et al. 2025, The Polar Express (arXiv 2505.16932).
"""

# mypy: disable-error-code=no-untyped-def
from fallline.optimizers.description import Requirement, describe, preset
from fallline.rules import direction, orthogonalize, rule, setting, static

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
METHODS = {"polar_express": "polar_express", "zolotarev": "zolotarev"}
"""How a variant orthogonalises; the others by the Newton–Schulz iteration."""


def are_numbers(value):
    return isinstance(value, (tuple, list)) and len(value) == 3 and all(isinstance(x, (int, float)) for x in value)


def are_counts(value):
    return isinstance(value, (tuple, list)) and bool(value) and all(isinstance(n, int) and n > 0 for n in value)


def is_count(value):
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 100_000


@rule(min_ndim=2)
def muon(
    p, g, momentum_buffer,
    *,
    lr, weight_decay, momentum, nesterov: static,
    ns_coefficients: setting("three numbers (a, b, c)", are_numbers, COEFFICIENTS),
    eps: setting("a number >= 0", lambda x: isinstance(x, (int, float)) and x >= 0, 1e-7),
    ns_steps: setting("a whole number from 1 to 99", lambda n: is_count(n) and 1 <= n < 100, 5),
    adjust_lr_fn: setting(
        'None, "original" or "match_rms_adamw"', lambda x: x in ("original", "match_rms_adamw")
    ),
    variant: static("torch", "jordan", "moonlight", "polar_express", "zolotarev"),
    stacked: setting("True or False", lambda x: x is True, False),
    split_sizes: setting("a list of numbers of rows, or None", are_counts),
    num_heads: setting("a whole number >= 0", is_count, 0),
    ns_dtype: setting('"float32" or "bfloat16"', lambda x: x == "bfloat16", "float32"),
    ndim,
):  # fmt: skip
    heavy_ball = variant == "moonlight"
    momentum_buffer = momentum * momentum_buffer + (g if heavy_ball else (1 - momentum) * g)
    u = momentum_buffer
    if nesterov:
        u = momentum * momentum_buffer + (g if heavy_ball else (1 - momentum) * g)
    o = orthogonalize(
        u,
        method=METHODS.get(variant, "newton_schulz"),
        coefficients=ns_coefficients,
        steps=ns_steps,
        eps=eps,
        adds_eps=variant == "jordan",
        dtype=ns_dtype,
        scale="jordan" if variant == "jordan" and ndim == 4 else adjust_lr_fn or "original",
        stacked=stacked and ndim > 2,
        split_sizes=split_sizes,
        num_heads=num_heads,
    )
    return p * (1 - lr * weight_decay) - lr * direction(o), momentum_buffer


Muon = describe(
    muon,
    "Muon",
    doc=__doc__,
    defaults=dict(
        lr=1e-3,
        weight_decay=0.1,
        momentum=0.95,
        nesterov=True,
        ns_coefficients=COEFFICIENTS,
        eps=1e-7,
        ns_steps=5,
        adjust_lr_fn=None,
        variant="torch",
        stacked=False,
        split_sizes=None,
        num_heads=0,
        ns_dtype="float32",
    ),
    variants={
        "jordan": dict(lr=0.02, weight_decay=0.0),
        "moonlight": dict(adjust_lr_fn="match_rms_adamw"),
    },
    sources=(
        "torch/optim/_muon.py",
        "KellerJordan/Muon muon.py (variant jordan)",
        "MoonshotAI/Moonlight examples/toy_train.py (variant moonlight)",
    ),
    deviations=(
        "the iteration runs in float32, which is more exact than torch's bfloat16; ns_dtype='bfloat16' is as torch's",
        "torch's class takes matrices only; here a parameter of more axes is one matrix, or a stack of them",
    ),
    torch_class="Muon",
    companion={"rule": "adamw", "lr": 3e-4, "betas": (0.9, 0.95), "weight_decay": 0.0},
    requires=(
        Requirement(
            lambda variant, ns_coefficients: (
                variant in ("torch", "jordan", "moonlight") or tuple(ns_coefficients) == COEFFICIENTS
            ),
            'ns_coefficients are those of the Newton–Schulz iteration, which variant="polar_express" and '
            '"zolotarev" do not use; leave them out',
        ),
        Requirement(
            lambda variant, ns_dtype: variant != "zolotarev" or ns_dtype == "float32",
            'ns_dtype="bfloat16" cannot hold what variant="zolotarev" inverts; leave it out, or take another variant',
        ),
    ),
)
Muon8bit = preset(Muon, "muon8bit", "Muon8bit", 'Muon with ``state_dtype="int8"``.', state_dtype="int8")
