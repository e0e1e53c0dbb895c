"""An origin holds the exact inputs of a pair, and encloses the invariants from them.

A certificate starts from the exact inputs, never from numbers that were computed from them. Each class below is one way
to write a pair down. It knows its exact invariants, and how to become the reverse or several copies.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from flint import arb, fmpq
from numpy.typing import NDArray

from ndis._balls import Ball, climb, exact_ball, precision
from ndis._exact import down, up
from ndis._search import reverse
from ndis._validate import Floats, frozen
from ndis.errors import ParameterError, PrecisionError
from ndis.spectrum.dense import Rational, independent_rows, rational, restrict, whiten_in_balls
from ndis.spectrum.invariants import Direction, Directions, reverse_direction

_EDGE_BITS = (192, 448, 1024, 2400)
_ROUNDING_BITS = (160, 320, 640, 1280)
_ROUNDED_INVARIANTS = 2.0**-50  # relative error of a loss whose invariants were rounded to floats, at most
EXACT_SIZE = 24  # dense pairs up to this size are whitened again in balls if floats may have lost digits


ExactRow = tuple[Fraction, Fraction, int]  # t, m², copies


class Rounded(NamedTuple):
    """The invariants of a pair are rounded to floats; `error` bounds the relative error of the loss by whitening."""

    t: Floats
    ratio: Floats
    shift: Floats
    copies: Floats
    mutually_singular: bool = False
    error: float = 0.0

    @classmethod
    def singular(cls) -> Rounded:
        """Return what stands for two laws on different subspaces."""
        return cls(np.zeros(1), np.ones(1), np.zeros(1), np.ones(1), mutually_singular=True)


@dataclass(frozen=True, eq=False)
class Origin(ABC):
    """An origin holds the exact inputs of a pair: arrays, in the order of the constructor's arguments."""

    arrays: tuple[NDArray[Any], ...]
    reverse: bool = False
    copies: int = 1

    kind: ClassVar[str]
    means: ClassVar[tuple[int, int]]  # places of the two means among the arrays, or twice that of the shift

    def __post_init__(self) -> None:
        object.__setattr__(self, "arrays", tuple(frozen(a) for a in self.arrays))

    @property
    def size(self) -> int:
        """Size of the dense eigenproblem behind the invariants; 0 if there is none."""
        return 0

    def reversed(self) -> Self:
        """Return the inputs of the reversed pair."""
        return replace(self, reverse=not self.reverse)

    def repeated(self, times: int) -> Self:
        """Return the inputs of several copies."""
        return replace(self, copies=self.copies * times)

    def same(self, other: Origin) -> bool:
        """True if both hold equal numbers."""
        alike = (self.kind, self.reverse, self.copies) == (other.kind, other.reverse, other.copies)
        return alike and all(np.array_equal(a, b) for a, b in zip(self.arrays, other.arrays, strict=True))

    def still(self) -> Self:
        """Return the inputs with both means equal."""
        arrays, (p, q) = list(self.arrays), self.means
        arrays[p] = arrays[q] if p != q else 0 * arrays[q]
        return replace(self, arrays=tuple(arrays))

    @property
    def apart(self) -> bool:
        """True if the exact inputs show at once that the laws are mutually singular."""
        return False

    @abstractmethod
    def exact_rows(self) -> list[ExactRow] | None:
        """Return the invariants of one copy, not reversed, as exact numbers; None if they are roots of a polynomial."""


class _RowOrigin(Origin):
    """The inputs are rows of independent directions: a value, the shift and the copies."""

    means = (1, 1)
    less: ClassVar[int]  # the value less t

    def exact_rows(self) -> list[ExactRow]:
        rows = zip(*(a.tolist() for a in self.arrays), strict=True)
        return [(Fraction(v) - self.less, Fraction(m) ** 2, int(n)) for v, m, n in rows]


