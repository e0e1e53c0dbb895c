"""The event by which two Gaussians are told apart best, in words and numbers.

By the lemma of Neyman and Pearson it is {L > ε}, L = log dp/dq. Where q is standard normal and p = N(m, diag τ),

    L(z) = Σ [ −½ log τ + ½ z² − (z − m)²/(2τ) ],

and a set of coordinates that share τ and m = 0 enters through the sum of their squares alone.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ndis._validate import Floats
from ndis.auditing.digits import MINUS, few, subscript
from ndis.auditing.result import Side
from ndis.errors import NdisError
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile

__all__ = ["best_event"]

_TERMS = 4  # of a quadratic form written out in full
_NOISE = 1e-12  # below this a term is what the rounding of a whitening leaves, and is not worth a word


def best_event(profile: PrivacyProfile, side: Side, epsilon: float) -> str:
    """The best distinguishing event at ε.

    >>> import ndis
    >>> print(best_event(PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=2.0)), "remove", 1.0))
    The privacy loss log(p/q) exceeds ε = 1. In coordinates in which q is standard normal: z > 1.5, z the one...
    It happens with probability 0.6915 under p and 0.06681 under q.
    """
    pair = profile.remove if side == "remove" else profile.add
    opening = f"The privacy loss log(p/q) exceeds ε = {few(epsilon)}."
    if profile.sampling_rates:
        return _sampled(profile, side, opening)
    if pair.mutually_singular:
        return "The output lies in a set that has probability one under p and probability zero under q."
    if pair.form.constant:
        return "None: the two laws are equal."
    return f"{opening} In coordinates in which q is standard normal: {_region(pair, epsilon)}.{_odds(pair, epsilon)}"


def _sampled(profile: PrivacyProfile, side: Side, opening: str) -> str:
    """One law is (1 − rate)·Y + rate·X, the other Y; X is the output with the record in the sample."""
    rate = profile.sampling_rate
    if not (profile.remove if side == "remove" else profile.add).mutually_singular:
        return f"{opening} One of the two laws is a mixture: the record is in the sample with probability {few(rate)}."
    if side == "remove":
        return (
            "The output lies in a set that it reaches only with the record in the sample. "
            f"It happens with probability {few(rate)} under p and 0 under q."
        )
    return (
        "The output lies outside a set that it reaches only with the record in the sample. "
        f"It happens with probability 1 under p and {few(1.0 - rate)} under q."
    )


def _region(pair: GaussianPair, epsilon: float) -> str:
    t, tau, m, n = (a[_counts(pair)] for a in _invariants(pair))
    logs = math.fsum(n * np.log(tau))
    if (t == 0).all():
        size = math.sqrt(math.fsum(n * m * m))
        return f"z > {few(epsilon / size + size / 2)}, z the one coordinate along which the means differ"
    if t.size == 1 and m[0] == 0:
        count, level = int(n[0]), (2 * epsilon + logs) * tau[0] / t[0]
        which = "the coordinate" if count == 1 else f"the {count} coordinates"
        square = "square of" if count == 1 else "sum of squares of"
        above = "exceeds" if t[0] > 0 else "stays below"
        return f"the {square} {which} with variance ratio {few(tau[0])} {above} {few(level)}"
    # ½z² − (z−m)²/(2τ) = ½(t/τ) z² + (m/τ) z − m²/(2τ)
    order = np.argsort(-n * (np.abs(np.log(tau)) + m * m), kind="stable")
    terms = [
        (weight, f"{few(math.fabs(weight))} {name(i, n[i])}")
        for i in order
        for weight, name in ((t[i] / (2 * tau[i]), _square), (m[i] / tau[i], _sum))
        if math.fabs(weight) > _NOISE
    ]
    level = epsilon + 0.5 * logs + 0.5 * math.fsum(n * m * m / tau)
    others = len(terms) - _TERMS
    more = f" + {others} smaller term{'s' * (others > 1)}" if others > 0 else ""
    form = " ".join(f"{MINUS if weight < 0 else '+'} {text}" for weight, text in terms[:_TERMS])
    return f"the quadratic form {form.removeprefix('+').strip()}{more} exceeds {few(level)}"


def _counts(pair: GaussianPair) -> NDArray[np.bool_]:
    """Which directions are worth a word; all that differ where none stands out."""
    differs = (pair.excess != 0) | (pair.shift != 0)
    clear = (np.abs(pair.excess) > _NOISE) | (np.abs(pair.shift) > _NOISE)
    return clear if clear.any() else differs


def _square(i: int, copies: float) -> str:
    return f"z{subscript(i + 1)}²" if copies == 1 else f"Σz{subscript(i + 1)}² (over {int(copies)} coordinates)"


def _sum(i: int, copies: float) -> str:
    return f"z{subscript(i + 1)}" if copies == 1 else f"Σz{subscript(i + 1)}"


def _invariants(pair: GaussianPair) -> tuple[Floats, Floats, Floats, Floats]:
    return pair.excess, pair.variance_ratio, pair.shift, pair.copies


def _odds(pair: GaussianPair, epsilon: float) -> str:
    """Its probability under both laws, to four digits; nothing where floats do not give them."""
    from ndis.paper.two_cdf import loss_laws

    try:
        p, q = (float(law.sf(epsilon)) for law in loss_laws(pair))
    except NdisError:
        return ""
    return f"\nIt happens with probability {_odd(p)} under p and {_odd(q)} under q."


def _odd(x: float) -> str:
    """A probability; what floats round to 0 is below their range, and not 0."""
    return few(x, 4) if x > 1e-300 else f"less than {few(1e-300)}"
