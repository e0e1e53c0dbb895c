"""Make ``data/genchi2_cases.json``: both tails and the density of generalized chi-square variables to 25 digits.

Why. The package evaluates these on a bent contour in float64. Here they come from straight vertical lines in 240-bit
arithmetic (``quadrature.py``, applied to another integrand), from two abscissae or by two rules
that agree to 25 digits; the two tails, integrated on different sides of the pole, must add to one; and every positive
combination whose series converges is checked against Ruben's (1962) series of chi-square distribution functions, a
single term against the Poisson mixture of incomplete gamma functions. Inputs are binary doubles and count as exact.

How long. About one and a half minutes on one core: ``python tests/oracle/make_genchi2_cases.py``.
With ``--check-given`` it recomputes ``data/given_genchi2_cases.json`` instead and prints every disagreement.
"""

import json
import math

import numpy as np
from flint import acb, arb, ctx

from pair_law import poisson_gamma, ruben
from quadrature import Integral, agree, check, exact, log_size, with_precision
from tables import DATA, make, text


class ChiLaw:
    """exponent(s) = log E exp(s (W - x)), W = shift + Σ λ χ²_ν(ncp) + σ G, thm:genchi2-contour."""

    def __init__(self, case, exact):
        self.terms = [
            (exact(w), exact(nu), exact(ncp))
            for w, nu, ncp in zip(case["weights"], case["dof"], case["noncentrality"], strict=True)
        ]
        self.variance = exact(case["sigma"]) ** 2
        self.linear = exact(case["shift"]) - exact(case["x"])
        self.poles = [1 / (2 * w) for w, *_ in self.terms]
        self.right = min((p for p in self.poles if p > 0), key=lambda p: p.mid(), default=None)
        self.left = max((p for p in self.poles if p < 0), key=lambda p: p.mid(), default=None)

    def exponent(self, s):
        total = s * self.linear + self.variance * s * s / 2
        for w, nu, ncp in self.terms:
            d = 1 - 2 * w * s
            total -= nu * d.log() / 2
            if ncp != 0:
                total += w * ncp * s / d
        return total


def solve(case):
    """The answer to one case, or ArithmeticError where two computations disagree."""
    ctx.prec = 240
    law = ChiLaw(case, exact)
    one_sided = law.variance == 0 and (law.left is None or law.right is None)
    inside = not one_sided or (law.linear < 0 if law.left is None else law.linear > 0)
    if not inside:
        zero, one = {"{}": "0", "log{}": "-inf"}, {"{}": "1", "log{}": "0"}
        below, above = (zero, one) if law.left is None else (one, zero)
        answer = {k.format("cdf"): v for k, v in below.items()} | {k.format("sf"): v for k, v in above.items()}
        return answer | {"pdf": "0", "logpdf": "-inf", "verified": ["outside the support"]}
    sf, names = agree(Integral(law, lambda s: 1 / s, arb(0), law.right))
    cdf, more = agree(Integral(law, lambda s: -1 / s, law.left, arb(0)))
    pdf, most = agree(Integral(law, lambda s: acb(1), law.left, law.right))
    check("cdf + sf", cdf + sf, arb(1))
    names = list(dict.fromkeys(names + more + most))
    bits = 320 + int(1.5 * (-log_size(sf) - log_size(cdf)))
    if one_sided and bits < 2000:
        sign = 1 if law.left is None else -1

        def series():
            terms = [(sign * w, nu, ncp) for w, nu, ncp in ChiLaw(case, exact).terms]
            x = -sign * ChiLaw(case, exact).linear
            if len(terms) == 1 and terms[0][2] < 4000:
                w, nu, ncp = terms[0]
                return poisson_gamma(nu / 2, ncp / 2, x / (2 * w), upper=sf < cdf if sign > 0 else cdf < sf)
            return ruben(terms, x, upper=sf < cdf if sign > 0 else cdf < sf)

        small = with_precision(bits, series)
        if small is not None:
            check("series", small, sf if sf < cdf else cdf)
            names.append("chi-square series")
    logs = {
        "logcdf": cdf.log() if cdf < 0.5 else (-sf).log1p(),
        "logsf": sf.log() if sf < 0.5 else (-cdf).log1p(),
        "logpdf": pdf.log(),
    }
    values = {"cdf": cdf, "sf": sf, "pdf": pdf} | logs
    return {name: text(value) for name, value in values.items()} | {"verified": names}


def point_near(case, log_tail, upper):
    """A point at which the upper (lower) tail is near the wish, by the exponent of Chernoff's bound; four digits."""
    w, nu, ncp = (np.array(case[k], float) for k in ("weights", "dof", "noncentrality"))
    ends = 2 * w[w > 0] if upper else -2 * w[w < 0]
    end = 1 / ends.max() if ends.size else math.inf

    def at(u):
        s = math.exp(u) if end == math.inf else end / (1 + math.exp(-u))
        s = s if upper else -s
        d = 1 - 2 * w * s
        k = case["shift"] * s + case["sigma"] ** 2 * s * s / 2 + (-nu / 2 * np.log(d) + w * ncp * s / d).sum()
        dk = case["shift"] + case["sigma"] ** 2 * s + (nu * w / d + w * ncp / d**2).sum()
        return k - s * dk, dk

    a, b = -40.0, 34.0 if end < math.inf else 200.0
    for _ in range(200):
        u = (a + b) / 2
        a, b = (u, b) if at(u)[0] > log_tail else (a, u)
    digits = ".4g" if case["sigma"] or min(w) < 0 < max(w) or upper == (w[0] > 0) else ".17g"
    return float(f"{at(a)[1]:{digits}}")