@dataclass(frozen=True, eq=False)
class RatioOrigin(_RowOrigin):
    """The inputs are variance ratios, shifts and copies, all of them floats."""

    kind: ClassVar[str] = "ratios"
    less: ClassVar[int] = 1


@dataclass(frozen=True, eq=False)
class ExcessOrigin(_RowOrigin):
    """The inputs are t = τ − 1 and the shift as exact rationals, with copies."""

    kind: ClassVar[str] = "excess"
    less: ClassVar[int] = 0

    def rounded(self) -> Rounded:
        """Return the invariants as floats, the shift rounded away from 0."""
        t, m, n = self.arrays
        floats, ratio = (np.array([float(x) for x in row]) for row in (t, 1 + t))
        shift = np.array([up(x) if x > 0 else down(x) for x in m])
        exact = all(Fraction(x) == y for x, y in zip([*floats, *shift], [*t, *m], strict=True))
        return Rounded(floats, ratio, shift, n, error=0.0 if exact else _ROUNDED_INVARIANTS)


@dataclass(frozen=True, eq=False)
class DiagonalOrigin(Origin):
    """Means and variances of independent coordinates: mean_p, var_p, mean_q, var_q."""

    kind: ClassVar[str] = "diagonal"
    means = (0, 2)

    def exact_rows(self) -> list[ExactRow]:
        rows = zip(*([Fraction(x) for x in a.tolist()] for a in self.arrays), strict=True)
        return [(v_p / v_q - 1, (mu_p - mu_q) ** 2 / v_q, 1) for mu_p, v_p, mu_q, v_q in rows if v_q]

    @property
    def apart(self) -> bool:
        mu_p, v_p, mu_q, v_q = self.arrays
        return bool((((v_p == 0) != (v_q == 0)) | ((v_q == 0) & (mu_p != mu_q))).any())


class MatrixOrigin(Origin):
    """A pair given by means and covariances."""

    @property
    def size(self) -> int:
        return int(self.arrays[0].size)

    @abstractmethod
    def matrices(self) -> tuple[Rational, Rational, Rational]:
        """Return (Δμ as a column, Σ_p − Σ_q, Σ_q) over the rationals."""

    def exact_rows(self) -> list[ExactRow] | None:
        if self.size != 1:
            return None
        shift, difference, below = (Fraction(int(m[0, 0].p), int(m[0, 0].q)) for m in self.matrices())
        return [(difference / below, shift**2 / below, 1)] if below else []

    def directions(self, bits: int) -> Directions | None:
        """Enclose the invariants of one copy, not reversed, at the working precision; None if that does not suffice."""
        return whiten_in_balls(*self.matrices(), bits)

    def common_coordinates(self) -> list[int] | None:
        """Indices of a maximal set of independent coordinates; None if the laws are mutually singular."""
        shift, difference, sigma_q = self.matrices()
        return independent_rows(sigma_q) if restrict(shift, difference, sigma_q) is not None else None

    def rounded(self) -> Rounded | None:
        """Return the invariants as floats, from the exact inputs.

        None if the covariances are not exactly positive semidefinite, as floats leave them, or if no precision tried
        suffices.
        """
        try:
            return climb(self._rounded, _ROUNDING_BITS, "the invariants were not enclosed to the digits of floats")
        except (ParameterError, PrecisionError):
            return None

    def _rounded(self, bits: int) -> Rounded | None:
        """Round enclosed invariants to floats; None if the precision leaves their digits open."""
        result = enclose((self,), bits)
        if result is None:
            return None
        if result.mutually_singular:
            return Rounded.singular()
        total = result.flat + sum((m2 * n for _, m2, n in result.curved), arb(0))
        fine = all(
            t.rel_accuracy_bits() >= 60 and (1 + t).rel_accuracy_bits() >= 60 and m2.rad() <= total.lower() * 2.0**-80
            for t, m2, n in result.curved
        )
        if not fine:
            return None
        rows = [(float(t), float(1 + t), _root(m2), float(n)) for t, m2, n in result.curved]
        if result.flat != 0:
            rows.append((0.0, 1.0, _root(result.flat), 1.0))
        others = self.size - sum(row[3] for row in rows)
        if others > 0:
            rows.append((0.0, 1.0, 0.0, others))
        t, ratio, shift, copies = (np.array(column) for column in zip(*rows, strict=True))
        return Rounded(t, ratio, shift, copies)


