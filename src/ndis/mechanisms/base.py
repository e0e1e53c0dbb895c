"""The common parts of all mechanisms: guarantee, receipt, release, and neighbours that attain the guarantee."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import InitVar, dataclass, field, fields, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ndis._files import write_file
from ndis._json import loads, only_keys
from ndis._search import budget
from ndis._validate import Adjacency, Floats, as_adjacency
from ndis._version import __version__
from ndis.errors import ParameterError, PrecisionError
from ndis.ledger.charging import charged
from ndis.noise.bits import RandomBits, random_bits
from ndis.profile import PrivacyProfile

__all__ = [
    "ARITHMETICS",
    "Adjacency",
    "AnswerMechanism",
    "Attained",
    "CertifiedMechanism",
    "GaussianRelease",
    "Mechanism",
    "Receipt",
    "as_adjacency",
    "check_budget",
    "check_schema",
    "mechanism_of",
    "receipt_of",
    "settle",
]

ARITHMETICS = ("exact", "exact draw, law computed in floats")


@dataclass(frozen=True)
class Attained:
    """Two neighbouring data sets, in words, and the exact profile of the mechanism's output on them.

    The profile of a mechanism is an upper bound over all neighbours. This profile is a lower bound: a claim that
    contradicts it is false.
    """

    neighbours: str
    profile: PrivacyProfile


@runtime_checkable
class Mechanism(Protocol):
    """The members that the auditor and the estimators need of a mechanism. All its fields are public."""

    @property
    def adjacency(self) -> Adjacency:
        """Which data sets are neighbours."""

    def profile(self) -> PrivacyProfile:
        """The guarantee: no neighbours are worse, in either order."""

    def attained(self) -> tuple[Attained, ...]:
        """The worst known neighbours, from public parameters only."""


@dataclass(frozen=True, kw_only=True)
class _Target:
    """The budget that a mechanism is made with. The methods of the same names need a class of their own."""

    epsilon: InitVar[float]
    delta: InitVar[float]
    target_epsilon: float = field(init=False)
    target_delta: float = field(init=False)


class CertifiedMechanism(_Target):
    """A mechanism whose constructor takes a budget `epsilon`, `delta` and certifies that it is met.

    Attributes
    ----------
    target_epsilon, target_delta : float
        The budget.
    """

    def profile(self) -> PrivacyProfile:
        """Return the guarantee at every ε."""
        raise NotImplementedError  # each mechanism has its own

    def epsilon(self, delta: float) -> float:
        """Return the smallest ε of the guarantee at δ.

        >>> import ndis
        >>> mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
        >>> round(mechanism.epsilon(1e-9), 6), mechanism.target_epsilon
        (1.317671, 1.0)
        """
        return float(self.profile().epsilon(delta))

    def delta(self, epsilon: float) -> float:
        """Return δ of the guarantee at ε."""
        return float(self.profile().delta(epsilon))

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor that make this mechanism again."""
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.init}
        return {**own, "epsilon": self.target_epsilon, "delta": self.target_delta}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state of a copy. Copies of version 0.2 hold the budget as `epsilon` and `delta`."""
        for name in ("epsilon", "delta"):
            if name in state:
                state = {**state, f"target_{name}": state[name]}
                del state[name]
        self.__dict__.update(state)


@dataclass(frozen=True)
class Receipt:
    """The guarantee of a release, and how it was made. A receipt holds only public values.

    Attributes
    ----------
    mechanism : str
        Name of the mechanism.
    parameters : mapping
        Its public parameters.
    epsilon, delta : float
        The guarantee that was asked for. The mechanism meets it.
    adjacency : str
        "add-remove" or "replace-one".
    private : bool
        False if a seed made the randomness reproducible. Do not publish such a release.
    arithmetic : str
        "exact": the output is the ideal draw, rounded to a public grid. "exact draw, law computed in floats": the same,
        but the mean and covariance came from a model as floats. The guarantee does not cover their rounding.
    version : str
        The version of the package.
    ledger : mapping, optional
        If a budget ledger paid: the name of its data set, the number of the entry and its digest (`ndis.Ledger`).
    digest : str
        SHA-256 of the other fields and of the released values; empty until they are put together. It shows if the
        receipt was changed, or belongs to other values. Whoever changes both can compute it again.

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
    ledger: Mapping[str, Any] | None = None
    digest: str = ""

    @property
    def words(self) -> str:
        """The guarantee in words, or that there is none.

        >>> Receipt("M", {}, 1.0, 1e-6, "add-remove", private=False).words
        'NOT private: a seed made the noise reproducible, so do not publish this'
        """
        if not self.private:
            return "NOT private: a seed made the noise reproducible, so do not publish this"
        return f"({self.epsilon:g}, {self.delta:g})-differentially private, {self.adjacency}"

    def to_dict(self) -> dict[str, Any]:
        """As plain values, in the order of the fields."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        found["parameters"] = dict(self.parameters)
        if self.ledger is None:
            del found["ledger"]
        else:
            found["ledger"] = dict(self.ledger)
        if not self.digest:
            del found["digest"]
        return found

    def to_json(self) -> str:
        """As JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=2)

    @classmethod
    def from_json(cls, text: str | bytes) -> Receipt:
        """Read the receipt that `to_json` wrote, and refuse anything else."""
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
        """The receipt of a saved release. If it says `private`, it must have a digest, so nobody can just cut it off.

        >>> Receipt.from_saved(Receipt("M", {}, 1.0, 1e-6, "add-remove", private=True).to_json())
        Traceback (most recent call last):
        ndis.errors.ParameterError: digest of the receipt must be there for a release that is private; got none
        """
        found = cls.from_json(text)
        if found.private and not found.digest:
            raise ParameterError("digest of the receipt", "be there for a release that is private", "none")
        return found

    def bound_to(self, **values: Any) -> Receipt:
        """The receipt with the digest of itself and the released values; refused if it has a digest of others.

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
    seal = only_keys("ledger of the receipt", found, ("data_name", "entry", "head"))
    good = isinstance(seal["data_name"], str) and type(seal["entry"]) is int and isinstance(seal["head"], str)
    if not (good and re.fullmatch("[0-9a-f]{64}", seal["head"])):
        raise ParameterError("ledger of the receipt", "have a name, a number and 64 hexadecimal digits", "other values")


def check_schema(text: Any) -> None:
    """Refuse a schema in a receipt that is no text; `Schema.from_receipt` reads it."""
    if not isinstance(text, str):
        raise ParameterError("schema of the receipt", "be TOML text", type(text).__name__)


def _parts(values: Mapping[str, Any]) -> Iterator[bytes]:
    """Named arrays as bytes that do not depend on the machine."""
    for name in sorted(values):
        array = np.asarray(values[name])
        if array.dtype.kind == "U":  # the width of its type follows from the longest entry
            yield json.dumps([name, array.tolist()]).encode()
        else:
            array = array.astype(array.dtype.newbyteorder("<"))
            yield json.dumps([name, array.dtype.str, array.shape]).encode()
            yield array.tobytes()


def receipt_of(
    mechanism: Any, *, private: bool, released: Mapping[str, Any], seal: Mapping[str, Any] | None = None
) -> Receipt:
    """The receipt of one release: the mechanism's fields, and values that came out with the release."""
    values = mechanism.arguments()
    epsilon, delta, adjacency = (values.pop(name) for name in ("epsilon", "delta", "adjacency"))
    parameters = {**values, **released}
    return Receipt(type(mechanism).__name__, parameters, epsilon, delta, adjacency, private=private, ledger=seal)


