"""Draw pictures of privacy profiles. They need matplotlib (the extra `plot`), which is imported only to draw."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ndis._validate import Floats, as_vector, require
from ndis.errors import ParameterError
from ndis.pair import GaussianPair

__all__ = ["epsilon_grid", "plot_epochs", "plot_profile"]

# Okabe and Ito's palette, for readers with any colour vision. Black is left for the caller.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_DASHES = ("-", "--", ":")
_TOP, _BOTTOM = 0.5, 1e-12
_LEAST_HEIGHT = math.log(1e-3)  # a picture reaches so far below the start of a curve
_OUTSIDE = 1.0  # log δ so far below the picture need not be known
_LOG_SMALLEST = -700.0  # below e^−700 a float cannot be drawn


Curve = Any  # it has `log_delta(epsilon, order=)`, `epsilon(delta)` and `failure_probability`, like a `PrivacyProfile`


@dataclass(frozen=True)
class _BothOrders:
    """A pair and its reverse are one curve."""

    pair: GaussianPair
    failure_probability: float = 0.0

    def log_delta(self, epsilon: Floats, *, order: Literal["worst", "remove", "add"] = "worst") -> Floats:
        pairs = {"remove": [self.pair], "add": [self.pair.reversed()], "worst": [self.pair, self.pair.reversed()]}
        return np.asarray(np.maximum.reduce([pair.log_delta(epsilon) for pair in pairs[order]]))

    def _logs(self, epsilon: Floats, order: Literal["remove", "add"], _: float) -> Floats:
        return self.log_delta(epsilon, order=order)

    def epsilon(self, delta: float) -> float:
        return max(pair.epsilon(delta) for pair in (self.pair, self.pair.reversed()))


def plot_profile(
    profiles: Curve | Mapping[str, Curve],
    *,
    epsilon_range: tuple[float, float] | None = None,
    points: int = 201,
    order_names: tuple[str, str] | None = None,
    ax: Any = None,
) -> Any:
    """Draw δ against ε on a logarithmic axis and return the matplotlib axes.

    Parameters
    ----------
    profiles : PrivacyProfile, GaussianPair, or mapping of labels to them
        A single one is drawn with both of its orders and the worst. Of several, only the worst is drawn.
    epsilon_range : (float, float), optional
        The ends of the axis. Unless given, δ falls from ½ to 10⁻¹² between them.
    points : int
        Number of ε at which δ is computed.
    order_names : (str, str), optional
        Names of the two orders. Unless given, "p from q" and "q from p" for a pair, else "remove" and "add".
    ax : matplotlib axes, optional
        The axes to draw on; a new figure unless given.

    Examples
    --------
    >>> import ndis, matplotlib
    >>> matplotlib.use("agg")
    >>> ax = plot_profile(ndis.GaussianPair.from_ratios([1.5, 0.8], shift=[0.0, 0.7]))
    >>> [line.get_label() for line in ax.get_lines()]
    ['worst of both', 'p from q', 'q from p']
    >>> matplotlib.pyplot.close(ax.figure)
    """
    named = dict(profiles) if isinstance(profiles, Mapping) else {"": profiles}
    require(named, "profiles", "hold at least one profile", "none")
    drawn = {str(label): _as_curve(p) for label, p in named.items()}
    x = epsilon_grid(*drawn.values(), epsilon_range=epsilon_range, points=points)
    ax = _new_axes() if ax is None else ax
    before = ax.get_ylim() if ax.has_data() else ()
    worst = np.stack([profile.log_delta(x) for profile in drawn.values()])
    if isinstance(profiles, Mapping):
        for i, (label, row) in enumerate(zip(drawn, worst, strict=True)):
            style = _DASHES[i // len(_COLOURS) % len(_DASHES)]
            _line(ax, x, row, label, color=_COLOURS[i % len(_COLOURS)], linestyle=style, linewidth=2.0)
    else:
        names = order_names or (("p from q", "q from p") if isinstance(profiles, GaussianPair) else ("remove", "add"))
        _line(ax, x, worst[0], "worst of both", color="#B9C4CE", linewidth=7.0, solid_capstyle="round")
        for order, name, colour, dashes in zip(("remove", "add"), names, _COLOURS, _DASHES, strict=False):
            row = drawn[""]._logs(x, order, min(worst.min(), worst.max() + _LEAST_HEIGHT) - _OUTSIDE)
            _line(ax, x, row, name, color=colour, linestyle=dashes, linewidth=1.8)
    _dress(ax, x, worst, before)
    return ax


def plot_epochs(
    epochs: Sequence[float], epsilons: Sequence[float], *, delta: float, ax: Any = None, label: str | None = None
) -> Any:
    """Draw ε against epochs at one δ and return the matplotlib axes; a further line has the next colour.

    >>> ax = plot_epochs([1, 2, 3], [0.5, 0.7, 0.9], delta=1e-5)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('epochs', 'ε')
    """
    ax = _new_axes() if ax is None else ax
    colour = _COLOURS[len(ax.get_lines()) % len(_COLOURS)]
    ax.plot(epochs, epsilons, color=colour, linewidth=2.0, label=label or f"δ = {delta:g}")
    ax.set_xlim(0.0, max(epochs))
    ax.autoscale(axis="y")  # lines that were there count too
    ax.set_ylim(0.0, None)
    ax.set(xlabel="epochs", ylabel="ε")
    _plain(ax)
    return ax


def epsilon_grid(*profiles: Curve, epsilon_range: tuple[float, float] | None = None, points: int = 201) -> Floats:
    """Return equally spaced ε. Unless given, they reach from the first δ = ½ to the last δ = 10⁻¹² of the profiles.

    >>> import ndis
    >>> from ndis.profile import PrivacyProfile
    >>> epsilon_grid(PrivacyProfile(ndis.GaussianPair.from_ratios(2.0)), epsilon_range=(0, 2), points=3)
    array([0., 1., 2.])
    """
    require(isinstance(points, int) and points >= 2, "points", "be a whole number of at least 2", points)
    if epsilon_range is None:
        low, high = zip(*(_span(p) for p in profiles), strict=True)
        return np.linspace(min(low), max(high), points)
    ends = as_vector("epsilon_range", epsilon_range)
    require(ends.size == 2 and ends[0] < ends[1], "epsilon_range", "be two numbers, the smaller first", epsilon_range)
    return np.linspace(ends[0], ends[1], points)


def _span(profile: Any) -> tuple[float, float]:
    """The ε with δ = ½ (0 if there is none) and the ε with δ = 10⁻¹², without the failure probability.

    If δ starts very small, the second ε has a δ that is as many decades below the start.
    """
    profile = replace(profile, failure_probability=0.0)  # δ never falls below it
    start = profile.log_delta(0.0)
    top = min(math.log(_TOP), start)
    bottom = math.log(_BOTTOM) + (top if top < math.log(1e-6) else 0.0)
    if start < _LOG_SMALLEST:
        return 0.0, 1.0
    low = float(profile.epsilon(_TOP)) if start > top else 0.0
    high = float(profile.epsilon(math.exp(max(bottom, _LOG_SMALLEST))))
    return (low, high) if low < high < math.inf else (0.0, 1.0)


def _as_curve(result: Any) -> Curve:
    if isinstance(result, GaussianPair):
        return _BothOrders(result)
    if hasattr(result, "log_delta") and hasattr(result, "failure_probability"):
        return result
    raise ParameterError("profiles", "be PrivacyProfile or GaussianPair values", type(result).__name__)


def _new_axes() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ParameterError("matplotlib", "be installed to draw", "none", "pip install 'ndis[plot]'") from error
    return pyplot.subplots(figsize=(6.4, 4.2), layout="constrained")[1]


def _line(ax: Any, x: Floats, log_delta: Floats, label: str, **style: Any) -> None:
    """One curve, without the points at which δ is zero or too small for a float."""
    shown = np.where(log_delta > _LOG_SMALLEST, log_delta, np.nan)
    ax.plot(x, np.exp(shown), label=label, **style)


def _dress(ax: Any, x: Floats, worst: Floats, before: tuple[float, ...]) -> None:
    """Axes that show the whole of the highest curve, the start of each, and what was there before."""
    from matplotlib.ticker import LogLocator, NullLocator

    ax.set_yscale("log")
    highest = worst.max(axis=0)
    highest = highest[highest > _LOG_SMALLEST]
    if highest.size:
        starts = worst.max(axis=1)
        start = math.exp(starts[starts > _LOG_SMALLEST].min())
        floor = min(0.5 * math.exp(highest.min()), math.exp(_LEAST_HEIGHT) * start)
        ends = (floor, min(2.0 * math.exp(highest.max()), 1.2), *(y for y in before if y > 0))
        ax.set_ylim(min(ends), max(ends))
    else:
        ax.set_ylim(_BOTTOM, 1.2)
        ax.text(0.5, 0.5, "δ(ε) = 0 or too small to draw", ha="center", va="center", transform=ax.transAxes)
    if not before:
        ax.set_xlim(x[0], x[-1])
    ax.set(xlabel="ε", ylabel="δ(ε)")
    ax.yaxis.set_major_locator(LogLocator(numticks=9))
    ax.yaxis.set_minor_locator(NullLocator())
    _plain(ax)


def _plain(ax: Any) -> None:
    """Draw a quiet grid, no frame, and the legend."""
    ax.grid(visible=True, color="#E3E7EB", linewidth=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
