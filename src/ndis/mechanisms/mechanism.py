"""Define what all mechanisms share: guarantee, target, worst neighbours, how a release is announced, and receipts."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import InitVar, dataclass, field, fields, replace
from functools import wraps
from importlib import import_module
from typing import Any, ParamSpec, Protocol, TypeVar, runtime_checkable

import numpy as np

from ndis._files import loads, only_keys
from ndis._search import budget
from ndis._validate import Adjacency, as_adjacency, as_choice, assign, require, warn_caller
from ndis._version import __version__
from ndis.errors import ParameterError, PrecisionError
from ndis.pages.text import plain
from ndis.profile import PrivacyProfile

P = ParamSpec("P")
T = TypeVar("T")

ARITHMETICS = ("exact", "exact draw, law computed in floats")


@dataclass(frozen=True)
class Attained:
    """Describes two neighbouring data sets in words, with the exact profile of the mechanism's output on them.

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
        """Say which data sets are neighbours."""

    def profile(self) -> PrivacyProfile:
        """Return the guarantee: no neighbours are worse, in either order."""

    def attained(self) -> tuple[Attained, ...]:
        """List the worst known neighbours, from public parameters only."""


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
        """Return the δ that is guaranteed at ε."""
        return float(self.profile().delta(epsilon))

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of the constructor that make this mechanism again."""
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.init}
        return {**own, "epsilon": self.target_epsilon, "delta": self.target_delta}

    def check(self) -> None:
        """Refuse a mechanism that no longer meets its target. Only the model of a lifted mechanism can change."""


def settle(
    mechanism: CertifiedMechanism,
    target: tuple[float, float],
    knob: str,
    *,
    remedy: str,
    certified: Callable[[float], float] | None = None,
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
    remedy : str
        How to find a parameter for a budget.
    certified : callable, optional
        ε → a certified upper end of δ, called once the parameters are in place; by default that of the profile.
    checked
        The other parameters by name.
    """
    epsilon, delta = budget(*target)
    assign(mechanism, target_epsilon=epsilon, target_delta=delta, **checked)
    reached = mechanism.profile().certify(epsilon).upper if certified is None else certified(epsilon)
    if not reached <= delta:
        rule = f"keep delta at epsilon = {epsilon:g} within {delta:g}"
        got = f"{getattr(mechanism, knob)!r}, with delta up to {reached:.6g}"
        raise ParameterError(knob, rule, got, remedy)


# ---------------------------------------------------------------------- who hears of a release

_lock = threading.Lock()
_listeners: list[Callable[[Any], None]] = []
_announcements = 0  # releases that this process has announced


def announce(mechanism: Any) -> None:
    """Tell all listeners that a mechanism is about to read data and release.

    Every release calls this once it has checked everything that is public, and before it reads a cell. A ledger
    reserves here.
    """
    global _announcements
    with _lock:
        _announcements += 1
    for listener in tuple(_listeners):
        listener(mechanism)


def announcements() -> int:
    """Count the releases that all mechanisms of this process have announced."""
    return _announcements


@contextmanager
def listening(listener: Callable[[Any], None]) -> Iterator[None]:
    """Call `listener` with the mechanism of every release of this process inside the block, in any thread."""
    with _lock:
        _listeners.append(listener)
    try:
        yield
    finally:
        with _lock:
            _listeners.remove(listener)


# ---------------------------------------------------------------------- ledger= on releases, for one more version


def payable(release: Callable[P, T]) -> Callable[P, T]:
    """Let a release take the arguments `ledger` and `slot` for one more version; `Ledger.charge` replaces them."""

    @wraps(release)
    def either(*args: P.args, **kwargs: P.kwargs) -> T:
        ledger, slot = kwargs.pop("ledger", None), kwargs.pop("slot", None)
        how = {"ledger": ledger, "slot": slot, "random_state": kwargs.get("random_state")}
        return paid_by_argument(args[0], lambda: release(*args, **kwargs), **how, announced=True)

    return either


def paid_by_argument(mechanism: Any, release: Callable[[], T], *, ledger: Any, slot: Any, **how: Any) -> T:
    """Make a release that its arguments `ledger` and `slot` may charge. This is the only way from here to a ledger.

    `how` are the other arguments of `ndis.ledger.pay`.
    """
    if ledger is None and slot is None:
        return release()
    if ledger is not None:
        warn_caller(
            "ledger= and slot= of a release are deprecated; write Ledger(path).release(slot, mechanism, data), or make "
            "the release inside Ledger(path).charge(slot, mechanism)",
            DeprecationWarning,
        )
    paid: T = import_module("ndis.ledger").pay(mechanism, release, ledger=ledger, slot=slot, **how)
    return paid


