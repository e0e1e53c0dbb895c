"""What a first use runs into: notes, refusals that say what to do, and receipts that can be read."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from sklearn.gaussian_process import kernels
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from typer.testing import CliRunner

import ndis
from ndis._exact import exact_array
from ndis.cli import app
from ndis.errors import ParameterError
from ndis.learn import PrivateCovariance, PrivateGaussianProcess, PrivateLogisticRegression, PrivateRidge
from ndis.mechanisms.base import Receipt
from ndis.models import BohningLogistic, GaussianProcess
from ndis.worst_case.envelopes import RankOneEnvelope

BUDGET = ("--epsilon", "1", "--delta", "1e-6", "--row-norm-bound", "3")
SKETCH = (*BUDGET, "--sketch-size", "5")
NOTE = "note: in CSV a cell that is not a number empties its whole row; name the numeric columns with --columns\n"
ALL_COLUMNS = (
    "note: without --header every line of a CSV file is a record and --columns names all its columns, in order\n"
)
FLOATS = "exact draw, law computed in floats"


def run(*args):
    return CliRunner().invoke(app, [str(a) for a in args], prog_name="ndis")


class TestCommandLine:
    @pytest.mark.parametrize("rows", ["1,2\n3,4\n", "1,x\n", ""], ids=["numbers", "text", "none"])
    @pytest.mark.parametrize("name", ["records.csv", "RECORDS.CSV", "folder"])
    def test_the_note_on_csv_depends_on_names_and_options_alone(self, tmp_path, rows, name):
        (tmp_path / "folder").mkdir()
        (tmp_path / ("folder/part.csv" if name == "folder" else name)).write_text("age,bmi\n" + rows)
        data = tmp_path / name
        bare = run("sketch", data, "--header", *SKETCH, "-o", tmp_path / "out")
        assert (bare.exit_code, bare.stderr) == (0, NOTE)
        named = run("sketch", data, "--header", *SKETCH, "--columns", "age, bmi", "-o", tmp_path / "named")
        assert (named.exit_code, named.stderr) == (0, "")
        sketch = ("--method", "sketch", "--sketch-size", 5)
        regress = ("regress", data, *BUDGET, "--target", "bmi", "--target-bound", 4, *sketch)
        for options, note in ((["--header"], NOTE), (["--columns", "age,bmi"], ALL_COLUMNS)):
            found = run(*regress, *options)
            assert (found.exit_code, found.stderr) == (0, note)

    def test_no_note_without_csv(self, tmp_path):
        np.save(tmp_path / "records.npy", np.zeros((3, 2)))
        assert run("sketch", tmp_path / "records.npy", *SKETCH, "-o", tmp_path / "out").stderr == ""

    def test_a_name_with_a_space_is_still_found(self, tmp_path):
        (tmp_path / "records.csv").write_text("age, bmi\n1,2\n")
        for columns in ("age, bmi", "age,bmi"):
            args = ("sketch", tmp_path / "records.csv", "--header", *SKETCH, "--columns", columns)
            found = run(*args, "-o", tmp_path / columns)
            assert found.exit_code == (0 if columns == "age, bmi" else 2)

    def test_what_is_wrong_with_the_output(self, tmp_path):
        (tmp_path / "records.csv").write_text("age\n1\n")
        args = ("sketch", tmp_path / "records.csv", *SKETCH, "-o")
        assert "-o must be a new folder; got" in run(*args, tmp_path).stderr
        assert "which exists" in run(*args, tmp_path).stderr
        assert "-o must lie in an existing folder; got" in run(*args, tmp_path / "no" / "out").stderr


class TestTargetTypes:
    def text(self):
        import pandas as pd
        import polars as pl

        words = ["1", "2", "x"]
        return {
            "unicode": np.array(words),
            "bytes": np.array(words, dtype="S"),
            "string": pd.Series(words, dtype="string"),
            "category": pd.Series([1, 2, 3], dtype="category"),
            "object": pd.Series([1, 2, "x"], dtype=object),
            "frame": pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": words}),
            "polars": pl.Series(words),
        }

    @pytest.mark.parametrize("kind", ["unicode", "bytes", "string", "category", "object", "frame", "polars"])
    def test_text_is_refused_by_its_type(self, kind):
        message = r"^y must hold real numbers; got (dtype .*|text|bytes); convert it first"
        with pytest.raises(ParameterError, match=message):
            PrivateRidge(row_norm_bound=1.0, target_bound=1.0).fit(np.zeros((3, 1)), self.text()[kind])

    def test_numbers_lists_and_objects_are_read(self):
        import pandas as pd
        import polars as pl

        for y in (
            [1, "x", None],
            np.array([1, "x", None], dtype=object),
            pd.Series([1, None, 3], dtype="Int64"),
            pd.DataFrame({"a": [1.0, 2.0, 3.0]}),
            pl.Series([True, False, True]),
            np.array([True, False, True]),
        ):
            model = PrivateRidge(row_norm_bound=1.0, target_bound=1.0, sketch_size=5).fit(np.zeros((3, 1)), y)
            assert np.isfinite(model.coef_).all()


def mean_of(law):
    """A model with this law."""

    class Model:
        def distribution(self, data):
            return law(data)

        def sensitivity(self, noise_variance):
            return RankOneEnvelope(shift_bound=0.01 / math.sqrt(noise_variance), ratio_bound=0.0)

    return ndis.lift(Model(), epsilon=1.0, delta=1e-5)


def rebuilt(found):
    """The kernel of a receipt."""
    if isinstance(found, dict):
        return getattr(kernels, found["kernel"])(**{name: rebuilt(each) for name, each in found["parameters"].items()})
    return found


class TestReceipts:
    def test_a_model_can_be_rebuilt_from_its_receipt(self):
        kernel = 0.7 * RBF([1 / 3, 2.0]) + WhiteKernel(0.1)
        query = np.random.default_rng(0).uniform(size=(5, 2)) / 3
        model = GaussianProcess(
            kernel=kernel,
            noise_variance=25.0,
            label_bound=1.0,
            prior_variance_bound=1.0,
            query=query,
            max_records=3,
        )
        mechanism = ndis.lift(model, epsilon=1.0, delta=1e-5)
        receipt = mechanism.release(([[0.0, 0.0]], [1.0])).receipt
        again = Receipt.from_json(receipt.to_json())
        written = again.parameters["model"]
        assert again == receipt
        np.testing.assert_array_equal(written["query"], query)
        found = rebuilt(written["kernel"])
        np.testing.assert_array_equal(found(query), kernel(query))
        np.testing.assert_array_equal(found.bounds, kernel.bounds)
        assert written["max_records"] == 3

    def test_long_arrays_are_written_whole(self):
        from ndis.mechanisms.lifted import _plain

        long = np.random.default_rng(0).uniform(size=(400, 4))
        np.testing.assert_array_equal(json.loads(json.dumps(_plain(long))), long)
        odd = [np.float64(0.1), math.nan, (1, None), np.array(2), Fraction(1, 3), np.bool_(True)]
        assert _plain(np.longdouble(1.5)) == repr(np.longdouble(1.5))
        assert json.loads(json.dumps(_plain(odd), allow_nan=False)) == [
            0.1,
            "nan",
            [1, None],
            2,
            "Fraction(1, 3)",
            True,
        ]

    @pytest.mark.parametrize(
        ("law", "said"),
        [
            (lambda data: ([0.5], [[0.0]]), FLOATS),
            (lambda data: (np.array([0.5]), exact_array([[0]])), FLOATS),
            (lambda data: (exact_array([Fraction(1, 3)]), exact_array([[0]])), "exact"),
        ],
    )
    def test_whether_the_law_was_exact(self, law, said):
        receipt = mean_of(law).release(None).receipt
        assert receipt.arithmetic == said
        assert Receipt.from_json(receipt.to_json()) == receipt

    def test_the_receipt_does_not_tell_an_empty_data_set(self):
        """sum([]) is the integer 0, other sums are floats."""
        mechanism = mean_of(lambda data: ([sum(data)], [[0]]))
        found = [mechanism.release(data).receipt for data in ([], [0.25])]
        assert found[0].digest != found[1].digest  # of the released values, which differ from draw to draw
        assert replace(found[0], digest="") == replace(found[1], digest="")

    def test_other_arithmetic_is_refused(self):
        receipt = Receipt("M", {}, 1.0, 1e-6, "add-remove", private=True, arithmetic="floats")
        with pytest.raises(ParameterError, match="arithmetic of the receipt must be 'exact' or 'exact draw, law"):
            Receipt.from_json(receipt.to_json())

    @pytest.mark.parametrize("classes", [None, (0, 1)])
    def test_whether_classes_were_stated(self, classes):
        model = PrivateLogisticRegression(
            row_norm_bound=1.0, method="posterior", l2_penalty=20.0, bound="renyi", classes=classes
        )
        model.fit([[0.0], [0.5]], [0, 1])
        assert model.receipt_.parameters["classes_stated"] is (classes is not None)
        assert model.receipt_.arithmetic == "exact"
        assert model.release_.receipt is model.receipt_


def test_the_mean_may_be_a_number_in_one_dimension():
    assert mean_of(lambda data: (0.5, [[0.0]])).release(None).values.shape == (1,)
    with pytest.raises(ParameterError, match="shape"):
        mean_of(lambda data: (0.5, np.eye(2))).release(None)


def test_the_estimator_takes_the_better_analysis():
    given = {"label_bound": 1.0, "max_records": 5, "noise_variance": 25.0, "release": "draw"}
    data = [[0.0]], [0.5]
    better, prior = (PrivateGaussianProcess(**given, **more).fit(*data) for more in ({}, {"analysis": "prior"}))
    assert better.receipt_.parameters["model"]["analysis"] == "posterior"
    assert better.mechanism_.noise_variance < prior.mechanism_.noise_variance


PUBLIC = {"noise_variance": 1.0, "label_bound": 1.0, "max_records": 2, "query": [[0.0]]}


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (
            lambda: ndis.RandomProjection.calibrated(epsilon=1, delta=1e-6, sketch_size=5, row_norm_bound=None),
            r"^row_norm_bound must be a positive number; got None; state what is known .*, and rows beyond it are",
        ),
        (lambda: BohningLogistic(l2_penalty=0.0, row_norm_bound=1.0), r"^l2_penalty must be positive; got 0\.0$"),
        (lambda: ndis.lift(None, epsilon="1", delta=1e-6), r"^epsilon must be a real number; got '1'$"),
        (lambda: ndis.lift(None, epsilon=None, delta=1e-6), r"^epsilon must be a real number; got None$"),
        (lambda: PrivateGaussianProcess(max_records=2).fit([[0.0]], [1.0]), "and labels beyond it are clipped$"),
        (lambda: PrivateRidge(row_norm_bound=1.0).fit([[0.0]], [1.0]), "and targets beyond it are clipped$"),
        (lambda: PrivateCovariance(row_norm_bound=1.0, records=-1).fit([[0.0]]), r"would leak it\)$"),
        (
            lambda: GaussianProcess(kernel=4.0 * RBF(), prior_variance_bound=2.0, **PUBLIC),
            r"^query must hold points of prior variance at most 2\.0; got 4\.0; state a prior_variance_bound",
        ),
        (
            lambda: PrivateLogisticRegression(row_norm_bound=1.0, method="posterior").fit([[0.0]] * 3, [0, 1, 2]),
            r"^y must have two classes; got more \(Only binary classification is supported\); [^.]*$",
        ),
    ],
)
def test_refusals_say_what_to_do(action, said):
    with pytest.raises(ParameterError, match=said):
        action()


def test_picture_of_sketch_sizes():
    import matplotlib

    matplotlib.use("agg")
    from matplotlib.figure import Figure

    table = ndis.choose_sketch_size(epsilon=1, delta=1e-6, row_norm_bound=1, columns=2, sketch_sizes=[20, 40])
    ax = table.plot(Figure().subplots())
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("sketch size", "spectral norm")
    assert not ax.get_legend().get_frame_on()
    assert not ax.spines["top"].get_visible()
    assert not ax.spines["right"].get_visible()
