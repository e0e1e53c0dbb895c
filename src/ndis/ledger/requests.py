"""Requests to a ledger: a profile, its digest, and the public promises of a mechanism."""

from __future__ import annotations

import json
from typing import Any

from ndis.errors import ParameterError
from ndis.ledger.store import digest_of
from ndis.profile import PrivacyProfile

__all__ = ["as_profile", "described", "plain_profile", "profile_digest", "promised_records"]


def profile_digest(profile: PrivacyProfile) -> str:
    """The digest of the exact inputs of a profile.

    >>> from ndis.pair import GaussianPair
    >>> a, b = (PrivacyProfile(GaussianPair.from_ratios(2.0)) for _ in range(2))
    >>> profile_digest(a) == profile_digest(b)
    True
    """
    return digest_of(plain_profile(profile))


def plain_profile(profile: PrivacyProfile) -> dict[str, Any]:
    """A profile as plain values, without the version of the package that wrote it."""
    found: dict[str, Any] = json.loads(profile.to_json())
    found.pop("ndis_version")
    return found


def as_profile(request: Any) -> PrivacyProfile:
    """The profile of a mechanism, or the profile itself."""
    found = request if isinstance(request, PrivacyProfile) else getattr(request, "profile", lambda: None)()
    if not isinstance(found, PrivacyProfile):
        raise ParameterError("request", "be a mechanism or a PrivacyProfile", type(request).__name__)
    return found


def promised_records(request: Any) -> int | None:
    """The number of records that a mechanism, or the model inside it, was promised; None if there is no promise."""
    for holder in (request, getattr(request, "model", None)):
        found = getattr(holder, "max_records", None)
        if found is not None:
            return int(found)
    return None


def described(request: Any) -> dict[str, Any]:
    """The name of a mechanism and the guarantee that it states; all of it is public."""
    stated = {name: getattr(request, f"target_{name}", None) for name in ("epsilon", "delta")}
    numbers = {name: value for name, value in stated.items() if isinstance(value, int | float)}
    return {"mechanism": type(request).__name__, **numbers}
