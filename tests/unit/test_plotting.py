"""Pictures of profiles."""

from __future__ import annotations

import math

import numpy as np
import pytest

from helpers.sketches import TESTED
from ndis.errors import ParameterError
from ndis.pair import GaussianPair
from ndis.plotting import epsilon_grid, plot_epochs, plot_profile
from ndis.profile import PrivacyProfile

WIDE = GaussianPair.from_ratios(2.0)
MIXED = GaussianPair.from_ratios([1.5, 0.8], shift=[0.0, 0.7])


@pytest.fixture
def close():
    from matplotlib import pyplot

    yield
    pyplot.close("all")


@pytest.mark.usefixtures("close")
class TestPlot:
    def test_draws_what_the_profile_says(self):
        profile = PrivacyProfile(MIXED)
        ax = profile.plot(points=31)
        worst, remove, add = ax.get_lines()
        assert [line.get_label() for line in (worst, remove, add)] == ["worst of both", "remove", "add"]
        x = worst.get_xdata()
        assert x.size == 31
        assert x[0] == 0.0
        assert x[-1] == profile.epsilon(1e-12)
        assert worst.get_ydata() == pytest.approx(profile.delta(x), rel=1e-13)
        assert remove.get_ydata() == pytest.approx(MIXED.delta(x), rel=1e-13)
        assert add.get_ydata() == pytest.approx(MIXED.reversed().delta(x), rel=1e-13)
        assert worst.get_linewidth() > 2 * remove.get_linewidth()
        assert remove.get_linestyle() != add.get_linestyle()
        assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_yscale()) == ("ε", "δ(ε)", "log")
        low, high = ax.get_ylim()
        assert low < 1e-12
        assert high > profile.delta(0.0)

    def test_leaves_out_what_is_zero(self):
        ax = PrivacyProfile(WIDE).plot(epsilon_range=(0.0, 2.0), points=41)
        add = ax.get_lines()[2]
        zero = add.get_xdata() >= 0.5 * math.log(2.0)
        assert np.isnan(add.get_ydata()[zero]).all()
        assert np.isfinite(add.get_ydata()[~zero]).all()
        assert ax.get_ylim()[0] > 1e-4

    def test_pairs_and_several(self):
        assert [line.get_label() for line in plot_profile(MIXED, points=5).get_lines()][1:] == ["p from q", "q from p"]
        named = {"whole": PrivacyProfile(MIXED), "sampled": PrivacyProfile(MIXED).subsampled(0.1), "pair": WIDE}
        lines = plot_profile(named, points=5).get_lines()
        assert [line.get_label() for line in lines] == list(named)
        assert lines[1].get_ydata() == pytest.approx(named["sampled"].delta(lines[1].get_xdata()), rel=1e-13)
        assert len({line.get_color() for line in lines}) == 3

    def test_draws_on_given_axes_and_keeps_what_is_there(self):
        from matplotlib import pyplot

        _, ax = pyplot.subplots()
        ax.plot([0.0, 20.0], [1e-20, 1.0])
        ax.set_yscale("log")
        assert PrivacyProfile(WIDE).plot(ax) is ax
        assert ax.get_ylim()[0] <= 1e-20
        assert ax.get_xlim()[1] >= 20.0

    @pytest.mark.parametrize(
        ("pair", "span"),
        [
            (GaussianPair.from_ratios(1.0), (0.0, 1.0)),
            (GaussianPair.from_diagonal(0.0, 0.0, 1.0, 1.0), (0.0, 1.0)),
            (GaussianPair.from_ratios(1.0, shift=1e-9), (0.0, None)),
            (GaussianPair.from_ratios(1.0, shift=40.0), (None, None)),
        ],
    )
    def test_range_in_the_corners(self, pair, span):
        ax = plot_profile(pair, points=5)
        x = ax.get_lines()[0].get_xdata()
        assert x[0] < x[-1]
        for found, expected in zip((x[0], x[-1]), span, strict=True):
            assert expected is None or found == expected
        ax.figure.canvas.draw()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"points": 1}, "^points must be a whole number of at least 2; got 1"),
            ({"points": 2.5}, "^points must be a whole number of at least 2; got 2.5"),
            ({"epsilon_range": (1.0, 1.0)}, "^epsilon_range must be two numbers, the smaller first; got "),
            ({"epsilon_range": (0.0, math.nan)}, "^epsilon_range must be finite; got "),
            ({"epsilon_range": (0.0, 1.0, 2.0)}, "^epsilon_range must be two numbers"),
        ],
    )
    def test_refuses(self, options, message):
        with pytest.raises(ParameterError, match=message):
            epsilon_grid(PrivacyProfile(WIDE), **options)

    def test_refuses_other_things(self):
        with pytest.raises(ParameterError, match=r"^profiles must be PrivacyProfile or GaussianPair values; got float"):
            plot_profile(1.0)
        with pytest.raises(ParameterError, match=r"^profiles must hold at least one profile; got none"):
            plot_profile({})


def test_the_picture_spans_the_profile_without_its_failure_probability():
    assert epsilon_grid(TESTED.profile())[-1] > TESTED.profile().epsilon(TESTED.target_delta)


def test_a_higher_line_of_epochs_is_seen() -> None:
    """The first line chose the height of the picture, and a later one was drawn above it."""
    ax = plot_epochs([1, 2], [0.5, 0.7], delta=1e-5)
    plot_epochs([1, 2], [5.0, 9.0], delta=1e-5, ax=ax)
    assert ax.get_ylim()[0] == 0.0
    assert 9.0 < ax.get_ylim()[1] < 11.0
