"""Find one number of a run of DP-SGD for a budget: the noise, the rate, or a whole number."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from ndis._search import smallest_safe
from ndis.accountant.composition import SAMPLED_WIDTH
from ndis.accountant.few import shift_for
from ndis.errors import BudgetError, PrecisionError
from ndis.profile import PrivacyProfile

if TYPE_CHECKING:
    from ndis.dpsgd import DPSGD

NEARLY_ALL = 1.0 - 2.0**-20  # the largest rate of a sample that may be cut
_MOST_STEPS, _MOST_BINS = 10**9, 10**6  # looked at
_INSIDE = math.log1p(-2.0 * SAMPLED_WIDTH)  # the float search aims below δ by the width of the certificate


class RunSearch:
    """Find one number of a run that meets a budget; the last point is certified."""

    def __init__(self, at: Callable[[float], DPSGD], epsilon: float, delta: float) -> None:
        self.at, self.epsilon, self.delta = at, epsilon, delta

    def _log(self, x: float, floor: float) -> float:
        with suppress(PrecisionError):
            return float(self.at(x).profile()._logs(self.epsilon, "worst", floor))
        return 0.0  # δ ≤ 1 always holds

    def _upper(self, x: float) -> float:
        return self.at(x).profile().certify(self.epsilon).upper

    def _smallest(self, number: Callable[[float], float], start: float, least: float | None = None) -> float:
        floor = 2.0 * math.log(self.delta) - 10.0
        return smallest_safe(
            lambda x: self._log(number(x), floor) - _INSIDE,
            lambda x: self._upper(number(x)),
            delta=self.delta,
            start=start,
            least=least,
            settled=0.1 * SAMPLED_WIDTH,
            step=0.06,
        )

    def least(self, i: int) -> DPSGD:
        """Return the run with the smallest noise in stage i."""
        run = self.at(1.0)
        stage, k = run.stages[i], run.stages[i].examples_per_user
        chance = -math.expm1(stage.steps * k * math.log1p(-stage.sampling_rate)) if stage.sampling_rate < 1.0 else 1.0
        if len(run.stages) == 1 and stage.batches == 1 and chance <= self.delta:
            raise BudgetError("every noise multiplier meets the budget: a record enters a batch with a chance below δ")
        others = [group for j, one in enumerate(run.stages) if j != i for group in one.groups(one.steps)]
        if others and not PrivacyProfile(groups=others, adjacency=run.adjacency).delta(self.epsilon) < self.delta:
            raise BudgetError("no noise multiplier meets the budget: the other stages use it up")
        # by the central limit theorem the steps are nearly one Gaussian with shift q √(n (e^{1/σ²} − 1))
        shift = shift_for(self.epsilon, math.log(self.delta)) / (stage.sampling_rate * math.sqrt(stage.steps))
        size = 2 if run.adjacency == "replace-one" else k  # how far neighbours move a sum, in clipping norms
        return self.at(self._smallest(lambda x: x, size / math.sqrt(math.log1p(shift * shift))))

    def largest_rate(self, most: float) -> DPSGD:
        """Return the run with the largest sampling rate."""
        return self.at(min(1.0 / self._smallest(lambda x: min(1.0 / x, most), 100.0, 1.0 / most), most))

    def most(self, name: str, records: int | None) -> DPSGD:
        """Return the run with the most steps, epochs or records in a batch, or with the fewest bins."""
        goal, few = math.log(self.delta), name == "bins"
        most = records if name == "batch_size" and records else _MOST_BINS if few else _MOST_STEPS

        def safe(n: int) -> bool:
            return self._log(n, goal - 1.0) <= goal

        good, bad = 1, 2
        if few and not safe(1):
            good, bad = 2, 1
            while good < most and not safe(good):
                good, bad = 2 * good, good
        elif not few:
            if not self._upper(1) <= self.delta:
                raise BudgetError("not even one step meets the budget; add noise, or sample at a smaller rate")
            while bad <= most and safe(bad):
                good, bad = bad, 2 * bad
            if bad > most and name != "batch_size":
                raise PrecisionError(f"more than {good} steps meet the budget; longer schedules are out of reach")
            bad = min(bad, most + 1)
        while abs(bad - good) > 1:
            middle = (good + bad) // 2
            good, bad = (middle, bad) if safe(middle) else (good, middle)
        back = 0  # the certificate is a little wider than the floats
        while not self._upper(n := max(good + back if few else good - back, 1)) <= self.delta:
            if few and n > most:
                raise BudgetError(f"not even {most} bins meet the budget; add noise")
            back = 2 * back + 1
        return self.at(n)
