"""Read sparse matrices entry by entry, whatever their indices say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ndis._validate import require
from ndis.data.cells import kind_of, kind_of_array
from ndis.data.table import Groups, Parts, Table, matrix_width, pick, rows_per_read
from ndis.errors import ParameterError


def sparse_table(x: Any) -> Table:
    """Open a matrix of SciPy, which is made dense block by block.

    SciPy does not check the indices of a matrix, and its conversions write wherever they lead. Here an entry outside
    the matrix counts as none. A cell adds its entries up in their stored order. SciPy sorts all rows first if one of
    them is not sorted, and sums of floats depend on the order: one record would change the others.
    """
    from scipy.sparse import issparse

    csr = issparse(x) and x.format == "csr"
    require(csr, "data", "be a SciPy sparse matrix in CSR", type(x).__name__, "write data.tocsr()")
    count, width = x.shape[0], matrix_width(x.shape)
    if x.dtype.kind not in "fiub" or x.dtype.itemsize > 8:
        raise ParameterError("data", "hold real numbers of at most 64 bits", kind_of(x.dtype))
    ends, columns, values = x.indptr, x.indices, x.data
    # Records have entries or none: no records make such a matrix.
    require((np.diff(ends) >= 0).all(), "data", "be a sparse matrix whose indptr never falls", "another")
    step = rows_per_read(width)

    def rows(groups: Groups) -> Iterator[Parts]:
        """Give dense blocks of rows; entries beyond the width of the matrix are left out."""
        for start in range(0, count, step):
            cuts = ends[start : start + step + 1]
            place, these = np.repeat(np.arange(len(cuts) - 1), np.diff(cuts)), slice(cuts[0], cuts[-1])
            inside = (columns[these] >= 0) & (columns[these] < width)
            dense = np.zeros((len(cuts) - 1, width), dtype=x.dtype)
            with np.errstate(all="ignore"):  # which is of this thread only
                np.add.at(dense, (place[inside], columns[these][inside].astype(np.intp)), values[these][inside])
            yield tuple(pick(dense, group) for group in groups)

    return Table((frozenset({kind_of_array(x.dtype)}),) * width, None, rows)
