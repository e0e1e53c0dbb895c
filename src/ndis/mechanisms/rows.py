"""Release something about rows of data: the bounds of a row, the release, and a count of clipped rows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ndis._validate import STATE_A_BOUND, Adjacency, as_one_positive, require
from ndis.data import Rows, open_rows
from ndis.data.opening import open_for
from ndis.data.schema.changed import changed_rows
from ndis.errors import ParameterError
from ndis.gram import Gram, RowLayout, exact_gram
from ndis.gram.accumulator import PoissonRows, check_device
from ndis.gram.rows import layout_for
from ndis.mechanisms.gaussian import GaussianMechanism
from ndis.mechanisms.mechanism import CertifiedMechanism, announce, paid_by_argument, payable
from ndis.mechanisms.releases import GaussianRelease
from ndis.noise.bits import RandomBits, random_bits

if TYPE_CHECKING:
    from ndis.data.schema import Schema

Released = TypeVar("Released")


def row_bounds(
    row_norm_bound: float | None, target_bound: float | None, intercept: float | None, fractional_bits: int
) -> RowLayout:
    """Lay out a row of one feature, and of one target if there are any: enough to check and add up the bounds."""
    if row_norm_bound is None:
        remedy = f"{STATE_A_BOUND}, and rows beyond it are clipped"
        raise ParameterError("row_norm_bound", "be a positive number", None, remedy)
    public: dict[str, Any] = {"intercept": intercept, "fractional_bits": fractional_bits}
    return RowLayout(1, row_norm_bound, targets=int(target_bound is not None), target_bound=target_bound, **public)


def bounds_of(layout: RowLayout) -> dict[str, Any]:
    """Return the public bounds of a row by name, as `exact_gram` and the mechanisms take them."""
    names = ("row_norm_bound", "target_bound", "intercept", "fractional_bits")
    return {name: getattr(layout, name) for name in names}


class RowMechanism(CertifiedMechanism, Generic[Released]):
    """Releases a function of the exact Gram matrix of clipped rows."""

    # fields of the mechanisms, each in an order of its own
    row_norm_bound: float
    target_bound: float | None
    intercept: float | None
    fractional_bits: int

    @property
    def _row_layout(self) -> RowLayout:
        """Return the bounds of a row, checked."""
        return row_bounds(self.row_norm_bound, self.target_bound, self.intercept, self.fractional_bits)

    @property
    def joint_norm_bound(self) -> float:
        """Return l, the norm that no row exceeds, targets and intercept included."""
        return self._row_layout.joint_norm_bound

    @payable
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
    ) -> Released:
        """Draw the noisy Gram matrix or the sketch (def:grp) of `data`, exactly.

        Parameters
        ----------
        data, columns, targets, header, device, progress
            As for `ndis.gram.exact_gram`: arrays, frames, files, folders, dask collections, tensors, pairs (X, y).
            Rows in a list need a schema. Targets need a `target_bound`.
        schema : Schema, optional
            Encodes the data, in their own units. Its target is part of the release if there is a `target_bound`.
        random_state : optional
            None draws from the operating system. Anything else is reproducible, warns, and is not private.

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
        bits, bounds = random_bits(random_state), bounds_of(self._row_layout)
        how = {"columns": columns, "targets": targets, "header": header, "progress": progress}
        rows = encoded_rows(schema, data, how, target=self.target_bound is not None)
        check_device(rows, device)
        layout_for(rows, **bounds)  # the last check of public things
        announce(self)
        gram = exact_gram(rows, **bounds, device=device, sample=self._sample(bits))
        stated = {} if schema is None else {"schema": schema.to_toml()}
        return self._draw(gram, bits, stated=stated, progress=progress)

    def _sample(self, bits: RandomBits) -> PoissonRows | None:
        """Return the rule by which rows enter; None if all do."""
        return None

    def _draw(self, gram: Gram, bits: RandomBits, *, stated: Mapping[str, Any], progress: bool | None) -> Released:
        """Draw the release; `stated` goes into its receipt."""
        raise NotImplementedError  # each mechanism has its own


def encoded_rows(schema: Schema | None, data: Any, how: dict[str, Any], *, target: bool) -> Rows:
    """Open the data, encoded by the schema if there is one, and choose columns; `how` are arguments of `exact_gram`."""
    given = {"columns": how.get("columns"), "header": how.get("header", False), "progress": how.get("progress")}
    if schema is None:
        return open_rows(data, **given, targets=how.get("targets"))
    require(how.get("targets") is None, "targets", "be left out with a schema, which names its target", "targets")
    table = open_for(schema, data, **given).encoded(schema, target=target)
    return table.matrix(None, [schema.needed_target()] if target and not table.target_width else None)


def clipped_count(
    data: Any,
    schema: Schema,
    *,
    epsilon: float,
    delta: float,
    row_norm_bound: float | None = None,
    adjacency: Adjacency = "add-remove",
    columns: Any = None,
    header: bool = False,
    progress: bool | None = None,
    random_state: Any = None,
    ledger: str | os.PathLike[str] | None = None,
    slot: str | None = None,
) -> GaussianRelease:
    """Release a noisy count of the rows of private data that a schema changes.

    A row counts if a cell, the target included, is clipped to its range, missing, or of no listed category. It counts
    too if the encoded row is beyond the norm bound. If many rows count, the ranges are too narrow. One record
    moves the count by at most 1, so the release is that of a `GaussianMechanism` with sensitivity 1. Its ε and δ add to
    those of other releases (`ndis.PrivacyProfile.compose`).

    Parameters
    ----------
    data, columns, header
        As for `Schema.table`.
    schema : Schema
    epsilon, delta : float
        The guarantee.
    row_norm_bound : float, optional
        The bound of other releases, if they state a smaller one than the schema.
    adjacency : {"add-remove", "replace-one"}
    progress : bool, optional
        Show a progress bar for files; by default when standard error is a terminal.
    random_state : optional
        None draws from the operating system. Anything else is reproducible, warns, and is not private.
    ledger, slot : optional
        Deprecated: count inside `ndis.Ledger.charge` of the same `GaussianMechanism`.

    Returns
    -------
    GaussianRelease
        `values` holds the count, `noise_variance` its variance, and `receipt` what is guaranteed.

    Examples
    --------
    >>> import ndis
    >>> schema = ndis.Schema({"age": (18, 90)})
    >>> release = ndis.mechanisms.rows.clipped_count({"age": [30, 95, 40, 12] * 1000}, schema, epsilon=1.0, delta=1e-6)
    >>> bool(1900 < release.values[0] < 2100), release.receipt.private
    (True, True)
    """
    bound = None if row_norm_bound is None else as_one_positive("row_norm_bound", row_norm_bound)
    table = open_for(schema, data, columns=columns, header=header, progress=progress)
    table.columns_of(schema, target=schema.target is not None)  # the last check of public things
    mechanism = GaussianMechanism.calibrated(epsilon=epsilon, delta=delta, sensitivity=1.0, adjacency=adjacency)

    def count() -> GaussianRelease:
        changed = changed_rows(schema, table, row_norm_bound=bound)
        release = mechanism.release([changed], random_state=random_state)
        parameters = {**release.receipt.parameters, "released": "number of rows that the schema changes"}
        return replace(release, receipt=replace(release.receipt, parameters=parameters, digest=""))

    return paid_by_argument(mechanism, count, ledger=ledger, slot=slot, random_state=random_state)
