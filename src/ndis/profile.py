"""A mechanism's guarantee: the worst of its two ordered pairs, and what stays exact under composition and sampling."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from ndis._validate import Floats, as_floats, as_probability
from ndis.enclosure import Enclosure
from ndis.errors import ParameterError
from ndis.pair import GaussianPair

__all__ = ["PrivacyProfile"]

Order = Literal["remove", "add"]
Choice = Literal["worst", "remove", "add"]

_ORDERS: dict[str, tuple[Order, ...]] = {"worst": ("remove", "add"), "remove": ("remove",), "add": ("add",)}
_FORMAT, _FORMAT_VERSION = "ndis.PrivacyProfile", 1


@dataclass(frozen=True, eq=False)
class PrivacyProfile:
    """How private a mechanism is under adding or removing one record: δ at every ε, the worst of both orders.

    Parameters
    ----------
    remove : GaussianPair
        The output with the record from the output without it.
    add : GaussianPair, optional
        The output without the record from the output with it; `remove.reversed()` unless given.
    sampling_rates : tuple of float
        Rates of Poisson sampling, one after the other; use `subsampled`.
    failure_probability : float
        Probability with which the pairs say nothing, as when a private test errs. Every δ here includes it.

    Examples
    --------
    >>> import ndis
    >>> from ndis.profile import PrivacyProfile
    >>> sketch = PrivacyProfile(ndis.GaussianPair.from_ratios(1.02, copies=100))
    >>> round(sketch.epsilon(1e-6), 9)
    0.692349824
    >>> round(sketch.repeat(10).epsilon(1e-6), 9)
    2.119854412
    >>> round(sketch.subsampled(0.01).epsilon(1e-6), 9)
    0.00...
    """

    remove: GaussianPair
    add: GaussianPair = None  # type: ignore[assignment]  # filled in below
    sampling_rates: tuple[float, ...] = ()
    failure_probability: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.remove, GaussianPair):
            raise ParameterError("remove", "be a GaussianPair", type(self.remove).__name__)
        add: object = self.add
        if add is None:
            object.__setattr__(self, "add", self.remove.reversed())
        elif not isinstance(add, GaussianPair):
            raise ParameterError("add", "be a GaussianPair", type(add).__name__)
        object.__setattr__(self, "sampling_rates", tuple(q for q in map(_rate, self.sampling_rates) if q < 1.0))
        failure = _single("failure_probability", as_floats("failure_probability", self.failure_probability))
        if not 0 <= failure < 1:
            raise ParameterError("failure_probability", "be at least 0 and below 1", failure)
        object.__setattr__(self, "failure_probability", failure)

    @classmethod
    def from_pair(cls, pair: GaussianPair) -> PrivacyProfile:
        """The guarantee when one pair, and its reverse, is the worst case of both orders.

        >>> import ndis
        >>> from ndis.profile import PrivacyProfile
        >>> profile = PrivacyProfile.from_pair(ndis.GaussianPair.from_ratios(0.5))
        >>> profile.delta(1.0) == profile.add.delta(1.0) > profile.remove.delta(1.0)
        True
        """
        return cls(pair)

    @property
    def sampling_rate(self) -> float:
        """Probability with which a record enters the mechanism; 1 unless subsampled."""
        return math.prod(self.sampling_rates, start=1.0)

    # ------------------------------------------------------------------ the guarantee

    def log_delta(self, epsilon: ArrayLike, *, order: Choice = "worst") -> Any:
        """log δ(ε), accurate far below the smallest float. Broadcasts over `epsilon`, which may be negative.

        >>> import ndis
        >>> from ndis.profile import PrivacyProfile
        >>> round(PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=0.01)).log_delta(3.0), 6)
        -45015.43172
        """
        x = as_floats("epsilon", epsilon)
        values = np.maximum.reduce([self._log_delta(one, x.ravel()) for one in _orders(order)]).reshape(x.shape)
        if self.failure_probability:
            values = np.minimum(np.logaddexp(values, math.log(self.failure_probability)), 0.0)
        return float(values) if x.ndim == 0 else values

    def delta(self, epsilon: ArrayLike, *, order: Choice = "worst") -> Any:
        """δ(ε): the larger of the two orders, or the one asked for. Broadcasts; ε may be negative.

        >>> import ndis
        >>> from ndis.profile import PrivacyProfile
        >>> profile = PrivacyProfile(ndis.GaussianPair.from_ratios(2.0))
        >>> round(profile.delta(1.0), 12), round(profile.delta(1.0, order="add"), 12)
        (0.045611619893, 0.0)
        """
        value = np.exp(self.log_delta(epsilon, order=order))
        return float(value) if value.ndim == 0 else value

    def epsilon(self, delta: ArrayLike, *, order: Choice = "worst") -> Any:
        """The smallest ε ≥ 0 with δ(ε) ≤ `delta`, on the safe side; 0 when that holds at 0 already. Broadcasts.

        >>> import ndis
        >>> from ndis.profile import PrivacyProfile
        >>> profile = PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=1.0))
        >>> profile.delta(profile.epsilon(1e-6)) <= 1e-6
        True
        """
        target = as_probability("delta", delta)
        flat = [self._smallest_epsilon(d, order) for d in target.ravel().tolist()]
        values = np.array(flat).reshape(target.shape)
        return float(values) if target.ndim == 0 else values

    def certify(self, epsilon: float, *, relative_width: float = 1e-10, order: Choice = "worst") -> Enclosure:
        """A rigorous enclosure of δ(ε), from the exact binary inputs.

        A failure probability counts in the upper end alone: a guarantee has to include it, and nobody has shown that
        it is used up.

        Raises
        ------
        PrecisionError
            If the width asked for is not reached.

        Examples
        --------
        >>> import ndis
        >>> from ndis.profile import PrivacyProfile
        >>> profile = PrivacyProfile(ndis.GaussianPair.from_ratios(2.0)).subsampled(0.1)
        >>> box = profile.certify(0.5)
        >>> box.lower <= profile.delta(0.5) * (1 + 1e-12) and profile.delta(0.5) * (1 - 1e-12) <= box.upper
        True
        """
        x = _single("epsilon", as_floats("epsilon", epsilon))
        width = _single("relative_width", as_probability("relative_width", relative_width))
        boxes = [self._certify(one, x, width) for one in _orders(order)]
        lower, upper = max(b.lower for b in boxes), max(b.upper for b in boxes)
        if not self.failure_probability:
            return Enclosure(lower, upper)
        return Enclosure(lower, min(_sum_up(upper, self.failure_probability), 1.0))

    def certified_epsilon(self, delta: float, *, order: Choice = "worst") -> float:
        """An ε whose certified δ(ε) is at most `delta`: `epsilon(delta)`, moved up in its last digits where needed.

        >>> import ndis
        >>> from ndis.profile import PrivacyProfile
        >>> profile = PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=1.0))
        >>> profile.certify(profile.certified_epsilon(1e-6), relative_width=1e-13).upper <= 1e-6
        True
        """
        target = _single("delta", as_probability("delta", delta))
        start = x = self._smallest_epsilon(target, order)
        step = 2.0**-48 * max(start, 2.0**-1000)
        while math.isfinite(x) and not self.certify(x, relative_width=1e-13, order=order).upper <= target:
            x, step = start + step, 2.0 * step
        return x

    # ------------------------------------------------------------------ new guarantees from old

    def compose(self, *others: PrivacyProfile) -> PrivacyProfile:
        """The guarantee of all mechanisms together, each with its own randomness.

        Later ones may depend on the outputs of earlier ones. Remove is composed with remove and add with add; the worse
        is taken at the end.

        >>> import ndis
        >>> from ndis.profile import PrivacyProfile
        >>> sketch = PrivacyProfile(ndis.GaussianPair.from_ratios(1.02, copies=100))
        >>> mean = PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=0.1))
        >>> sketch.compose(mean).epsilon(1e-6) > sketch.epsilon(1e-6)
        True
        """
        for p in others:
            if not isinstance(p, PrivacyProfile):
                raise ParameterError(
                    "others", "be PrivacyProfile values", type(p).__name__, "wrap a pair as PrivacyProfile(pair)"
                )
        for p in (self, *others):
            p._need_whole()
        return PrivacyProfile(
            self.remove.compose(*(p.remove for p in others)),
            self.add.compose(*(p.add for p in others)),
            failure_probability=_together([p.failure_probability for p in (self, *others)]),
        )

    def repeat(self, times: int) -> PrivacyProfile:
        """The guarantee of `times` runs in all.

        >>> import ndis
        >>> from ndis.profile import PrivacyProfile
        >>> PrivacyProfile(ndis.GaussianPair.from_ratios(1.1)).repeat(10).remove.dimension
        10
        """
        self._need_whole()
        remove, add = self.remove.repeat(times), self.add.repeat(times)
        failure = self.failure_probability and _together([self.failure_probability], times=int(times))
        return PrivacyProfile(remove, add, failure_probability=failure)

    def subsampled(self, rate: float) -> PrivacyProfile:
        """The guarantee when each record enters on its own with probability `rate` (Poisson sampling), exactly.

        Sampling a sample multiplies the rates. What has been sampled is no longer a pair of Gaussians, so it does not
        compose exactly: compose first where all releases see one sample. A failure probability stays as it is, though
        sampling would make it smaller.

        >>> import ndis
        >>> from ndis.profile import PrivacyProfile
        >>> profile = PrivacyProfile(ndis.GaussianPair.from_ratios(1.0, shift=1.0))
        >>> round(profile.delta(0.0), 12), round(profile.subsampled(0.1).delta(0.0), 12)
        (0.382924922548, 0.038292492255)
        """
        return replace(self, sampling_rates=(*self.sampling_rates, rate))

    # ------------------------------------------------------------------ out and in

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw δ against ε and return the axes; see `ndis.plotting.plot_profile` for the options."""
        from ndis.plotting import plot_profile

        return plot_profile(self, ax=ax, **options)

    def to_json(self) -> str:
        """The profile as JSON text, from the exact inputs of its pairs.

        >>> import ndis
        >>> from ndis.profile import PrivacyProfile
        >>> profile = PrivacyProfile(ndis.GaussianPair.from_ratios(1.02, copies=100))
        >>> PrivacyProfile.from_json(profile.to_json()).certify(1.0) == profile.certify(1.0)
        True
        """
        from ndis import __version__
        from ndis._json import pair_to_json

        found: dict[str, Any] = {
            "format": _FORMAT,
            "format_version": _FORMAT_VERSION,
            "ndis_version": __version__,
            "sampling_rates": list(self.sampling_rates),
            "remove": pair_to_json(self.remove),
        }
        add = pair_to_json(self.add)
        if add != pair_to_json(self.remove.reversed()):
            found["add"] = add
        if self.failure_probability:
            found["failure_probability"] = self.failure_probability
        return json.dumps(found, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> PrivacyProfile:
        """The profile that `to_json` wrote; anything else is refused.

        >>> from ndis.profile import PrivacyProfile
        >>> PrivacyProfile.from_json('{"format": "something else"}')
        Traceback (most recent call last):
        ...
        ndis.errors.ParameterError: format of the profile must be 'ndis.PrivacyProfile'; got 'something else'
        """
        from ndis._json import loads, only_keys, pair_from_json

        found = loads("profile", text)
        tag, version = (found.get(k) if isinstance(found, dict) else None for k in ("format", "format_version"))
        if tag != _FORMAT:
            raise ParameterError("format of the profile", f"be {_FORMAT!r}", repr(tag))
        if version != _FORMAT_VERSION:
            raise ParameterError("format_version of the profile", f"be {_FORMAT_VERSION}", repr(version))
        required = ("format", "format_version", "ndis_version", "sampling_rates", "remove")
        only_keys("profile", found, required, ("add", "failure_probability"))
        rates = found["sampling_rates"]
        if not isinstance(rates, list):
            raise ParameterError("sampling_rates", "be a list of numbers", repr(rates))
        remove = pair_from_json("remove", found["remove"])
        add = pair_from_json("add", found["add"]) if "add" in found else remove.reversed()
        return cls(remove, add, tuple(rates), found.get("failure_probability", 0.0))

    # ------------------------------------------------------------------ one order at a time

    def _pair(self, order: Order) -> GaussianPair:
        return self.remove if order == "remove" else self.add

    def _log_delta(self, order: Order, epsilon: Floats) -> Floats:
        from ndis import subsampling

        pair = self._pair(order)
        if self.sampling_rates:
            return subsampling.log_delta(pair, epsilon, self.sampling_rates, order)
        return np.asarray(pair.log_delta(epsilon))

    def _certify(self, order: Order, epsilon: float, relative_width: float) -> Enclosure:
        from ndis import subsampling

        pair = self._pair(order)
        if self.sampling_rates:
            return subsampling.certify(pair, epsilon, self.sampling_rates, order, relative_width=relative_width)
        return pair.certify(epsilon, relative_width=relative_width)

    def _smallest_epsilon(self, target: float, choice: str) -> float:
        from ndis import subsampling

        orders, rates = _orders(choice), self.sampling_rates
        if self.failure_probability:
            target = _rest_down(target, self.failure_probability)
            if not target > 0.0:
                return math.inf
        if not rates:
            return max(float(self._pair(one).epsilon(target)) for one in orders)
        start = subsampling.smallest_epsilon_remove(self.remove, target, rates) if "remove" in orders else 0.0
        if "add" not in orders or start == math.inf:
            return start
        return subsampling.smallest_epsilon_add(self.add, target, rates, start)

    def _need_whole(self) -> None:
        if self.sampling_rates:
            raise ParameterError(
                "profile",
                "not be subsampled to compose exactly",
                f"sampling rate {self.sampling_rate!r}",
                "compose first and subsample the whole if all releases see one sample, else use a numerical accountant",
            )


def _single(name: str, value: Floats) -> float:
    if value.ndim:
        raise ParameterError(name, "be a single number", f"shape {value.shape}")
    return float(value)


def _sum_up(a: float, b: float) -> float:
    """a + b, rounded up."""
    total = a + b
    return total if Fraction(total) >= Fraction(a) + Fraction(b) else math.nextafter(total, math.inf)


def _rest_down(a: float, b: float) -> float:
    """a − b, rounded down."""
    rest = a - b
    return rest if Fraction(rest) <= Fraction(a) - Fraction(b) else math.nextafter(rest, -math.inf)


def _together(failures: list[float], *, times: int = 1) -> float:
    """The sum of failure probabilities, `times` over, rounded up; what reaches 1 guarantees nothing."""
    exact = times * sum((Fraction(f) for f in failures), Fraction(0))
    total = float(exact)
    total = total if Fraction(total) >= exact else math.nextafter(total, math.inf)
    if not total < 1:
        raise ParameterError("failure_probability", "stay below 1 in all", total, "compose fewer releases")
    return total


def _rate(rate: float) -> float:
    q = _single("rate", as_floats("rate", rate))
    if not 0 < q <= 1:
        raise ParameterError("rate", "be above 0 and at most 1", q)
    return q


def _orders(order: str) -> tuple[Order, ...]:
    if order not in _ORDERS:
        raise ParameterError("order", "be 'worst', 'remove' or 'add'", repr(order))
    return _ORDERS[order]
