"""One pair against one claimed point: a float to choose by, and a certificate to judge by."""

from __future__ import annotations

import math

from ndis.auditing.accuracy import Room, confidence, exactly, harder
from ndis.auditing.result import Side
from ndis.enclosure import Enclosure
from ndis.errors import PrecisionError
from ndis.profile import PrivacyProfile

__all__ = ["SCREEN_MARGIN", "enclose", "exceeds", "largest_refuted_epsilon", "screen"]

# The float screen is accurate to 1e-11·(1 + |log δ|) or says so; what comes within ten times that of the claim is
# certified.
SCREEN_MARGIN = 1e-10
_WIDTHS = (1e-12, 1e-8, 1e-3)  # the finest that can be had is taken
_NARROW = 1e-14
_COMPOSED_WIDTHS = (1e-9, 1e-6, 1e-3)  # for compositions of sampled releases
_FIRST_STEP, _LAST_STEP = 2.0**-33, 0.5  # of ε; nearer to the edge certificates take seconds


def screen(profile: PrivacyProfile, side: Side, epsilon: float, room: float = 0.0) -> tuple[float, float]:
    """(log δ, slack) in floats: log δ(ε) lies below the sum, and the verdict never rests on it.

    `room` is how far in ε the pair may be off. Where floats cannot tell, the slack is infinite, and the certificate is
    asked.
    """
    try:
        return _screen(profile, side, epsilon, room)
    except PrecisionError:
        return -math.inf, math.inf


def _screen(profile: PrivacyProfile, side: Side, epsilon: float, room: float) -> tuple[float, float]:
    value = float(profile.log_delta(epsilon, order=side))
    slack = 0.0 if math.isinf(value) else SCREEN_MARGIN * (1.0 + math.fabs(value))
    pairs = [(group.pair(side), group.count) for group in profile.groups]
    uncertainty = max(pair.uncertainty for pair, _ in pairs)
    if uncertainty > 0.0 or room > 0.0:  # whitening in floats moved the loss by about this much of its own size
        mean = math.fsum(n * pair.form.mean for pair, n in pairs)
        moved = room + 4.0 * uncertainty * (mean + math.fabs(epsilon))
        if not math.isfinite(moved):
            return value, math.inf
        higher = float(profile.log_delta(epsilon - moved, order=side))
        if higher > value:
            slack = math.inf if math.isinf(value) else slack + 4.0 * uncertainty + (higher - value)
    return value, slack


def enclose(profile: PrivacyProfile, side: Side, epsilon: float) -> Enclosure:
    """δ(ε) enclosed as finely as it can be; [0, 1] where nothing better is certain."""
    for width in _COMPOSED_WIDTHS if profile.composed else _WIDTHS:
        try:
            return profile.certify(epsilon, relative_width=width, order=side)
        except PrecisionError:
            continue
    return Enclosure(0.0, 1.0)


def exceeds(profile: PrivacyProfile, side: Side, epsilon: float, delta: float) -> bool | None:
    """Whether δ(ε) > delta with certainty; None where no precision tried can tell.

    >>> import ndis
    >>> profile = PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=1.0))
    >>> box = profile.certify(1.0, relative_width=1e-20)
    >>> [exceeds(profile, "remove", 1.0, delta) for delta in box]  # two neighbouring floats, the truth between them
    [True, False]
    """
    from ndis.spectrum import certified

    if not profile.sampled:
        return certified.exceeds(profile.remove if side == "remove" else profile.add, epsilon, delta)
    for width in _COMPOSED_WIDTHS[::-1] if profile.composed else (*_WIDTHS[::-1], _NARROW):
        try:
            box = profile.certify(epsilon, relative_width=width, order=side)
        except PrecisionError:
            return None
        if box.lower > delta:
            return True
        if box.upper <= delta:
            return False
    return None


def largest_refuted_epsilon(
    profile: PrivacyProfile, side: Side, delta: float, *, known: float | None, allowed: Room = exactly
) -> float | None:
    """An ε as large as can be found that is refuted at delta with certainty; `known` is one already certified, if any.

    `profile.epsilon` lies above the edge; from there the search steps back until the certificate says yes. `allowed` is
    the room of the two laws.
    """
    sampled = profile.sampled
    singular = any(group.pair(side).mutually_singular for group in profile.groups)
    if singular and (side == "remove" or not sampled):
        if allowed(confidence(0.0, delta)) == math.inf:
            return known
        return math.inf if not sampled or exceeds(profile, side, 0.0, delta) else known  # δ is 1, or the rate, at all ε
    if delta == 0.0:
        return known  # δ falls to 0 at no float known in general
    try:
        start = float(profile.epsilon(delta, order=side))
    except PrecisionError:
        return known
    if not math.isfinite(start):
        return known
    step = _FIRST_STEP if not profile.composed else 2.0**10 * _FIRST_STEP
    while step <= _LAST_STEP:
        x = start * (1.0 - step)
        if known is not None and x <= known:
            return known
        test = harder(allowed, x, delta)
        if test is not None and exceeds(profile, side, *test):
            return x
        if x == 0.0:
            return known
        step *= 2.0
    return known