def wishes():
    """Yield every case without its answer."""

    def case(kind, weights, dof, ncp, sigma=0.0, shift=0.0, **wish):
        out = {"kind": kind, "weights": weights, "dof": dof, "noncentrality": ncp, "sigma": sigma, "shift": shift}
        if "x" in wish:
            out["x"] = wish["x"]
        else:
            out["x"] = point_near(out, wish.get("upper", wish.get("lower")), "upper" in wish)
        return out

    mixed = ([2.0, 0.7, -1.5, -0.1], [1.0, 3.0, 2.0, 4.0], [0.5, 0.0, 2.0, 1.0])
    for wish in (
        {"upper": -3.0},
        {"upper": -40.0},
        {"upper": -690.0},
        {"lower": -3.0},
        {"lower": -100.0},
        {"lower": -690.0},
        {"x": 0.0},
    ):
        yield case("mixed_sign", *mixed, **wish)
    for wish in ({"upper": -20.0}, {"lower": -300.0}, {"x": -3.25}, {"upper": -690.0}, {"lower": -690.0}):
        yield case("gaussian_term", [1.0, -3.0], [2.0, 1.0], [1.5, 0.25], 4.0, -2.0, **wish)
    yield case("gaussian_term", [1e-3], [1.0], [0.0], 10.0, 0.0, upper=-400.0)
    yield case("gaussian_term", [5.0, 0.01], [3.0, 10.0], [0.0, 100.0], 1e-3, 1.0, lower=-10.0)
    for wish in ({"upper": -5.0}, {"upper": -690.0}, {"lower": -5.0}, {"lower": -60.0}):
        yield case("real_dof", [1.0, 2.5], [0.3, 2.7], [0.0, 1.25], **wish)
    yield case("real_dof", [1.0, -2.0], [0.3, 2.7], [0.0, 0.0], upper=-12.0)
    yield case("real_dof", [1.0, -1.0], [0.3, 0.3], [0.0, 0.0], lower=-4.0)
    yield case("real_dof", [0.5], [0.3], [0.0], x=1e-6)
    for ncp, wish in [
        (1e5, {"upper": -30.0}),
        (1e5, {"lower": -30.0}),
        (1e5, {"upper": -690.0}),
        (1e5, {"lower": -690.0}),
        (1e3, {"lower": -5.0}),
    ]:
        yield case("noncentral", [1.0, 0.25], [3.0, 5.0], [ncp, 2.0], **wish)
    for wish in ({"upper": -8.0}, {"lower": -8.0}, {"upper": -500.0}):
        yield case("noncentral_small_weight", [0.001, -10.0, 4.0], [1.0, 1.0, 2.0], [1e5, 0.0, 3.0], **wish)
    for x in (1e-12, 1e-6, 1e-3, 0.05):
        yield case("lower_edge", [1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [0.5, 0.0, 4.0], x=x)
    yield case("lower_edge", [1.0, 1.5], [40.0, 60.0], [0.0, 10.0], x=0.001)
    yield case("upper_edge", [-1.0, -1.5], [4.0, 6.0], [0.0, 1.0], 0.0, 2.0, x=1.9990234375)
    yield case("outside", [1.0, 2.0], [1.0, 2.0], [0.0, 0.0], 0.0, 1.0, x=0.5)
    yield case("outside", [-1.0, -2.0], [1.0, 2.0], [0.0, 0.0], 0.0, 1.0, x=1.5)
    for n, wish in [(100.0, {"upper": -14.0}), (100000.0, {"lower": -14.0}), (7.0, {"upper": -690.0})]:
        yield case("single", [0.5], [n], [0.0], **wish)
    yield case("single", [2.0], [4.0], [250.0], upper=-100.0)
    yield case("single", [-2.0], [4.0], [250.0], lower=-20.0)
    spread = [float(f"{10.0 ** (-5 + i):.6g}") for i in range(11)]
    yield case("wide_spectrum", spread, [1.0] * 11, [0.0] * 11, upper=-20.0)
    yield case("wide_spectrum", [w * (-1) ** i for i, w in enumerate(spread)], [1.0] * 11, [1.0] * 11, lower=-50.0)
    yield case("wide_spectrum", spread, [2.0] * 11, [0.0] * 11, lower=-50.0)


def check_given():
    worst = arb(0)
    for case in json.loads((DATA / "given_genchi2_cases.json").read_text())["cases"]:
        names = {"weights": "lambda", "dof": "nu", "noncentrality": "ncp", "sigma": "sigma", "shift": "kappa", "x": "x"}
        answer = solve({mine: case[theirs] for mine, theirs in names.items()})
        given = {"cdf": case["cdf"], "sf": case["sf"], "log" + case["small_tail"]: case["log_small_tail"]}
        for name, value in given.items():
            error = abs(arb(value) / arb(answer[name]) - 1).mid()
            worst = max(worst, error)
            if not error < arb("1e-18"):
                print(case["id"], name, value, answer[name], error.str(3, radius=False))
        print(case["id"], answer["verified"], flush=True)
    print("largest relative difference", worst.str(3, radius=False))


def row(case):
    return case | solve(case)


def shown(row):
    return row["x"], row["logcdf"][:12], row["logsf"][:12], row["logpdf"][:12], row["verified"]


if __name__ == "__main__":
    make(
        __doc__,
        "genchi2_cases.json",
        "W = shift + sum weights*chi2(dof, noncentrality) + sigma*G at x; inputs are exact doubles; "
        "made by make_genchi2_cases.py",
        wishes,
        row,
        shown,
        check_given,
    )
