"""What every mechanism has in common: a guarantee, a receipt, and neighbours on which the guarantee is met."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ndis._validate import ADJACENCIES, Adjacency, as_adjacency
from ndis._version import __version__
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
    version: str = __version__

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
        }

    def to_json(self) -> str:
        """As JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=2)

    @classmethod
    def from_json(cls, text: str | bytes) -> Receipt:
        """The receipt that `to_json` wrote; anything else is refused."""
        from ndis._json import loads, only_keys

        found = only_keys("receipt", loads("receipt", text), tuple(cls.__dataclass_fields__))
        for name, kind, words in _KINDS:
            if not isinstance(found[name], kind) or (kind is _NUMBER and isinstance(found[name], bool)):
                raise ParameterError(f"{name} of the receipt", f"be {words}", type(found[name]).__name__)
        if found["arithmetic"] not in ARITHMETICS:
            rule = f"be {' or '.join(map(repr, ARITHMETICS))}"
            raise ParameterError("arithmetic of the receipt", rule, repr(found["arithmetic"]))
        as_adjacency(found["adjacency"])
        return cls(**found)


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
)
