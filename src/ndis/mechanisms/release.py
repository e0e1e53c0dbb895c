"""What a random projection gives out: a sketch, its receipt, and what can be computed from the two."""

from __future__ import annotations

import io
import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ndis._validate import as_probability, as_scalar
from ndis.errors import ParameterError, PrecisionError
from ndis.files import write_folder
from ndis.mechanisms.base import Receipt

if TYPE_CHECKING:
    from ndis.gram.accumulator import Gram
    from ndis.mechanisms.projection import RandomProjection
    from ndis.sampling.bits import RandomBits

__all__ = ["ProjectionRelease", "draw_release"]

_SKETCH, _RECEIPT = "sketch.npz", "receipt.json"

# What NumPy and zipfile raise on bytes that are no archive of arrays.
_UNREADABLE = (
    ValueError,
    TypeError,
    KeyError,
    EOFError,
    OSError,
    RuntimeError,
    MemoryError,
    SyntaxError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


@dataclass(frozen=True, eq=False)
class ProjectionRelease:
    """A sketch and everything the public may know about it. Whatever is computed from it is as private as it is.

    Attributes
    ----------
    sketch : (r, d) array
        Synthetic rows: independent draws from N(0, DᵀD + ridge·I), rounded to a public grid. Read-only.
    mechanism : RandomProjection
        The mechanism with its public parameters.
    ridge : float
        The ridge in the sketch: the mechanism's own, or less where a private test allowed it.
    receipt : Receipt
    names : tuple of str
        Names of the columns, empty where the data had none.
    targets : int
        How many of the columns, behind the features, are targets.

    Examples
    --------
    >>> import numpy as np, ndis
    >>> mechanism = ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=50, row_norm_bound=1.0)
    >>> release = mechanism.release(np.eye(3))
    >>> release.gram().shape, release.receipt.mechanism
    ((3, 3), 'RandomProjection')
    """

    sketch: NDArray[np.float64]
    mechanism: RandomProjection
    ridge: float
    receipt: Receipt
    names: tuple[str, ...] = ()
    targets: int = 0

    def __post_init__(self) -> None:
        sketch = np.array(self.sketch, dtype=np.float64)
        sketch.setflags(write=False)
        object.__setattr__(self, "sketch", sketch)
        names = np.array(self.names, dtype="U")
        receipt = self.receipt.bound_to(sketch=sketch, ridge=float(self.ridge), names=names, targets=str(self.targets))
        object.__setattr__(self, "receipt", receipt)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))  # so that a copy is read-only too

    def __repr__(self) -> str:
        rows, columns = self.sketch.shape
        return f"ProjectionRelease({rows} rows × {columns} columns, {self.mechanism!r})"

    @property
    def rate(self) -> float:
        """Probability with which a record entered; 1 without sampling."""
        return float(getattr(self.mechanism, "rate", 1.0))

    # ------------------------------------------------------------------ estimates

    def gram(self) -> NDArray[np.float64]:
        """(MMᵀ/r − ridge·I)/rate, unbiased for DᵀD of the clipped rows (thm:mech-rp-utility).

        Symmetric, but not always positive semi-definite.
        """
        r, d = self.sketch.shape
        return np.asarray((self.sketch.T @ self.sketch / r - self.ridge * np.eye(d)) / self.rate)

    def count(self) -> float:
        """The number of records as the constant column estimates it; it may be off by the error of the sketch."""
        if self.mechanism.intercept is None:
            raise ParameterError("intercept", "be part of the mechanism to estimate the number of records", None)
        return float(self.gram()[-1, -1]) / self.mechanism.intercept**2

    def mean(self, *, records: float | None = None) -> NDArray[np.float64]:
        """The mean row, the constant column left out, from the sketch alone or with a public number of `records`."""
        n = self._records(records, need_intercept=True)
        return np.asarray(self.gram()[:-1, -1] / (n * float(self.mechanism.intercept or 1.0)))

    def covariance(self, *, records: float | None = None) -> NDArray[np.float64]:
        """The covariance of the clipped rows.

        With a constant column in the sketch: DᵀD/n − mean·meanᵀ over the other columns, n = `records` or the sketch's
        own count. Without one a public number of `records` is needed, and the result is DᵀD/n: moments about zero,
        which are the covariance of rows whose mean is known to be zero.
        """
        if self.mechanism.intercept is None:
            return self.gram() / self._records(records, need_intercept=False)
        n = self._records(records, need_intercept=True)
        mean = self.mean(records=n)
        return np.asarray(self.gram()[:-1, :-1] / n - np.outer(mean, mean))

    def _records(self, records: float | None, *, need_intercept: bool) -> float:
        if need_intercept and self.mechanism.intercept is None:
            raise ParameterError("intercept", "be part of the mechanism to estimate a mean", None)
        if records is None and self.mechanism.intercept is None:
            raise ParameterError(
                "records",
                "be given, public, for a sketch without a constant column",
                None,
                "or calibrate with intercept",
            )
        n = self.count() if records is None else as_scalar("records", records)
        if not n > 0:
            got = "an estimate that is not positive" if records is None else n
            raise ParameterError("records", "be a positive number", got, "give a public number of records")
        return n

    def error_bound(self, confidence: float = 0.95) -> float:
        """A number that ‖gram() − DᵀD‖ exceeds with probability at most 1 − `confidence`; released values only.

        With A = DᵀD + ridge·I and Â = MMᵀ/r of the ideal draw, the singular values of A^(−½)M/√r lie within 1 ± η with
        probability 1 − β, η = √(d/r) + √(2 ln(2/β)/r) (Davidson and Szarek). So Â/(1+η)² ⪯ A ⪯ Â/(1−η)², and

            ‖Â − A‖ ≤ (1/(1−η)² − 1)·‖Â‖,        infinite unless η < 1

        (thm:mech-rp-utility has (2η+η²)·‖A‖ in this form, ‖A‖ being private.) Rounding to the grid is allowed for.

        A Poisson sample has an error of its own, and it is in the bound. With S the Gram of the sample and x = q·‖DᵀD‖,
        a third of β goes to each of: the above; Chernoff's bound along the top eigenvector, x − √(2x·l²·ln(3/β)) ≤ ‖S‖,
        which bounds x; and Bernstein's bound for matrices, ‖S − q·DᵀD‖ ≤ l²L/3 + √((l²L/3)² + 2(1−q)·l²·x·L),
        L = ln(6d/β). All is divided by q.

        DᵀD is that of the clipped and rounded rows; what clipping does to the rows is not in it.
        """
        beta = 1.0 - float(as_probability("confidence", as_scalar("confidence", confidence)))
        q, (r, d) = self.rate, self.sketch.shape
        share = beta if q == 1.0 else beta / 3
        eta = math.sqrt(d / r) + math.sqrt(2.0 * math.log(2.0 / share) / r)
        if not eta < 1.0:
            return math.inf
        from ndis.sampling import grid_for

        norm = float(np.linalg.norm(self.sketch, 2))
        off = 0.5 * grid_for(math.sqrt(self.ridge)) * math.sqrt(r * d)  # ‖rounded − ideal sketch‖, at most
        largest = (norm + off) ** 2 / r / (1.0 - eta) ** 2  # of ‖A‖
        error = largest - (norm + off) ** 2 / r + (2.0 * norm + off) * off / r
        if q < 1.0:
            bound = self.mechanism.joint_norm_bound**2
            c, tail = bound * math.log(3.0 / beta), bound * math.log(6.0 * d / beta)
            root = 0.5 * (math.sqrt(2.0 * c) + math.sqrt(2.0 * c + 4.0 * max(largest - self.ridge, 0.0)))  # √x, at most
            error += tail / 3 + math.sqrt((tail / 3) ** 2 + 2.0 * (1.0 - q) * root**2 * tail)
        return float(error / q)

    # ------------------------------------------------------------------ files

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write a new folder with sketch.npz and receipt.json: all of it under its name, or nothing.

        >>> import tempfile, numpy as np, ndis
        >>> mechanism = ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=5, row_norm_bound=1.0)
        >>> release = mechanism.release(np.eye(2))
        >>> with tempfile.TemporaryDirectory() as place:
        ...     release.save(f"{place}/sketch")
        ...     (ProjectionRelease.load(f"{place}/sketch").sketch == release.sketch).all()
        np.True_
        """
        sketch = io.BytesIO()
        np.savez(sketch, sketch=self.sketch, ridge=self.ridge, targets=self.targets, names=np.array(self.names, "U"))
        write_folder(
            folder, {_SKETCH: sketch.getvalue(), _RECEIPT: self.receipt.to_json().encode() + b"\n"}, name="folder"
        )

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> ProjectionRelease:
        """The release that `save` wrote; anything else is refused. Its mechanism is made, and so certified, again.

        The digest of the receipt must be that of receipt and sketch. It finds damage and mistaken edits; it does not
        prove who made the release, nor that the sketch is the draw that the receipt describes.
        """
        place = Path(folder)
        try:
            text, content = (place / _RECEIPT).read_bytes(), (place / _SKETCH).read_bytes()
        except (OSError, ValueError) as error:  # a name with a null character is a ValueError
            raise ParameterError("folder", f"hold {_SKETCH} and {_RECEIPT} of a release", repr(str(place))) from error
        receipt = Receipt.from_saved(text)
        mechanism, ridge = _mechanism(receipt)
        arrays = _arrays(content)
        sketch, names, targets = arrays["sketch"], arrays["names"], arrays["targets"]
        if sketch.dtype != np.float64 or sketch.ndim != 2 or not np.isfinite(sketch).all():
            raise ParameterError("sketch", "be a finite float64 matrix", f"{sketch.dtype}, shape {sketch.shape}")
        if len(sketch) != mechanism.sketch_size:
            raise ParameterError("sketch", f"have the {mechanism.sketch_size} rows of its receipt", len(sketch))
        if arrays["ridge"].dtype != np.float64 or arrays["ridge"].shape or arrays["ridge"] != ridge:
            raise ParameterError("ridge", f"be that of the receipt, {ridge!r}", arrays["ridge"])
        if targets.dtype.kind not in "iu" or targets.shape:
            raise ParameterError("targets", "be a number of columns", f"{targets.dtype}, shape {targets.shape}")
        if targets < 0 or (targets > 0) != (mechanism.target_bound is not None):
            raise ParameterError("targets", "go with the target_bound of the receipt", int(targets))
        if not sketch.shape[1] > int(targets) + (mechanism.intercept is not None):
            raise ParameterError("sketch", "have a column beside targets and constant", f"shape {sketch.shape}")
        if names.dtype.kind != "U" or names.shape not in ((0,), sketch.shape[1:]):
            raise ParameterError("names", "name every column, or none", f"{names.dtype}, shape {names.shape}")
        return cls(sketch, mechanism, ridge, receipt, tuple(names.tolist()), int(targets))


def draw_release(
    mechanism: RandomProjection,
    gram: Gram,
    *,
    ridge: float,
    bits: RandomBits,
    released: Mapping[str, float] = MappingProxyType({}),
    seal: Mapping[str, Any] | None = None,
) -> ProjectionRelease:
    """r exact draws from N(0, DᵀD + ridge·I) on a grid that depends on the ridge alone.

    `released` goes into the receipt: what else the mechanism gives out, and accounts for. So does `seal`, the entry of
    the ledger that paid.
    """
    from ndis.sampling import exact_gaussian, grid_for

    sample = exact_gaussian(
        0, gram.exact(ridge=ridge), size=mechanism.sketch_size, grid=grid_for(math.sqrt(ridge)), random_state=bits
    )
    layout = gram.layout
    receipt = receipt_of(mechanism, private=sample.private, released={"released_ridge": ridge, **released}, seal=seal)
    return ProjectionRelease(sample.values, mechanism, ridge, receipt, layout.names, layout.targets)


def receipt_of(
    mechanism: RandomProjection,
    *,
    private: bool,
    released: Mapping[str, Any],
    seal: Mapping[str, Any] | None = None,
) -> Receipt:
    """The receipt of one release: the mechanism's fields, and values that came out along with the sketch."""
    values = {field.name: getattr(mechanism, field.name) for field in fields(mechanism)}
    epsilon, delta, adjacency = (values.pop(name) for name in ("epsilon", "delta", "adjacency"))
    parameters = {**values, **released}
    return Receipt(type(mechanism).__name__, parameters, epsilon, delta, adjacency, private=private, ledger=seal)


