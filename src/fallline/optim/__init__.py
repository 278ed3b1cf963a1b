"""The torch side: one optimizer class that serves every rule, its checkpoints and its registry."""

from fallline.optim import select as select
