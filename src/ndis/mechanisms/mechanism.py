"""Define the contract of all mechanisms: guarantee, target, worst neighbours, and how a release is announced."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import InitVar, dataclass, field, fields
from functools import wraps
from importlib import import_module
from typing import Any, ParamSpec, Protocol, TypeVar, runtime_checkable

from ndis._search import budget, first_safe_epsilon
from ndis._validate import Adjacency, warn_caller
from ndis.errors import ParameterError
from ndis.profile import PrivacyProfile

P = ParamSpec("P")
T = TypeVar("T")


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

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state of a copy. Copies of version 0.2 hold the budget as `epsilon` and `delta`."""
        for name in ("epsilon", "delta"):
            if name in state:
                state = {**state, f"target_{name}": state[name]}
                del state[name]
        self.__dict__.update(state)

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
    for name, value in {"target_epsilon": epsilon, "target_delta": delta, **checked}.items():
        object.__setattr__(mechanism, name, value)
    reached = mechanism.profile().certify(epsilon).upper if certified is None else certified(epsilon)
    if not reached <= delta:
        rule = f"keep delta at epsilon = {epsilon:g} within {delta:g}"
        got = f"{getattr(mechanism, knob)!r}, with delta up to {reached:.6g}"
        raise ParameterError(knob, rule, got, remedy)


def certified_epsilon(profile: PrivacyProfile, delta: float) -> float:
    """Return the smallest ε of a profile at δ, with a certificate that it holds."""
    _, delta = budget(0.0, delta)
    return first_safe_epsilon(profile.certified_epsilon(delta), lambda e: profile.certify(e).upper, delta)


# ---------------------------------------------------------------------- who hears of a release

_lock = threading.Lock()
_listeners: list[Callable[[Any], None]] = []


def announce(mechanism: Any) -> None:
    """Tell all listeners that a mechanism is about to read data and release.

    Every release calls this once it has checked everything that is public, and before it reads a cell. A ledger
    reserves here.
    """
    for listener in tuple(_listeners):
        listener(mechanism)


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
