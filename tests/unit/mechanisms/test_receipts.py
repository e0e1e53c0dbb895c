"""A receipt is bound to the values it was given out with."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from sklearn.gaussian_process import kernels
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

import ndis
from helpers.models import mean_of
from ndis._exact import exact_array
from ndis.errors import NotPrivateWarning, ParameterError
from ndis.learn import PrivateLogisticRegression
from ndis.mechanisms.mechanism import Receipt
from ndis.mechanisms.releases import GaussianRelease, ProjectionRelease
from ndis.models import GaussianProcess
from ndis.pages.text import plain

MECHANISM = ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, sketch_size=20, row_norm_bound=1.0)
NOISE = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)


def sketch(folder, **options):
    release = MECHANISM.release(np.eye(2), **options)
    release.save(folder)
    return folder / "receipt.json", lambda: ProjectionRelease.load(folder)


def draw(folder, **options):
    folder.mkdir()
    NOISE.release(np.zeros(2), **options).save(folder / "release.json")
    return folder / "release.json", lambda: GaussianRelease.load(folder / "release.json")


both = pytest.mark.parametrize("made", [sketch, draw])


def edited(file, **changes):
    found = json.loads(file.read_text())
    receipt = found.get("receipt", found)
    receipt |= changes
    file.write_text(json.dumps(found))


@both
def test_a_seeded_release_cannot_be_declared_private(made, tmp_path):
    with pytest.warns(NotPrivateWarning):
        file, load = made(tmp_path / "seeded", random_state=1)
    assert not load().receipt.private
    edited(file, private=True)
    with pytest.raises(ParameterError, match="receipt must belong to the values released with it"):
        load()
    edited(file, digest="")
    with pytest.raises(ParameterError, match="digest of the receipt must be there for a release that is private"):
        load()
    found = json.loads(file.read_text())
    del found.get("receipt", found)["digest"]
    file.write_text(json.dumps(found))
    with pytest.raises(ParameterError, match="digest of the receipt must be there for a release that is private"):
        load()
    edited(file, private=False)  # so a release was saved before there was a digest
    assert not load().receipt.private


@both
@pytest.mark.parametrize(
    "change", [{"version": "9.9"}, {"digest": "0" * 64}, {"arithmetic": "exact draw, law computed in floats"}]
)
def test_a_receipt_that_was_changed(made, tmp_path, change):
    file, load = made(tmp_path / "kept")
    load()
    edited(file, **change)
    with pytest.raises(ParameterError, match="receipt must belong to the values released with it"):
        load()


@pytest.mark.parametrize("digest", [3, None, "x", "0" * 63, "G" * 64, "0" * 64 + chr(10)])
def test_a_digest_is_text_of_one_form(tmp_path, digest):
    file, load = sketch(tmp_path / "kept")
    edited(file, digest=digest)
    with pytest.raises(ParameterError, match="digest of the receipt must be"):
        load()


def test_the_receipt_of_another_sketch(tmp_path):
    """Both are private, of the same mechanism: only the digest tells them apart."""
    (first, load), (second, _) = sketch(tmp_path / "first"), sketch(tmp_path / "second")
    shutil.copy(second, first)
    with pytest.raises(ParameterError, match="receipt must belong"):
        load()


def test_every_value_of_the_sketch_is_bound(tmp_path):
    _, load = sketch(tmp_path / "kept")
    file = tmp_path / "kept" / "sketch.npz"
    arrays = dict(np.load(file))
    nudged = arrays["sketch"].copy()
    nudged[3, 1] = np.nextafter(nudged[3, 1], np.inf)
    for change in ({"sketch": nudged}, {"names": np.array(["a", "b"])}, {"sketch": arrays["sketch"][::-1]}):
        np.savez(file, **arrays | change)
        with pytest.raises(ParameterError, match="receipt must belong"):
            load()
    np.savez_compressed(file, **arrays)  # the same values in other bytes
    assert load().sketch.tolist() == arrays["sketch"].tolist()


def test_in_memory_as_on_disk():
    release = MECHANISM.release(np.eye(2))
    assert len(release.receipt.digest) == 64
    with pytest.raises(ParameterError, match="receipt must belong"):
        replace(release, sketch=release.sketch + 1.0)
    with pytest.raises(ParameterError, match="receipt must belong"):
        replace(release, receipt=replace(release.receipt, epsilon=0.5))
    assert Receipt.from_json(release.receipt.to_json()) == release.receipt


def test_an_estimator_has_the_receipt_of_its_release(tmp_path):
    model = PrivateLogisticRegression(
        epsilon=1.0, delta=1e-5, method="mean", l2_penalty=20.0, row_norm_bound=1.0, classes=[0, 1]
    )
    model.fit(np.array([[0.5], [-0.5]]), [0, 1])
    model.release_.save(tmp_path / "release.json")
    assert GaussianRelease.load(tmp_path / "release.json").receipt == model.receipt_


FLOATS = "exact draw, law computed in floats"


def rebuilt(found):
    """The kernel of a receipt."""
    if isinstance(found, dict):
        return getattr(kernels, found["kernel"])(**{name: rebuilt(each) for name, each in found["parameters"].items()})
    return found


class TestReceipts:
    @pytest.mark.parametrize("epsilon", [1.0000004, 0.42461049, 1e-7])
    def test_words_do_not_round_a_guarantee_down(self, epsilon):
        said = Receipt("M", {}, epsilon, epsilon / 1e3, "add-remove", private=True).words
        assert said == f"({plain(epsilon)}, {plain(epsilon / 1e3)})-differentially private, add-remove"

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
        receipt = mechanism.release((np.zeros((1, 2)), [1.0])).receipt
        again = Receipt.from_json(receipt.to_json())
        written = again.parameters["model"]
        assert again == receipt
        np.testing.assert_array_equal(written["query"], query)
        found = rebuilt(written["kernel"])
        np.testing.assert_array_equal(found(query), kernel(query))
        np.testing.assert_array_equal(found.bounds, kernel.bounds)
        assert written["max_records"] == 3

    def test_long_arrays_are_written_whole(self):
        from ndis.mechanisms.lifted import _json_value

        long = np.random.default_rng(0).uniform(size=(400, 4))
        np.testing.assert_array_equal(json.loads(json.dumps(_json_value(long))), long)
        odd = [np.float64(0.1), math.nan, (1, None), np.array(2), Fraction(1, 3), np.bool_(True)]
        assert _json_value(np.longdouble(1.5)) == repr(np.longdouble(1.5))
        assert json.loads(json.dumps(_json_value(odd), allow_nan=False)) == [
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
        model.fit(np.array([[0.0], [0.5]]), [0, 1])
        assert model.receipt_.parameters["classes_stated"] is (classes is not None)
        assert model.receipt_.arithmetic == "exact"
        assert model.release_.receipt is model.receipt_
