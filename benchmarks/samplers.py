"""Every law that dp_accounting has too: ε at δ = 1e-6 and the time of one answer, beside it.

python -m benchmarks.samplers

Its accountant of loss distributions is taken where it takes the event, else that of Rényi divergences. The latter
counts a replaced record in a batch of a fixed size as a shift of one norm, not two, so that its number is too small.
Times are processor times: of the second call here, of the only call there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import dp_accounting
from dp_accounting import NeighboringRelation, dp_event
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from ndis.interop.dp_accounting import from_event

GAUSS = dp_accounting.GaussianDpEvent(1.0)
ADD, REPLACE, SPECIAL = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_ONE,
    NeighboringRelation.REPLACE_SPECIAL,
)
LAWS: dict[str, tuple[Any, int, NeighboringRelation, Any]] = {
    "Poisson": (dp_accounting.PoissonSampledDpEvent(0.01, GAUSS), 1000, ADD, PLDAccountant),
    "Poisson, replace-one": (dp_accounting.PoissonSampledDpEvent(0.01, GAUSS), 1000, REPLACE, PLDAccountant),
    "mixture": (dp_event.MixtureOfGaussiansDpEvent(1.0, (0.0, 1.0, 2.0), (0.2, 0.6, 0.2)), 3, ADD, PLDAccountant),
    "truncated": (
        dp_accounting.TruncatedSubsampledGaussianDpEvent(10_000, 0.01, 128, 1.0), 100, ADD, PLDAccountant
    ),
    "fixed size": (dp_accounting.SampledWithoutReplacementDpEvent(1000, 16, GAUSS), 128, REPLACE, RdpAccountant),
    "tree": (dp_accounting.SingleEpochTreeAggregationDpEvent(10.0, 1000), 1, SPECIAL, RdpAccountant),
}  # fmt: skip
if hasattr(dp_accounting, "RandomAllocationDpEvent"):
    LAWS["allocation"] = dp_accounting.RandomAllocationDpEvent(GAUSS, 1000), 1, ADD, PLDAccountant


def timed(call: Callable[[], float]) -> tuple[float, float]:
    """The answer and its processor time in seconds."""
    begun = time.process_time()
    return call(), time.process_time() - begun


def main() -> None:
    """Print the table."""
    print(f"{'law':<22}{'epsilon here':>14}{'there':>12}{'there - here':>14}{'ms here':>10}{'there':>10}{'ratio':>8}")
    for name, (event, count, relation, accountant) in LAWS.items():
        whole = dp_accounting.SelfComposedDpEvent(event, count)

        def here(event: Any = whole, relation: NeighboringRelation = relation) -> float:
            return float(from_event(event, adjacency=relation).epsilon(1e-6))

        def there(event: Any = whole, relation: NeighboringRelation = relation, make: Any = accountant) -> float:
            return float(make(neighboring_relation=relation).compose(event).get_epsilon(1e-6))

        here()
        (own, fast), (other, slow) = timed(here), timed(there)
        print(
            f"{name:<22}{own:>14.6f}{other:>12.6f}{other - own:>14.1e}"
            f"{1e3 * fast:>10.1f}{1e3 * slow:>10.1f}{slow / fast:>8.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
