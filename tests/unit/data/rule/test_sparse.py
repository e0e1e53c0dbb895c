"""A sparse matrix is read entry by entry, whatever its indices say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

from ndis.data import open_table
from ndis.errors import ParameterError


def outside(kind: str) -> Any:
    """Return a matrix of two rows whose first or only foreign entry lies outside; cell (1, 1) holds 0.5."""
    half = np.array([0.5, 0.5])
    if kind == "coo":
        given: Any = scipy.sparse.coo_array((half, ([0, 1], [0, 1])), shape=(2, 2))
        given.col[0] = 2
    else:
        given = getattr(scipy.sparse, f"{kind}_array")((half, [2, 1], [0, 1, 2]), shape=(2, 2))
    return given


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
@pytest.mark.parametrize("collection", [False, True], ids=["memory", "dask"])
def test_an_entry_outside_a_sparse_matrix_writes_nowhere(kind: str, collection: bool) -> None:
    """SciPy checks no index, and its own conversion writes into the next row or into foreign memory."""
    from dask import array, delayed

    given = outside(kind)
    if collection:
        given = array.from_delayed(delayed(lambda: outside(kind))(), (2, 2), dtype=np.float64)
    (read,) = open_table(given).matrix().arrays()
    assert read.tolist() == [[0.0, 0.0], [0.0, 0.5]]


def test_a_sparse_matrix_is_refused_by_its_structure() -> None:
    falling = scipy.sparse.csr_array((np.ones(3), [0, 1, 0], [0, 3, 1, 3]), shape=(3, 2))
    with pytest.raises(ParameterError, match="indptr never falls"):
        open_table(falling)
    for kind in ("bsr", "lil", "dok", "dia"):
        with pytest.raises(ParameterError, match="in CSR, CSC or COO"):
            open_table(scipy.sparse.eye_array(2, format=kind))
    with pytest.raises(ParameterError, match="got dtype complex128"):
        open_table(scipy.sparse.csr_array((0, 2), dtype=complex))


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_blocks_of_dask_side_by_side_are_not_joined_by_scipy(kind: str, width: int) -> None:
    """SciPy would convert blocks to one format, and write wherever their indices lead."""
    from dask import array, delayed

    rows = np.array([[0.5, 0.0, 1.0], [0.0, 0.0, 2.0], [0.0, 3.0, 0.0], [4.0, 0.0, 5.0]])

    def block(i: int, j: int) -> Any:
        made = getattr(scipy.sparse, f"{kind}_array")(rows[i : i + 2, j : j + width])
        if i == j == 0:  # the entry of cell (0, 0) lies outside
            (made.col if kind == "coo" else made.indices)[0] = 3
        return made

    def lazy(i: int, j: int) -> Any:
        return array.from_delayed(delayed(block)(i, j), rows[i : i + 2, j : j + width].shape, dtype=float)

    (read,) = open_table(array.block([[lazy(i, j) for j in range(0, 3, width)] for i in (0, 2)])).matrix().arrays()
    rows[0, 0] = 0.0
    assert read.tolist() == rows.tolist()
