"""Make ``data/delta_cases.json``: δ(ε) of Gaussian pairs to 25 digits, by methods the package does not use.

Why. The package integrates along a bent contour in float64 and certifies with a rigorous integrator. A test of either
against the other would share the formula's arrangement, the contour and the tail bound. Here the numbers come from:

* *line*: adaptive composite Gauss-Legendre along a straight vertical line through the saddle, 240-bit arithmetic. Where
  the integrand dies too slowly for that (few directions), the line is cut at height T and continued along a horizontal
  leg, to the side on which exp(-s ε + K(s)) falls, until nothing is left there or on the vertical line above.
* *trapezoid*: the trapezoidal rule on a vertical line at another abscissa, where the integrand dies fast.
* *closed form*, where there is one, at a precision that swallows the cancellation: normal distribution functions for
  one direction and for pure shifts; incomplete gamma functions, with Poisson weights for shifts, for equal ratios;
  Ruben's series of chi-square distribution functions where every ratio lies on the same side of one.

A case is written only if two of these computations (two abscissae and two heights, where only *line* applies) agree to
25 digits in δ and in 1-δ, and δ + (1-δ) = 1 to 25 digits; every applicable closed form must agree as well. The methods
that agreed are listed with the case under "verified". Two exceptions: with more than 500 distinct directions and δ
below one half, 1-δ is taken from δ; and "slope", which only scales a tolerance, is computed once. Inputs are binary
doubles and count as exact.

With what. python-flint's real and complex balls for point values (rounding errors are tracked; nothing else of it is
used: no ``acb.integral``). numpy chooses inputs only.

How long. About six minutes on one core: ``python tests/oracle/make_delta_cases.py``.
With ``--check-given`` it recomputes ``data/given_delta_cases.json`` instead and prints every disagreement.
"""

import json

from flint import arb, ctx

from delta_wishes import arrays, wishes
from pair_law import delta_of, groups_of
from quadrature import exact
from tables import DATA, make, text


def solve(case):
    ctx.prec = 240
    groups = groups_of(*arrays(case))
    delta, log_delta, log_rest, slope, names = delta_of(groups, exact(case["epsilon"]))
    answer = {"delta": text(delta), "log_delta": text(log_delta), "log_complement": text(log_rest)}
    if slope is not None:
        answer["slope"] = text(slope)
    return case | answer | {"verified": names}


def check_given():
    worst = arb(0)
    for i, case in enumerate(json.loads((DATA / "given_delta_cases.json").read_text())):
        ctx.prec = 240
        delta, log_delta, _, _, names = delta_of(groups_of(*arrays(case)), exact(case["epsilon"]))
        for mine, given, name in ((delta, case["delta"], "delta"), (log_delta, case["log_delta"], "log_delta")):
            error = (abs(arb(given) / mine - 1)).mid()
            worst = max(worst, error)
            if not error < arb("1e-18"):
                print(i, case["kind"], name, given, text(mine), error.str(3, radius=False))
        print(i, case["kind"], names, flush=True)
    print("largest relative difference", worst.str(3, radius=False))


def shown(row):
    return row["epsilon"], row["log_delta"][:12], row["log_complement"][:12], row["verified"]


if __name__ == "__main__":
    make(
        __doc__,
        "delta_cases.json",
        "delta(epsilon) of N(shift, diag(variance_ratio)) from N(0, I), each direction `copies` times; "
        "inputs are exact doubles; slope = d log delta/d epsilon; made by make_delta_cases.py",
        wishes,
        solve,
        shown,
        check_given,
    )
