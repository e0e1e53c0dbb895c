"""A law is what one step adds to a composition. This page says what a new law must answer; nothing else is needed.

A step has a privacy loss L, the logarithm of the likelihood ratio of its two outputs, under the first of them. For
one order ("remove" or "add") the law of L is known by its moments

    M(s) = E e^{sL},      0 ≤ Re s < limit,

and steps compose by adding n log M(s). Every law has two classes in this folder: one evaluates M in floats with an
error estimate (`Law`), the other encloses it in balls (`BallLaw`). A long one of them has a file of its own.

**Floats.** `Law.centred` returns log M(s) − s·mean for points of the upper half-plane. The mean is split off because n
log M is needed to an absolute error of 1e-12, and log M(s) is near s·mean where M is near 1. The error estimate must be
sound: it is the only thing that decides whether a float is returned. A value that is not known is NaN, with an infinite
error. The logarithm may be on any branch. The contour multiplies by whole numbers and takes exponentials.

**Balls.** `BallLaw` lives at the working precision of `flint`. Its methods return balls that contain the true value,
whatever happens; `digits` only says how far the caller needs the value (an error of about e^−digits of M(c)). A method
that cannot answer raises PrecisionError. Two methods return floats, `log_moment` and `log_ceiling`. They only serve
plans, so no proof rests on them, but they are called about a hundred times for one certificate. A law that knows no
line refuses in `log_moment`, and its stand-ins take its place.

- `moment`: M(c) at a real c > 0.
- `line`: M(c + ik·step) for k = 0 … count − 1, all at once. If M is a sum of geometric sequences in k,
  `ndis.accountant.laws.geometric` adds them up by products of matrices.
- `ceiling`: a bound of |M(c + iy')| for every y' ≥ y. M(c) itself is one. The better the bound falls with y, the
  fewer nodes a certificate needs. If it does not fall, the certificate smooths the loss.
- `ends`: an interval that contains every loss; infinite ends are allowed.
- `delta`: δ(ε) of the step alone, for any ε. It is the rigorous tail bound of the law, and the discretised stand-ins
  of `ndis.accountant.stand_ins` are made from it where no sum of moments is short enough.

**Joining a composition.** `ndis.accountant.composition.Composition` composes whatever laws it gets, each with its
number of steps.

**Joining a profile.** A step that is no Gaussian pair is a frozen dataclass in the file of its law, a `StepKind`. Its
fields are the exact inputs, as JSON can hold them, and `__post_init__` checks them. `ndis._groups.STEP_KINDS` lists the
classes. Then profiles count equal steps, compose them with all others, and write them as JSON.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, ClassVar, NamedTuple, NoReturn, ParamSpec, Protocol, TypeVar

import numpy as np
from flint import acb, acb_mat, arb
from numpy.typing import NDArray

from ndis._balls import Ball, outward, precision
from ndis._validate import Adjacency, Floats, Order
from ndis.errors import PrecisionError

Complexes = NDArray[np.complex128]
LEAST_V = -690.0  # log of a distance V that is a float
_ANGLES = np.geomspace(0.98, 1e-4, 32)  # lines that are tried, over the widest one
_RULES = 12  # as many of the widest lines are tried for a rule
_STEP_BITS = 192  # for the enclosure of one step
_NORM_BITS = 256  # Bessel functions of large orders need many
_ROUGH = 5.0  # digits of a norm, in natural log units, that only bounds an error
_MOST_NODES = 60_000
P = ParamSpec("P")
R = TypeVar("R")


class LossDensity(NamedTuple):
    """Describe the distance V > 0 of the loss of one step from its end, by a density under the first law of the order.

    The loss is end + V in the remove order, and −end − V in the add order. λ is log V/scale. A pair that is its own
    reverse may have `log_atom`, the log of the chance of the loss 0. Then the density is that of the losses V above 0.
    """

    end: Ball
    scale: float  # a typical V
    places: Floats  # some rising λ, from one end of the density to the other
    log_f: Callable[[Floats], tuple[Floats, Floats]]  # log of the density of λ, and its error
    log_atom: float = math.nan


class Law:
    """Evaluate the moments of one step in floats. What stands here with a value is usual, and a law may do better.

    Attributes
    ----------
    mean : float
        The mean loss E L.
    size : float
        See `uncertainty`.
    ends : tuple of float
        The least and the largest loss; may be −inf and inf.
    limit : float
        M(s) is finite for 0 ≤ Re s < limit; may be inf.
    largest : float
        The phase of e^{sL} turns by at most |Im s|·largest where it counts; 0 for a closed form, which loses no digits.
    uncertainty : float
        Rounding of the inputs moved a loss x by up to uncertainty·(size + |x|); 0 if the inputs are exact.
    accuracy : float
        The aim for the error of log δ, relative to 1 + |log δ|.
    atom : float
        The probability of the loss 0.
    deepest : float
        The moments may leave out losses that count where log δ is below this.
    direct : bool
        Whether moments know no δ of one step alone that `log_delta` does not know.
    symmetric : bool
        Whether the pair is its own reverse.
    """

    mean: float
    size: float
    ends: tuple[float, float]
    limit = math.inf
    largest = 0.0
    uncertainty = 0.0
    accuracy = 1e-11
    atom = 0.0
    deepest = -math.inf
    direct = False
    symmetric = False

    def centred(self, s: Complexes) -> tuple[Complexes, Floats]:
        """Return log M(s) − s·mean and its absolute error at points with Im s ≥ 0."""
        raise NotImplementedError  # each law has its own

    def reversed(self) -> Law:
        """Return the law of the other order."""
        raise NotImplementedError  # each law has its own

    def enclosed(self) -> BallLaw:
        """Return the law in balls, at the working precision."""
        raise NotImplementedError  # each law has its own

    def enclosed_log_delta(self, epsilon: float) -> tuple[float, float]:
        """Return log δ(ε) of one step and its error, from its enclosure; NaN and inf if there is none."""
        with precision(_STEP_BITS), suppress(PrecisionError):
            delta = self.enclosed().delta(epsilon)
            if delta == 0:
                return -math.inf, 0.0
            if delta > 0:
                low, high = outward(delta.log())
                return 0.5 * (low + high), high - low
        return math.nan, math.inf

    log_delta = enclosed_log_delta  # a law with a quicker way has its own

    def density(self, order: Order, depth: float) -> LossDensity | None:
        """Return the density of the loss, down to a mass of e^−depth; None if tables cannot hold it."""
        return None

    def labels(self, n: int) -> list[tuple[float, list[tuple[Law, int]]]]:
        """Return how many of n steps may have each label: the log of the chance, and the laws; likely ones first.

        The list is empty if there are no labels, or if too many numbers count.
        """
        return []

    def far_losses(self, s: float) -> tuple[float, float]:
        """Return share and spread of large losses under the law tilted by e^{sL}, if they lie apart; else 0, 0."""
        return 0.0, 0.0

    def whole(self) -> Law:
        """Return the law whose moments leave nothing out."""
        return self


class BallLaw:
    """Enclose the moments of one step; the module says what each method must prove. A law may refuse what it lacks.

    Attributes
    ----------
    limit : float
        M(c) is known for 0 ≤ c < limit, rounded down; may be inf.
    quick : bool
        Whether a profile of hundreds of places is a matter of seconds.
    """

    limit, quick = math.inf, True

    def _refuse(self, *_: object) -> NoReturn:
        raise PrecisionError("a law of the composition has no sum of moments, or no closed form")

    def log_moment(self, c: float) -> float:
        """Return log M(c) in floats, for a plan."""
        self._refuse()

    def log_ceiling(self, c: float, y: float) -> float:
        """Return the logarithm of the ceiling at c + iy less log M(c) in floats, for a plan; at most 0."""
        return 0.0

    def moment(self, c: float, digits: float) -> Ball:
        """Enclose M(c) for a real c > 0."""
        self._refuse()

    def line(self, c: float, step: Ball, count: int, digits: float) -> list[Any]:
        """Enclose M(c + ik·step) for k = 0 … count − 1."""
        self._refuse()

    def ceiling(self, c: float, y: float, digits: float) -> Ball:
        """Bound |M(c + iy')| for every y' ≥ y."""
        return self.moment(c, digits).upper()

    def ends(self) -> tuple[Ball, Ball]:
        """Enclose the least and the largest loss."""
        return arb.neg_inf(), arb.pos_inf()

    def delta(self, epsilon: float) -> Ball:
        """Enclose the δ(ε) of the step alone."""
        self._refuse()


class StepKind(Protocol):
    """Describe one step that is no Gaussian pair, by its exact inputs; equal steps have equal inputs.

    Attributes
    ----------
    kind : str
        The name of the step in JSON.
    adjacency : str
        The relation between data sets for which the law is worst.
    attained : bool
        Whether some neighbours have this very law. If not, the law is only an upper bound: an auditor convicts no
        mechanism by it, and it dominates nothing.
    """

    kind: ClassVar[str]
    attained: ClassVar[bool]

    @property
    def adjacency(self) -> Adjacency:
        """Return the relation between data sets."""

    def law(self, order: Order) -> Law:
        """Return the law of one step in one order."""


def log_expm1(v: Floats) -> Floats:
    """Return log(e^v − 1) for v > 0."""
    return np.asarray(v + np.log(-np.expm1(-v)))


def kept(method: Callable[P, R]) -> Callable[P, R]:
    """Decorate a method of an object that never changes: it keeps what it returned, by its arguments."""

    @wraps(method)
    def known(*args: P.args, **kwargs: P.kwargs) -> R:
        store = vars(args[0]).setdefault("_kept", {})
        if (key := (method.__name__, *args[1:])) not in store:
            store[key] = method(*args, **kwargs)
        return store[key]  # type: ignore[no-any-return]

    return known


def product(rates: tuple[float, ...]) -> Ball:
    """Enclose the product of some rates at the working precision."""
    return math.prod(map(arb, rates), start=arb(1))


def sampled_view(rate: Ball, epsilon: float, *, remove: bool) -> tuple[Ball, Ball | None]:
    """Return (w, ε') with δ(ε) = w·δ'(ε') for one Poisson sample at this rate (thm:poisson-sampling).

    δ' belongs to the pair without sampling, of the same order. Beyond an end of the loss w is δ(ε) itself, and ε' None.
    """
    grown = arb(epsilon).expm1()
    weight = rate if remove else rate - (1 - rate) * grown
    if weight <= 0:
        return arb(0), None
    if remove and grown + rate <= 0:
        return -grown, None
    ratio = 1 + grown / rate if remove else rate * arb(epsilon).exp() / weight  # e^ε'
    inner = (grown / weight).log1p() if ratio > 0.5 else ratio.log()
    if not inner.is_finite():
        raise PrecisionError(f"one sampled step at epsilon = {epsilon!r} is out of reach")
    return weight, inner


def geometric(weights: Sequence[Any], logs: Sequence[Any], error: Ball, step: Ball, count: int) -> list[Any]:
    """Enclose Σ_j weights_j exp(ik·step·logs_j) ± error for k = 0 … count−1, by products of two matrices in C.

    No exact log has a negative imaginary part, so no term grows with k. Terms that are certainly small join the error.

    >>> values = geometric([acb(2)], [acb(0, 1)], arb(0), arb(1), 3)  # 2e^{−k}
    >>> [round(float(v.real), 6) for v in values]
    [2.0, 0.735759, 0.270671]
    """
    turn, small = acb(0, step), (error / (4 * len(weights) + 1)).lower()
    pairs = [(weight, log) for weight, log in zip(weights, logs, strict=True) if not weight.abs_upper() < small]
    error += small * (len(weights) - len(pairs))
    height = math.isqrt(count - 1) + 1
    near = _powers([(turn * log).exp() for _, log in pairs], height)
    far = _powers([(height * turn * log).exp() for _, log in pairs], -(-count // height))
    rows = acb_mat([[weight * z for (weight, _), z in zip(pairs, row, strict=True)] for row in near])
    unknown = arb(0, error.upper())
    return [m + acb(unknown, unknown) for m in (acb_mat(far) * rows.transpose()).entries()[:count]]


def _powers(base: list[Any], count: int) -> list[list[Any]]:
    """Return the powers 0 … count−1 of each entry.

    Each power is a product of two halves, because a long chain of complex products would inflate the balls.
    """
    powers = [[acb(1)] * len(base), base]
    for k in range(2, count):
        powers.append([x * y for x, y in zip(powers[k // 2], powers[k - k // 2], strict=True)])
    return powers[:count]


def log_sum(values: Any) -> float:
    """Return log Σ e^values in floats."""
    top = float(values.max())
    return top + math.log(float(np.exp(values - top).sum()))


def short(x: float) -> float:
    """Return x rounded down to a few bits."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(math.floor(math.ldexp(mantissa, 12)), exponent - 12)


class Line(NamedTuple):
    """Keep M(c + iy) = Σ weights e^{iy·logs} ± error, for every y ≥ 0."""

    weights: list[Any]
    logs: list[Any]
    error: Ball


class LineBalls(BallLaw):
    """Enclose M(c + iy) = ∫ f e^{iyℓ} du, where the line of u may be lifted by any angle α from 0 to `_widest`.

    Neither f nor ℓ depends on y. Both are analytic between the lines and real on the first, and Im ℓ ≥ 0, so that
    |e^{iyℓ}| ≤ 1 for every y ≥ 0. Let N(α, y) be the integral of |f e^{iyℓ}| over the line of α. It falls with y, and
    bounds |M(c + iy)|. A trapezoid rule on the line of α with step h errs by at most (N(|α − a|, 0) + N(α + a, 0))/
    (e^{2πa/h} − 1), for every y ≥ 0 at once if a ≤ α, and for y = 0 if α = 0. At u + iα and u − iα the values of f are
    conjugate, and so are those of ℓ. So |f|² is a product, and N is the integral of an analytic function.

    Attributes
    ----------
    side : int
        −1 if Im ℓ ≥ 0 on the conjugate line, at u − iα.
    """

    side = 1

    def _widest(self, c: float) -> float:
        """Return the largest angle."""
        raise NotImplementedError  # each law has its own

    def _log_norm(self, c: float, angle: float, y: float) -> float:
        """Return log N/M(c) in floats, for a plan."""
        raise NotImplementedError  # each law has its own

    def _ends(self, c: float, angle: float, digits: float) -> tuple[float, float]:
        """Return places in u beyond which N(angle, 0) has less than e^−digits of M(c), or almost."""
        raise NotImplementedError  # each law has its own

    def _outside(self, c: float, angle: float, low: Ball, high: Ball) -> Ball:
        """Bound what N(angle, y) has beyond two places. The terms of a rule there are smaller."""
        raise NotImplementedError  # each law has its own

    def _at(self, c: float, u: Any, analytic: bool) -> tuple[Any, Any, Any]:
        """Enclose the logarithm of one factor of f, the other factor, and ℓ.

        If `analytic`, NaN stands for a value that is not analytic on the whole ball u.
        """
        raise NotImplementedError  # each law has its own

    @kept
    def _norm(self, c: float, angle: float, y: float = 0.0, digits: float = _ROUGH) -> Ball:
        """Bound N(angle, y), to about e^−digits."""
        with precision(round(_NORM_BITS + 1.5 * digits)):
            (low, high), turn = self._ends(c, angle, digits), acb(0, self.side * arb(angle))

            def value(u: Any, analytic: bool) -> Any:
                log_f, f, loss = self._at(c, u + turn, analytic)
                log_g, g, other = self._at(c, u - turn, analytic)
                return ((log_f + log_g + acb(0, y) * (loss - other)) / 2).exp() * (f * g).sqrt(analytic=analytic)

            size, small = arb(self.log_moment(c) + self._log_norm(c, angle, y)).exp(), arb(-digits).exp()
            inside = acb.integral(value, acb(low), acb(high), abs_tol=size * small, rel_tol=small)
            return (inside.real + self._outside(c, angle, arb(low), arb(high))).upper()

    def _lift(self, c: float, y: float) -> tuple[float, float]:
        """Return the least `_log_norm` that was found, and its angle; it is convex in the angle."""
        best = (0.0, 0.0)
        for angle in (self._widest(c) * _ANGLES).tolist():
            value = self._log_norm(c, angle, y)
            if value < best[0]:
                best = (value, angle)
            elif best[1] > 0.0:
                break
        return best

    def log_ceiling(self, c: float, y: float) -> float:
        """Return the least `_log_norm` that was found."""
        return self._lift(c, y)[0]

    def moment(self, c: float, digits: float) -> Ball:
        """Enclose M(c)."""
        weights, _, error = self._on(c, digits, lifted=False)
        return sum((weight.real for weight in weights), arb(0)) + arb(0, error)

    def line(self, c: float, step: Ball, count: int, digits: float) -> list[Any]:
        """Enclose M(c + ik·step), from one rule for all k: a sum of geometric sequences."""
        return geometric(*self._on(c, digits), step, count)

    def ceiling(self, c: float, y: float, digits: float) -> Ball:
        """Bound |M(c + iy')| for all y' ≥ y, on the line that promises most."""
        return self._norm(c, self._lift(c, y)[1], y, digits)

    def _on(self, c: float, digits: float, lifted: bool = True) -> Line:
        """Return the sum over the nodes of a rule on one line, with an error of about e^−digits of M(c).

        A lifted line lies in the middle of its strip, and the line that is not lifted too: the strip has both sides.
        """
        angles = (self._widest(c) * _ANGLES[:_RULES] / (1 + lifted)).tolist()
        pace, a = max((a / (digits + 3.0 + max(self._log_norm(c, a + lifted * a, 0.0), 0.0)), a) for a in angles)
        h, angle = short(2.0 * math.pi * pace), lifted * a
        low, high = self._ends(c, angle, digits + 3.0)
        first, last = math.floor(low / h), math.ceil(high / h)
        if last - first > _MOST_NODES:
            raise PrecisionError(f"the moment of a sampled step at order {c:.3g} needs too many nodes")
        step, turn = arb(h), self.side * arb(angle)
        weights, logs = [], []
        for j in range(first, last + 1):
            log_f, f, loss = self._at(c, acb(step * j, turn), False)
            weights.append(step * log_f.exp() * f)
            logs.append(loss)
        edges = self._norm(c, a - angle) + self._norm(c, a + angle)
        error = edges / (2 * arb.pi() * arb(a) / step).expm1() + self._outside(c, angle, step * first, step * last)
        return Line(weights, logs, error.upper())
