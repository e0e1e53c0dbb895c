"""A sparse matrix is read entry by entry, whatever its indices say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

from ndis.data import open_table
from ndis.errors import ParameterError


def outside() -> Any:
    """Return a matrix of two rows whose first entry lies outside; cell (1, 1) holds 0.5."""
    return scipy.sparse.csr_array((np.array([0.5, 0.5]), [2, 1], [0, 1, 2]), shape=(2, 2))


def test_an_entry_outside_a_sparse_matrix_writes_nowhere() -> None:
    """SciPy checks no index, and its own conversion writes into the next row or into foreign memory."""
    (read,) = open_table(outside()).matrix().arrays()
    assert read.tolist() == [[0.0, 0.0], [0.0, 0.5]]


def test_a_sparse_matrix_is_refused_by_its_structure() -> None:
    falling = scipy.sparse.csr_array((np.ones(3), [0, 1, 0], [0, 3, 1, 3]), shape=(3, 2))
    with pytest.raises(ParameterError, match="indptr never falls"):
        open_table(falling)
    for kind in ("csc", "coo", "bsr", "lil", "dok", "dia"):
        with pytest.raises(ParameterError, match="in CSR"):
            open_table(scipy.sparse.eye_array(2, format=kind))
    with pytest.raises(ParameterError, match="got dtype complex128"):
        open_table(scipy.sparse.csr_array((0, 2), dtype=complex))


def test_sparse_blocks_of_dask_are_refused_whatever_they_hold() -> None:
    """SciPy would join them, and write wherever their indices lead."""
    from dask import array, delayed

    for block in (outside(), scipy.sparse.csr_array((2, 2))):
        given = array.from_delayed(delayed(lambda block=block: block)(), (2, 2), dtype=np.float64)
        with pytest.raises(ParameterError, match="got a task that failed"):
            open_table(given).matrix().arrays()
