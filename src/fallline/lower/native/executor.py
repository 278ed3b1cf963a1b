"""Runs a kernel over all parameters of a batch in one call.

What does not change between steps is described once; a step passes gradients' pointers and a few sets of
scalars.  With many small tensors this file, not the kernel, decides the time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from ctypes import addressof, c_double, c_int32, c_int64, c_uint64, c_void_p
from math import prod
from typing import Any

import torch
from torch import Tensor

from fallline.lower.edges import Edges
from fallline.lower.executor import Deferred, Executor, Partial, Passes, StepScalars, is_partial, partial_of
from fallline.lower.item import Item, Operand, program_view
from fallline.lower.native.kernels import Kernel
from fallline.lower.native.library import CJob, COperand, CTensor
from fallline.lower.watch import watch
from fallline.rules.node import Node
from fallline.rules.space import Space

LINE_BYTES, LINE_FLOATS = 64, 16
"""A cache line; engine.h (`FL_LINE_FLOATS`) begins each small array at one."""
DENSE = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}
"""Codes of native/formats.h; those of blocks are ``BlockFormat.native``."""


def supports(tensor: Tensor) -> bool:
    """Whether the engine can address this tensor: dense, on the CPU, in a dtype it knows."""
    return tensor.device.type == "cpu" and tensor.layout == torch.strided and tensor.dtype in DENSE


def is_dense(tensor: Tensor) -> bool:
    """Its elements fill a stretch of memory without gaps, in whatever order."""
    expected = 1
    for stride, size in sorted((st, sz) for st, sz in zip(tensor.stride(), tensor.shape, strict=True) if sz != 1):
        if stride != expected:
            return False
        expected *= size
    return True


class NativeExecutor(Executor):
    """A kernel with the parameters it runs over."""

    def __init__(self, kernel: Kernel, items: Sequence[Item], each: bool = False):
        super().__init__(kernel.program, items)
        # A program that sums over all parameters cannot step them one by one.
        self.kernel, self.each = kernel, each and not self.program.couples_parameters
        self.step_function = kernel.library.handle.fl_step_each if self.each else kernel.library.handle.fl_step
        self.n_operands = len(self.program.operands)
        self.grad_at = self.program.operands.index(self.program.grad) if self.program.uses_gradient else -1
        count = len(self.items)
        self.operands = (COperand * max(1, count * self.n_operands))()
        self.copies = (COperand * max(1, count))()
        self.tensors = (CTensor * max(1, count))()
        self.set_of = (c_int32 * max(1, count))()
        self.pointers = (c_uint64 * max(1, count))()
        self._binding: object = None
        """Another object after every ``bind``: executors that follow this one describe gradients anew then."""
        self._followed: object = None
        self.keep: list[list[Any]] = [[] for _ in items]
        self.grad_strides: list[tuple[int, ...] | None] = [None] * count
        self.grad_arrays: dict[int, Any] = {}
        self.edges = Edges(self.program, self.items)
        self.edge_values: dict[tuple[int, str], Tensor] = {}
        for i in range(count):
            self.describe(i, permuted=self.may_permute(i))
        self.n_scalars = len(kernel.slots.scalars)
        self.scalars = (c_double * max(1, count * self.n_scalars))()
        self.job = CJob(
            program=addressof(kernel.c),
            tensors=addressof(self.tensors),
            n_tensors=count,
            grads=addressof(self.pointers) if self.program.uses_gradient else None,
            set_of=addressof(self.set_of),
            grad_factor=1.0,
            scalars=addressof(self.scalars),
        )
        size = kernel.library.handle.fl_plan(self.job)
        self.workspace = _aligned_doubles(max(1, size))
        self.job.workspace = addressof(self.workspace)
        self.rounding = [i for i, item in enumerate(items) if item.rounds_at_random]
        self.uniform = True
        self.sets = (c_double * max(1, len(self.program.host_values)))()
        # Somebody may give a state other memory (share_memory_(), v.data = …).
        self.states = [_states(item) for item in self.items]
        self.states_at = [list(map(Tensor.data_ptr, states)) for states in self.states]

    @property
    def launches(self) -> int:
        return (len(self.program.reductions) + 1) * (len(self.items) if self.each else 1)

    def may_permute(self, i: int) -> bool:
        """Elementwise programs may walk memory instead of logical order if all operands agree on it."""
        item = self.items[i]
        if not self.program.elementwise or item.low_precision_copy is not None or item.rounds_at_random:
            return False
        param = _param(item)
        if param.is_contiguous() or not is_dense(param):
            return False
        return all(o.format is None and o.data.stride() == param.stride() for o in item.operands)

    def describe(self, i: int, permuted: bool) -> None:
        item = self.items[i]
        keep = self.keep[i] = []
        for position, name in enumerate(self.program.operands):
            if position != self.grad_at:
                operand = self.c_operand(item.operand(self.program, name), keep, permuted)
                if (values := self.room_for_edges(i, name)) is not None:
                    operand.edges = values.data_ptr()
                self.operands[i * self.n_operands + position] = operand
        self.grad_strides[i] = _param(item).stride() if permuted else None
        batch, rows, cols = program_view(self.program, item.shape)
        sizes = (c_int64 * max(1, len(item.shape)))(*item.shape)
        small = (c_void_p * max(1, len(self.program.small_operands)))(
            *(item.small[name].data_ptr() for name in self.program.small_operands)
        )
        keep += [sizes, small, *(item.small[name].detach() for name in self.program.small_operands)]
        copy = None
        if item.low_precision_copy is not None:
            self.copies[i] = self.c_operand(item.low_precision_copy, keep, permuted)
            copy = addressof(self.copies) + i * ctypes.sizeof(COperand)
        self.tensors[i] = CTensor(
            numel=item.numel,
            first=item.first,
            whole=prod(item.whole_shape),
            batch=batch,
            rows=rows,
            cols=cols,
            sizes=addressof(sizes),
            ndim=len(item.shape),
            operands=addressof(self.operands) + i * self.n_operands * ctypes.sizeof(COperand),
            low_precision_copy=copy,
            small=addressof(small),
        )

    def room_for_edges(self, i: int, name: str) -> Tensor | None:
        """Memory in which the kernel leaves the values of blocks that other pieces share; the edges look there."""
        found = self.edges.of(i, name)
        if not found:
            return None
        format, first = found[0].format, self.items[i].first
        values = self.edge_values.setdefault((i, name), torch.zeros(2, format.block, device="cpu"))
        for edge in found:
            of_last = int(edge.block != first // format.block)
            count = edge.elements.stop - edge.elements.start
            edge.values = values[of_last, edge.position : edge.position + count]
        return values

    def c_operand(self, operand: Operand, keep: list[Any], permuted: bool) -> COperand:
        data = operand.data
        # Not the tensor but its memory: `v.data = …` on a state that nobody watches would free what kernels write to.
        keep.append(data.detach())
        if operand.format is not None:
            assert operand.scale is not None
            keep.append(operand.scale.detach())
            return COperand(data=data.data_ptr(), scale=operand.scale.data_ptr(), format=operand.format.native)
        strides = None
        if not permuted and not data.is_contiguous():
            array = (c_int64 * data.ndim)(*data.stride())
            keep.append(array)
            strides = addressof(array)
        return COperand(data=data.data_ptr(), strides=strides, format=DENSE[data.dtype], stochastic=operand.stochastic)

    def has_moved(self, items: Sequence[int]) -> bool:
        return any(list(map(Tensor.data_ptr, self.states[i])) != self.states_at[i] for i in items)

    def bind(self, grads: Mapping[int, Tensor]) -> bool:
        super().bind(grads)
        self.grads = taken = {i: g if g.dtype in DENSE else g.to(torch.float32) for i, g in grads.items()}
        ctypes.memset(self.pointers, 0, ctypes.sizeof(self.pointers))
        for i, grad in taken.items():
            self.bind_one(i, grad)
        self._binding = object()
        return all(taken[i] is grad for i, grad in grads.items())

    def watch(self, params: Sequence[Tensor] | None) -> None:
        self._watch = None
        if params is not None:
            self._watch = watch(params, [state for states in self.states for state in states], self.pointers)

    def rebind(self) -> bool:
        """Takes pointers alone: they are all that a kernel needs."""
        self.present = range(len(self.items))
        return self._watch is not None and bool(self._watch.look())

    def follow(self, other: Executor) -> None:
        if not isinstance(other, NativeExecutor):
            self.bind(other.grads)
        elif self._followed is not other._binding:
            self.bind(other.grads if other.grads or other._watch is None else other._watch.gradients())
            self._followed = other._binding
        else:
            ctypes.memmove(self.pointers, other.pointers, ctypes.sizeof(self.pointers))
        self.grads, self.present = other.grads, other.present

    def tell_autograd(self) -> None:
        if self._watch is None or not self._watch.tell_autograd():
            super().tell_autograd()

    def bind_one(self, i: int, grad: Tensor) -> None:
        self.pointers[i] = grad.data_ptr()
        if self.grad_strides[i] is not None and grad.stride() != self.grad_strides[i]:
            # Parameter and states lie alike, this gradient does not: walk all of them in logical order.
            planned = {name: getattr(self.tensors[i], name) for name in ("first_chunk", "first_tile")}
            self.describe(i, permuted=False)
            for name, value in planned.items():
                setattr(self.tensors[i], name, value)
        operand = self.operands[i * self.n_operands + self.grad_at]
        operand.format = DENSE[grad.dtype]
        if self.grad_strides[i] is None and not grad.is_contiguous():
            array = self.grad_arrays[i] = (c_int64 * grad.ndim)(*grad.stride())
            operand.strides = addressof(array)
        else:
            operand.strides = None

    def take(self, scalars: StepScalars) -> None:
        """Takes this step's numbers."""
        self.job.grad_factor = scalars.grad_factor
        flat = scalars.sets[0] if len(scalars.sets) == 1 else [x for one in scalars.sets for x in one]
        if len(flat) > len(self.sets):
            self.sets = (c_double * len(flat))()
        self.sets[: len(flat)] = flat  # type: ignore[assignment]
        self.job.sets = addressof(self.sets)
        if len(scalars.sets) > 1:
            self.set_of[: len(scalars.set_of)] = list(scalars.set_of)
            self.uniform = False
        elif not self.uniform:
            ctypes.memset(self.set_of, 0, ctypes.sizeof(self.set_of))
            self.uniform = True
        for i in self.rounding:
            item = self.items[i]
            for position, name in enumerate(self.program.operands):
                if position != self.grad_at and (operand := item.operand(self.program, name)).stochastic:
                    self.operands[i * self.n_operands + position].key = scalars.key(i, operand.slot)

    def run(self, scalars: StepScalars) -> Deferred:
        self.take(scalars)
        self.step_function(self.job, self.kernel.library.backend, torch.get_num_threads())
        self.tell_autograd()
        return self.deferred() if self.program.deferred_writes else {}

    def passes(self, scalars: StepScalars) -> Passes:
        self.take(scalars)
        active = self.present
        handle, backend, threads = self.kernel.library.handle, self.kernel.library.backend, torch.get_num_threads()
        handle.fl_begin(self.job)
        for k in range(len(self.program.reductions) + 1):
            rounds = self.program.stage_rounds[k]
            for number, nodes in enumerate((*rounds, ())):
                handle.fl_stage_run(self.job, k, number, threads)
                yield from self.joined(nodes, active)
            handle.fl_pass(self.job, backend, k, threads)
            if k < len(self.program.reductions):
                yield from self.joined(self.program.reductions[k], active)
        yield from self.edges.joined(active)
        self.tell_autograd()
        return self.deferred() if self.program.deferred_writes else {}

    def joined(self, nodes: Sequence[Node], active: Sequence[int]) -> Iterator[list[Partial]]:
        """Hands out finished reductions that may be partial."""
        found = [
            partial_of(self.program, node, self.items[i], self.view(node, i))
            for node in nodes
            if active
            for i in (active[:1] if node.space == Space.ALL else active)
            if is_partial(node, self.items[i])
        ]
        if not found:
            return
        yield found
        # A reduction over all parameters stands at each of them.
        for node in nodes:
            if node.space == Space.ALL:
                slot, value = self.kernel.slots.scalar[node.index], float(self.view(node, active[0]))
                for i in range(len(self.items)):
                    self.scalars[i * self.n_scalars + slot] = value

    def view(self, node: Node, i: int) -> Tensor:
        """A result of an item, in the engine's memory."""
        slots = self.kernel.slots
        if node.space.is_scalar:
            at = i * self.n_scalars + slots.scalar[node.index]
            return torch.frombuffer(self.scalars, dtype=torch.float64, count=1, offset=8 * at).view(())
        slot, at = slots.vector[node.index], 2 * self.tensors[i].vector_at
        at += sum(-(-self.vector_size(vector, i) // LINE_FLOATS) * LINE_FLOATS for vector in slots.vectors[:slot])
        size = self.vector_size(node, i)
        if size == 0:
            return torch.empty(0, device="cpu")
        return torch.frombuffer(self.workspace, dtype=torch.float32, count=size, offset=4 * at)

    def vector_size(self, node: Node, i: int) -> int:
        tensor = self.tensors[i]
        lines = {Space.ROW: tensor.rows, Space.DIM0: tensor.rows, Space.COL: tensor.cols}
        return int(tensor.batch * lines.get(node.space, 1))

    def deferred(self) -> Deferred:
        slots, count = self.kernel.slots, self.n_scalars
        return {
            name: [self.scalars[i * count + slots.scalar[node.index]] for i in range(len(self.items))]
            for name, node in self.program.deferred_writes.items()
        }


def _aligned_doubles(count: int) -> ctypes.Array[c_double]:
    """Memory that begins at a cache line."""
    memory = (c_double * (count + LINE_BYTES // 8))()
    return (c_double * count).from_buffer(memory, -addressof(memory) % LINE_BYTES)


def _states(item: Item) -> list[Tensor]:
    """Every tensor that belongs to the optimizer, master weights among them."""
    operands = item.operands if item.low_precision_copy is not None else item.operands[1:]
    return [t for o in operands for t in (o.data, o.scale) if t is not None] + list(item.small.values())


def _param(item: Item) -> Tensor:
    return (item.low_precision_copy or item.param).data
