"""Every exhibit of the gallery: `python examples/audits/run_all.py` writes all reports to out/audits/ and a table."""

from __future__ import annotations

from collections.abc import Callable

import bisection_midpoint
import inverse_mu
import printed_wrapper
import ptr_budget
import short_ridge
import sklearn_bayesian_ridge
import sklearn_gaussian_process
import wrong_norm
from gallery import Exhibit, quoted, show

EXHIBITS: dict[str, Callable[[], Exhibit]] = {
    module.__name__: module.exhibit
    for module in (
        printed_wrapper,
        ptr_budget,
        short_ridge,
        inverse_mu,
        bisection_midpoint,
        wrong_norm,
        sklearn_bayesian_ridge,
        sklearn_gaussian_process,
    )
}


def row(exhibit: Exhibit) -> tuple[str, ...]:
    """One line of the table."""
    false, repaired = exhibit.false, exhibit.repaired
    ((epsilon, delta),) = false.claim.points
    verdicts = ["refuted" if report.refuted else "not refuted" for report in (false, repaired)]
    least, most = quoted(false.delta_possible, delta), quoted(false.epsilon_refuted, epsilon)
    return (
        exhibit.name,
        f"({epsilon:g}, {delta:g})",
        verdicts[0],
        least,
        most,
        verdicts[1],
        f"{repaired.delta_possible:.6g}",
    )


def main() -> None:
    """Run them one by one, then the table."""
    found = []
    for make in EXHIBITS.values():
        found.append(make())
        show(found[-1])
    table = [("exhibit", "claim", "false", "δ at least", "ε up to", "repaired", "δ at least"), *map(row, found)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    print()
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
