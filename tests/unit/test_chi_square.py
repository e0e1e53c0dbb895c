"""GeneralizedChiSquare against laws with closed forms, its own inverses, and exact cases at the ends of its support."""

import math

import numpy as np
import pytest
from mpmath import mp, mpf
from scipy import special, stats

from ndis.chi_square import GeneralizedChiSquare
from ndis.errors import ParameterError

POINTS = np.array([1e-6, 0.01, 0.3, 1.0, 4.0, 9.0, 30.0, 120.0])


def noncentral_tails(x, dof, noncentrality):
    """(cdf, sf) of a noncentral chi-square as a Poisson mixture of incomplete gamma functions, to 30 digits."""
    with mp.workdps(50):
        x, a, m = mpf(x) / 2, mpf(dof) / 2, mpf(noncentrality) / 2
        below = above = mpf(0)
        weight, j = mp.exp(-m), 0
        while j < m or weight > mpf(10) ** -380:
            below += weight * mp.gammainc(a + j, 0, x, regularized=True)
            above += weight * mp.gammainc(a + j, x, mp.inf, regularized=True)
            j += 1
            weight *= m / j
        return below, above


def agree(got, want, rel=1e-12):
    """Relative agreement, the tolerance growing with |log want| as the promise does."""
    want = np.asarray(want, dtype=float)
    error = np.abs(np.asarray(got) - want)
    assert (error <= rel * (1 + np.abs(np.log(want))) * want).all(), (got, want)


# ---------------------------------------------------------------- closed forms