def mechanism_of(receipt: Receipt, kind: type[Any]) -> tuple[Any, dict[str, Any]]:
    """The mechanism of a receipt, certified again, and the other parameters: those that came out with the release."""
    own: dict[str, Any] = {"epsilon": receipt.epsilon, "delta": receipt.delta, "adjacency": receipt.adjacency}
    needed = [one.name for one in fields(kind) if one.init and one.name not in own]
    released = dict(receipt.parameters)
    if not released.keys() >= set(needed):
        raise ParameterError("parameters of the receipt", f"have {', '.join(sorted(needed))}", "some are missing")
    values: dict[str, Any] = {name: released.pop(name) for name in needed}
    try:
        return kind(**values, **own), released
    except PrecisionError as error:
        raise ParameterError("parameters of the receipt", "be those of a certified mechanism", error) from error


def check_budget(name: str, value: float, reached: float, *, epsilon: float, delta: float, remedy: str) -> None:
    """Refuse a parameter with which the certified δ at ε, `reached`, is not within δ."""
    if not reached <= delta:
        rule = f"keep delta at epsilon = {epsilon:g} within {delta:g}"
        raise ParameterError(name, rule, f"{value!r}, with delta up to {reached:.6g}", remedy)


def settle(
    mechanism: CertifiedMechanism,
    target: tuple[float, float],
    knob: str,
    certified: Callable[[float], float],
    *,
    remedy: str,
    **checked: Any,
) -> None:
    """Give a frozen mechanism its checked parameters, and refuse it unless its certified δ at ε is within its budget.

    Parameters
    ----------
    mechanism : CertifiedMechanism
    target : (float, float)
        ε and δ.
    knob : str
        The parameter that decides δ. The error names it.
    certified : callable
        ε → a certified upper end of δ; called once the parameters are in place.
    remedy : str
        How to find a parameter for a budget.
    checked
        The other parameters by name.
    """
    epsilon, delta = budget(*target)
    for name, value in {"target_epsilon": epsilon, "target_delta": delta, **checked}.items():
        object.__setattr__(mechanism, name, value)
    check_budget(knob, getattr(mechanism, knob), certified(epsilon), epsilon=epsilon, delta=delta, remedy=remedy)


