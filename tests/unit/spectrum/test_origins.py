"""Exact inputs of pairs: rational excesses, compositions, and the certificates that start from them."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

from ndis.errors import ParameterError
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile
from ndis.spectrum.batch import log_delta_batch
from ndis.spectrum.evaluate import log_delta_at, spectrum
from ndis.spectrum.origins import ExcessOrigin

THIRD = Fraction(1, 3)


def wider_delta(t: Fraction, epsilon: float) -> mpf:
    """δ(ε) of N(0, 1 + t) from N(0, 1), t > 0, straight from the definition, with 40 digits."""
    with mp.workdps(40):
        tau, e = 1 + mpf(t.numerator) / t.denominator, mpf(epsilon)
        cut = mp.sqrt((2 * e + mp.log(tau)) * tau / (tau - 1))
        return mp.erfc(cut / mp.sqrt(2 * tau)) - mp.exp(e) * mp.erfc(cut / mp.sqrt(2))


class TestFromExcess:
    @pytest.mark.parametrize("t", [THIRD, Fraction(1, 10**12 + 39), Fraction(7, 2)])
    def test_is_certified_from_the_rational(self, t):
        pair = GaussianPair.from_excess(t)
        for epsilon in (0.0, 0.25 * float(t)):
            exact = wider_delta(t, epsilon)
            box = pair.certify(epsilon, relative_width=1e-15)
            assert mpf(box.lower) <= exact <= mpf(box.upper)
            assert pair.delta(epsilon) == pytest.approx(float(exact), rel=1e-12)

    def test_a_float_near_the_rational_has_another_certificate(self):
        """Far out δ tells 1/3 from the float nearest to it, and each certificate is for its own number."""
        near, exact = (GaussianPair.from_excess(x).certify(20.0, relative_width=1e-16) for x in (1 / 3, THIRD))
        assert near.upper < exact.lower
        for box, t in ((near, Fraction(1 / 3)), (exact, THIRD)):
            assert mpf(box.lower) <= wider_delta(t, 20.0) <= mpf(box.upper)

    def test_agrees_with_the_other_constructors(self):
        given = GaussianPair.from_excess([0.5, -0.25], shift=[0.0, 0.75], copies=[3, 2])
        ratios = GaussianPair.from_ratios([1.5, 0.75], shift=[0.0, 0.75], copies=[3, 2])
        dense = GaussianPair.from_low_rank(0.0, 0.0, 3.0, [[1.0, 1.0]])
        for one, two in ((given, ratios), (GaussianPair.from_excess(Fraction(2, 3)), dense)):
            for a, b in ((one, two), (one.reversed(), two.reversed()), (one.repeat(3), two.repeat(3))):
                assert a.delta(0.4) == pytest.approx(b.delta(0.4), rel=1e-13)
                assert a.certify(0.4, relative_width=1e-14) == b.certify(0.4, relative_width=1e-14)
        assert given.uncertainty == 0.0
        assert GaussianPair.from_excess(THIRD).uncertainty > 0.0

    def test_equal_rows_of_a_composition_are_merged(self):
        pair = GaussianPair.from_excess(THIRD)
        whole = pair.compose(*[pair] * 49)
        assert whole.certify(2.0) == GaussianPair.from_excess(THIRD, copies=50).certify(2.0)

    def test_shifts_are_rounded_up(self):
        for shift in (THIRD, -THIRD, Fraction(1, 2)):
            found = Fraction(float(GaussianPair.from_excess(0, shift).shift[0]))
            assert abs(found) >= abs(shift)
            assert abs(found) <= abs(shift) * (1 + Fraction(1, 2**52))

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((-1,), "^excess must be above -1; got -1"),
            ((Fraction(-4, 3),), "^excess must be above -1; got -4/3"),
            ((Fraction(1, 10**310),), "^excess must be 0 or at least 1e-300 in size; got a smaller one"),
            ((Fraction(1, 10**400),), "^excess must be 0 or at least 1e-300 in size; got a smaller one"),
            ((10**400,), "^excess must lie within the range of floats; got a larger number"),
            ((Fraction(1, 10**400) - 1,), "^variance_ratio must be positive and finite; got "),
            ((math.nan,), "^excess must be finite; got nan"),
            ((math.inf,), "^excess must be finite; got inf"),
            (("1/3",), "^excess must be real numbers; got str"),
            ((True,), "^excess must be real numbers; got bool"),
            ((None,), "^excess must be real numbers; got NoneType"),
            (([],), "^excess, shift and copies must have one length of at least 1"),
            (([1, 2], [0, 0, 0]), "^excess, shift and copies must have one length of at least 1"),
            ((1, math.nan), "^shift must be finite; got nan"),
            ((1, 0, 0), "^copies must be whole numbers of at least 1; got "),
            ((0, Fraction(1, 10**200)), "^shift must be 0 or at least 1e-140 standard deviations of q; got "),
        ],
    )
    def test_refuses(self, arguments, message):
        with pytest.raises(ParameterError, match=message):
            GaussianPair.from_excess(*arguments)

    def test_json_keeps_the_rational(self):
        profile = PrivacyProfile(GaussianPair.from_excess([THIRD, -THIRD], [0, Fraction(2, 7)], [2, 1]).reversed())
        text = profile.to_json()
        back = PrivacyProfile.from_json(text)
        assert back.to_json() == text
        assert json.loads(text)["groups"][0]["remove"][0]["arrays"]["excess"] == ["1/3", "-1/3"]
        assert back.remove.same_origins(profile.remove)
        assert back.certify(0.3) == profile.certify(0.3)

    @pytest.mark.parametrize("value", [0.5, [0.5], ["1/0"], ["x"], [None]])
    def test_json_refuses_other_things(self, value):
        found = json.loads(PrivacyProfile(GaussianPair.from_excess(THIRD)).to_json())
        found["groups"][0]["remove"][0]["arrays"]["excess"] = value
        with pytest.raises(ParameterError, match=r"^excess in remove must be a list of rationals as text; got "):
            PrivacyProfile.from_json(json.dumps(found))


def test_a_part_without_exact_inputs_is_not_left_out_of_a_certificate():
    """A product with a part whose inputs nobody knows must not be certified as the known part only."""
    bare = GaussianPair(np.array([4.0]), np.zeros(1), np.ones(1), 1, np.array([3.0]))
    known = GaussianPair.from_ratios(1.1)
    for pair in (bare.compose(known), known.compose(bare)):
        with pytest.raises(ParameterError, match=r"^pair must know its exact inputs to be certified"):
            pair.certify(0.5)
        assert pair.delta(0.5) > known.delta(0.5)


def test_noise_multipliers_are_certified_from_the_rational():
    sigma = 3.0
    box = PrivacyProfile.from_noise_multiplier(sigma).certify(0.5, relative_width=1e-15)
    with mp.workdps(40):
        mu, e = 1 / mpf(sigma), mpf(0.5)
        exact = mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu)
        assert mpf(box.lower) <= exact <= mpf(box.upper)


PAIRS = {
    "wide": GaussianPair.from_ratios(2.0),
    "sketch": GaussianPair.from_ratios(1.02, copies=100),
    "narrow sketch": GaussianPair.from_ratios(1.02, copies=100).reversed(),
    "mixed": GaussianPair.from_ratios([1.5, 0.8], shift=[0.0, 0.7]),
    "shift": GaussianPair.from_ratios(1.0, shift=0.3),
    "equal": GaussianPair.from_ratios(1.0),
    "singular": GaussianPair.from_diagonal(0.0, 0.0, 1.0, 1.0),
    "far": GaussianPair.from_ratios(1.0, shift=40.0),
    "rational": GaussianPair.from_excess(THIRD, copies=7),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_one_point_is_the_same_number_as_many(pair):
    edge = pair.loss_supremum()
    ends = [edge * (1 + s) for s in (-1e-3, -1e-14, 0.0, 1e-14)] if 0 < edge < math.inf else []
    x = np.array([*np.linspace(-3.0, 6.0, 37), 30.0, *ends])
    many = spectrum(pair, x, complement=False).log_delta
    assert [log_delta_at(pair, e) for e in x.tolist()] == many.tolist()
    assert [pair.log_delta(e) for e in x.tolist()] == many.tolist()
    assert [pair.log_delta(np.array(e)) for e in x.tolist()] == many.tolist()


def test_rows_of_excesses_are_exact_near_the_end():
    """Near the end of a bounded loss a row given by its excess is computed from that excess."""
    t = -1e-9
    pair = GaussianPair.from_excess(t)
    epsilon = pair.loss_supremum() * (1 - 1e-9)
    (found,) = log_delta_batch(excess=[t], epsilon=epsilon)
    box = pair.certify(epsilon)
    assert box.lower * (1 - 1e-11) <= math.exp(found) <= box.upper * (1 + 1e-11)
    assert isinstance(pair.origins[0], ExcessOrigin)
