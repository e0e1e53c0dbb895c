"""What a summary says beside its numbers: the guarantee or its absence, the first category, the bound of a row."""

from __future__ import annotations

import html
import re
import warnings

import numpy as np
import pandas as pd
import pytest

import ndis
from helpers.places import ROOT
from ndis.learn import PrivateLinearRegression

NOT_PRIVATE = "NOT private: a seed made the noise reproducible, so do not publish this"
UNLISTED = "a category is compared with its first value; a value that is not listed counts as the first"
SCHEMA = ndis.Schema({"age": (0, 1), "ward": ["ICU", "surgery"]}, target=("cost", 0, 1))


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    wards = rng.choice(["ICU", "surgery", "other"], 300)
    return pd.DataFrame({"age": rng.uniform(size=300), "ward": wards, "cost": rng.uniform(size=300)})


def notes(**how: object) -> tuple[str, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ndis.NotPrivateWarning)
        found = PrivateLinearRegression(**{"schema": SCHEMA, "rounds": 2, **how}).fit(table()).summary()
    for note in found.notes:
        assert note in repr(found)
        assert note in html.unescape(found._repr_html_())
    return found.notes


def test_a_seeded_fit_does_not_read_as_private() -> None:
    seeded, private = (" ".join(notes(random_state=seed)) for seed in (0, None))
    assert NOT_PRIVATE in seeded
    assert "differentially private" not in seeded
    assert "(1, 1e-06)-differentially private, add-remove" in private
    assert "NOT" not in private


def test_a_seeded_release_does_not_read_as_private() -> None:
    for mechanism in (
        ndis.GramMechanism.calibrated(epsilon=1.0, delta=1e-6, row_norm_bound=1.0),
        ndis.RandomProjection.calibrated(epsilon=1.0, delta=1e-6, row_norm_bound=1.0, sketch_size=5),
    ):
        with pytest.warns(ndis.NotPrivateWarning):
            seeded = mechanism.release(np.eye(2), random_state=0)
        assert "NOT private" in repr(seeded)
        assert "NOT private" not in repr(mechanism.release(np.eye(2)))


def test_categories_that_are_not_listed() -> None:
    assert UNLISTED in notes()
    assert UNLISTED not in notes(fit_intercept=False)
    assert UNLISTED not in notes(schema=ndis.Schema({"age": (0, 1)}, target=("cost", 0, 1)))


def test_a_bound_below_that_of_the_box() -> None:
    words = "are scaled down: this biases estimates, and intervals do not count it"
    assert not any(words in note for note in notes())
    assert f"encoded rows longer than 1.2 (at most 1.414) {words}" in notes(row_norm_bound=1.2)
    narrow = ndis.Schema(dict(SCHEMA.columns), target=("cost", 0, 1), row_norm_bound=1.1)
    assert f"encoded rows longer than 1.1 (at most 1.414) {words}" in notes(schema=narrow)


def test_the_summary_on_the_first_page_looks_like_one() -> None:
    """The page shows one run. Names, columns and notes are those of every run, and the truth lies in the intervals."""
    page = (ROOT / "docs" / "start" / "table.md").read_text(encoding="utf-8")
    shown = page.split("```text\nPrivate linear regression\n", 1)[1].split("```", 1)[0]
    rng = np.random.default_rng(0)
    age, region = rng.integers(18, 91, 5_000), rng.choice(["N", "S"], 5_000)
    frame = pd.DataFrame({"age": age, "region": region, "spend": 500 + 20 * age + 300 * (region == "S")})
    schema = ndis.Schema({"age": (18, 90), "region": ["N", "S"]}, target=("spend", 0, 5_000))
    found = repr(PrivateLinearRegression(epsilon=1.0, delta=1e-6, schema=schema).fit(frame).summary())

    def words(text: str) -> list[str]:
        return re.sub(r"[-+]?[0-9][0-9.e+]*", "#", text).split()

    assert words(found) == ["Private", "linear", "regression", *words(shown)]
