"""The auditor in ratios: all removals of a projection against one plain product, and a million explicit pairs.

python -m benchmarks.audit
"""

from __future__ import annotations

import time

import numpy as np

from benchmarks.engine import fastest, unit_rows
from ndis.auditing import Claim, PairBatch, ProjectionLaw, audit
from ndis.gram import exact_gram

CLAIM = Claim(epsilon=1.0, delta=1e-6)


def all_removals() -> None:
    """Every row of 1 000 000 x 50 removed; the goal is 3."""
    x = unit_rows(1_000_000, 50)
    law = ProjectionLaw(sketch_size=100, ridge=40.0, row_norm_bound=1.0)
    small = x[:1000]
    plain, first, ours, fixed = fastest(
        lambda: x.T @ x,
        lambda: exact_gram(x, row_norm_bound=1.0),
        lambda: audit(CLAIM, mechanism=law, data=x),
        lambda: audit(CLAIM, mechanism=law, data=small),
        repeats=5,
    )
    print("\naudit of all removals, and the worst addition, of 1 000 000 x 50 rows")
    print(f"plain X.T @ X {plain:.3f} s; audit {ours:.3f} s, of which {fixed:.3f} s do not grow with the rows")
    print(f"relative to X.T @ X: {ours / plain:.2f}; of which the exact Gram {first / plain:.2f}")


def explicit_pairs(count: int = 1_000_000) -> None:
    """Rank-one pairs given as arrays, not refuted (every one has to be looked at) and refuted."""
    random = np.random.default_rng(0)
    ratio = 1.0 + random.uniform(0.0, 0.028, count)
    ratio[::3] = 1.0 / ratio[::3]
    pairs = PairBatch(ratio, copies=100)
    audit(CLAIM, pairs=PairBatch(ratio[:1000], copies=100))
    print(f"\n{count} explicit rank-one pairs with 100 copies, both orders")
    for name, claim in (("not refuted", CLAIM), ("refuted", Claim(epsilon=1.0, delta=1e-8))):
        start = time.perf_counter()
        report = audit(claim, pairs=pairs)
        print(f"{name:>12}: {time.perf_counter() - start:.2f} s ({report.verdict})")


def main() -> None:
    """Print all tables."""
    all_removals()
    explicit_pairs()


if __name__ == "__main__":
    main()
