"""Moments of one sampled mean shift against a sum of forty digits: the claimed error covers the true one."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import ndis
from ndis.accountant.laws.mixture import sampled_shift
from ndis.profile import Group


def shift_law(rate, shift, *, add):
    return sampled_shift(ndis.GaussianPair.from_ratios(1.0, shift=shift), (rate,), "add" if add else "remove")


def centred_moment(rate, shift, add, s):
    """log M(s) − s·mean, by the trapezoid rule on the real line."""
    with mpmath.workdps(40):
        rate, shift, s, step = mpmath.mpf(rate), mpmath.mpf(shift), mpmath.mpmathify(s), mpmath.mpf(1) / 32
        moment = mean = mpmath.mpf(0)
        for k in range(-17 * 32, int(32 * (17 + (2 + s.real) * shift))):
            x = k * step
            loss = mpmath.log1p(rate * mpmath.expm1(shift * x - shift**2 / 2))
            density = mpmath.exp(-x * x / 2) * (1 if add else mpmath.exp(loss))
            loss = -loss if add else loss
            moment += density * mpmath.exp(s * loss)
            mean += density * loss
        scale = step / mpmath.sqrt(2 * mpmath.pi)
        return complex(mpmath.log(scale * moment) - s * scale * mean)


@pytest.mark.parametrize(
    ("rate", "shift", "add", "s"),
    [
        (1.1e-6, 2.58, True, 2.07 + 0.0016j),  # the terms beyond e^-46 of the density count in M − 1
        (1e-6, 0.01, False, 30.0 + 10.0j),
        (1e-3, 1.0, False, 0.001),
        (0.004, 0.9, False, 12.0 + 3.0j),
        (0.004, 0.9, True, 12.0 + 3.0j),
        (0.3, 0.5, True, 40.0 + 60.0j),
        (0.01, 1.0, False, 2.0 + 25.0j),
        (0.01, 0.5, False, 0.7 + 400.0j),
        (0.9, 1.5, True, 100.0),
        (0.99, 0.1, False, 300.0 + 1.0j),
    ],
)
def test_the_claimed_error_covers_the_true_one(rate, shift, add, s):
    law = shift_law(rate, shift, add=add)
    value, error = law.centred(np.array([s], dtype=np.complex128))
    want = centred_moment(rate, shift, add, s)
    off = value[0] - want
    off -= 2j * np.pi * round(off.imag / (2 * np.pi))  # any branch of the logarithm will do
    assert abs(off) <= error[0] + 2e-15 * abs(want)
    assert error[0] <= 1e-12 * (abs(want) + law.mean * abs(s))


def test_a_table_that_grows_keeps_its_values():
    """Points far up need more nodes than the first table has room for."""
    points = np.array([1.0, 1.0 + 5.0j, 1.0 + 200.0j], dtype=np.complex128)
    law = shift_law(0.2, 0.4, add=False)
    before = law.centred(points[:2])[0]
    law.centred(points)
    assert (law.centred(points[:2])[0] == before).all()


def test_a_rate_next_to_one_loses_no_digits():
    """1 − q + q w is a sum of two small numbers if q is near 1 and w is near 0; the certificate has this log δ."""
    release = Group(
        ndis.GaussianPair.from_ratios(1.0, shift=5.913984431466706), rates=(0.9999999568748027,), count=53_283
    )
    value = ndis.PrivacyProfile(groups=[release]).log_delta(788760.5343039732, order="add")
    assert value == pytest.approx(-10.431847382554, abs=1e-11)
