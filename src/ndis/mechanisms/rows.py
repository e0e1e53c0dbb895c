"""Mechanisms that release something about rows of data: the bounds of a row, the release, and estimates from it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ndis._validate import STATE_A_BOUND, as_scalar
from ndis.data import Rows, open_table
from ndis.data.schema.table import open_for
from ndis.errors import ParameterError
from ndis.gram import Gram, RowLayout, exact_gram
from ndis.gram.poisson import PoissonRows
from ndis.ledger.charging import charged
from ndis.noise.bits import RandomBits, random_bits

if TYPE_CHECKING:
    from ndis.data.schema import Schema

__all__ = [
    "MomentEstimates", "RowMechanism", "bounds_of", "check_columns", "encoded_data", "encoded_rows", "row_bounds",
]  # fmt: skip

Released = TypeVar("Released")


def row_bounds(
    row_norm_bound: float | None, target_bound: float | None, intercept: float | None, fractional_bits: int
) -> RowLayout:
    """A row of one feature, and of one target if there are targets: enough to check and to add up the bounds."""
    if row_norm_bound is None:
        remedy = f"{STATE_A_BOUND}, and rows beyond it are clipped"
        raise ParameterError("row_norm_bound", "be a positive number", None, remedy)
    return RowLayout(
        1,
        row_norm_bound,
        targets=0 if target_bound is None else 1,
        target_bound=target_bound,
        intercept=intercept,
        fractional_bits=fractional_bits,
    )


def bounds_of(layout: RowLayout) -> dict[str, Any]:
    """The public bounds of a row by name, as `exact_gram` and the mechanisms take them."""
    return {
        "row_norm_bound": layout.row_norm_bound,
        "target_bound": layout.target_bound,
        "intercept": layout.intercept,
        "fractional_bits": layout.fractional_bits,
    }


class RowMechanism(Generic[Released]):
    """A mechanism that releases a function of the exact Gram matrix of clipped rows."""

    if TYPE_CHECKING:  # fields of the mechanisms, each in an order of its own
        row_norm_bound: float
        target_bound: float | None
        intercept: float | None
        fractional_bits: int

    @property
    def _row_layout(self) -> RowLayout:
        """The bounds of a row, checked."""
        return row_bounds(self.row_norm_bound, self.target_bound, self.intercept, self.fractional_bits)

    @property
    def joint_norm_bound(self) -> float:
        """l: the norm that no row exceeds, targets and intercept included."""
        return self._row_layout.joint_norm_bound

    def release(
        self,
        data: Any,
        *,
        columns: Any = None,
        targets: Any = None,
        header: bool = False,
        schema: Schema | None = None,
        device: str | None = None,
        progress: bool | None = None,
        random_state: Any = None,
        ledger: str | os.PathLike[str] | None = None,
        slot: str | None = None,
    ) -> Released:
        """Draw the noisy Gram matrix or the sketch (def:grp) of `data`, exactly.

        Parameters
        ----------
        data, columns, targets, header, device, progress
            As for `ndis.gram.exact_gram`: arrays, frames, files, folders, dask collections, tensors, pairs (X, y). A
            list of rows is allowed too. Targets need a `target_bound`.
        schema : Schema, optional
            Encodes the data, in units as they are. Its target is part of the release if there is a `target_bound`.
        random_state : optional
            None draws from the operating system. Anything else is reproducible, warns, and is not private.
        ledger : path, optional
            The `ndis.Ledger` that pays. It reserves before data is read; a BudgetError says what is left.
        slot : str, optional
            The slot of a plan. For the other kinds a label, or None.

        Returns
        -------
        ProjectionRelease or GramRelease
            The release of a projection, or that of a Gram mechanism.

        Examples
        --------
        >>> import numpy as np, ndis
        >>> mechanism = ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=50, row_norm_bound=1.0)
        >>> release = mechanism.release(np.eye(3))
        >>> release.sketch.shape, release.receipt.private
        ((50, 3), True)
        >>> mechanism = ndis.GramMechanism.calibrated(epsilon=1.0, delta=1e-6, row_norm_bound=1.0)
        >>> mechanism.release(np.eye(3)).gram().shape
        (3, 3)
        """
        bits = random_bits(random_state)
        how = {"columns": columns, "targets": targets, "header": header, "progress": progress}
        with charged(self, ledger=ledger, slot=slot, private=bits.private) as charge:
            rows = encoded_rows(schema, data, how, target=self.target_bound is not None)
            public = bounds_of(self._row_layout) | {"device": device}
            gram = exact_gram(rows, **public, sample=self._sample(bits))
            stated = {} if schema is None else {"schema": schema.to_toml()}
            return self._draw(gram, bits, stated=stated, seal=charge.seal(), progress=progress)

    def _sample(self, bits: RandomBits) -> PoissonRows | None:
        """The rule by which rows enter; None if all do."""
        return None

    def _draw(
        self,
        gram: Gram,
        bits: RandomBits,
        *,
        stated: Mapping[str, Any],
        seal: Mapping[str, Any] | None,
        progress: bool | None,
    ) -> Released:
        """The release; `stated` and `seal`, the entry of the ledger that paid, go into its receipt."""
        raise NotImplementedError  # each mechanism has its own


def encoded_rows(schema: Schema | None, data: Any, how: dict[str, Any], *, target: bool) -> Rows:
    """Open the data, encoded by the schema if there is one, and choose columns; `how` are arguments of `exact_gram`."""
    given = {"columns": how.get("columns"), "header": how.get("header", False), "progress": how.get("progress")}
    if schema is None:
        return open_table(data, **given).matrix(given["columns"], how.get("targets"))
    if how.get("targets") is not None:
        raise ParameterError("targets", "be left out with a schema, which names its target", "targets")
    table = open_for(schema, data, **given).encoded(schema, target=target)
    return table.matrix(None, [schema.needed_target()] if target and not table.target_width else None)


def encoded_data(schema: Schema | None, data: Any, how: dict[str, Any], *, target: bool) -> tuple[Any, dict[str, Any]]:
    """Return the data as the schema encodes them; the name before `encoded_rows`, to go."""
    if schema is None:
        return data, how
    if how["targets"] is not None:
        raise ParameterError("targets", "be left out with a schema, which names its target", "targets")
    table = schema.table(data, target=target, columns=how["columns"], header=how["header"])
    return table, how | {"columns": None, "header": False, "targets": [schema.needed_target()] if target else None}


def check_columns(
    name: str, values: NDArray[np.float64], mechanism: RowMechanism[Any], *, targets: int, names: int
) -> None:
    """Refuse a saved release whose columns, targets and names do not go together."""
    if targets < 0 or (targets > 0) != (mechanism.target_bound is not None):
        raise ParameterError("targets", "go with the target_bound of the receipt", targets)
    if not values.shape[1] > targets + (mechanism.intercept is not None):
        raise ParameterError(name, "have a column beside targets and constant", f"shape {values.shape}")
    if names not in (0, values.shape[1]):
        raise ParameterError("names", "name every column, or none", f"{names} names")


class MomentEstimates:
    """Estimates from a release with `gram()` and `mechanism.intercept`. All of them are post-processing."""

    mechanism: RowMechanism[Any]

    def gram(self) -> NDArray[np.float64]:
        """The estimate of DᵀD."""
        raise NotImplementedError  # each release has its own

    def count(self) -> float:
        """The number of records as the constant column estimates it, with the error of the release."""
        if self.mechanism.intercept is None:
            raise ParameterError("intercept", "be part of the mechanism to estimate the number of records", None)
        return float(self.gram()[-1, -1]) / self.mechanism.intercept**2

    def mean(self, *, records: float | None = None) -> NDArray[np.float64]:
        """The mean row without the constant column, from the release only or with a public number of `records`."""
        n = self._records(records, need_intercept=True)
        return np.asarray(self.gram()[:-1, -1] / (n * float(self.mechanism.intercept or 1.0)))

    def covariance(self, *, records: float | None = None) -> NDArray[np.float64]:
        """The covariance of the clipped rows.

        With a constant column it is DᵀD/n − mean·meanᵀ over the other columns. Here n is `records`, or the count from
        the release. Without a constant column, give a public number of `records`. The result is then DᵀD/n, the
        moments about zero: the covariance of rows whose mean is known to be zero.
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
                "be given, public, for a release without a constant column",
                None,
                "or calibrate with intercept",
            )
        n = self.count() if records is None else as_scalar("records", records)
        if not n > 0:
            got = "an estimate that is not positive" if records is None else n
            raise ParameterError("records", "be a positive number", got, "give a public number of records")
        return n
