"""Sketches on disk: they come back, nothing is overwritten, and nothing else is loaded."""

from __future__ import annotations

import copy
import errno
import io
import json
import math
import os
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

import ndis
from helpers.sketches import PLAIN, PUBLIC, each
from ndis.errors import ParameterError
from ndis.mechanisms.releases import ProjectionRelease

RNG = np.random.default_rng(0)
OTHER = PUBLIC | {"sketch_size": 20}
LOOSE = ndis.PTRProjection.calibrated(**OTHER | {"delta": 1e-3}, test_noise_std=6.0)


@each
def test_a_release_comes_back_from_its_folder(mechanism, tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(RNG.normal(size=(20, 2)), columns=["width", "höhe"])
    release = mechanism.release(frame)
    release.save(tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["receipt.json", "sketch.npz"]
    again = ProjectionRelease.load(tmp_path / "out")
    assert np.array_equal(again.sketch, release.sketch)
    assert (again.mechanism, again.ridge, again.names, again.targets) == (
        mechanism,
        release.ridge,
        ("width", "höhe"),
        0,
    )
    assert again.receipt == release.receipt
    assert again.error_bound() == release.error_bound()


def test_saving_never_overwrites_or_leaves_half(tmp_path, monkeypatch):
    release = PLAIN.release(np.eye(2))
    release.save(tmp_path / "out")
    before = (tmp_path / "out" / "receipt.json").read_bytes()
    with pytest.raises(ParameterError, match="be a new folder"):
        release.save(tmp_path / "out")
    with pytest.raises(ParameterError, match="lie in an existing folder"):
        release.save(tmp_path / "nowhere" / "out")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ParameterError, match="No space left"):
        release.save(tmp_path / "second")
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out" / "receipt.json").read_bytes() == before


def test_what_is_no_release_is_not_loaded(tmp_path):
    release = PLAIN.release(np.eye(2))

    def spoilt(name: str, **changes) -> Path:
        place = tmp_path / name
        release.save(place)
        receipt = json.loads((place / "receipt.json").read_text())
        receipt["parameters"] |= changes.pop("parameters", {})
        (place / "receipt.json").write_text(json.dumps(receipt | changes))
        return place

    assert ProjectionRelease.load(spoilt("fine")).mechanism == PLAIN
    for place in (
        tmp_path / "nowhere",
        spoilt("lie", epsilon=0.5),
        spoilt("less", parameters={"ridge": 1.0}),
        spoilt("other", mechanism="Oracle"),
        spoilt("kind", mechanism="PoissonProjection"),
        spoilt("size", parameters={"sketch_size": 11}),
        spoilt("type", parameters={"ridge": "much"}),
    ):
        with pytest.raises(ParameterError):
            ProjectionRelease.load(place)
    for content in (b"nothing", b"", b"PK\x03\x04 and no more"):
        (tmp_path / "fine" / "sketch.npz").write_bytes(content)
        with pytest.raises(ParameterError, match=r"sketch\.npz must be"):
            ProjectionRelease.load(tmp_path / "fine")


@pytest.fixture
def saved(tmp_path):
    mechanism = ndis.RandomProjection.calibrated(**OTHER, intercept=0.5)
    mechanism.release(np.eye(3)).save(tmp_path / "kept")
    return tmp_path / "kept"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("ridge", value) for value in (1e-3, "x", 1j, math.nan, True, [1.0])),
        *(("targets", value) for value in (-7, 1, 99, [1, 2], "x", 0.5)),
        *(("names", value) for value in (["a", "b"], "abc", [1.0, 2.0, 3.0, 4.0])),
        *(("sketch", value) for value in (np.ones((20, 0)), np.ones((20, 1)), np.ones((19, 4)), np.ones(20))),
        ("more", 1.0),
    ],
)
def test_arrays_that_are_not_of_the_release(saved, name, value):
    arrays = dict(np.load(saved / "sketch.npz"))
    np.savez(saved / "sketch.npz", **arrays | {name: np.array(value)})
    with pytest.raises(ParameterError):
        ProjectionRelease.load(saved)