def _mechanism(receipt: Receipt) -> tuple[RandomProjection, float]:
    """The mechanism of a receipt, certified, and the ridge of the release."""
    from ndis.mechanisms.projection import PoissonProjection, RandomProjection
    from ndis.mechanisms.ptr import PTRProjection

    kinds = {kind.__name__: kind for kind in (RandomProjection, PoissonProjection, PTRProjection)}
    if receipt.mechanism not in kinds:
        raise ParameterError("mechanism of the receipt", f"be one of {', '.join(kinds)}", repr(receipt.mechanism))
    kind = kinds[receipt.mechanism]
    own: dict[str, Any] = {"epsilon": receipt.epsilon, "delta": receipt.delta, "adjacency": receipt.adjacency}
    needed = [field.name for field in fields(kind) if field.name not in own]
    released = dict(receipt.parameters)
    if not released.keys() >= set(needed):
        raise ParameterError("parameters of the receipt", f"have {', '.join(sorted(needed))}", "some are missing")
    values: dict[str, Any] = {name: released.pop(name) for name in needed}
    try:
        mechanism: RandomProjection = kind(**values, **own)
    except PrecisionError as error:
        raise ParameterError("parameters of the receipt", "be those of a certified mechanism", error) from error
    ridge = mechanism._ridge_in(released)
    if type(released["released_ridge"]) is not float or released["released_ridge"] != ridge:
        raise ParameterError("released_ridge of the receipt", f"be {ridge!r}", repr(released["released_ridge"]))
    return mechanism, ridge


def _arrays(content: bytes) -> dict[str, NDArray[Any]]:
    """The four arrays of a sketch file."""
    keys = {"sketch", "ridge", "targets", "names"}
    try:
        if not zipfile.is_zipfile(io.BytesIO(content)):
            raise ValueError("no archive")
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            found = {key: archive[key] for key in archive.files}
    except _UNREADABLE as error:
        raise ParameterError(_SKETCH, "be an NPZ archive of plain arrays", type(error).__name__) from error
    if found.keys() != keys or not all(isinstance(a, np.ndarray) for a in found.values()):
        raise ParameterError(_SKETCH, f"hold {', '.join(sorted(keys))}", ", ".join(found) or "nothing")
    return found
