"""Identities of generalized chi-square laws on random ones: units, reflection, order, inverses, additivity."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ndis.chi_square import GeneralizedChiSquare

magnitude = st.floats(0.01, 100.0)
term = st.tuples(
    st.tuples(magnitude, st.sampled_from([-1.0, 1.0])).map(lambda p: p[0] * p[1]),
    st.sampled_from([0.5, 1.0, 2.0, 3.5, 20.0]),
    st.one_of(st.just(0.0), st.floats(0.01, 50.0)),
)
laws = st.builds(
    lambda terms, sigma, shift: GeneralizedChiSquare(
        *(list(a) for a in zip(*terms, strict=True)), sigma=sigma, shift=shift
    ),
    st.lists(term, min_size=1, max_size=4),
    st.one_of(st.just(0.0), st.floats(0.1, 30.0)),
    st.floats(-20.0, 20.0),
)
deviations = st.floats(-8.0, 8.0).filter(lambda z: math.fabs(z) > 1e-3)
checked = settings(max_examples=60, deadline=None, derandomize=True)


def at(law, z):
    return law.mean() + z * law.std()


@checked
@given(laws, deviations)
def test_reflection(law, z):
    mirror = GeneralizedChiSquare(-law.weights, law.dof, law.noncentrality, law.sigma, -law.shift)
    x = at(law, z)
    assert mirror.logsf(-x) == pytest.approx(law.logcdf(x), rel=1e-12, abs=0)
    assert mirror.logcdf(-x) == pytest.approx(law.logsf(x), rel=1e-12, abs=0)
    assert mirror.logpdf(-x) == pytest.approx(law.logpdf(x), rel=1e-12, abs=1e-12)


@checked
@given(laws, deviations, st.sampled_from([2.0**-40, 0.125, 64.0, 2.0**70]))
def test_units(law, z, a):
    """Scaling by a power of two changes no bit of the tails."""
    scaled = GeneralizedChiSquare(a * law.weights, law.dof, law.noncentrality, a * law.sigma, a * law.shift)
    x = at(law, z)
    assert scaled.logcdf(a * x) == law.logcdf(x)
    assert scaled.logsf(a * x) == law.logsf(x)
    assert scaled.logpdf(a * x) + math.log(a) == pytest.approx(law.logpdf(x), rel=1e-13, abs=1e-13)


@checked
@given(laws, deviations)
def test_tails_add_to_one_and_are_ordered(law, z):
    x = at(law, z)
    assert law.cdf(x) + law.sf(x) == pytest.approx(1.0, abs=3e-16)
    further = x + 0.01 * law.std()
    assert law.logcdf(further) >= law.logcdf(x)
    assert law.logsf(further) <= law.logsf(x)


@checked
@given(laws, deviations)
def test_density_is_the_slope(law, z):
    """Over a small step, Simpson's rule on the density gives the difference of the tails (where no kink at `shift` is
    near)."""
    x, h = at(law, z), 1e-4 * law.std()
    if math.fabs(x - law.shift) < 0.1 * law.std():
        return
    step = law.cdf(x + h) - law.cdf(x) if z < 0 else law.sf(x) - law.sf(x + h)
    area = h / 6 * (law.pdf(x) + 4 * law.pdf(x + h / 2) + law.pdf(x + h))
    turn = math.fabs(law.logpdf(x + h) - law.logpdf(x))  # Simpson's rule errs by turn⁴/2880 of an exponential
    assert area == pytest.approx(step, rel=1e-7 + turn**4 / 1000, abs=1e-300)


@checked
@given(laws, st.floats(-200.0, -0.7), st.booleans())
def test_quantile_and_tail(law, log_p, upper):
    p = math.exp(log_p)
    x = law.isf(p) if upper else law.ppf(p)
    if x == law.shift:
        return
    log_tail = law.logsf(x) if upper else law.logcdf(x)
    slack = 2 * math.exp(law.logpdf(x) - log_tail) * math.ulp(x)
    assert log_tail == pytest.approx(math.log(p), abs=1e-12 * (1 - log_p) + slack)


@checked
@given(laws, deviations, st.floats(0.1, 5.0))
def test_smoothing_by_a_gaussian(law, z, sigma):
    """cdf of W + σG = E cdf(W) shifted by Gauss–Hermite nodes, where W is smooth itself."""
    wide = 4.0 * law.std()
    smooth = GeneralizedChiSquare(law.weights, law.dof, law.noncentrality, wide, law.shift)
    added = sigma * 0.2 * law.std()
    both = GeneralizedChiSquare(law.weights, law.dof, law.noncentrality, math.hypot(wide, added), law.shift)
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    x = at(both, z)
    mixed = np.dot(weights, smooth.cdf(x - added * nodes)) / math.sqrt(2 * math.pi)
    assert both.cdf(x) == pytest.approx(mixed, rel=1e-8, abs=1e-14)