@pytest.mark.parametrize("dof", [0.3, 1.0, 2.0, 3.7, 40.0, 1000.0])
def test_chi_square(dof):
    law, known = GeneralizedChiSquare(1.0, dof, 0.0), stats.chi2(dof)
    x = known.mean() * np.array([0.2, 0.5, 0.9, 1.0, 1.1, 2.0]) + POINTS[:6]
    for name in ("cdf", "sf", "pdf"):
        agree(getattr(law, name)(x), getattr(known, name)(x), rel=5e-13)
    for name in ("logsf", "logpdf"):
        assert getattr(law, name)(x) == pytest.approx(getattr(known, name)(x), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("dof", [0.5, *(pytest.param(dof, marks=pytest.mark.sweep) for dof in (1.0, 4.0))])
@pytest.mark.parametrize("noncentrality", [0.2, 3.0, 50.0])
@pytest.mark.parametrize("x", [1e-9, 0.4, 30.0, 400.0, 1400.0])
def test_noncentral_chi_square(dof, noncentrality, x):
    below, above = noncentral_tails(x, dof, noncentrality)
    law = GeneralizedChiSquare(1.0, dof, noncentrality)
    with mp.workdps(50):
        for name, value, other in (("cdf", below, above), ("sf", above, below)):
            logarithm = mp.log(value) if value < 0.5 else mp.log1p(-other)
            agree(getattr(law, name)(x), value)
            assert getattr(law, "log" + name)(x) == pytest.approx(float(logarithm), rel=1e-12, abs=0)


def test_normal():
    law = GeneralizedChiSquare([], [], [], sigma=2.0, shift=-1.0)
    x = np.array([-70.0, -8.0, -1.0, 0.5, 5.0, 70.0])
    for name in ("cdf", "sf", "pdf", "logcdf", "logsf", "logpdf"):
        assert getattr(law, name)(x) == pytest.approx(getattr(stats.norm(-1.0, 2.0), name)(x), rel=1e-11, abs=1e-300)


def test_laplace_difference():
    """χ²₂ − χ²₂ is a Laplace variable of scale 2; its density has a kink at 0, its tails are exact."""
    law, known = GeneralizedChiSquare([1.0, -1.0], [2.0, 2.0], [0.0, 0.0]), stats.laplace(scale=2.0)
    x = np.array([-1400.0, -3.0, -1e-9, 1e-9, 0.5, 1400.0])
    for name in ("cdf", "sf", "logcdf", "logsf"):
        assert getattr(law, name)(x) == pytest.approx(getattr(known, name)(x), rel=1e-12)
    assert law.pdf(x) == pytest.approx(known.pdf(x), rel=1e-9)


@pytest.mark.parametrize("dof", [1.0, 1.5, 3.0])
def test_density_of_a_difference(dof):
    """χ²_ν − χ²_ν has a Bessel density, with a pole at 0 for ν ≤ 1 and a kink above."""
    x = np.array([1e-12, 1e-6, 0.01, 1.0, 20.0, 300.0])
    order = 0.5 * dof - 0.5
    want = (x / 4) ** order * special.kv(order, x / 2) / (2 * math.sqrt(math.pi) * math.gamma(dof / 2))
    law = GeneralizedChiSquare([1.0, -1.0], dof)
    agree(law.pdf(x), want)
    agree(law.pdf(-x), want)


def test_two_exponentials():
    """a·χ²₂ + b·χ²₂ is hypoexponential."""
    a, b, x = 3.0, 0.5, 7.0
    law = GeneralizedChiSquare([a, b], 2.0)
    assert law.sf(x) == pytest.approx((a * math.exp(-x / 2 / a) - b * math.exp(-x / 2 / b)) / (a - b), rel=1e-13)


# ---------------------------------------------------------------- shape of arguments and results


def test_scalars_and_broadcasting():
    law = GeneralizedChiSquare([1.0, 2.0], 3)
    assert law.dof.tolist() == [3.0, 3.0]
    assert law.noncentrality.tolist() == [0.0, 0.0]
    for name in ("cdf", "sf", "logcdf", "logsf", "pdf", "logpdf"):
        method = getattr(law, name)
        assert type(method(4)) is float
        grid = np.array([[1.0, 2.0, 3.0], [-1.0, 0.0, 50.0]])
        assert method(grid).shape == (2, 3)
        assert method(grid)[0, 1] == method(2.0)
    assert type(law.ppf(0.5)) is float
    assert law.isf([[0.5], [0.1]]).shape == (2, 1)
    assert type(law.cgf(0.1)) is float
    assert law.cdf([]).shape == (0,)


def test_frozen():
    law = GeneralizedChiSquare([1.0, 2.0], 3)
    with pytest.raises(AttributeError):
        law.shift = 1.0
    with pytest.raises(ValueError, match="read-only"):
        law.weights[0] = 2.0


def test_equal_weights_merge():
    merged = GeneralizedChiSquare([2.0, 0.0, -1.0], [5.0, 4.0, 1.5], [3.0, 9.0, 0.5])
    apart = GeneralizedChiSquare([2.0, -1.0, 2.0], [1.0, 1.5, 4.0], [2.5, 0.5, 0.5])
    assert apart.cdf(POINTS) == pytest.approx(merged.cdf(POINTS), rel=1e-15)


# ---------------------------------------------------------------- the ends of the support


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_outside_the_support(sign):
    law = GeneralizedChiSquare(sign * np.array([1.0, 2.0]), [1.0, 2.0], [0.0, 1.0], shift=3.0)
    assert law.support() == ((3.0, math.inf) if sign > 0 else (-math.inf, 3.0))
    x = 3.0 - sign * np.array([0.0, 1e-9, 5.0, math.inf])
    none, everything = ("cdf", "sf") if sign > 0 else ("sf", "cdf")
    assert getattr(law, none)(x).tolist() == [0.0] * 4
    assert getattr(law, everything)(x).tolist() == [1.0] * 4
    assert getattr(law, "log" + none)(x).tolist() == [-math.inf] * 4
    assert getattr(law, "log" + everything)(x).tolist() == [0.0] * 4
    assert law.pdf(x).tolist() == [0.0] * 4


@pytest.mark.parametrize(("dof", "value"), [(0.7, math.inf), (2.0, 0.25), (2.5, 0.0)])
def test_density_at_the_end(dof, value):
    assert GeneralizedChiSquare(2.0, dof, 0.0, shift=1.0).pdf(1.0) == value
    assert GeneralizedChiSquare(-2.0, dof, 0.0, shift=1.0).pdf(1.0) == value


def test_density_at_the_end_with_several_terms():
    law = GeneralizedChiSquare([1.0, 3.0], [0.5, 1.5], [1.0, 0.25])
    want = 2.0**-0.25 * 6.0**-0.75 * math.exp(-0.625)
    assert law.pdf(0.0) == pytest.approx(want, rel=1e-15)
    assert law.pdf(1e-30) == pytest.approx(want, rel=1e-14)


def test_density_pole_inside():
    assert GeneralizedChiSquare([1.0, -2.0], [0.5, 1.5]).pdf(0.0) == math.inf
    assert GeneralizedChiSquare([1.0, -2.0], [0.5, 1.5]).pdf(1e-12) < 100
    assert GeneralizedChiSquare([1.0, -2.0], [0.5, 1.5], sigma=0.1).pdf(0.0) < 10
    assert GeneralizedChiSquare([1.0, -1.0], [2.0, 2.0]).pdf(0.0) == pytest.approx(0.25, rel=1e-10)


@pytest.mark.parametrize("dof", [0.3, 1.0, 5.0])
def test_leading_term_meets_the_contour(dof):
    """On both sides of the point where the expansion takes over, and down to the smallest floats."""
    law = GeneralizedChiSquare([1.0, 2.0], [dof, 2 * dof], [0.4, 0.0])
    y = np.geomspace(1e-19, 1e-14, 21)
    slopes = np.diff(law.logcdf(y)) / np.diff(np.log(y))
    assert slopes == pytest.approx(np.full(20, 1.5 * dof), rel=1e-11)
    assert law.logcdf(1e-300) - law.logcdf(1e-200) == pytest.approx(1.5 * dof * math.log(1e-100), rel=1e-14)


def test_infinite_points():
    law = GeneralizedChiSquare([1.0, -2.0], [1.0, 2.0], sigma=1.0)
    assert law.cdf([-math.inf, math.inf]).tolist() == [0.0, 1.0]
    assert law.sf([-math.inf, math.inf]).tolist() == [1.0, 0.0]
    assert law.pdf([-math.inf, math.inf]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    "law", [GeneralizedChiSquare([], [], [], shift=2.0), GeneralizedChiSquare(0.0, 3.0, 5.0, shift=2.0)]
)
def test_point_mass(law):
    assert law.cdf([1.0, 2.0, 3.0]).tolist() == [0.0, 1.0, 1.0]
    assert law.sf([1.0, 2.0, 3.0]).tolist() == [1.0, 0.0, 0.0]
    assert law.pdf([1.0, 2.0]).tolist() == [0.0, math.inf]
    assert (law.mean(), law.var(), law.support(), law.ppf(0.3)) == (2.0, 0.0, (2.0, 2.0), 2.0)
    assert law.rvs(2, random_state=0).tolist() == [2.0, 2.0]
    assert law.cgf(3.0) == 6.0


# ---------------------------------------------------------------- digits that are easily lost


def test_large_shift_costs_no_digits():
    """x − shift is exact here; the mean, rounded to a float, would not be."""
    near, far = GeneralizedChiSquare([0.7, 0.1], [3.0, 1.0], [0.3, 0.0]), 2.0**30
    away = GeneralizedChiSquare([0.7, 0.1], [3.0, 1.0], [0.3, 0.0], shift=far)
    x = np.array([0.25, 2.0, 8.0, 64.0])
    agree(away.cdf(far + x), near.cdf(x), rel=1e-14)
    agree(away.sf(far + x), near.sf(x), rel=1e-14)


def test_large_noncentrality():
    """A variable of mean 1e12 and deviation 2e6: its mean must be known beyond the float."""
    m = 1e6
    law = GeneralizedChiSquare(1.0, 1.0, m * m)
    for z in (-6.0, 0.25, 6.0):
        x = (m + z) ** 2  # exact
        agree(law.sf(x), stats.norm.sf(z) + stats.norm.cdf(-2 * m - z), rel=1e-12)


@pytest.mark.parametrize("unit", [2.0**-600, 2.0**600])
def test_no_scale_is_special(unit):
    law = GeneralizedChiSquare([1.0, -0.3], [1.0, 2.5], [0.0, 2.0], sigma=0.1, shift=0.5)
    scaled = GeneralizedChiSquare(law.weights * unit, law.dof, law.noncentrality, sigma=0.1 * unit, shift=0.5 * unit)
    assert (scaled.logcdf(POINTS * unit) == law.logcdf(POINTS)).all()
    assert scaled.ppf(0.01) == law.ppf(0.01) * unit
    assert scaled.std() == law.std() * unit
    assert scaled.cgf(0.1 / unit) == law.cgf(0.1)


# ---------------------------------------------------------------- quantiles

LAWS = [
    GeneralizedChiSquare(1.0, 0.3),
    GeneralizedChiSquare(1.0, 1.0, 40.0, shift=-7.0),
    GeneralizedChiSquare([1.0, 0.01, 5.0], [1.0, 200.0, 2.5], [0.0, 3.0, 1.0]),
    GeneralizedChiSquare([-1.0, -3.0], [4.0, 1.0], [2.0, 0.0], shift=2.0),
    GeneralizedChiSquare([1.0, -3.0], [4.0, 1.0], [2.0, 0.0]),
    GeneralizedChiSquare([1000.0, 20.0], [2.0, 0.5], sigma=0.5),
    GeneralizedChiSquare([], [], [], sigma=3.0, shift=1.0),
]
PROBABILITIES = [5e-324, 1e-300, 1e-100, 1e-20, 1e-6, 0.01, 0.3, 0.5, 0.8, 0.999, 1 - 2.0**-50]


@pytest.mark.parametrize("law", LAWS, ids=range(len(LAWS)))
def test_quantiles_invert_the_tails(law):
    for quantile, log_tail, tail in ((law.ppf, law.logcdf, law.cdf), (law.isf, law.logsf, law.sf)):
        previous = None
        for p in PROBABILITIES:
            x = quantile(p)
            assert previous is None or (x >= previous if quantile == law.ppf else x <= previous)
            previous = x
            if x == law.shift and law.support() != (-math.inf, math.inf):
                continue  # within rounding of the end of the support
            # what the rounding of x alone can do
            slack = 2 * math.exp(law.logpdf(x) - log_tail(x)) * math.ulp(x)
            if p <= 0.5:
                assert log_tail(x) == pytest.approx(math.log(p), abs=1e-12 * (1 - math.log(p)) + slack)
            else:
                assert 1 - tail(x) == pytest.approx(1 - p, rel=1e-10, abs=slack + 2.0**-52)


def test_quantile_near_the_end_has_its_own_digits():
    law = GeneralizedChiSquare(1.0, 0.5)
    p = 1e-80  # cdf = (y/2)^{1/4}/Γ(5/4)
    assert law.ppf(p) == pytest.approx(2 * (p * math.gamma(1.25)) ** 4, rel=1e-12)
    assert law.ppf(1e-300) == 0.0


def test_quantiles_at_zero_and_one():
    law = GeneralizedChiSquare([1.0, 2.0], 1.0, shift=3.0)
    assert law.ppf([0.0, 1.0]).tolist() == [3.0, math.inf]
    assert law.isf([0.0, 1.0]).tolist() == [math.inf, 3.0]
    both = GeneralizedChiSquare([1.0, -2.0], 1.0)
    assert both.ppf([0.0, 1.0]).tolist() == [-math.inf, math.inf]


# ---------------------------------------------------------------- moments, cumulants, samples


def test_moments_of_a_chi_square():
    law = GeneralizedChiSquare(1.0, 5.0, 3.0)
    mean, var = stats.ncx2(5, 3).stats("mv")
    assert (law.mean(), law.var(), law.std()) == (float(mean), float(var), math.sqrt(var))


def test_cgf():
    law = GeneralizedChiSquare([1.0, -0.5], [3.0, 2.0], [0.7, 1.5], sigma=0.4, shift=-2.0)
    s = np.array([-0.9, -0.1, 0.0, 0.2, 0.49])
    want = -2.0 * s + 0.08 * s**2
    for w, nu, ncp in zip(law.weights, law.dof, law.noncentrality, strict=True):
        want = want - 0.5 * nu * np.log1p(-2 * w * s) + w * ncp * s / (1 - 2 * w * s)
    assert law.cgf(s) == pytest.approx(want, rel=1e-13, abs=1e-15)
    assert law.cgf([-1.0, 0.5, 7.0]).tolist() == [math.inf] * 3


def test_cgf_far_out():
    law = GeneralizedChiSquare([1.0, 3.0], [3.0, 1.0], [0.5, 0.0])
    s = -1e12
    want = -1.5 * math.log(2e12) - 0.5 * math.log(6e12) - 0.25
    assert law.cgf(s) == pytest.approx(want, rel=1e-12)


SAMPLED = [
    GeneralizedChiSquare([1.0, 2.0], [1.0, 3.5], [0.0, 2.0], shift=1.0),
    GeneralizedChiSquare([1.0, -2.0, 0.5], [1.0, 2.5, 0.4], [1.0, 2.0, 3.0], sigma=0.7),
    GeneralizedChiSquare.from_quadratic_form([[1e-9, 0.0], [0.0, -0.5]], [2.0, 0.0], 1.0, 0.0, np.eye(2)),
]


@pytest.mark.parametrize("law", SAMPLED, ids=range(len(SAMPLED)))
def test_samples(law):
    """20 000 draws, two tests with a false-alarm rate of 1e-6 each (fixed seed): the mean, and Kolmogorov–Smirnov's."""
    n = 20_000
    draws = law.rvs(n, random_state=20_261)
    z = (draws.mean() - law.mean()) / (law.std() / math.sqrt(n))
    assert math.fabs(z) < stats.norm.isf(0.5e-6)
    u = np.sort(
        law.cdf(np.sort(draws)[:: n // 500])
    )  # a subgrid keeps the test quick; the deviation there is no larger
    grid = np.arange(0, n, n // 500) / n
    assert np.abs(u - grid).max() < stats.kstwobign.isf(1e-6) / math.sqrt(n) + 1 / n


def test_samples_respect_seed_shape_and_support():
    law = SAMPLED[0]
    assert law.rvs((2, 3), random_state=1).shape == (2, 3)
    assert type(law.rvs(random_state=1)) is float
    assert (law.rvs(5, random_state=1) == law.rvs(5, random_state=np.random.default_rng(1))).all()
    assert (law.rvs(1000) >= 1.0).all()


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: GeneralizedChiSquare([math.nan], 1), "weights must be finite; got [nan]"),
        (lambda: GeneralizedChiSquare([math.inf], 1), "weights must be finite; got [inf]"),
        (lambda: GeneralizedChiSquare([[1.0]], 1), "weights must be one-dimensional; got shape (1, 1)"),
        (lambda: GeneralizedChiSquare("abc", 1), "weights must be real numbers; got 'abc'"),
        (lambda: GeneralizedChiSquare([1.0, 1e-200], 1), "weights must lie within 150 orders of magnitude"),
        (lambda: GeneralizedChiSquare([1.0], 0.0), "dof must be positive; got [0.]"),
        (lambda: GeneralizedChiSquare([1.0], 1.0, -1.0), "noncentrality must be non-negative; got [-1.]"),
        (lambda: GeneralizedChiSquare([1.0], 1.0, 0.0, sigma=-2.0), "sigma must be non-negative; got -2.0"),
        (lambda: GeneralizedChiSquare([1.0], 1.0, 0.0, sigma=[1.0]), "sigma must be a single number; got shape (1,)"),
        (lambda: GeneralizedChiSquare([1.0], 1.0, shift=math.inf), "shift must be finite; got inf"),
        (
            lambda: GeneralizedChiSquare([1.0, 2.0], [1, 2, 3]),
            "weights and dof and noncentrality must have the same length",
        ),
        (lambda: LAWS[0].cdf(math.nan), "x must be finite; got nan"),
        (lambda: LAWS[0].pdf("a"), "x must be real numbers; got 'a'"),
        (lambda: LAWS[0].ppf(1.5), "probability must lie between 0 and 1; got 1.5"),
        (lambda: LAWS[0].isf(math.nan), "probability must be finite; got nan"),
        (
            lambda: LAWS[0].rvs(2, random_state=-1),
            "random_state must be None, a non-negative integer or a numpy Generator",
        ),
        (
            lambda: GeneralizedChiSquare.from_quadratic_form([[1.0, 2.0]], 0, 0, 0, 1),
            "Q must be a square matrix; got shape (1, 2)",
        ),
        (
            lambda: GeneralizedChiSquare.from_quadratic_form([[1.0, 2.0], [0.0, 1.0]], 0, 0, 0, np.eye(2)),
            "Q must be symmetric; got a largest asymmetry of 2",
        ),
        (
            lambda: GeneralizedChiSquare.from_quadratic_form(np.eye(2), [1, 2, 3], 0, 0, np.eye(2)),
            "b must have length 2; got length 3",
        ),
        (
            lambda: GeneralizedChiSquare.from_quadratic_form(np.eye(2), 0, 0, 0, [[1.0, 2.0], [2.0, 1.0]]),
            "cov must be positive semidefinite; got",
        ),
    ],
)
def test_bad_input(build, message):
    with pytest.raises(ParameterError) as caught:
        build()
    assert str(caught.value).startswith(message)
