"""Runs a kernel over all parameters of a batch in one call.

What does not change between steps is described once; a step passes gradients' pointers and a few rows of
scalars.  With many small tensors this file, not the kernel, decides the time.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from ctypes import addressof, c_double, c_int32, c_int64, c_uint64, c_void_p
from typing import Any

import torch
from torch import Tensor

from fallline.lower.batch import Item, Operand, StepNumbers, program_view
from fallline.lower.native.kernels import Kernel
from fallline.lower.native.library import CJob, COperand, CTensor
from fallline.lower.together import Late, Passes
from fallline.rules.graph import Space

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


class Launch:
    """A kernel with the parameters it runs over."""

    def __init__(self, kernel: Kernel, items: Sequence[Item], each: bool = False):
        self.program = kernel.program
        # What sums over all parameters cannot step them one by one.
        each = each and not self.program.couples_parameters
        self.kernel, self.items, self.each = kernel, list(items), each
        self.step_function = kernel.library.handle.fl_step_each if each else kernel.library.handle.fl_step
        self.n_operands = len(self.program.operands)
        self.grad_at = self.program.operands.index(self.program.grad) if self.program.uses_gradient else -1
        count = len(self.items)
        self.operands = (COperand * max(1, count * self.n_operands))()
        self.echoes = (COperand * max(1, count))()
        self.tensors = (CTensor * max(1, count))()
        self.row_of = (c_int32 * max(1, count))()
        self.pointers = (c_uint64 * max(1, count))()
        self.pack = struct.Struct(f"{count}Q").pack_into
        self.keep: list[list[Any]] = [[] for _ in items]
        self.grad_strides: list[tuple[int, ...] | None] = [None] * count
        self.grad_arrays: dict[int, Any] = {}
        for i in range(count):
            self.describe(i, permuted=self.may_permute(i))
        scalars = max(1, count * len(kernel.slots.scalars))
        self.scalars = (c_double * scalars)()
        self.job = CJob(
            program=addressof(kernel.c),
            tensors=addressof(self.tensors),
            n_tensors=count,
            grads=addressof(self.pointers) if self.program.uses_gradient else None,
            row_of=addressof(self.row_of),
            grad_factor=1.0,
            scalars=addressof(self.scalars),
        )
        size = kernel.library.handle.fl_plan(self.job)
        self.workspace = (c_double * max(1, size))()
        self.job.workspace = addressof(self.workspace)
        self.rounding = [i for i, item in enumerate(items) if item.rounds_at_random]
        self.uniform = True
        self.rows = (c_double * max(1, len(self.program.row)))()
        # Of the first and the last parameter: who moves states (share_memory_(), v.data = …) moves all of them, and
        # asking each would take longer than a small step.
        ends = self.items[:1] + self.items[-1:]
        self.watched = [t for item in ends for o in item.operands for t in (o.data, o.scale) if t is not None]
        self.watched += [t for item in ends for t in item.small.values()]
        self.watched_at = list(map(Tensor.data_ptr, self.watched))

    def may_permute(self, i: int) -> bool:
        """Elementwise programs may walk memory instead of logical order if all operands agree on it."""
        item = self.items[i]
        if not self.program.elementwise or item.echo is not None or item.rounds_at_random:
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
                self.operands[i * self.n_operands + position] = operand
        self.grad_strides[i] = _param(item).stride() if permuted else None
        batch, rows, cols = program_view(self.program, item.shape)
        sizes = (c_int64 * max(1, len(item.shape)))(*item.shape)
        small = (c_void_p * max(1, len(self.program.small_operands)))(
            *(item.small[name].data_ptr() for name in self.program.small_operands)
        )
        keep += [sizes, small, *(item.small[name].detach() for name in self.program.small_operands)]
        echo = None
        if item.echo is not None:
            self.echoes[i] = self.c_operand(item.echo, keep, permuted)
            echo = addressof(self.echoes) + i * ctypes.sizeof(COperand)
        self.tensors[i] = CTensor(
            numel=item.numel,
            batch=batch,
            rows=rows,
            cols=cols,
            sizes=addressof(sizes),
            ndim=len(item.shape),
            operands=addressof(self.operands) + i * self.n_operands * ctypes.sizeof(COperand),
            echo=echo,
            small=addressof(small),
        )

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

    def has_moved(self) -> bool:
        """Whether the states are no longer where they were described."""
        return list(map(Tensor.data_ptr, self.watched)) != self.watched_at

    def bind_alike(self, grads: Sequence[Tensor]) -> None:
        """Takes gradients that differ from those of the last ``bind`` in nothing but where they are."""
        self.pack(self.pointers, 0, *map(Tensor.data_ptr, grads))

    def bind(self, grads: Sequence[Tensor | None]) -> None:
        """Takes gradients of any layout, in any dtype of ``DENSE``."""
        for i, grad in enumerate(grads):
            self.bind_one(i, grad)

    def bind_one(self, i: int, grad: Tensor | None) -> None:
        self.pointers[i] = 0 if grad is None else grad.data_ptr()
        if grad is None:
            return
        if self.grad_strides[i] is not None and grad.stride() != self.grad_strides[i]:
            # Parameter and states lie alike, this gradient does not: walk all of them in logical order.
            row, chunk, tile = self.tensors[i].row, self.tensors[i].first_chunk, self.tensors[i].first_tile
            self.describe(i, permuted=False)
            self.tensors[i].row, self.tensors[i].first_chunk, self.tensors[i].first_tile = row, chunk, tile
        operand = self.operands[i * self.n_operands + self.grad_at]
        operand.format = DENSE[grad.dtype]
        if self.grad_strides[i] is None and not grad.is_contiguous():
            array = self.grad_arrays[i] = (c_int64 * grad.ndim)(*grad.stride())
            operand.strides = addressof(array)
        else:
            operand.strides = None

    def number(self, numbers: StepNumbers) -> None:
        """Takes this step's scalars."""
        self.job.grad_factor = numbers.grad_factor
        flat = numbers.rows[0] if len(numbers.rows) == 1 else [x for row in numbers.rows for x in row]
        if len(flat) > len(self.rows):
            self.rows = (c_double * len(flat))()
        self.rows[: len(flat)] = flat  # type: ignore[assignment]
        self.job.rows = addressof(self.rows)
        if len(numbers.rows) > 1:
            self.row_of[: len(numbers.row_of)] = list(numbers.row_of)
            self.uniform = False
        elif not self.uniform:
            ctypes.memset(self.row_of, 0, ctypes.sizeof(self.row_of))
            self.uniform = True
        for i in self.rounding:
            item = self.items[i]
            for position, name in enumerate(self.program.operands):
                if position != self.grad_at and (operand := item.operand(self.program, name)).stochastic:
                    self.operands[i * self.n_operands + position].key = numbers.key(i, operand.slot)

    def run(self, numbers: StepNumbers) -> Late:
        """One step over everything that is bound."""
        self.number(numbers)
        self.step_function(self.job, self.kernel.library.backend, torch.get_num_threads())
        return self.late()

    def passes(self, numbers: StepNumbers) -> Passes:
        """The same pass by pass, to wait for other parameters' part of what is reduced over all."""
        self.number(numbers)
        library, slots = self.kernel.library, self.kernel.slots
        count, threads = len(slots.scalars), torch.get_num_threads()
        library.handle.fl_begin(self.job)
        for k, nodes in enumerate((*self.program.reductions, ())):
            library.handle.fl_stage_run(self.job, k)
            library.handle.fl_pass(self.job, library.backend, k, threads)
            if k == len(self.program.reductions):
                break
            shared = [slots.scalar[node.index] for node in nodes if node.space == Space.ALL]
            joined = yield [torch.tensor(self.scalars[slot], dtype=torch.float64, device="cpu") for slot in shared]
            for slot, value in zip(shared, joined, strict=True):
                for i in range(len(self.items)):
                    self.scalars[i * count + slot] = float(value)
        return self.late()

    def late(self) -> Late:
        if not self.program.late_writes:
            return {}
        slots, count = self.kernel.slots, len(self.kernel.slots.scalars)
        return {
            name: [self.scalars[i * count + slots.scalar[node.index]] for i in range(len(self.items))]
            for name, node in self.program.late_writes.items()
        }


def _param(item: Item) -> Tensor:
    return (item.echo or item.param).data