@pytest.mark.parametrize(
    "change",
    [
        {"private": "yes"},
        {"private": 1},
        {"version": 3},
        {"arithmetic": "float"},
        {"mechanism": ["RandomProjection"]},
        {"mechanism": "PTRProjection"},
        {"adjacency": ["add-remove"]},
        {"epsilon": True},
        {"epsilon": 10**400},
        {"parameters": {"n": 5}},
        {"parameters": {"noisy_eigenvalue": 5.0}},
        {"parameters": {"released_ridge": 1.0}},
        {"parameters": {"released_ridge": None}},
        {"parameters": {"ridge": 1e-200, "released_ridge": 1e-200}},
    ],
    ids=str,
)
def test_receipts_that_are_not_of_the_release(saved, change):
    receipt = json.loads((saved / "receipt.json").read_text())
    parameters = receipt["parameters"] | change.get("parameters", {})
    (saved / "receipt.json").write_text(json.dumps(receipt | change | {"parameters": parameters}))
    with pytest.raises(ParameterError):
        ProjectionRelease.load(saved)


def test_the_ridge_of_a_tested_release_must_follow_from_its_eigenvalue(tmp_path):
    LOOSE.release(np.ones((1, 1))).save(tmp_path / "kept")
    receipt = json.loads((tmp_path / "kept" / "receipt.json").read_text())
    for change in ({"noisy_eigenvalue": 1e6}, {"noisy_eigenvalue": "60"}, {"noisy_eigenvalue": None}):
        changed = receipt | {"parameters": receipt["parameters"] | change}
        (tmp_path / "kept" / "receipt.json").write_text(json.dumps(changed))
        with pytest.raises(ParameterError):
            ProjectionRelease.load(tmp_path / "kept")


def test_bytes_that_are_no_archive(saved):
    content = (saved / "sketch.npz").read_bytes()
    whole, single, packed, huge = (io.BytesIO() for _ in range(4))
    np.save(single, np.eye(2))
    np.savez_compressed(packed, sketch=np.random.default_rng(0).normal(size=(20, 4)))
    with zipfile.ZipFile(huge, "w") as archive:
        np.lib.format.write_array_header_1_0(whole, {"descr": "<f8", "fortran_order": False, "shape": (10**9, 10**6)})
        archive.writestr("sketch.npy", whole.getvalue())
    crushed = bytearray(packed.getvalue())
    crushed[80:120] = b"\xff" * 40
    locked = bytearray(content)
    locked[content.index(b"PK\x03\x04") + 6] |= 1
    locked[content.index(b"PK\x01\x02") + 8] |= 1
    for bad in (b"", content[:-30], single.getvalue(), bytes(crushed), huge.getvalue(), bytes(locked)):
        (saved / "sketch.npz").write_bytes(bad)
        with pytest.raises(ParameterError, match=r"sketch\.npz must (be an NPZ archive|hold arrays of at most)"):
            ProjectionRelease.load(saved)


def test_names_and_copies():
    release = PLAIN.release(np.eye(2))
    with pytest.raises(ParameterError, match="null characters"):
        release.save("a\0b")
    for again in (pickle.loads(pickle.dumps(release)), copy.deepcopy(release)):
        assert not again.sketch.flags.writeable
        assert np.array_equal(again.sketch, release.sketch)
        assert again.receipt == release.receipt
    pandas = pytest.importorskip("pandas")
    mechanism = ndis.RandomProjection.calibrated(**OTHER, intercept=0.5)
    frame = pandas.DataFrame(np.eye(2), columns=["intercept", "b"])
    assert mechanism.release(frame).names == ("intercept", "b", "intercept_")


def test_a_sketch_that_unpacks_to_more_than_its_file_is_refused(tmp_path, monkeypatch):
    """Three megabytes of zeros in an archive took three gigabytes of memory."""
    release = ndis.RandomProjection.calibrated(**PUBLIC).release(RNG.normal(size=(9, 3)))
    release.save(tmp_path / "s")
    for name in ("sketch.npy", "notes.txt"):
        made, array = io.BytesIO(), io.BytesIO()
        np.save(array, np.zeros((1000, 1000)))
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, array.getvalue())
        (tmp_path / "s" / "sketch.npz").write_bytes(made.getvalue())
        with monkeypatch.context() as patch:
            patch.setattr(np, "load", lambda *_, **__: pytest.fail("unpacked"))
            with pytest.raises(ParameterError, match="hold arrays of at most"):
                ProjectionRelease.load(tmp_path / "s")
