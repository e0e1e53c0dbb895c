"""Inputs on which the release engine once rounded, leaked or broke."""

from __future__ import annotations

import threading
import warnings

import flint
import numpy as np
import pytest

from ndis._exact import exact_array
from ndis.errors import ParameterError, PrecisionError
from ndis.gram import exact_gram, worst_row
from ndis.sampling import exact_normal


@pytest.mark.parametrize("other", [0.5, -1, 1])
def test_entries_of_a_list_do_not_change_each_other(other: float) -> None:
    for large in (2**53 + 1, 2**63 + 1):
        exact = exact_array([large, other])
        assert exact.numerators[0] == large * exact.denominator


def test_wide_floats_are_refused_before_their_values_matter() -> None:
    pandas = pytest.importorskip("pandas")
    for value in ("0.5", "1e400"):
        frame = pandas.DataFrame({"a": np.array([np.longdouble(value)])})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(ParameterError, match="a"):
                exact_gram(frame, row_norm_bound=1.0)


def test_values_beyond_the_range_of_integers_as_floats() -> None:
    sample = exact_normal([1.0], noise_std=2.0**200, grid=2.0**-900)
    assert np.isfinite(sample.values).all()


def test_threads_do_not_disturb_the_precision() -> None:
    before = flint.ctx.prec

    def run() -> None:
        for i in range(4):
            exact_normal(np.zeros(5), noise_std=1.0, grid=2.0 ** -(50 + 100 * i))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert flint.ctx.prec == before


def test_csv_headers_and_cells(tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "rows.csv"
    path.write_bytes("é,b\n0.5,0.5\n".encode("latin-1"))
    with pytest.raises(ParameterError, match="column names in UTF-8"):
        exact_gram(path, row_norm_bound=1.0, header=True)
    path.write_bytes(b"a,b\n0.5,x\n1_0,0.25\n0.25,0.5\n")
    alone = exact_gram(np.array([[0.25, 0.5]]), row_norm_bound=1.0)
    assert np.array_equal(exact_gram(path, row_norm_bound=1.0, header=True).integers, alone.integers)


def test_leverage_refuses_what_floats_cannot_factor() -> None:
    rows = np.ones((100, 3)) * 0.3
    with pytest.raises(PrecisionError, match="larger ridge"):
        worst_row(rows, exact_gram(rows, row_norm_bound=1.0), ridge=1e-20)