@dataclass(frozen=True, eq=False)
class DenseOrigin(MatrixOrigin):
    """Means and covariances: mean_p, cov_p, mean_q, cov_q; floats or fractions."""

    kind: ClassVar[str] = "dense"
    means = (0, 2)

    def matrices(self) -> tuple[Rational, Rational, Rational]:
        mu_p, cov_p, mu_q, cov_q = self.arrays
        sigma_q = rational(cov_q)
        return rational(mu_p[:, None]) - rational(mu_q[:, None]), rational(cov_p) - sigma_q, sigma_q


@dataclass(frozen=True, eq=False)
class LowRankOrigin(MatrixOrigin):
    """mean_p, mean_q, cov_q, factor F and sign, with cov_p = cov_q + sign·F Fᵀ."""

    kind: ClassVar[str] = "low-rank"
    means = (0, 1)

    def matrices(self) -> tuple[Rational, Rational, Rational]:
        mu_p, mu_q, cov_q, factor, sign = self.arrays
        f = rational(factor)
        shift = rational(mu_p[:, None]) - rational(mu_q[:, None])
        return shift, f * f.transpose() * fmpq(int(sign)), rational(cov_q)


def enclose(origins: Sequence[Origin], bits: int) -> Directions | None:
    """The invariants of the product of all origins, at the working precision; None if that does not suffice."""
    rows: Counter[tuple[Fraction, Fraction]] = Counter()  # copies of (t, m²) in all origins that are no matrices
    every: list[Direction] = []
    for origin in origins:
        if isinstance(origin, MatrixOrigin):
            result = origin.directions(bits)
            if result is None or result.mutually_singular:
                return result
            one = [*result.curved, (arb(0), result.flat, 1)]
            one = [reverse_direction(row) for row in one] if origin.reverse else one
            every += [(t, m2, n * origin.copies) for t, m2, n in one]
        elif origin.apart:
            return Directions([], arb(0), mutually_singular=True)
        else:
            for t, m2, n in origin.exact_rows() or ():
                rows[reverse(t, m2) if origin.reverse else (t, m2)] += n * origin.copies
    balls = {t: exact_ball(t) for t, _ in rows}  # equal ones are one object
    every += [(balls[t], exact_ball(m2), n) for (t, m2), n in rows.items()]
    still = [bool(t == 0) for t, _, _ in every]  # with certainty: a ball around 0 counts as curved
    flat = sum((m2 * n for (_, m2, n), zero in zip(every, still, strict=True) if zero), arb(0))
    return Directions([row for row, zero in zip(every, still, strict=True) if not zero], flat)


def exact_edge(origins: Sequence[Origin]) -> tuple[float, float] | None:
    """The end of the support of a loss bounded on one side, as an unevaluated sum of two floats.

    None if the exact inputs do not give one, or not to that accuracy.
    """
    if any(o.size > EXACT_SIZE for o in origins):
        return None

    for bits in _EDGE_BITS:
        with precision(bits):
            try:
                result = enclose(origins, bits)
            except ParameterError:  # not positive semidefinite as exact numbers
                return None
            if result is None:
                continue
            if result.mutually_singular or not result.curved or not result.side:
                return None
            total = result.edge()
            if total.rel_accuracy_bits() >= 110:
                high = float(total.mid())
                return high, float((total - high).mid())
    return None


def _root(ball: Ball) -> float:
    """The square root of a number that is known not to be negative."""
    return math.sqrt(max(float(ball.mid()), 0.0))