# ---------------------------------------------------------------------- receipts


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
        receipt was changed, or belongs to other values. If both are changed, it can be computed again.

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
        """State the guarantee in words, or that there is none.

        >>> Receipt("M", {}, 1.0, 1e-6, "add-remove", private=False).words
        'NOT private: a seed made the noise reproducible, so do not publish this'
        """
        if not self.private:
            return "NOT private: a seed made the noise reproducible, so do not publish this"
        return f"({plain(self.epsilon)}, {plain(self.delta)})-differentially private, {self.adjacency}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, in the order of the fields; without a ledger and a digest if there is none."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        values |= {name: dict(values[name]) for name in ("parameters", "ledger") if values[name] is not None}
        return {name: value for name, value in values.items() if name not in ("ledger", "digest") or value}

    def to_json(self) -> str:
        """Write JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=2)

    @classmethod
    def from_json(cls, text: str | bytes) -> Receipt:
        """Read the receipt that `to_json` wrote, and refuse anything else."""
        optional = ("ledger", "digest")
        required = tuple(name for name in cls.__dataclass_fields__ if name not in optional)
        values = {"digest": "", **only_keys("receipt", loads("receipt", text), required, optional)}
        for name, kind, words in _KINDS:
            if not isinstance(values[name], kind) or (kind is _NUMBER and isinstance(values[name], bool)):
                raise ParameterError(f"{name} of the receipt", f"be {words}", type(values[name]).__name__)
        as_choice("arithmetic of the receipt", values["arithmetic"], ARITHMETICS)
        as_adjacency(values["adjacency"])
        if "ledger" in values:
            seal = only_keys("ledger of the receipt", values["ledger"], ("data_name", "entry", "head"))
            good = isinstance(seal["data_name"], str) and type(seal["entry"]) is int and isinstance(seal["head"], str)
            if not (good and re.fullmatch("[0-9a-f]{64}", seal["head"])):
                rule = "have a name, a number and 64 hexadecimal digits"
                raise ParameterError("ledger of the receipt", rule, "other values")
        if not re.fullmatch("([0-9a-f]{64})?", values["digest"]):
            raise ParameterError("digest of the receipt", "be 64 hexadecimal digits", "other text")
        return cls(**values)

    @classmethod
    def from_saved(cls, text: str | bytes) -> Receipt:
        """Read the receipt of a saved release. If it says `private`, it must have a digest, which cannot be cut off.

        >>> Receipt.from_saved(Receipt("M", {}, 1.0, 1e-6, "add-remove", private=True).to_json())
        Traceback (most recent call last):
        ndis.errors.ParameterError: digest of the receipt must be there for a release that is private; got none
        """
        receipt = cls.from_json(text)
        if receipt.private and not receipt.digest:
            raise ParameterError("digest of the receipt", "be there for a release that is private", "none")
        return receipt

    def bound_to(self, **values: Any) -> Receipt:
        """Return the receipt with the digest of itself and the released values; refused if it has a digest of others.

        >>> receipt = Receipt("M", {}, 1.0, 1e-6, "add-remove", private=False).bound_to(values=np.zeros(2))
        >>> receipt.bound_to(values=np.zeros(2)) == receipt
        True
        >>> replace(receipt, private=True).bound_to(values=np.zeros(2))
        Traceback (most recent call last):
        ndis.errors.ParameterError: receipt must belong to the values released with it; got a digest of others
        """
        own = {name: value for name, value in self.to_dict().items() if name != "digest"}
        mark = hashlib.sha256()
        for piece in (json.dumps(own, sort_keys=True, default=repr).encode(), *_bytes_of(values)):
            mark.update(len(piece).to_bytes(8, "big") + piece)
        if self.digest not in ("", mark.hexdigest()):
            raise ParameterError("receipt", "belong to the values released with it", "a digest of others")
        return replace(self, digest=mark.hexdigest())


_NUMBER = (int, float)
_KINDS: tuple[tuple[str, Any, str], ...] = (
    ("mechanism", str, "a name"),
    ("parameters", dict, "an object"),
    ("epsilon", _NUMBER, "a number"),
    ("delta", _NUMBER, "a number"),
    ("private", bool, "true or false"),
    ("version", str, "text"),
    ("digest", str, "text"),
)


def _bytes_of(values: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield named arrays as bytes that do not depend on the machine."""
    for name in sorted(values):
        array = np.asarray(values[name])
        if array.dtype.kind == "U":  # the width of its type follows from the longest entry
            yield json.dumps([name, array.tolist()]).encode()
        else:
            array = array.astype(array.dtype.newbyteorder("<"))
            yield json.dumps([name, array.dtype.str, array.shape]).encode()
            yield array.tobytes()


def receipt_of(mechanism: CertifiedMechanism, *, private: bool, released: Mapping[str, Any]) -> Receipt:
    """Write the receipt of one release: the mechanism's fields, and values that came out with the release."""
    values = mechanism.arguments()
    epsilon, delta, adjacency = (values.pop(name) for name in ("epsilon", "delta", "adjacency"))
    return Receipt(type(mechanism).__name__, {**values, **released}, epsilon, delta, adjacency, private=private)


def mechanism_of(receipt: Receipt, kinds: Mapping[str, type[Any]]) -> tuple[Any, dict[str, Any]]:
    """Make the mechanism of a receipt, certified again; with the parameters that came out with the release.

    A schema among them is left out: `Schema.from_receipt` reads it.
    """
    names = f"one of {', '.join(kinds)}" if len(kinds) > 1 else repr(*kinds)
    require(receipt.mechanism in kinds, "mechanism of the receipt", f"be {names}", repr(receipt.mechanism))
    kind = kinds[receipt.mechanism]
    own: dict[str, Any] = {"epsilon": receipt.epsilon, "delta": receipt.delta, "adjacency": receipt.adjacency}
    needed = [one.name for one in fields(kind) if one.init and one.name not in own]
    released = dict(receipt.parameters)
    if not released.keys() >= set(needed):
        raise ParameterError("parameters of the receipt", f"have {', '.join(sorted(needed))}", "some are missing")
    if not isinstance(schema := released.pop("schema", ""), str):
        raise ParameterError("schema of the receipt", "be TOML text", type(schema).__name__)
    values: dict[str, Any] = {name: released.pop(name) for name in needed}
    try:
        return kind(**values, **own), released
    except PrecisionError as error:
        raise ParameterError("parameters of the receipt", "be those of a certified mechanism", error) from error
