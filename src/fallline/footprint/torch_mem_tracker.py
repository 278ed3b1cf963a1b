"""The one place that knows ``torch.distributed._tools.mem_tracker``, a private module of torch.

``MemTracker`` follows storages through a training iteration and says what each of them is for. This subclass keeps the
events themselves instead of snapshots at every module, which is eight times as fast, and counts floating-point
operations on the way. ``tests/footprint/test_torch_mem_tracker.py`` pins what is used of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed._tools import mem_tracker as torchs
from torch.utils.flop_counter import flop_registry

from fallline.footprint.allocations import Allocations, Kind, recorded

_KINDS = {
    torchs._MemRefType.PARAM: Kind.PARAMETERS,
    torchs._MemRefType.BUFFER: Kind.BUFFERS,
    torchs._MemRefType.GRAD: Kind.GRADIENTS,
    torchs._MemRefType.ACT: Kind.ACTIVATIONS,
    torchs._MemRefType.TEMP: Kind.TEMPORARY,
    torchs._MemRefType.OTH: Kind.INPUTS,
    torchs._MemRefType.OPT: Kind.TEMPORARY,
}
# torch counts the operations of attention on GPUs only; those of a CPU take the same first three arguments.
_AS = {
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: torch.ops.aten._scaled_dot_product_flash_attention,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: (
        torch.ops.aten._scaled_dot_product_flash_attention_backward
    ),
}


class IterationTracker(torchs.MemTracker):
    """Records the allocations of one iteration over a model, on real or on fake tensors."""

    def __init__(self, model: nn.Module, inputs: Any):
        self._events: list[tuple[int, bool]] = []
        self._sizes: list[int] = []
        self._blocks: list[Any] = []
        self._became: dict[int, int] = {}
        self._step_at: int | None = None
        self._running: list[tuple[str, str]] = []
        self._made_by: dict[int, tuple[str, str]] = {}
        self.kept: dict[str, tuple[str, int]] = {}
        """Name of a module → its type, and the bytes of activations that it made and that the backward pass needs."""
        self.flops = self.recomputed_flops = 0
        super().__init__()
        self._model = model
        self.track_external(*(leaf for leaf in torch.utils._pytree.tree_leaves(inputs) if isinstance(leaf, Tensor)))

    def __enter__(self) -> IterationTracker:
        super().__enter__()
        self._track_module_params_and_buffers(self._model, install_grad_hooks=True)
        return self

    def mark_backward(self) -> None:
        """Says that the forward pass is over."""
        gone = {block for block, taken in self._events if not taken}
        for number in sorted(set(self._made_by) - gone):
            name, kind = self._made_by[number]
            self.kept[name] = (kind, self.kept.get(name, (kind, 0))[1] + self._sizes[number])
        self._made_by.clear()

    def mark_step(self) -> None:
        """Says that the optimizer steps now."""
        self._step_at = len(self._events)

    def allocations(self) -> Allocations:
        kinds = [_KINDS[block.reftype] for block in self._blocks]
        became = [self._became.get(number, -1) for number in range(len(self._blocks))]
        step_at = len(self._events) if self._step_at is None else self._step_at
        return recorded(self._events, self._sizes, kinds, became, step_at)

    # ------------------------------------------------------------------ what the base class calls

    @property
    def _in_ac(self) -> bool:
        """A recomputation is what happens in a backward pass with gradients switched on."""
        return self._mod_tracker.is_bw and torch.is_grad_enabled()

    @_in_ac.setter
    def _in_ac(self, value: bool) -> None:
        pass

    def _update_snap(self, u_type: Any, winfo: Any, old_mem_consumed: Any = None, old_reftype: Any = None) -> None:
        if u_type == torchs._UpdateType.ADD:
            self._take(winfo)
        elif u_type == torchs._UpdateType.DEL:
            self._give_back(winfo)
        elif u_type == torchs._UpdateType.REF:
            if winfo.reftype == torchs._MemRefType.GRAD and hasattr(winfo, "number"):
                self._became[winfo.number] = len(self._events)
        elif u_type == torchs._UpdateType.SIZE:
            now, winfo.mem_consumed = winfo.mem_consumed, old_mem_consumed
            if old_mem_consumed > 0:
                self._give_back(winfo)
            winfo.mem_consumed = now
            if now > 0:
                self._take(winfo)

    def _take(self, winfo: Any) -> None:
        winfo.number = len(self._sizes)
        self._sizes.append(winfo.mem_consumed)
        self._blocks.append(winfo)
        self._events.append((winfo.number, True))
        if winfo.reftype == torchs._MemRefType.ACT:
            self._made_by[winfo.number] = self._running[-1] if self._running else ("", "")

    def _give_back(self, winfo: Any) -> None:
        self._events.append((winfo.number, False))

    def _update_peak_stats(self, peak_state: Any) -> None:
        pass

    def get_tracker_snapshot(self, type: str = "current") -> dict[Any, Any]:
        return {}

    def _pre_fw_hook(self, module: nn.Module, inputs: Any) -> None:
        self._running.append((str(self._mod_tracker.get_known_fqn(module)), type(module).__name__))

    def _post_fw_hook(self, module: nn.Module, inputs: Any, outputs: Any) -> None:
        if self._running:
            self._running.pop()

    def _pre_bw_hook(self, module: nn.Module, args: Any) -> None:
        pass

    def _post_bw_hook(self, module: nn.Module, args: Any) -> None:
        pass

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        packet = func._overloadpacket
        counted = flop_registry.get(_AS.get(packet, packet))
        if counted is not None:
            self._count_flops(counted, args, kwargs or {}, result)
        return result

    def _count_flops(self, counted: Any, args: Any, kwargs: Mapping[str, Any], result: Any) -> None:
        try:
            flops = int(counted(*args, **kwargs, out_val=result))
        except (TypeError, ValueError, AssertionError, AttributeError):
            return  # an operation whose arguments torch's own formula does not take
        self.flops += flops
        if self._in_ac:
            self.recomputed_flops += flops
