"""Define the releases: values with their receipts, the estimates that follow from both, and their files."""

from __future__ import annotations

import io
import json
import math
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ndis._files import loads, only_keys, read_bytes, write_file, write_folder
from ndis._validate import Floats, as_one_probability, as_scalar, assign, frozen, require
from ndis.data.npy import npz_arrays
from ndis.errors import ParameterError
from ndis.mechanisms.mechanism import Receipt, mechanism_of
from ndis.noise import grid_for

if TYPE_CHECKING:
    from ndis.mechanisms.projection import SketchMechanism
    from ndis.mechanisms.rows import RowMechanism

_SKETCH, _RECEIPT = "sketch.npz", "receipt.json"
_ARRAYS = {"sketch": ("f", 2), "ridge": ("f", 0), "targets": ("iu", 0), "names": ("U", 1)}  # kinds of type, and axes


@dataclass(frozen=True, eq=False)
class GaussianRelease:
    """Holds one draw with Gaussian noise, and its receipt. Mechanisms with Gaussian noise on an answer return it.

    Attributes
    ----------
    values : array
        The draw, rounded to the grid of the receipt. Read-only.
    receipt : Receipt

    Examples
    --------
    >>> import ndis
    >>> release = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0).release(10.0)
    >>> release.private, release.receipt.epsilon
    (True, 1.0)
    """

    values: Floats
    receipt: Receipt

    def __post_init__(self) -> None:
        values = frozen(np.asarray(self.values, dtype=np.float64))
        assign(self, values=values, receipt=self.receipt.bound_to(values=values))

    @property
    def private(self) -> bool:
        """Say if the draw is private; a seed makes it reproducible, and then it is not."""
        return self.receipt.private

    @property
    def noise_variance(self) -> float:
        """Return the variance added to every coordinate; the factor of the covariance if the noise has a public one."""
        return float(self.receipt.parameters["noise_variance"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write values and receipt as one new JSON file: all of it under its name, or nothing."""
        content = {"values": self.values.tolist(), "receipt": self.receipt.to_dict()}
        write_file(path, json.dumps(content, allow_nan=False, indent=2).encode() + b"\n", name="path", new=True)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> GaussianRelease:
        """Read the release that `save` wrote. The digest of its receipt must be that of receipt and values.

        >>> import tempfile
        >>> receipt = Receipt("lift(Mean)", {"noise_variance": 1.0}, 1.0, 1e-5, "add-remove", private=True)
        >>> release = GaussianRelease([0.5], receipt)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     release.save(f"{folder}/release.json")
        ...     GaussianRelease.load(f"{folder}/release.json").receipt == release.receipt
        True
        """
        content = only_keys("release", loads("release", read_bytes("path", Path(path))), ("values", "receipt"))
        return cls(content["values"], Receipt.from_saved(json.dumps(content["receipt"])))


# ---------------------------------------------------------------------- moments


class MomentEstimates:
    """Estimates moments from a release with `gram()` and `mechanism.intercept`. All of it is post-processing."""

    mechanism: RowMechanism[Any]

    def gram(self) -> NDArray[np.float64]:
        """Estimate DᵀD."""
        raise NotImplementedError  # each release has its own

    def count(self) -> float:
        """Estimate the number of records as the constant column estimates it, with the error of the release."""
        return float(self.gram()[-1, -1]) / self._constant("the number of records") ** 2

    def mean(self, *, records: float | None = None) -> NDArray[np.float64]:
        """Estimate the mean row without the constant column, perhaps with a public number of `records`."""
        constant = self._constant("a mean")
        return np.asarray(self.gram()[:-1, -1] / (self._records(records) * constant))

    def covariance(self, *, records: float | None = None) -> NDArray[np.float64]:
        """Estimate the covariance of the clipped rows.

        With a constant column it is DᵀD/n − mean·meanᵀ over the other columns. Here n is `records`, or the count from
        the release. Without a constant column, give a public number of `records`. The result is then DᵀD/n, the
        moments about zero: the covariance of rows whose mean is known to be zero.
        """
        if self.mechanism.intercept is None:
            rule = "be given, public, for a release without a constant column"
            require(records is not None, "records", rule, None, "or calibrate with intercept")
            return self.gram() / self._records(records)
        n = self._records(records)
        mean = self.mean(records=n)
        return np.asarray(self.gram()[:-1, :-1] / n - np.outer(mean, mean))

    def _constant(self, purpose: str) -> float:
        value = self.mechanism.intercept
        require(value is not None, "intercept", f"be part of the mechanism to estimate {purpose}", None)
        return float(value or 0.0)

    def _records(self, records: float | None) -> float:
        n = self.count() if records is None else as_scalar("records", records)
        got = "an estimate that is not positive" if records is None else n
        require(n > 0, "records", "be a positive number", got, "give a public number of records")
        return n


def check_columns(
    name: str, values: NDArray[np.float64], mechanism: RowMechanism[Any], *, targets: int, names: int
) -> None:
    """Refuse a saved release whose columns, targets and names do not go together."""
    good = targets >= 0 and (targets > 0) == (mechanism.target_bound is not None)
    require(good, "targets", "go with the target_bound of the receipt", targets)
    good = values.shape[1] > targets + (mechanism.intercept is not None)
    require(good, name, "have a column that is neither target nor constant", f"shape {values.shape}")
    require(names in (0, values.shape[1]), "names", "name every column, or none", f"{names} names")


# ---------------------------------------------------------------------- sketches

_KINDS: dict[str, type[Any]] = {}
Kind = TypeVar("Kind", bound=type[Any])


def loadable(kind: Kind) -> Kind:
    """Let `ProjectionRelease.load` make mechanisms of this class from their receipts."""
    _KINDS[kind.__name__] = kind
    return kind


@dataclass(frozen=True, eq=False)
class ProjectionRelease(MomentEstimates):
    """Holds a sketch and everything that the public may know about it. Anything computed from it is just as private.

    Attributes
    ----------
    sketch : (r, d) array
        Synthetic rows: independent draws from N(0, DᵀD + ridge·I), rounded to a public grid. Read-only.
    mechanism : RandomProjection, PoissonProjection or PTRProjection
        The mechanism with its public parameters.
    ridge : float
        The ridge in the sketch: the mechanism's own, or less if a private test allowed it.
    receipt : Receipt
    names : tuple of str
        Names of the columns, empty if the data had none.
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
    mechanism: SketchMechanism
    ridge: float
    receipt: Receipt
    names: tuple[str, ...] = ()
    targets: int = 0

    def __post_init__(self) -> None:
        sketch, names = frozen(np.asarray(self.sketch, dtype=np.float64)), np.array(self.names, dtype="U")
        receipt = self.receipt.bound_to(sketch=sketch, ridge=float(self.ridge), names=names, targets=str(self.targets))
        assign(self, sketch=sketch, receipt=receipt)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))  # so that a copy is read-only too

    def __repr__(self) -> str:
        rows, columns = self.sketch.shape
        seeded = "" if self.receipt.private else "NOT private, "
        return f"ProjectionRelease({rows} rows × {columns} columns, {seeded}{self.mechanism!r})"

    @property
    def rate(self) -> float:
        """Return the probability with which a record entered; 1 without sampling."""
        return self.mechanism.law.rate

    # ------------------------------------------------------------------ estimates

    def gram(self) -> NDArray[np.float64]:
        """Return (MMᵀ/r − ridge·I)/rate, unbiased for DᵀD of the clipped rows (thm:mech-rp-utility).

        Symmetric, but not always positive semi-definite.
        """
        r, d = self.sketch.shape
        return np.asarray((self.sketch.T @ self.sketch / r - self.ridge * np.eye(d)) / self.rate)

    def error_bound(self, confidence: float = 0.95) -> float:
        """Bound ‖gram() − DᵀD‖ with probability at least `confidence`, from released values only.

        With A = DᵀD + ridge·I and Â = MMᵀ/r of the ideal draw, the singular values of A^(−½)M/√r lie within 1 ± η with
        probability 1 − β, η = √(d/r) + √(2 ln(2/β)/r) (Davidson and Szarek). So Â/(1+η)² ⪯ A ⪯ Â/(1−η)², and

            ‖Â − A‖ ≤ (1/(1−η)² − 1)·‖Â‖,        infinite unless η < 1

        (In thm:mech-rp-utility this is (2η+η²)·‖A‖, and ‖A‖ is private.) The bound allows for rounding to the grid.

        A Poisson sample has an error of its own, and the bound includes it. Let S be the Gram matrix of the sample and
        x = q·‖DᵀD‖. A third of β goes to each of three events:

        - the error above;
        - Chernoff's bound along the top eigenvector, x − √(2x·l²·ln(3/β)) ≤ ‖S‖, which bounds x;
        - Bernstein's bound for matrices, ‖S − q·DᵀD‖ ≤ l²L/3 + √((l²L/3)² + 2(1−q)·l²·x·L), L = ln(6d/β).

        All is divided by q. DᵀD is that of the clipped and rounded rows; the bound does not cover the clipping.
        """
        beta = 1.0 - as_one_probability("confidence", confidence)
        q, (r, d) = self.rate, self.sketch.shape
        share = beta if q == 1.0 else beta / 3
        eta = math.sqrt(d / r) + math.sqrt(2.0 * math.log(2.0 / share) / r)
        if not eta < 1.0:
            return math.inf
        norm = float(np.linalg.norm(self.sketch, 2))
        off = 0.5 * grid_for(math.sqrt(self.ridge)) * math.sqrt(r * d)  # at least ‖rounded − ideal sketch‖
        largest = (norm + off) ** 2 / r / (1.0 - eta) ** 2  # at least ‖A‖
        error = largest - (norm + off) ** 2 / r + (2.0 * norm + off) * off / r
        if q < 1.0:
            bound = self.mechanism.joint_norm_bound**2
            c, tail = bound * math.log(3.0 / beta), bound * math.log(6.0 * d / beta)
            root = 0.5 * (math.sqrt(2.0 * c) + math.sqrt(2.0 * c + 4.0 * max(largest - self.ridge, 0.0)))  # at least √x
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
        write_folder(folder, {_SKETCH: sketch.getvalue(), _RECEIPT: self.receipt.to_json().encode() + b"\n"})

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> ProjectionRelease:
        """Read the release that `save` wrote, and refuse anything else. The mechanism is certified again.

        The digest of the receipt must be that of receipt and sketch. It finds damage and mistaken edits. It does not
        prove who made the release, nor that the sketch is the draw that the receipt describes.
        """
        text, content = (read_bytes("folder", Path(folder, name)) for name in (_RECEIPT, _SKETCH))
        receipt = Receipt.from_saved(text)
        mechanism, ridge = _mechanism(receipt)
        arrays = npz_arrays(_SKETCH, content, most=len(content))  # `save` does not compress
        if arrays.keys() != _ARRAYS.keys():
            raise ParameterError(_SKETCH, f"hold {', '.join(sorted(_ARRAYS))}", ", ".join(arrays) or "nothing")
        for name, (kinds, axes) in _ARRAYS.items():
            kind, shape = arrays[name].dtype.kind, arrays[name].shape
            require(kind in kinds and len(shape) == axes, name, "be an array as it was saved", f"{kind}, shape {shape}")
        sketch, names, targets = arrays["sketch"], arrays["names"], arrays["targets"]
        good = np.isfinite(sketch).all() and len(sketch) == mechanism.sketch_size
        require(good, "sketch", f"be finite, with the {mechanism.sketch_size} rows of its receipt", sketch.shape)
        require(arrays["ridge"] == ridge, "ridge", f"be that of the receipt, {ridge!r}", arrays["ridge"])
        check_columns("sketch", sketch, mechanism, targets=int(targets), names=len(names))
        return cls(sketch, mechanism, ridge, receipt, tuple(names.tolist()), int(targets))


def _mechanism(receipt: Receipt) -> tuple[SketchMechanism, float]:
    """Make the mechanism of a receipt, certified, and read the ridge of the release."""
    mechanism, released = mechanism_of(receipt, _KINDS)
    only_keys("parameters of the receipt", released, ("released_ridge", *mechanism.outcomes))
    ridge = mechanism.ridge_in(released)
    if type(released["released_ridge"]) is not float or released["released_ridge"] != ridge:
        raise ParameterError("released_ridge of the receipt", f"be {ridge!r}", repr(released["released_ridge"]))
    return mechanism, ridge
