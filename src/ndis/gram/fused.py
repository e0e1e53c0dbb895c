"""The map of `ndis.gram.rows` as one pass over device memory.

The same single IEEE operations in the same order, so the same bits: there is no sum of products except the two sums of
squares, which are exact whether or not they are fused.
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice

from ndis.gram.rows import GroupRule

MAX_COLUMNS = 4096  # a row stays in the registers of one program
_TILE = 4096  # entries one program works on


@triton.jit
def _kernel(
    x,
    out,
    broken,
    rows,
    columns,
    x_stride,
    out_stride,
    constants,  # scale, limit, probe, radius, slack: in memory, since a scalar argument would arrive as float32
    WIDTH: tl.constexpr,
    HEIGHT: tl.constexpr,
):
    scale, limit = tl.load(constants), tl.load(constants + 1)
    probe, radius, slack = tl.load(constants + 2), tl.load(constants + 3), tl.load(constants + 4)
    r = tl.program_id(0).to(tl.int64) * HEIGHT + tl.arange(0, HEIGHT)
    c = tl.arange(0, WIDTH)
    here = (r < rows)[:, None] & (c < columns)[None, :]
    v = tl.load(x + r[:, None] * x_stride + c[None, :], mask=here, other=0.0).to(tl.float64)

    nearest = libdevice.rint(v * scale)
    fits = tl.sum(nearest * nearest, 1) <= limit  # false for NaN
    finite = tl.sum((v - v != 0.0).to(tl.int32), 1) == 0

    safe = tl.where(finite[:, None], v, 1.0)
    largest = tl.max(tl.abs(safe), 1)
    power = (largest.to(tl.int64, bitcast=True) & 0x7FF0000000000000).to(tl.float64, bitcast=True)
    y = libdevice.div_rn(safe, tl.broadcast_to(power[:, None], (HEIGHT, WIDTH)))
    p = libdevice.rint(y * probe)
    p = tl.where(here, p, 0.0)
    norm = libdevice.sqrt(tl.sum(p * p, 1)) + slack
    f = libdevice.div_rn(tl.broadcast_to(radius, (HEIGHT,)), norm)
    pulled = tl.where(finite[:, None], libdevice.rint(y * f[:, None]), 0.0)

    q = tl.where(fits[:, None], nearest, pulled)
    tl.store(out + r[:, None] * out_stride + c[None, :], q, mask=here)
    tl.store(broken + r, (~finite).to(tl.int8), mask=r < rows)


def quantise_into(out: Any, x: Any, rule: GroupRule) -> Any:
    """Write the integer rows of ``x`` to ``out`` and return the mask of rows that hold a NaN or an infinity."""
    rows, columns = x.shape
    broken = torch.empty(rows, dtype=torch.int8, device=x.device)
    constants = torch.tensor(
        [rule.scale, rule.limit, rule.probe, rule.radius, rule.slack], dtype=torch.float64, device=x.device
    )
    width = triton.next_power_of_2(columns)
    height = max(1, _TILE // width)
    _kernel[(triton.cdiv(rows, height),)](
        x, out, broken, rows, columns, x.stride(0), out.stride(0), constants, WIDTH=width, HEIGHT=height, num_warps=8
    )
    return broken != 0
