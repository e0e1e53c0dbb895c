"""Whatever is wrong with the input of a pair is refused with one message: <name> must <rule>; got <value>."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import ndis
from ndis.errors import ParameterError
from ndis.pair import GaussianPair

MESSAGE = re.compile(r"^\w[\w ]* must .*; got .*", re.DOTALL)
NAN, INF = math.nan, math.inf
EYE = np.eye(2)
PAIR = GaussianPair.from_ratios(2.0)


def refuse(name: str, call) -> None:
    with pytest.raises(ParameterError, match=MESSAGE) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    assert re.match(rf"[\w ]*\b{name}\b", message), message


BAD_NUMBERS = [NAN, INF, -INF, "1.0", b"1", None, 1j, object(), [1.0, [2.0]], [NAN, 1.0], np.array(["a"]), {"a": 1}]


@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=lambda bad: f"{type(bad).__name__} {bad}"[:16])
class TestNotNumbers:
    def test_ratios(self, bad):
        refuse("variance_ratio", lambda: GaussianPair.from_ratios(bad))
        refuse("shift", lambda: GaussianPair.from_ratios(1.0, shift=bad))
        refuse("copies", lambda: GaussianPair.from_ratios(1.0, copies=bad))

    def test_diagonal(self, bad):
        for i, name in enumerate(("mean_p", "var_p", "mean_q", "var_q")):
            arguments = [0.0, 1.0, 0.0, 1.0]
            arguments[i] = bad
            refuse(name, lambda a=arguments: GaussianPair.from_diagonal(*a))

    def test_moments(self, bad):
        for i, name in enumerate(("mean_p", "cov_p", "mean_q", "cov_q")):
            arguments = [0.0, 1.0, 0.0, 1.0]
            arguments[i] = bad
            refuse(name, lambda a=arguments: GaussianPair.from_moments(*a))

    def test_low_rank(self, bad):
        for i, name in enumerate(("mean_p", "mean_q", "cov_q", "factor")):
            arguments = [0.0, 0.0, 1.0, [0.5]]
            arguments[i] = bad
            refuse(name, lambda a=arguments: GaussianPair.from_low_rank(*a))
        if bad is not None:
            refuse("cholesky_q", lambda: GaussianPair.from_low_rank(0.0, 0.0, 1.0, [0.5], cholesky_q=bad))

    @pytest.mark.parametrize("method", ["delta", "log_delta", "log_complement", "certify"])
    def test_epsilon(self, bad, method):
        refuse("epsilon", lambda: getattr(PAIR, method)(bad))

    def test_delta_and_alpha(self, bad):
        refuse("delta", lambda: PAIR.epsilon(bad))
        refuse("alpha", lambda: PAIR.tradeoff(bad))

    def test_renyi_order(self, bad):
        if not (isinstance(bad, float) and bad == INF):  # the order infinity is the supremum of the loss
            refuse("order", lambda: PAIR.renyi(bad))

    def test_times(self, bad):
        refuse("times", lambda: PAIR.repeat(bad))

    def test_relative_width(self, bad):
        refuse("relative_width", lambda: PAIR.certify(1.0, relative_width=bad))


class TestRanges:
    @pytest.mark.parametrize("bad", [0.0, -1.0, [1.0, 0.0], [1.0, -1e-300], -0.0])
    def test_ratios_are_positive(self, bad):
        refuse("variance_ratio", lambda: GaussianPair.from_ratios(bad))

    @pytest.mark.parametrize("bad", [0, -1, 1.5, [1, 2.5], 2.0**54, 1e300])
    def test_copies_are_whole(self, bad):
        refuse("copies", lambda: GaussianPair.from_ratios(1.0, copies=bad))
        if np.ndim(bad) == 0:
            refuse("times", lambda: PAIR.repeat(bad))

    @pytest.mark.parametrize("bad", [0.0, 1.0, -0.5, 1.5, [0.5, 0.0], [[0.5], [1.0]]])
    def test_probabilities(self, bad):
        refuse("delta", lambda: PAIR.epsilon(bad))
        refuse("alpha", lambda: PAIR.tradeoff(bad))

    @pytest.mark.parametrize("bad", [0.0, -2.0, NAN, [1.0, NAN]])
    def test_renyi_order(self, bad):
        refuse("order", lambda: PAIR.renyi(bad))

    @pytest.mark.parametrize("bad", [0.0, 1.0, -1.0])
    def test_relative_width(self, bad):
        refuse("relative_width", lambda: PAIR.certify(1.0, relative_width=bad))

    def test_negative_variances(self):
        refuse("var_p", lambda: GaussianPair.from_diagonal(0.0, -1.0, 0.0, 1.0))
        refuse("var_q", lambda: GaussianPair.from_diagonal([0.0, 0.0], 1.0, 0.0, [1.0, -1e-9]))
        refuse("cov_p", lambda: GaussianPair.from_moments(0.0, -1.0, 0.0, 1.0))

    @pytest.mark.parametrize("bad", [0, 2, 0.5, "plus", None, [1, -1], np.array([1, -1]), NAN], ids=repr)
    def test_sign(self, bad):
        refuse("sign", lambda: GaussianPair.from_low_rank([0.0, 0.0], [0.0, 0.0], EYE, [0.1, 0.1], sign=bad))


class TestShapes:
    @pytest.mark.parametrize(
        ("name", "call"),
        [
            ("variance_ratio", lambda: GaussianPair.from_ratios([])),
            ("variance_ratio", lambda: GaussianPair.from_ratios(1.0, shift=[])),
            ("variance_ratio", lambda: GaussianPair.from_ratios([[1.0, 2.0]])),
            ("variance_ratio", lambda: GaussianPair.from_ratios([1.0, 2.0], shift=[1.0, 2.0, 3.0])),
            ("shift", lambda: GaussianPair.from_ratios(1.0, shift=[[1.0]])),
            ("mean_p", lambda: GaussianPair.from_diagonal([], [], [], [])),
            ("mean_p", lambda: GaussianPair.from_diagonal([0.0, 1.0], [1.0, 1.0], [0.0] * 3, [1.0] * 3)),
            ("mean_p", lambda: GaussianPair.from_moments(EYE, EYE, [0.0, 0.0], EYE)),
            ("mean_q", lambda: GaussianPair.from_moments([0.0, 0.0], EYE, [0.0], EYE)),
            ("mean_q", lambda: GaussianPair.from_moments([], np.empty((0, 0)), [], np.empty((0, 0)))),
            ("cov_p", lambda: GaussianPair.from_moments([0.0, 0.0], [1.0, 1.0], [0.0, 0.0], EYE)),
            ("cov_p", lambda: GaussianPair.from_moments([0.0, 0.0], np.ones((2, 3)), [0.0, 0.0], EYE)),
            ("cov_q", lambda: GaussianPair.from_moments([0.0, 0.0], EYE, [0.0, 0.0], np.eye(3))),
            ("cov_q", lambda: GaussianPair.from_moments([0.0, 0.0], EYE, [0.0, 0.0], 1.0)),
            ("factor", lambda: GaussianPair.from_low_rank([0.0, 0.0], [0.0, 0.0], EYE, np.ones((3, 1)))),
            ("factor", lambda: GaussianPair.from_low_rank([0.0, 0.0], [0.0, 0.0], EYE, np.ones((2, 1, 1)))),
            ("factor", lambda: GaussianPair.from_low_rank(0.0, 0.0, 1.0, 0.5)),
            (
                "cholesky_q",
                lambda: GaussianPair.from_low_rank([0.0] * 2, [0.0] * 2, EYE, [0.1, 0.1], cholesky_q=np.eye(3)),
            ),
            ("epsilon", lambda: PAIR.certify([1.0])),
            ("times", lambda: PAIR.repeat([])),
            ("times", lambda: PAIR.repeat([2, 3])),
        ],
    )
    def test_refused(self, name, call):
        refuse(name, call)

    def test_empty_queries_have_empty_answers(self):
        assert PAIR.delta([]).shape == (0,)
        assert PAIR.epsilon(np.empty((0, 3))).shape == (0, 3)


class TestCovariances:
    def test_asymmetric(self):
        skew = np.array([[1.0, 0.3], [0.1, 1.0]])
        refuse("cov_p", lambda: GaussianPair.from_moments([0.0, 0.0], skew, [0.0, 0.0], EYE))
        refuse("cov_q", lambda: GaussianPair.from_moments([0.0, 0.0], EYE, [0.0, 0.0], skew))
        refuse("cov_q", lambda: GaussianPair.from_low_rank([0.0, 0.0], [0.0, 0.0], skew, [0.1, 0.1]))
        slightly = np.array([[1.0, 0.3], [0.3 + 1e-9, 1.0]])
        refuse("cov_p", lambda: GaussianPair.from_moments([0.0, 0.0], slightly, [0.0, 0.0], EYE))

    def test_indefinite(self):
        saddle = np.array([[1.0, 2.0], [2.0, 1.0]])
        refuse("cov_p", lambda: GaussianPair.from_moments([0.0, 0.0], saddle, [0.0, 0.0], EYE))
        refuse("cov_q", lambda: GaussianPair.from_moments([0.0, 0.0], EYE, [0.0, 0.0], saddle))
        refuse("cov_q", lambda: GaussianPair.from_low_rank([0.0, 0.0], [0.0, 0.0], saddle, [0.1, 0.1]))
        slightly = np.array([[1.0, 1.0 + 1e-9], [1.0 + 1e-9, 1.0]])
        refuse("cov_p", lambda: GaussianPair.from_moments([0.0, 0.0], slightly, [0.0, 0.0], EYE))
        hidden = np.array([[0.0, 0.1], [0.1, 1.0]])
        refuse("cov_p", lambda: GaussianPair.from_moments([0.0, 0.0], hidden, [0.0, 0.0], EYE))

    def test_low_rank_stays_definite(self):
        refuse("cov_q", lambda: GaussianPair.from_low_rank([0.0, 0.0], [0.0, 0.0], np.ones((2, 2)), [0.1, 0.1]))
        refuse("factor", lambda: GaussianPair.from_low_rank([0.0, 0.0], [0.0, 0.0], EYE, [3.0, 0.0], sign=-1))
        assert GaussianPair.from_low_rank([0.0, 0.0], [0.0, 0.0], EYE, [1.0, 0.0], sign=-1).mutually_singular


class TestOthers:
    @pytest.mark.parametrize("bad", [1.0, None, "pair", [PAIR]])
    def test_compose(self, bad):
        refuse("others", lambda: PAIR.compose(bad))

    def test_arrays_handed_over_are_not_kept(self):
        """A value is frozen: changing the caller's array afterwards must not change it."""
        ratio, cov = np.array([2.0, 3.0]), 2.0 * np.eye(2)
        one, two = GaussianPair.from_ratios(ratio), GaussianPair.from_moments([0.0, 0.0], cov, [0.0, 0.0], EYE)
        before = one.certify(1.0), two.certify(1.0)
        ratio[:] = 1.0
        cov[:] = np.eye(2)
        assert (one.certify(1.0), two.certify(1.0)) == before

    def test_a_pair_without_origins_is_not_certified(self):
        """No certificate without the exact inputs: least of all δ = 0."""
        bare = GaussianPair(np.array([2.0]), np.zeros(1), np.ones(1), 1, np.ones(1))
        refuse("pair|origins", lambda: bare.certify(1.0))


