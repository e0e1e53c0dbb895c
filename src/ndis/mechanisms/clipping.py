"""A noisy count of the rows that a schema changes."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from ndis._validate import as_one_positive
from ndis.data.schema import Schema
from ndis.data.schema.preview import changed_rows
from ndis.mechanisms.base import Adjacency, GaussianRelease
from ndis.mechanisms.gaussian import GaussianMechanism

__all__ = ["clipped_count"]


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
    """A noisy count of the rows that a schema changes, from private data, as a release of its own.

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
    ledger : path, optional
        The `ndis.Ledger` that pays. It reserves before data is read; a BudgetError says what is left.
    slot : str, optional
        The slot of a plan. For the other kinds a label, or None.

    Returns
    -------
    GaussianRelease
        `values` holds the count, `noise_variance` its variance, and `receipt` what is guaranteed.

    Examples
    --------
    >>> import ndis
    >>> schema = ndis.Schema({"age": (18, 90)})
    >>> release = ndis.clipped_count({"age": [30, 95, 40, 12] * 1000}, schema, epsilon=1.0, delta=1e-6)
    >>> bool(1900 < release.values[0] < 2100), release.receipt.private
    (True, True)
    """
    bound = None if row_norm_bound is None else as_one_positive("row_norm_bound", row_norm_bound)
    mechanism = GaussianMechanism.calibrated(epsilon=epsilon, delta=delta, sensitivity=1.0, adjacency=adjacency)

    def count() -> list[int]:
        how = {"columns": columns, "header": header, "progress": progress}
        return [changed_rows(schema, data, row_norm_bound=bound, **how)]

    release = mechanism.release_from(count, random_state=random_state, ledger=ledger, slot=slot)
    parameters = {**release.receipt.parameters, "released": "number of rows that the schema changes"}
    return replace(release, receipt=replace(release.receipt, parameters=parameters, digest=""))