class AnswerMechanism(CertifiedMechanism):
    """A mechanism that releases one draw about an answer: a number, a vector, or the law of a model."""

    def release_from(
        self,
        read: Callable[[], Any],
        *,
        random_state: Any = None,
        ledger: str | os.PathLike[str] | None = None,
        slot: str | None = None,
    ) -> GaussianRelease:
        """As `release`, of what `read` returns. It is called when the ledger has reserved."""
        bits = random_bits(random_state)
        self._check_again()
        with charged(self, ledger=ledger, slot=slot, private=bits.private) as charge:
            return self._draw(read(), bits, charge.seal())

    def _check_again(self) -> None:
        """Refuse a mechanism that was changed after it was made; only a model can be."""

    def _draw(self, answer: Any, bits: RandomBits, seal: Mapping[str, Any] | None) -> GaussianRelease:
        """The release; `seal` is the entry of the ledger that paid."""
        raise NotImplementedError  # each mechanism has its own


@dataclass(frozen=True, eq=False)
class GaussianRelease:
    """One draw with Gaussian noise, and its receipt. All mechanisms with Gaussian noise on an answer return it.

    Attributes
    ----------
    values : array
        The draw, rounded to the grid of the receipt. Read-only.
    receipt : Receipt
    """

    values: Floats
    receipt: Receipt

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        values.setflags(write=False)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "receipt", self.receipt.bound_to(values=values))

    @property
    def private(self) -> bool:
        """False if a seed made the draw reproducible."""
        return self.receipt.private

    @property
    def noise_variance(self) -> float:
        """The variance added to every coordinate; the factor of the covariance if the noise has a public one."""
        return float(self.receipt.parameters["noise_variance"])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write values and receipt as one JSON file: all of it under its name, or nothing."""
        content = {"values": self.values.tolist(), "receipt": self.receipt.to_dict()}
        write_file(path, json.dumps(content, allow_nan=False, indent=2).encode() + b"\n", name="path")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> GaussianRelease:
        """Read the release that `save` wrote. The digest of its receipt must be that of receipt and values.

        >>> import tempfile
        >>> receipt = Receipt("lift(Mean)", {"noise_variance": 1.0}, 1.0, 1e-5, "add-remove", private=True)
        >>> release = GaussianRelease([0.5], receipt)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     release.save(f"{folder}/release.json")
        ...     GaussianRelease.load(f"{folder}/release.json").receipt == release.receipt
        True
        """
        try:
            with open(path, "rb") as file:
                text = file.read()
        except OSError as error:
            raise ParameterError("path", "be a file that can be read", f"{str(path)!r}: {error.strerror}") from error
        found = only_keys("release", loads("release", text), ("values", "receipt"))
        return cls(found["values"], Receipt.from_saved(json.dumps(found["receipt"])))
