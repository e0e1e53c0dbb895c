"""Multiply integer blocks on a torch device.

Rows from the host cross through pinned memory on a stream of their own. So the next block is copied while this one is
computed. torch keeps pinned memory until its copy is done, and memory of the device until a recorded stream is. Sums
are exact, so the long inner dimension may be cut into as many products as keep the device busy. The bits do not change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ndis.errors import ParameterError
from ndis.gram.rows import GroupRule, RowLayout, quantise_group

_BLOCK_ENTRIES = 1 << 24  # 128 MiB of float64: long enough to hide launches, short enough to keep several
_RESIDENT_ENTRIES = 1 << 26  # rows that need no copying are taken in larger blocks
_OUTPUT_TILE = 128  # the side of the output tile one multiprocessor works on in common float64 kernels


class DeviceTiles:
    """Make integer rows on ``device``, and multiply them.

    Parameters
    ----------
    layout : RowLayout
    device : str
        Any torch device; ``"cpu"`` runs the same code on the host.
    most : int
        The most rows of a tile.
    """

    def __init__(self, layout: RowLayout, device: str, *, most: int) -> None:
        torch = self.torch = import_torch()
        self.layout = layout
        self.device = torch.zeros(1, device=device).device  # "cuda" has become "cuda:0"
        self._rules = [GroupRule.of(group, layout.fractional_bits) for group in layout.groups]
        self._most = min(most, layout.block_rows)
        on_cuda = self.device.type == "cuda"
        processors = torch.cuda.get_device_properties(self.device).multi_processor_count if on_cuda else 1
        tiles = (-(-layout.width // _OUTPUT_TILE)) ** 2
        self._splits = max(1, processors // tiles)  # products side by side: narrow matrices occupy every one too

    def tiles(self, parts: tuple[Any, ...]) -> Iterator[Any]:
        """Yield the integer rows of ``parts`` (features, then targets if any) in tiles that lie on the device."""
        yield from map(self._integer_rows, self._resident(tuple(self.tensor(piece) for piece in parts)))

    def tensor(self, piece: Any) -> Any:
        """Return an array as a tensor; a tensor comes back as it stands."""
        if isinstance(piece, self.torch.Tensor):
            return piece
        if not piece.dtype.isnative or (piece.dtype.kind == "u" and piece.dtype.itemsize > 1):
            piece = piece.astype(np.float64)  # what torch does not know, as NumPy converts it
        return self.torch.from_numpy(piece if piece.flags.writeable and min(piece.strides) > 0 else piece.copy())

    def _integer_rows(self, parts: tuple[Any, ...]) -> Any:
        """Quantise a block on the device; a row with a NaN in any group becomes zeros."""
        torch, layout = self.torch, self.layout
        out = torch.empty((len(parts[0]), layout.width), dtype=torch.float64, device=self.device)
        broken, start = torch.zeros(len(parts[0]), dtype=torch.bool, device=self.device), 0
        for piece, rule in zip(parts, self._rules, strict=False):
            q, bad = quantise_group(torch, piece.to(torch.float64), rule)
            out[:, start : start + piece.shape[1]] = q
            broken |= bad
            start += piece.shape[1]
        if start < layout.width:
            out[:, start:] = 2.0**layout.fractional_bits  # the intercept
        if len(parts) > 1 or start < layout.width:  # a single group has zeroed its broken rows already
            out *= (~broken)[:, None]
        return out

    def product(self, q: Any) -> Any:
        """Return Σ q qᵀ over the rows of a tile, as int64; every sum is exact in float64."""
        pieces = min(self._splits, len(q))
        cut = len(q) - len(q) % pieces
        body, tail = q[:cut].view(pieces, cut // pieces, -1), q[cut:]
        return (self.torch.bmm(body.transpose(1, 2), body).sum(0) + tail.T @ tail).to(self.torch.int64)

    def _resident(self, parts: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        """Cut ``parts`` into blocks that lie on the device."""
        rows, torch = len(parts[0]), self.torch
        if self.device.type != "cuda" or all(piece.device.type == "cuda" for piece in parts):
            height = min(max(_RESIDENT_ENTRIES // self.layout.width, 1), self._most)
            for start in range(0, rows, height):
                yield tuple(piece[start : start + height].to(self.device) for piece in parts)
            return
        height = min(max(_BLOCK_ENTRIES // self.layout.width, 1), self._most)
        copying, computing = torch.cuda.Stream(self.device), torch.cuda.current_stream(self.device)

        def sent(start: int) -> tuple[Any, ...]:
            with torch.cuda.stream(copying):
                here = (piece[start : start + height] for piece in parts)
                pinned = (piece if piece.device.type == "cuda" else piece.pin_memory() for piece in here)
                return tuple(piece.to(self.device, non_blocking=True) for piece in pinned)

        coming = sent(0)
        for start in range(height, rows + height, height):
            computing.wait_stream(copying)  # it waits for what was sent so far
            block, coming = coming, sent(start)
            for piece in block:
                piece.record_stream(computing)  # its memory is kept until the work queued there is done
            yield block


def import_torch() -> Any:
    """Import torch, which no other module of the package needs."""
    try:
        import torch
    except ModuleNotFoundError:
        raise ParameterError("device", "be left out without torch", "no torch", "install ndis[torch]") from None
    return torch
