"""A receipt is bound to the values it was given out with."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

import ndis
from ndis.errors import NotPrivateWarning, ParameterError
from ndis.learn import PrivateLogisticRegression
from ndis.mechanisms.base import GaussianRelease, Receipt
from ndis.mechanisms.release import ProjectionRelease

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
    model.fit([[0.5], [-0.5]], [0, 1])
    model.release_.save(tmp_path / "release.json")
    assert GaussianRelease.load(tmp_path / "release.json").receipt == model.receipt_