def test_overflow_does_not_look_private() -> None:
    for moments in (
        ([1e308, 0], EYE, [-1e308, 0], EYE),
        ([1e200, 1.0], 1e-300 * EYE, [0, 0], 1e-300 * EYE),
        ([0, 0], 1e300 * EYE, [0, 0], 1e-300 * EYE),
    ):
        with pytest.raises(ParameterError, match="must be within the range of floats"):
            GaussianPair.from_moments(*moments)
    for make in (
        lambda: GaussianPair.from_ratios(1.0, 1e-200),
        lambda: GaussianPair.from_diagonal(1e-200, 1, 0, 1),
        lambda: ndis.delta_batch([1.0], [1e-200], epsilon=0.0),
    ):
        with pytest.raises(ParameterError, match="be 0 or at least"):
            make()


def test_a_cholesky_factor_is_checked() -> None:
    cov = np.array([[2, 0.5], [0.5, 1.0]])
    factor = np.linalg.cholesky(cov)
    good = GaussianPair.from_low_rank([0, 0], [0, 0], cov, [[1.0], [0]], cholesky_q=factor)
    assert good.delta(1.0) == GaussianPair.from_low_rank([0, 0], [0, 0], cov, [[1.0], [0]]).delta(1.0)
    for bad in (factor.T, 10 * factor, np.zeros((2, 2))):
        with pytest.raises(ParameterError, match="cholesky_q must be the lower Cholesky factor"):
            GaussianPair.from_low_rank([0, 0], [0, 0], cov, [[1.0], [0]], cholesky_q=bad)


def test_asymmetry_is_judged_entry_by_entry() -> None:
    with pytest.raises(ParameterError, match="cov_p must be symmetric"):
        GaussianPair.from_moments([0, 0], [[1e20, 0.99], [-0.99, 1e-20]], [0, 0], EYE)


def test_pairs_cannot_be_written_to() -> None:
    pair = GaussianPair.from_ratios([2.0])
    with pytest.raises(ValueError, match="read-only"):
        pair.variance_ratio[0] = 7.0
