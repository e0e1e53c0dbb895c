"""Dask collections: the bits of one machine, also when a worker dies in the middle."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import cloudpickle
import dask.array
import dask.dataframe
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster

from ndis.errors import ParameterError
from ndis.gram import exact_gram, leverage, worst_row

OPTIONS = {"row_norm_bound": 1.5, "targets": [3], "target_bound": 0.5, "intercept": 1.0}


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6000, 4)) * 10.0 ** rng.uniform(-3, 2, size=(6000, 1))
    x[10, 1], x[12, 0] = np.nan, 1e308
    return x


def partition(rows: np.ndarray, marker: str) -> np.ndarray:
    """Pass a block through; kill the worker that first meets the marker."""
    if not os.path.exists(marker):
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return rows
        time.sleep(0.5)  # let other tasks finish on this worker, so that their results are lost too
        os.kill(os.getpid(), signal.SIGKILL)
    return rows


def test_local_schedulers(rows: np.ndarray) -> None:
    expected = exact_gram(rows, **OPTIONS)
    array = dask.array.from_array(rows, chunks=(700, 3))
    frame = dask.dataframe.from_pandas(pd.DataFrame(rows, columns=list("abcy")), npartitions=5)
    with dask.config.set(scheduler="threads"):
        assert exact_gram(array, **OPTIONS) == expected
        from_frame = exact_gram(frame, **OPTIONS | {"targets": "y"})
        assert np.array_equal(from_frame.integers, expected.integers)
        assert from_frame.layout.names == ("a", "b", "c", "y", "intercept")
        worst = worst_row(array, expected, ridge=1.0, targets=[3])
        scores = np.concatenate(list(leverage(array, expected, ridge=1.0, targets=[3])))
    on_host = worst_row(rows, expected, ridge=1.0, targets=[3])
    assert worst is not None
    assert on_host is not None
    assert worst.index == on_host.index == scores.argmax()


def test_bad_collections_are_refused(rows: np.ndarray) -> None:
    text = dask.dataframe.from_pandas(pd.DataFrame({"a": [1.0], "name": ["x"]}), npartitions=1)
    with pytest.raises(ParameterError, match="column 'name' must hold real numbers; got a type of dask"):
        exact_gram(text, row_norm_bound=1.0)
    with pytest.raises(ParameterError, match="two-dimensional dask array"):
        exact_gram(dask.array.zeros(3), row_norm_bound=1.0)
    with pytest.raises(ParameterError, match="device must be left out"):
        exact_gram(dask.array.zeros((3, 3)), row_norm_bound=1.0, device="cuda")
    with pytest.raises(ParameterError, match="header must be left out"):
        exact_gram(dask.array.zeros((3, 3)), row_norm_bound=1.0, header=True)


@pytest.mark.parametrize("columns", [["b", "a"], ["a"], ["a", "b", "c"]])
def test_partitions_of_other_columns_are_refused(columns: list[str]) -> None:
    part = dask.delayed(lambda: pd.DataFrame({name: [0.5] for name in columns}))()
    declared = pd.DataFrame({"a": [0.5], "b": [0.5]})[:0]
    frame = dask.dataframe.from_delayed([part], meta=declared, verify_meta=False)
    with dask.config.set(scheduler="synchronous"), pytest.raises(ParameterError, match="the columns it declares"):
        exact_gram(frame, row_norm_bound=1.0)


@pytest.mark.filterwarnings("ignore")
def test_cluster_of_processes_whole_and_with_a_worker_lost(rows: np.ndarray, tmp_path: Path) -> None:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the workers cannot import this file by its name
    expected = exact_gram(rows, **OPTIONS)
    marker = tmp_path / "a worker died here"
    array = dask.array.from_array(rows, chunks=(200, 4))
    with (
        LocalCluster(n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.wait_for_workers(3)
        assert exact_gram(array, **OPTIONS) == expected
        assert exact_gram(array.map_blocks(partition, marker=str(marker), meta=rows[:0]), **OPTIONS) == expected
    assert marker.exists()
