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
    if kind in ("csr", "csc"):
        given: Any = getattr(scipy.sparse, f"{kind}_array")((half, [2, 1], [0, 1, 2]), shape=(2, 2))
    elif kind == "bsr":
        given = scipy.sparse.bsr_array((np.array([[[0.5, 0.5]], [[0.0, 0.5]]]), [7, 0], [0, 1, 2]), shape=(2, 2))
    else:
        given = scipy.sparse.coo_array((half, ([0, 1], [0, 1])), shape=(2, 2)).asformat(kind)
        if kind == "coo":
            given.col[0] = 2
        elif kind == "lil":
            given.rows[0] = [2]
        elif kind == "dok":
            given._dict = {(0, 2): 0.5, (1, 1): 0.5}
        else:
            given.offsets, given.data = np.array([2**30, 0]), np.array([[0.5, 0.5], [0.0, 0.5]])
    return given


@pytest.mark.parametrize("kind", ["csr", "csc", "bsr", "coo", "lil", "dok", "dia"])
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
    with pytest.raises(ParameterError, match="got dtype complex128"):
        open_table(scipy.sparse.csr_array((0, 2), dtype=complex))
