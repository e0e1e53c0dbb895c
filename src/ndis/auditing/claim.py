"""A claim is one point (ε, δ) or a whole curve, with a word for which data sets are neighbours; and its proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from ndis._files import only_keys
from ndis._validate import Adjacency, as_adjacency, as_not_negative, as_scalar, as_vector, require
from ndis.errors import ParameterError

Point = tuple[float, float]


@dataclass(frozen=True)
class Claim:
    """A claim says that an algorithm has (ε, δ)-differential privacy, at one point or at several.

    Parameters
    ----------
    epsilon : float, or tuple of floats
        ε ≥ 0.
    delta : float, or as many as `epsilon`
        0 ≤ δ < 1.
    adjacency : str
        "add-remove" or "replace-one": which data sets are neighbours.

    Examples
    --------
    >>> print(Claim(epsilon=1, delta=1e-6))
    (ε = 1.0, δ = 1e-06)-differential privacy under add-remove
    >>> print(Claim.curve([0.5, 1.0], [1e-4, 1e-6]))
    differential privacy at 2 points, ε from 0.5 to 1.0, under add-remove
    """

    epsilon: Any
    delta: Any
    adjacency: Adjacency = "add-remove"

    def __post_init__(self) -> None:
        several = isinstance(self.epsilon, tuple)
        pairs = zip(self.epsilon, self.delta, strict=True) if several else [(self.epsilon, self.delta)]
        points = sorted((as_not_negative("epsilon", e), as_scalar("delta", d)) for e, d in pairs)
        for _, delta in points:
            require(0 <= delta < 1, "delta", "be at least 0 and below 1", delta)
        as_adjacency(self.adjacency)
        for name, values in zip(("epsilon", "delta"), zip(*points, strict=True), strict=True):
            object.__setattr__(self, name, values if several else values[0])

    @property
    def points(self) -> tuple[Point, ...]:
        """Return all claimed (ε, δ), in order of ε."""
        return tuple(zip(*(x if isinstance(x, tuple) else (x,) for x in (self.epsilon, self.delta)), strict=True))

    @staticmethod
    def curve(epsilons: ArrayLike, deltas: ArrayLike, *, adjacency: Adjacency = "add-remove") -> Claim:
        """Make a claim at several points (ε, δ); the audit refutes it if it refutes one point.

        >>> Claim.curve([0.5, 1.0], [1e-4, 1e-6]).points
        ((0.5, 0.0001), (1.0, 1e-06))
        """
        e, d = as_vector("epsilons", epsilons), as_vector("deltas", deltas)
        if e.size != d.size or e.size == 0:
            raise ParameterError("deltas", "be as many as epsilons, at least one", f"{d.size} for {e.size}")
        return Claim(tuple(e.tolist()), tuple(d.tolist()), adjacency)

    def __str__(self) -> str:
        if not isinstance(self.epsilon, tuple):
            return f"(ε = {self.epsilon!r}, δ = {self.delta!r})-differential privacy under {self.adjacency}"
        ends = f"ε from {self.epsilon[0]!r} to {self.epsilon[-1]!r}"
        return f"differential privacy at {len(self.points)} points, {ends}, under {self.adjacency}"


def claim_to_dict(claim: Claim) -> dict[str, Any]:
    """Return the claim as plain values."""
    return {"adjacency": claim.adjacency, "points": [list(point) for point in claim.points]}


def claim_from_dict(plain: Any) -> Claim:
    """Read the claim that `claim_to_dict` wrote.

    >>> claim_from_dict({"adjacency": "add-remove", "points": [[1.0, 1e-06]]})
    Claim(epsilon=1.0, delta=1e-06, adjacency='add-remove')
    """
    item = only_keys("claim", plain, ("adjacency", "points"))
    points = item["points"]
    if not (isinstance(points, list) and points and all(isinstance(p, list) and len(p) == 2 for p in points)):
        raise ParameterError("points of the claim", "be a list of [epsilon, delta]", repr(points))
    epsilon, delta = points[0] if len(points) == 1 else zip(*points, strict=True)
    return Claim(epsilon, delta, item["adjacency"])


@dataclass(frozen=True)
class Proof:
    """A proof that a claim is true.

    Attributes
    ----------
    theorem : str
        Label of the theorem in the theory page of the documentation.
    statement : str
        What is proved.
    assumptions : tuple of str
        What must hold for the theorem to apply.

    Examples
    --------
    >>> proof = Proof("thm:mean-shift", "the mechanism is private", ("one person has one record",))
    >>> Proof.from_dict(proof.to_dict()) == proof
    True
    """

    theorem: str
    statement: str
    assumptions: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"theorem": self.theorem, "statement": self.statement, "assumptions": list(self.assumptions)}

    @classmethod
    def from_dict(cls, plain: Any) -> Proof:
        """Read the proof that `to_dict` wrote."""
        item = only_keys("proof", plain, ("theorem", "statement", "assumptions"))
        texts = item["assumptions"]
        values = (item["theorem"], item["statement"], *(texts if isinstance(texts, list) else [None]))
        require(all(isinstance(text, str) for text in values), "proof", "hold sentences", "other values")
        return cls(item["theorem"], item["statement"], tuple(texts))
