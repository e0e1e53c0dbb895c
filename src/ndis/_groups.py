"""A privacy profile consists of groups of equal releases; pairs and groups are written as JSON.

JSON holds exact inputs, never numbers computed from them. So certificates survive. Python writes the shortest decimal
that reads back as the same float, so every input comes back bit for bit. Rationals are written as text. Format 3 of a
profile has steps that are no pairs. It is written for those only, and formats 1 and 2 are still read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Literal

from ndis._exact import up
from ndis._files import check_format, loads, only_keys
from ndis._validate import Adjacency, Order, as_choice, as_count, as_scalar, as_within, assign, require
from ndis._version import __version__
from ndis.accountant.composition import law_of_pair
from ndis.accountant.laws import Law, StepKind
from ndis.accountant.laws.allocation import AllocationStep
from ndis.accountant.laws.fixed_size import FixedSizeStep
from ndis.accountant.laws.labelled import TruncatedStep
from ndis.accountant.laws.mixture_steps import MixtureStep, SampledStep
from ndis.errors import ParameterError
from ndis.pair import GaussianPair

Choice = Literal["worst", "remove", "add"]

_ORDERS: dict[str, tuple[Order, ...]] = {"worst": ("remove", "add"), "remove": ("remove",), "add": ("add",)}
STEP_KINDS: dict[str, type[StepKind]] = {
    step.kind: step for step in (AllocationStep, MixtureStep, SampledStep, FixedSizeStep, TruncatedStep)
}
_FORMAT, _FORMAT_VERSIONS = "ndis.PrivacyProfile", (1, 2, 3)
_KEPT_PAIRS = 64  # noise multipliers whose pairs are kept
_COMMON = ("format", "format_version", "ndis_version")


@dataclass(frozen=True, eq=False)
class Group:
    """A group holds equal releases: the pair of each order, the rates of Poisson sampling and the number of releases.

    Parameters
    ----------
    remove : GaussianPair
        The output with the record from the output without it, before sampling.
    add : GaussianPair, optional
        The output without the record from the output with it; `remove.reversed()` unless given.
    rates : tuple of float
        Rates of Poisson sampling, one after the other. They multiply, and the certificate uses the exact product.
    count : int
        Number of releases. Each draws its own sample.

    Examples
    --------
    >>> import ndis
    >>> from ndis.profile import Group
    >>> step = Group(ndis.GaussianPair.from_ratios(1.0, shift=1.0), rates=(0.5, 0.25), count=10)
    >>> step.rate, step.count, step.sampled
    (0.125, 10, True)
    """

    remove: GaussianPair
    add: GaussianPair = None  # type: ignore[assignment]  # filled in below
    rates: tuple[float, ...] = ()
    count: int = 1

    def __post_init__(self) -> None:
        add, rates = other_order(self.remove, self.add), tuple(q for q in map(as_rate, self.rates) if q < 1.0)
        assign(self, add=add, rates=rates, count=as_count("count", self.count))

    @property
    def rate(self) -> float:
        """Return the probability with which a record enters each release; 1 if there is no sampling."""
        return math.prod(self.rates, start=1.0)

    @property
    def sampled(self) -> bool:
        """Say if the releases see only a sample."""
        return bool(self.rates)

    def pair(self, order: Order) -> GaussianPair:
        """Return the pair of one order."""
        return self.remove if order == "remove" else self.add

    def law(self, order: Order) -> Law:
        """Return the law of one release."""
        return law_of_pair(self.pair(order), self.rates, order)

    def blur(self, order: Order) -> tuple[float, float]:
        """Return `uncertainty` and `size` of the law: how far rounding may have moved a loss."""
        return self.pair(order).uncertainty, self.pair(order).form.mean

    def exact_inputs(self) -> Any:
        """Return what a certificate of one release starts from."""
        return self.rates, self.remove.origins, self.add.origins

    @property
    def singular(self) -> bool:
        """Say if the two laws without sampling have no output in common."""
        return self.remove.mutually_singular

    def same_release(self, other: Group | StepGroup) -> bool:
        """Say if both groups make the same release: equal exact inputs and equal rates.

        >>> import ndis
        >>> a, b = (Group(ndis.GaussianPair.from_ratios(2.0), count=n) for n in (1, 2))
        >>> a.same_release(b)
        True
        """
        return (
            isinstance(other, Group)
            and sorted(self.rates) == sorted(other.rates)
            and self.remove.same_origins(other.remove)
            and self.add.same_origins(other.add)
        )


@dataclass(frozen=True)
class StepGroup:
    """A step group holds equal steps that are no Gaussian pairs, because of how their batches are drawn.

    Parameters
    ----------
    step : StepKind
        The step by its exact inputs, for example a `MixtureStep`.
    count : int
        Number of steps. Each draws its own batch.
    """

    step: StepKind
    count: int = 1

    sampled: ClassVar[bool] = True
    singular: ClassVar[bool] = False

    def __post_init__(self) -> None:
        assign(self, count=as_count("count", self.count))

    def law(self, order: Order) -> Law:
        """Return the law of one step."""
        return self.step.law(order)

    def blur(self, order: Order) -> tuple[float, float]:
        """Return `uncertainty` and `size` of the law, as for a `Group`."""
        law = self.law(order)
        return law.uncertainty, law.size

    def exact_inputs(self) -> Any:
        """Return the step, as for a `Group`."""
        return self.step

    def pair(self, order: Order) -> GaussianPair:
        """Refuse: the step is no Gaussian pair."""
        got = f"a step of kind {self.step.kind!r}"
        raise ParameterError("profile", "consist of Gaussian pairs for this", got, "read its groups")

    def same_release(self, other: Group | StepGroup) -> bool:
        """Say if both groups make the same step, from equal exact inputs."""
        return isinstance(other, StepGroup) and self.step == other.step


def other_order(remove: GaussianPair, add: GaussianPair | None) -> GaussianPair:
    """Check the pairs of both orders, and return that of the second: `remove.reversed()` unless given."""
    for name, pair in (("remove", remove), ("add", remove if add is None else add)):
        require(isinstance(pair, GaussianPair), name, "be a GaussianPair", type(pair).__name__)
    return remove.reversed() if add is None else add


def canonical(groups: Iterable[Group | StepGroup]) -> tuple[Group | StepGroup, ...]:
    """Return the canonical list: one group for all releases without sampling, and equal sampled releases counted."""
    plain: list[Group] = []
    sampled: list[Group | StepGroup] = []
    for group in groups:
        require(isinstance(group, Group | StepGroup), "groups", "be Group values", type(group).__name__)
        known = next((i for i, one in enumerate(sampled) if one.same_release(group)), None)
        if isinstance(group, Group) and not group.sampled:
            plain.append(group)
        elif known is None:
            sampled.append(group)
        else:
            sampled[known] = replace(sampled[known], count=sampled[known].count + group.count)
    require(plain or sampled, "groups", "hold at least one group", "none")
    if sum(group.count for group in plain) > 1:
        remove, add = ([group.pair(one).repeat(group.count) for group in plain] for one in _ORDERS["worst"])
        plain = [Group(remove[0].compose(*remove[1:]), add[0].compose(*add[1:]))]
    return (*plain, *sampled)


def as_rate(rate: float, *, name: str = "rate") -> float:
    """Return a sampling rate, which must be above 0 and at most 1."""
    q = as_scalar(name, rate)
    require(0 < q <= 1, name, "be above 0 and at most 1", q)
    return q


def as_noise_multiplier(name: str, value: float) -> float:
    """Return the standard deviation of noise over the sensitivity, which must be positive."""
    return as_within(name, value, 400)


def noise_multiplier_of(group: Group | StepGroup) -> float | None:
    """Return the noise multiplier from which the pairs of a group were made; None if they were not made so."""
    if isinstance(group, StepGroup) or len(origins := group.remove.origins) != 1 or origins[0].kind != "excess":
        return None
    shift = origins[0].arrays[1].ravel()[0]
    if not shift > 0:
        return None
    remove, add = noise_pairs(sigma := float(1 / shift))
    return sigma if group.remove.same_origins(remove) and group.add.same_origins(add) else None


def sampled_step(group: Group | StepGroup, *more: float, adjacency: Adjacency = "add-remove") -> SampledStep | None:
    """Return Gaussian noise on a Poisson sample as a step of its own, sampled at further rates; None if it is not that.

    A pair for "replace-one" is not sampled yet. Its noise is over the diameter of the ball of contributions.
    """
    if isinstance(group, StepGroup):
        step = group.step
        if not isinstance(step, SampledStep) or step.adjacency != adjacency:
            return None
        return replace(step, rates=(*step.rates, *more))
    sigma = noise_multiplier_of(group)
    if sigma is None or group.sampled == (adjacency == "replace-one"):
        return None
    return SampledStep(sigma if group.sampled else 2.0 * sigma, (*group.rates, *more), adjacency=adjacency)


@lru_cache(_KEPT_PAIRS)
def noise_pairs(noise_multiplier: float) -> tuple[GaussianPair, GaussianPair]:
    """Return the pair of Gaussian noise in both orders: a mean shift of 1/noise_multiplier, exactly."""
    remove = GaussianPair.from_excess(0, 1 / Fraction(noise_multiplier))
    return remove, remove.reversed()


def total_failure(failures: list[float], *, times: int = 1) -> float:
    """Return the sum of failure probabilities, `times` over, rounded up. A sum of 1 is refused."""
    total = up(times * sum((Fraction(f) for f in failures), Fraction(0)))
    require(total < 1, "failure_probability", "stay below 1 in all", total, "compose fewer releases")
    return total


def orders_of(order: str) -> tuple[Order, ...]:
    """Return the orders that a caller asks for."""
    return _ORDERS[as_choice("order", order, tuple(_ORDERS))]


# ---------------------------------------------------------------------- JSON


# Ways to make a pair: the constructor, its arguments in the order of `Origin.arrays`, and how many must be given.
_KINDS: dict[str, tuple[Callable[..., GaussianPair], tuple[str, ...], int]] = {
    "ratios": (GaussianPair.from_ratios, ("variance_ratio", "shift", "copies"), 1),
    "excess": (GaussianPair.from_excess, ("excess", "shift", "copies"), 1),
    "diagonal": (GaussianPair.from_diagonal, ("mean_p", "var_p", "mean_q", "var_q"), 4),
    "dense": (GaussianPair.from_moments, ("mean_p", "cov_p", "mean_q", "cov_q"), 4),
    "low-rank": (GaussianPair.from_low_rank, ("mean_p", "mean_q", "cov_q", "factor", "sign"), 4),
}


def pair_from_arrays(name: str, arrays: Mapping[str, Any]) -> GaussianPair:
    """The pair made by the constructor whose arguments these are."""
    for make, names, least in _KINDS.values():
        if set(names[:least]) <= arrays.keys() <= set(names):
            return make(**arrays)
    choices = " or ".join(", ".join(a[:n]) + "".join(f" [{o}]" for o in a[n:]) for _, a, n in _KINDS.values())
    raise ParameterError(f"keys of {name}", f"be {choices}", ", ".join(arrays) or "none")


def pair_to_json(pair: GaussianPair) -> list[dict[str, Any]]:
    """The pair as a list of the origins it is composed of."""
    require(pair.origins, "pair", "know what it was made from", "no origins", "make it with a from_... constructor")
    return [
        {
            "kind": o.kind,
            "reverse": o.reverse,
            "copies": o.copies,
            "arrays": {
                key: [str(x) for x in a] if a.dtype == object else a.tolist()
                for key, a in zip(_KINDS[o.kind][1], o.arrays, strict=True)
            },
        }
        for o in pair.origins
    ]


def pair_from_json(name: str, result: Any) -> GaussianPair:
    """Make the pair again from its origins."""
    require(isinstance(result, list) and result, name, "be a list of at least one origin", f"a {type(result).__name__}")
    first, *others = (_origin_from_json(name, item) for item in result)
    return first.compose(*others) if others else first


def _origin_from_json(name: str, result: Any) -> GaussianPair:
    """Make the pair of one origin again; refuse anything that `pair_to_json` does not write."""
    item = only_keys(name, result, ("kind", "reverse", "copies", "arrays"))
    kind, reverse, copies = item["kind"], item["reverse"], item["copies"]
    require(isinstance(kind, str) and kind in _KINDS, f"kind in {name}", f"be one of {', '.join(_KINDS)}", repr(kind))
    require(isinstance(reverse, bool), f"reverse in {name}", "be true or false", repr(reverse))
    require(type(copies) is int, f"copies in {name}", "be a whole number of at least 1", repr(copies))
    make, names, _ = _KINDS[kind]
    arrays = only_keys(f"arrays in {name}", item["arrays"], names)
    if kind == "excess":
        arrays = {**arrays, **{key: _rationals(f"{key} in {name}", arrays[key]) for key in ("excess", "shift")}}
    pair = make(**arrays).repeat(copies)
    return pair.reversed() if reverse else pair


def _rationals(name: str, result: Any) -> list[Fraction]:
    """Rationals that were written as text."""
    try:
        if isinstance(result, list) and all(isinstance(text, str) for text in result):
            return [Fraction(text) for text in result]
    except (ValueError, ZeroDivisionError):
        pass
    raise ParameterError(name, "be a list of rationals as text", f"{result!r:.80}")


def profile_to_json(groups: tuple[Group | StepGroup, ...], adjacency: str, failure_probability: float) -> str:
    """Write the groups of a profile as JSON text."""
    result = {
        "format": _FORMAT,
        "format_version": 3 if any(isinstance(group, StepGroup) for group in groups) else 2,
        "ndis_version": __version__,
        "adjacency": adjacency,
        "groups": [_group_to_dict(group) for group in groups],
    }
    more = {"failure_probability": failure_probability} if failure_probability else {}
    return json.dumps({**result, **more}, allow_nan=False)


def profile_from_json(text: str | bytes) -> dict[str, Any]:
    """The arguments of the profile that `profile_to_json` wrote; anything else is refused."""
    result = loads("profile", text)
    if check_format("profile", result, _FORMAT, *_FORMAT_VERSIONS) == 1:
        only_keys("profile", result, (*_COMMON, "sampling_rates", "remove"), ("add", "failure_probability"))
        if not isinstance(result["sampling_rates"], list):
            raise ParameterError("sampling_rates", "be a list of numbers", repr(result["sampling_rates"]))
        pairs = {key: result[key] for key in ("remove", "add") if key in result}
        items: Any = [{**pairs, "rates": result["sampling_rates"], "count": 1}]
    else:
        only_keys("profile", result, (*_COMMON, "adjacency", "groups"), ("failure_probability",))
        items = result["groups"]
        if not isinstance(items, list) or not items:
            raise ParameterError("groups of the profile", "be a list of at least one group", f"{items!r:.80}")
    return {
        "groups": [_group_from_dict(item) for item in items],
        "adjacency": result.get("adjacency", "add-remove"),  # format 1 did not name it
        "failure_probability": result.get("failure_probability", 0.0),
    }


def _group_to_dict(group: Group | StepGroup) -> dict[str, Any]:
    """Write one group; the pair of the second order only if it is not the reverse of the first."""
    if isinstance(group, StepGroup):
        return {"step": {"kind": group.step.kind, **asdict(group.step)}, "count": group.count}  # type: ignore[call-overload]
    result: dict[str, Any] = {"remove": pair_to_json(group.remove)}
    add = pair_to_json(group.add)
    if add != pair_to_json(group.remove.reversed()):
        result["add"] = add
    return {**result, "rates": list(group.rates), "count": group.count}


def _group_from_dict(result: Any) -> Group | StepGroup:
    """Read one group; refuse anything that `profile_to_json` does not write."""
    special = isinstance(result, dict) and "step" in result
    keys = (("step", "count"), ()) if special else (("remove", "rates", "count"), ("add",))
    item = only_keys("group of the profile", result, *keys)
    count = item["count"]
    require(type(count) is int, "count of a group", "be a whole number of at least 1", repr(count))
    if special:
        return StepGroup(_step_from_dict(item["step"]), count)
    require(isinstance(rates := item["rates"], list), "rates", "be a list of numbers", repr(rates))
    remove = pair_from_json("remove", item["remove"])
    add = pair_from_json("add", item["add"]) if "add" in item else remove.reversed()
    return Group(remove, add, tuple(rates), count)


def _step_from_dict(result: Any) -> StepKind:
    """Read a step that is no pair, by its kind."""
    kind = result.get("kind") if isinstance(result, dict) else None
    if not (isinstance(kind, str) and kind in STEP_KINDS):
        raise ParameterError("kind of a step", f"be one of {', '.join(STEP_KINDS)}", f"{kind!r:.80}")
    names = tuple(field.name for field in fields(STEP_KINDS[kind]))  # type: ignore[arg-type]  # they are dataclasses
    item = only_keys("step of the profile", result, ("kind", *names))
    return STEP_KINDS[kind](**{name: item[name] for name in names})
