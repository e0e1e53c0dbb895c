"""What every mechanism has in common: a guarantee, a receipt, and neighbours on which the guarantee is met."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ndis._validate import ADJACENCIES, Adjacency, as_adjacency
from ndis.errors import ParameterError
from ndis.profile import PrivacyProfile

__all__ = ["ADJACENCIES", "ARITHMETICS", "Adjacency", "Attained", "Mechanism", "Receipt", "as_adjacency"]

ARITHMETICS = ("exact", "exact draw, law computed in floats")


@dataclass(frozen=True)
class Attained:
    """Two neighbouring data sets, in words, and the exact profile of the mechanism's output on them.

    A profile of a mechanism is an upper bound of its privacy loss over all neighbours. This is a lower bound: a claim
    that it contradicts is false.
    """

    neighbours: str
    profile: PrivacyProfile


@runtime_checkable
class Mechanism(Protocol):
    """What the auditor and the estimators ask of a mechanism. All its fields are public."""

    @property
    def adjacency(self) -> Adjacency:
        """Which data sets are neighbours."""

    def profile(self) -> PrivacyProfile:
        """The guarantee: at least as bad as any neighbours, in either order."""

    def attained(self) -> tuple[Attained, ...]:
        """The worst neighbours known, from public parameters alone."""


@dataclass(frozen=True)
class Receipt:
    """What a release guarantees and how it was made, for the reader of the release. Only public values.

    Attributes
    ----------
    mechanism : str
        Name of the mechanism.
    parameters : mapping
        Its public parameters.
    epsilon, delta : float
        The guarantee asked for, which the mechanism meets.
    adjacency : str
        "add-remove" or "replace-one".
    private : bool
        False where a seed made the randomness reproducible: such a release must not be published.
    arithmetic : str
        "exact": the output is the ideal draw, rounded to a public grid. "exact draw, law computed in floats": so it is,
        of a mean and covariance that came from a model as floats, whose rounding the guarantee does not cover.
    version : str
        Of the package.
    ledger : mapping, optional
        If a budget ledger paid: the name of its data set, the number of the entry and its digest (`ndis.Ledger`).
    digest : str
        SHA-256 of the other fields and of the values released with them; empty until they are put together. It tells
        a receipt that was changed, or that lies beside other values. Whoever changes both can compute it anew.

    Examples
    --------
    >>> receipt = Receipt("RandomProjection", {"ridge": 2.0}, 1.0, 1e-6, "add-remove", private=True)
    >>> Receipt.from_json(receipt.to_json()) == receipt
    True
    """

    mechanism: str
    parameters: Mapping[str, Any]
    epsilon: float
    delta: float
    adjacency: Adjacency
    private: bool
    arithmetic: str = "exact"
    version: str = field(default_factory=lambda: _version())
    ledger: Mapping[str, Any] | None = None
    digest: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As plain values, in the order of the fields."""
        return {
            "mechanism": self.mechanism,
            "parameters": dict(self.parameters),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": self.adjacency,
            "private": self.private,
            "arithmetic": self.arithmetic,
            "version": self.version,
            **({} if self.ledger is None else {"ledger": dict(self.ledger)}),
            "digest": self.digest,
        }

    def to_json(self) -> str:
        """As JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=2)

    @classmethod
    def from_json(cls, text: str | bytes) -> Receipt:
        """The receipt that `to_json` wrote; anything else is refused."""
        from ndis._json import loads, only_keys

        optional = ("ledger", "digest")
        required = tuple(name for name in cls.__dataclass_fields__ if name not in optional)
        found = {"digest": "", **only_keys("receipt", loads("receipt", text), required, optional)}
        for name, kind, words in _KINDS:
            if not isinstance(found[name], kind) or (kind is _NUMBER and isinstance(found[name], bool)):
                raise ParameterError(f"{name} of the receipt", f"be {words}", type(found[name]).__name__)
        if found["arithmetic"] not in ARITHMETICS:
            rule = f"be {' or '.join(map(repr, ARITHMETICS))}"
            raise ParameterError("arithmetic of the receipt", rule, repr(found["arithmetic"]))
        as_adjacency(found["adjacency"])
        if "ledger" in found:
            _check_seal(found["ledger"])
        if not re.fullmatch("([0-9a-f]{64})?", found["digest"]):
            raise ParameterError("digest of the receipt", "be 64 hexadecimal digits", "other text")
        return cls(**found)

    @classmethod
    def from_saved(cls, text: str | bytes) -> Receipt:
        """The receipt of a saved release; one that says `private` must have a digest, so nobody can just cut it off.

        >>> Receipt.from_saved(Receipt("M", {}, 1.0, 1e-6, "add-remove", private=True).to_json())
        Traceback (most recent call last):
        ndis.errors.ParameterError: digest of the receipt must be there for a release that is private; got none
        """
        found = cls.from_json(text)
        if found.private and not found.digest:
            raise ParameterError("digest of the receipt", "be there for a release that is private", "none")
        return found

    def bound_to(self, **values: Any) -> Receipt:
        """The receipt with the digest of itself and the released values; refused if it has that of others.

        >>> receipt = Receipt("M", {}, 1.0, 1e-6, "add-remove", private=False).bound_to(values=np.zeros(2))
        >>> receipt.bound_to(values=np.zeros(2)) == receipt
        True
        >>> replace(receipt, private=True).bound_to(values=np.zeros(2))
        Traceback (most recent call last):
        ndis.errors.ParameterError: receipt must belong to the values released with it; got a digest of others
        """
        own = {name: value for name, value in self.to_dict().items() if name != "digest"}
        mark = hashlib.sha256()
        for part in (json.dumps(own, sort_keys=True, default=repr).encode(), *_parts(values)):
            mark.update(len(part).to_bytes(8, "big") + part)
        if self.digest not in ("", mark.hexdigest()):
            raise ParameterError("receipt", "belong to the values released with it", "a digest of others")
        return replace(self, digest=mark.hexdigest())


_NUMBER = (int, float)
_KINDS: tuple[tuple[str, Any, str], ...] = (
    ("mechanism", str, "a name"),
    ("parameters", dict, "an object"),
    ("epsilon", _NUMBER, "a number"),
    ("delta", _NUMBER, "a number"),
    ("adjacency", str, "a name"),
    ("private", bool, "true or false"),
    ("arithmetic", str, "a name"),
    ("version", str, "text"),
    ("digest", str, "text"),
)


def _check_seal(found: Any) -> None:
    """Refuse what no ledger writes into a receipt."""
    from ndis._json import only_keys

    seal = only_keys("ledger of the receipt", found, ("data_name", "entry", "head"))
    good = isinstance(seal["data_name"], str) and type(seal["entry"]) is int and isinstance(seal["head"], str)
    if not (good and re.fullmatch("[0-9a-f]{64}", seal["head"])):
        raise ParameterError("ledger of the receipt", "have a name, a number and 64 hexadecimal digits", "other values")


def _parts(values: Mapping[str, Any]) -> Iterator[bytes]:
    """Named arrays as bytes that do not depend on the machine."""
    for name in sorted(values):
        array = np.asarray(values[name])
        if array.dtype.kind == "U":  # its width follows from the longest
            yield json.dumps([name, array.tolist()]).encode()
        else:
            array = array.astype(array.dtype.newbyteorder("<"))
            yield json.dumps([name, array.dtype.str, array.shape]).encode()
            yield array.tobytes()


def _version() -> str:
    from ndis import __version__

    return __version__
