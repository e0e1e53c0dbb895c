"""Tables as data of an audit: frames, files, targets."""

from __future__ import annotations

import numpy as np
import pytest

from helpers.audits import CLAIM
from ndis.auditing import DataSet, ProjectionLaw, Search, audit
from ndis.errors import ParameterError
from ndis.pair import GaussianPair

SHIFT = GaussianPair.from_ratios(1.0, shift=2.0)
ROWS = np.array([[0.0, 1.0], [1.0, 0.0], [0.6, 0.8], [-0.8, 0.6], [0.1, -0.2]])


def noisy_sum(variance: float):
    return lambda data: (data.sum(axis=0), np.full(2, variance))


def test_frames_and_files_are_read_as_arrays_are(tmp_path):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = {"a": ROWS[:, 0], "b": ROWS[:, 1]}
    pandas.DataFrame({**columns, "name": list("vwxyz")}).to_csv(tmp_path / "rows.csv", index=False)
    pandas.DataFrame(ROWS).to_csv(tmp_path / "bare.csv", index=False, header=False)
    given = Search(seconds=0)
    whole = audit(CLAIM, algorithm=noisy_sum(1.0), data=ROWS, search=given)
    for data, how in (
        (pandas.DataFrame(columns), {}),
        (polars.DataFrame(columns), {}),
        (pandas.DataFrame({**columns, "name": list("vwxyz")}), {"columns": ["a", "b"]}),
        (str(tmp_path / "rows.csv"), {"header": True, "columns": ["a", "b"]}),
        (tmp_path / "bare.csv", {"columns": ["a", "b"]}),
    ):
        found = audit(CLAIM, algorithm=noisy_sum(1.0), data=DataSet(data, **how), search=given)
        assert found.witness.enclosure == whole.witness.enclosure
        assert found.witness.neighbours == whole.witness.neighbours
    assert audit(CLAIM, algorithm=noisy_sum(1.0), data=polars.DataFrame(columns), search=given).pairs_tried == 5
    with pytest.raises(ParameterError, match="header"):
        audit(CLAIM, algorithm=noisy_sum(1.0), data=tmp_path / "rows.csv")


def test_targets_are_split_off():
    pandas = pytest.importorskip("pandas")
    seen = []

    def algorithm(data):
        seen.append(data)
        return data[0].T @ data[1], np.full(1, 100.0)

    frame = pandas.DataFrame({"x": ROWS[:, 0], "y": ROWS[:, 1]})
    audit(CLAIM, algorithm=algorithm, data=DataSet(frame, targets=["y"]))
    x, y = seen[0]
    assert x.shape == (5, 1)
    assert y.tolist() == ROWS[:, 1].tolist()
    audit(CLAIM, algorithm=algorithm, data=(frame[["x"]], frame["y"]), search=Search(seconds=0))
    assert seen[-1][1].shape == (4,) or seen[-1][1].shape == (5,)


def test_a_projection_is_audited_on_a_csv_file(tmp_path):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame(ROWS, columns=["a", "b"]).to_csv(tmp_path / "rows.csv", index=False)
    law = ProjectionLaw(sketch_size=50, ridge=20.0, row_norm_bound=1.0)
    from_array = audit(CLAIM, mechanism=law, data=ROWS)
    from_file = audit(CLAIM, mechanism=law, data=DataSet(str(tmp_path / "rows.csv"), header=True))
    assert from_file.pairs_tried == from_array.pairs_tried == 1 + 6
    assert from_file.witness.enclosure == from_array.witness.enclosure
    with pytest.raises(ParameterError, match="header"):
        audit(CLAIM, mechanism=law, data=str(tmp_path / "rows.csv"))


def test_a_column_without_numbers_is_named_and_no_cell_is_quoted(tmp_path):
    """The first line of a CSV file may be a record after all, so its columns are counted."""
    path = tmp_path / "people.csv"
    path.write_text("age,town\n0.5,Ravenna\n0.25,Ferrara\n")
    with pytest.raises(ParameterError, match="no numbers, in column 2 of 2; leave out columns of text") as error:
        DataSet(path, header=True).rows()
    assert "Ravenna" not in str(error.value)
    with pytest.raises(ParameterError, match=r"^targets of data must be finite; .* in column 1 of 1"):
        DataSet(path, header=True, targets=["town"]).rows()
    frame = pytest.importorskip("pandas").DataFrame({"age": [0.5, 0.1], "height": [1.0, np.inf]})
    with pytest.raises(ParameterError, match="no numbers, in column 'height'"):
        DataSet(frame).rows()
