"""A candidate is one pair of neighbours, in one order, at one claimed point. Each file here produces one kind of them.

`pairs` takes laws that the user gives, `algorithm` runs a function on neighbours of the data, `mechanism` asks a
mechanism for its worst neighbours, and `projection` finds those of a sketch exactly. `rules` chooses neighbours of a
data set, and `edits` makes them. A producer returns `Candidates`; the judge decides.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ndis.auditing.claim import Claim
from ndis.auditing.witness import SIDES, Side
from ndis.errors import PrecisionError
from ndis.profile import PrivacyProfile

__all__ = ["SCREEN_MARGIN", "Candidate", "Candidates", "Tested", "both_orders", "counter", "log_excess", "screen"]

# The float screen is accurate to 1e-11·(1 + |log δ|) or says so. A candidate within ten times that is certified.
SCREEN_MARGIN = 1e-10


def _as_claimed(delta: float) -> float:
    return delta


@dataclass(frozen=True, eq=False)
class Candidate:
    """A candidate has a float value, `log_delta`, and a `slack`: the true log δ lies below their sum.

    `make` returns the profile with its exact inputs. `bar` maps the claimed δ to the δ that the pair must exceed for a
    conviction. `confirm` raises an error if the laws are not the same when they are computed again.
    """

    neighbours: str
    order: str
    make: Callable[[], PrivacyProfile]
    side: Side
    epsilon: float
    delta: float
    log_delta: float
    slack: float
    bar: Callable[[float], float] = _as_claimed
    confirm: Callable[[], None] | None = None

    @property
    def rank(self) -> tuple[float, float]:
        """The judge certifies the largest rank first."""
        return log_excess(self.log_delta, self.delta), self.log_delta

    @property
    def above(self) -> bool:
        """Say if the truth may lie above the claim."""
        return not self.rank[0] + self.slack <= 0.0


Tested = tuple[int, Iterable[Candidate]]  # the number of pairs that were tried, and their candidates that may matter


@dataclass(frozen=True, eq=False)
class Candidates:
    """A producer returns the pairs that it tests, and sentences about them for the report.

    Attributes
    ----------
    tested : iterable of Tested
        The producer works while the judge reads it.
    how, missing, notes : tuple of str
        How the pairs were chosen, which ones they leave out, and what else the reader must know.
    given_only : bool
        True if only pairs or rows were tried that the user gave.
    """

    tested: Iterable[Tested]
    how: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    given_only: bool = False


def log_excess(log_delta: float, delta: float) -> float:
    """Return log δ − log(claimed δ); any δ above 0 is infinitely far above a claim of 0."""
    if log_delta == -math.inf:
        return -math.inf
    return log_delta - math.log(delta) if delta > 0.0 else math.inf


def both_orders(neighbours: str, words: tuple[str, str], profile: PrivacyProfile, claim: Claim) -> Iterator[Candidate]:
    """Yield a candidate for each order of a pair at each claimed point.

    A probability of failure is an allowance that no pair of outputs shows. It is left out.
    """
    profile = replace(profile, failure_probability=0.0)
    for side, order in zip(SIDES, words, strict=True):
        for epsilon, delta in claim.points:
            yield Candidate(neighbours, order, lambda: profile, side, epsilon, delta, *screen(profile, side, epsilon))


def screen(profile: PrivacyProfile, side: Side, epsilon: float, blur: float = 0.0) -> tuple[float, float]:
    """Return (log δ, slack) in floats: log δ(ε) lies below the sum, and the verdict never rests on it.

    `blur` bounds how far the loss of the pair may be off. If floats cannot tell, the slack is infinite, and the judge
    asks for a certificate.
    """
    pairs = [(group.pair(side), group.count) for group in profile.groups]
    uncertainty = max(pair.uncertainty for pair, _ in pairs)
    # whitening in floats moved the loss by about this much of its own size
    moved = blur + 4.0 * uncertainty * (math.fsum(n * pair.form.mean for pair, n in pairs) + math.fabs(epsilon))
    try:
        value = float(profile.log_delta(epsilon, order=side))
        if not math.isfinite(moved):
            return value, math.inf
        higher = value if moved == 0.0 else float(profile.log_delta(epsilon - moved, order=side))
    except PrecisionError:
        return -math.inf, math.inf
    if math.isinf(value):
        return value, math.inf if higher > value else 0.0
    return value, SCREEN_MARGIN * (1.0 + math.fabs(value)) + 4.0 * uncertainty + max(higher - value, 0.0)


@contextmanager
def counter(progress: bool | None, noun: str) -> Iterator[Callable[[], None]]:
    """Yield a function to call once for each finished piece of work. None shows a counter only on a terminal.

    >>> with counter(False, "neighbours") as advance:
    ...     advance()
    """
    if not (sys.stderr.isatty() if progress is None else progress):
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed} " + noun), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as display:
        task = display.add_task("audit", total=None)
        yield lambda: display.advance(task)
