"""A program that uses fallline as its documentation says; checked by mypy and pyright, never run.

A line that ends with ``# wrong`` must be an error for both of them, and no other line may be one.
"""

from typing import Any

import torch
from torch import nn

import fallline
from fallline.rules import rule

model = nn.Linear(3, 2)

adamw = fallline.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, state_dtype="int8")
fallline.AdamW(model.parameters(), 1e-3, (0.9, 0.999), 1e-8)
fallline.AdamW(model.named_parameters(), lr=torch.tensor(1e-3), fused=None, state_dtype=torch.bfloat16)
groups: list[dict[str, Any]] = [{"params": [model.weight], "lr": 0.1}, {"params": [model.bias]}]
fallline.AdamW(groups, clip_norm=1.0)
fallline.Adafactor(model.parameters(), lr=None, variant="hf", relative_step=True, eps=(1e-30, 1e-3))
fallline.Amos(model.parameters(), reduce="rows", clip_value=None)

fallline.AdamW()  # wrong
fallline.AdamW(model.parameters(), lr="fast")  # wrong
fallline.AdamW(model.parameters(), betas=(0.9, 0.95, 0.99))  # wrong
fallline.AdamW(model.parameters(), momentum=0.9)  # wrong
fallline.AdamW(model.parameters(), state_dtype="int7")  # wrong
fallline.AdamW(model.parameters(), clip_nrom=1.0)  # wrong
fallline.AdamW(model.parameters(), fused="yes")  # wrong
fallline.AdamW(model.parameters(), 1e-3, (0.9, 0.999), 1e-8, 0.0, False, True)  # wrong
fallline.Adafactor(model.parameters(), variant="paper")  # wrong
fallline.LAMB(model.parameters(), trust_clip=None)  # wrong
fallline.Adan(model.parameters(), betas=(0.9, 0.99))  # wrong
fallline.AdamX(model.parameters())  # wrong

scheduler = torch.optim.lr_scheduler.StepLR(adamw, 10)
adamw.zero_grad(set_to_none=True)
norm: "torch.Tensor | None" = adamw.grad_norm
print(adamw.explain(), norm)
adamw.update_hessian()  # wrong

sophia = fallline.SophiaG(model.parameters(), rho=0.04)
sophia.update_hessian()
averaged = fallline.ScheduleFreeAdamW(model.parameters(), warmup_steps=10)
averaged.eval()
averaged.train()

lion = fallline.create("lion", model, lr=1e-4, weight_decay=0.1)
lion.step()
names: list[str] = fallline.list_optimizers("adam*")
sizes: float = fallline.info("lion").bytes_per_parameter["int8"]
fallline.info(3)  # wrong


@rule
def signum(p, g, m, *, lr, beta):
    m = beta * m + (1 - beta) * g
    return p - lr * m, m


Signum = fallline.optimizer(signum, lr=1e-4, beta=0.9)
Signum(model.parameters(), lr=1e-3).step()
fallline.LawaEma(lion, start=100, interval=10)
fallline.WarmupCosine(adamw, warmup_steps=10, total_steps=100)
