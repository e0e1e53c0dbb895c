"""The device engine: its own logic on a small stand-in for torch, and on torch itself where that is installed.

The stand-in runs copies on a side stream as late as it may: only when another stream waits for it, so a block used too
early gives wrong bits. A block that is in use must have been recorded on the stream that uses it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ndis.errors import ParameterError
from ndis.gram import GramAccumulator, RowLayout, exact_gram, leverage, worst_row
from ndis.gram.rows import square_root
from ndis.gram.sums import RecordSums


class Device(str):
    @property
    def type(self) -> str:
        return self.partition(":")[0]


class Tensor(np.ndarray):
    """A NumPy array with the few tensor methods the engine calls."""

    device = Device("cpu")
    pinned = False
    late = False  # whether a side stream fills it

    def __array_finalize__(self, base: Any) -> None:
        self.device, self.pinned = getattr(base, "device", Device("cpu")), getattr(base, "pinned", False)

    def to(self, target: Any, non_blocking: bool = False) -> Tensor:
        if isinstance(target, Device) and target == self.device:
            return self
        moved = self.copy() if isinstance(target, Device) else self.astype(target)
        moved.device = target if isinstance(target, Device) else self.device
        if non_blocking:
            assert self.pinned, "only a copy of pinned memory runs beside others"
            STREAMS[-1].queue.append((moved, self.copy()))
            moved[...], moved.late = 77, True
        assert not self.late or any(self is block for block in RECORDED), "its memory may be taken while it is used"
        return moved

    def pin_memory(self) -> Tensor:
        assert self.device.type == "cpu"
        pinned = self.copy()
        pinned.pinned = True
        return pinned

    def record_stream(self, stream: Any) -> None:
        RECORDED.append(self)

    def view(self, *shape: Any) -> Any:
        return self.reshape(shape) if isinstance(shape[0], int) else super().view(*shape)

    def transpose(self, *axes: int) -> Any:
        return self.swapaxes(*axes) if axes else super().transpose()

    def zero_(self) -> None:
        self[...] = 0

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> np.ndarray:
        return np.array(self)

    def is_complex(self) -> bool:
        return self.dtype.kind == "c"


STREAMS: list[Any] = [None]
RECORDED: list[Tensor] = []


class Stream:
    def __init__(self, device: Any = None) -> None:
        self.queue: list[tuple[Tensor, Tensor]] = []

    def wait_stream(self, other: Stream) -> None:
        for target, source in other.queue:
            np.copyto(target, source)
        other.queue.clear()


@contextmanager
def stream(one: Stream) -> Iterator[None]:
    STREAMS.append(one)
    yield
    STREAMS.pop()


def standin() -> ModuleType:
    torch = ModuleType("torch")

    def made(array: np.ndarray, device: Any = "cpu", pin_memory: bool = False) -> Tensor:
        tensor = np.ndarray.view(array, Tensor)
        tensor.device, tensor.pinned = Device(device), pin_memory
        return tensor

    def empty(shape: Any, dtype: Any, **where: Any) -> Tensor:
        return made(np.full(shape, 77).astype(dtype), **where)

    def zeros(shape: Any, dtype: Any = np.float64, **where: Any) -> Tensor:
        return made(np.zeros(shape, dtype), **where)

    def addmm(base: Any, left: Any, right: Any, out: Any) -> None:
        out[...] = base + left @ right

    names = ("round", "sum", "where", "all", "isfinite", "amax", "abs", "sqrt", "full_like", "ones_like")
    vars(torch).update({name: getattr(np, name) for name in names})
    processors = SimpleNamespace(multi_processor_count=12)
    cuda = SimpleNamespace(
        Stream=Stream,
        stream=stream,
        current_stream=lambda device: Stream(),
        get_device_properties=lambda device: processors,
    )
    vars(torch).update(
        Tensor=Tensor, device=Device, float64=np.float64, int64=np.int64, bool=np.bool_, cuda=cuda, empty=empty,
        zeros=zeros, addmm=addmm, bmm=np.matmul, from_numpy=made,
    )  # fmt: skip
    return torch


@pytest.fixture
def fake_torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    torch = standin()
    RECORDED.clear()
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr("ndis.gram.device._BLOCK_ENTRIES", 400)  # many small blocks
    monkeypatch.setattr("ndis.gram.device._RESIDENT_ENTRIES", 700)
    with np.errstate(all="ignore"):  # torch has no floating-point warnings
        yield torch


def rows(count: int = 3000, columns: int = 5) -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, columns)) * 10.0 ** rng.uniform(-3, 3, size=(count, 1))
    x[3, 1], x[4], x[5] = np.nan, 1e308, 5e-324
    return x


CASES = [
    {"row_norm_bound": 1.3},
    {"row_norm_bound": 1.3, "targets": [2], "target_bound": 0.7, "intercept": 2.0},
    {"row_norm_bound": 1.3, "fractional_bits": 24},
]


@pytest.mark.parametrize("options", CASES)
def test_rows_streamed_from_the_host_have_the_same_bits(fake_torch: ModuleType, options: dict[str, Any]) -> None:
    x = rows()
    assert exact_gram(x, device="cuda", **options) == exact_gram(x, **options)


@pytest.mark.parametrize("options", CASES)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_resident_and_pinned_rows_have_the_same_bits(
    fake_torch: ModuleType, options: dict[str, Any], device: str
) -> None:
    x = rows()
    expected = exact_gram(x, **options)
    targets = options.get("targets", [])
    parts = [np.ascontiguousarray(np.delete(x, targets, axis=1))] + ([x[:, targets].copy()] if targets else [])
    for pinned in (False, True):
        tensors = [fake_torch.from_numpy(part, "cpu" if pinned else device, pinned) for part in parts]
        accumulator = GramAccumulator(expected.layout, device=device)
        accumulator.update(*tensors)
        assert accumulator.finish() == expected


def test_the_second_pass_brings_rows_from_a_device_over(fake_torch: ModuleType) -> None:
    fake_torch.Tensor.layout, fake_torch.Tensor.detach = "torch.strided", lambda tensor: tensor
    x = rows()
    gram = exact_gram(x, row_norm_bound=1.3)
    tensor = fake_torch.from_numpy(x, "cuda")
    tensor_class = type("Tensor", (Tensor,), {"__module__": "torch"})
    from_device = np.concatenate(list(leverage(np.ndarray.view(tensor, tensor_class), gram, ridge=1.0)))
    assert np.array_equal(from_device, np.concatenate(list(leverage(x, gram, ridge=1.0))))


def test_sums_beyond_int64_leave_the_device_in_time(fake_torch: ModuleType) -> None:
    layout = RowLayout(1, 1.0, fractional_bits=24)
    accumulator = GramAccumulator(layout, device="cuda")
    ones = np.ones((32, 1))
    for _ in range(3):
        accumulator.update(ones)
        accumulator._rows_there += 2**14  # as if that many rows had gone by
    assert accumulator.finish().integers.tolist() == [[96 * 4**24]]


def test_shapes_are_checked(fake_torch: ModuleType) -> None:
    accumulator = GramAccumulator(RowLayout(2, 1.0), device="cuda")
    with pytest.raises(ParameterError, match="be matrices of 2 column"):
        accumulator.update(fake_torch.from_numpy(np.zeros((3, 3))))
    with pytest.raises(ParameterError, match="be matrices of 2 column"):
        accumulator.update(np.zeros((3, 3)))


def test_without_torch_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ParameterError, match=r"install ndis\[torch\]"):
        exact_gram(rows(), row_norm_bound=1.0, device="cuda")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed: its own extra")
def test_square_roots_of_tensors_are_those_of_numpy() -> None:
    """torch alone is one bit off in one of a hundred on some hosts."""
    import torch

    x = np.random.default_rng(0).integers(1, 2**52, 100_000).astype(np.float64)
    np.testing.assert_array_equal(square_root(torch, torch.from_numpy(x)).numpy(), np.sqrt(x))


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed: its own extra")
@pytest.mark.parametrize("options", CASES)
def test_torch_itself_has_the_same_bits(options: dict[str, Any]) -> None:
    import torch

    devices = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])
    for dtype in (np.float64, np.float32, np.int32, np.uint16, np.dtype(">f8")):
        with np.errstate(all="ignore"):
            x = rows(2000).astype(dtype)
        expected = exact_gram(x, **options)
        for device in devices:
            assert exact_gram(x, device=device, **options) == expected
            if not x.dtype.isnative:
                continue
            assert exact_gram(torch.from_numpy(x).to(device), **options) == expected
            worst = worst_row(torch.from_numpy(x).to(device), expected, ridge=1.0, targets=options.get("targets"))
            on_host = worst_row(x, expected, ridge=1.0, targets=options.get("targets"))
            assert worst is not None
            assert on_host is not None
            assert worst.index == on_host.index


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed: its own extra")
def test_torch_itself_counts_the_same_values() -> None:
    import torch

    x = np.random.default_rng(5).integers(-4, 5, (2_000, 2)) / 4.0  # many values lie on edges
    for device in ["cpu"] + (["cuda"] if torch.cuda.is_available() else []):
        counts = RecordSums(x, row_norm_bound=2.0, device=device).value_counts([-0.5, 0.0, 0.75], norms=[0.5, 1.0])
        assert counts.above.tolist() == [(x > edge).sum(axis=0).tolist() for edge in (-0.5, 0.0, 0.75)]
        assert counts.longer.tolist() == [int(((x**2).sum(axis=1) > norm**2).sum()) for norm in (0.5, 1.0)]
