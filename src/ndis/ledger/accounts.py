"""Define what all kinds of ledgers share: requests, and sums without rounding.

Sums are whole numbers of a fixed small unit, rounded to the safe side once per request. So no sum is ever rounded, and
the order of requests does not matter. Each kind of account is sound if requests are chosen from earlier answers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from ndis.enclosure import Enclosure
from ndis.errors import ParameterError, PrecisionError
from ndis.ledger.store import digest_of
from ndis.profile import PrivacyProfile

Totals = dict[str, Any]

UNIT_BITS = 256  # sums of μ² and K are whole multiples of 2⁻²⁵⁶
FAILURE_BITS = 1074  # failure probabilities are floats, and so whole multiples of 2⁻¹⁰⁷⁴
_WIDTHS = (1e-13, 1e-15)  # relative widths of enclosures that are tried if the usual one does not decide


@dataclass(frozen=True)
class Request:
    """A request asks a ledger for one release. Two requests are equal if their profiles have the same exact inputs.

    Attributes
    ----------
    digest : str
        The digest of the exact inputs of the profile; the version of the package that wrote them plays no part.
    profile : PrivacyProfile
    text : str
        The profile as JSON.
    max_records : int, optional
        The number of records that a mechanism, or the model inside it, was promised.
    details : mapping
        The name of a mechanism and the guarantee that it states; all of it is public.
    """

    digest: str
    profile: PrivacyProfile = field(compare=False)
    text: str = field(compare=False)
    max_records: int | None = field(compare=False)
    details: Mapping[str, Any] = field(compare=False)

    @classmethod
    def of(cls, source: Any) -> Request:
        """Make the request of a mechanism or a profile.

        >>> from ndis.pair import GaussianPair
        >>> a, b = (PrivacyProfile(GaussianPair.from_ratios(2.0)) for _ in range(2))
        >>> Request.of(a) == Request.of(b)
        True
        """
        profile = source if isinstance(source, PrivacyProfile) else getattr(source, "profile", lambda: None)()
        if not isinstance(profile, PrivacyProfile):
            raise ParameterError("request", "be a mechanism or a PrivacyProfile", type(source).__name__)
        text = profile.to_json()
        inputs = {name: value for name, value in json.loads(text).items() if name != "ndis_version"}
        holders: tuple[Any, ...] = (source, getattr(source, "model", None))
        promises = [int(one.max_records) for one in holders if getattr(one, "max_records", None) is not None]
        stated = {name: getattr(source, f"target_{name}", None) for name in ("epsilon", "delta")}
        numbers = {name: value for name, value in stated.items() if isinstance(value, int | float)}
        details = {"mechanism": type(source).__name__, **numbers}
        return cls(digest_of(inputs), profile, text, promises[0] if promises else None, details)


def plus(a: str, b: str, sign: int = 1) -> str:
    """Add two numbers in hexadecimal digits, or subtract the second."""
    return f"{int(a, 16) + sign * int(b, 16):x}"


def units_up(value: Fraction, bits: int) -> int:
    """Count units of 2^−bits, rounded up."""
    return math.ceil(value * (1 << bits))


def units_down(value: Fraction, bits: int) -> int:
    """Count units of 2^−bits, rounded down."""
    return math.floor(value * (1 << bits))


def smallest_upper(certify: Callable[..., Enclosure], epsilon: float, delta: float) -> float:
    """Return a certified upper bound of δ(ε), tighter if the first one is above `delta`.

    Enclosures of one number differ a little between machines, and a budget may lie inside that difference.
    """
    upper = certify(epsilon).upper
    for width in _WIDTHS:
        if upper <= delta:
            break
        try:
            upper = min(upper, certify(epsilon, relative_width=width).upper)
        except PrecisionError:
            break
    return upper
