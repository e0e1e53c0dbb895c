"""Make ``data/dense_cases.json``: δ(ε) of Gaussian pairs given by dense means and covariances, to 25 digits.

Why. The package whitens in float64 (and encloses the whitening in balls). Here the whitening is done twice: once in
mpmath at 120 digits (Cholesky factor, then the symmetric eigenproblem), once exactly over the rationals, as traces
tr B^k and forms Δᵀ B^k Σq⁻¹ Δ of B = Σq⁻¹(Σp − Σq), k = 0 … 2d. The sums Σ tᵢ^k and Σ mᵢ² tᵢ^k of the first must
reproduce the second to 40 digits; together these determine every ratio, its multiplicity and its shift. The rank of
Σp − Σq is exact as well. δ itself then comes from ``pair_law.py`` with its demand that two computations agree.
Inputs are binary doubles and count as exact. Singular covariances are F Gp Fᵀ and F Gq Fᵀ with integer F of full column
rank: the pair equals N(·, Gp) against N(·, Gq) exactly. ``condition`` is that of cov_q on its range, as
given or scaled to unit diagonal, whichever is less;
``edge_distance`` is 1 - ε/(largest loss), where the loss is bounded.

How long. About one minute on one core: ``python tests/oracle/make_dense_cases.py``.
With ``--check-given`` it recomputes ``data/given_dense_cases.json`` instead and prints every disagreement.
"""

import json
from fractions import Fraction

import numpy as np
from flint import arb, ctx, fmpq, fmpq_mat
from mpmath import mp

from delta_wishes import epsilon_near
from pair_law import PairLaw, delta_of
from quadrature import exact
from tables import DATA, make, text


def rational(x):
    return fmpq(*Fraction(x).as_integer_ratio())


def to_mp(x):
    """A double, or a rational, at working precision."""
    return mp.mpf(int(x.p)) / int(x.q) if isinstance(x, fmpq) else mp.mpf(x)


def whiten(mean_p, cov_p, mean_q, cov_q):
    """(t, m²) for every direction with t or m, mpmath numbers good to 90 digits or more, checked against rationals."""
    mp.dps = 120
    d = len(mean_p)
    difference = [
        [rational(a) - rational(b) for a, b in zip(p, q, strict=True)] for p, q in zip(cov_p, cov_q, strict=True)
    ]
    gap = [rational(a) - rational(b) for a, b in zip(mean_p, mean_q, strict=True)]
    rank = fmpq_mat(difference).rank()

    factor = mp.cholesky(mp.matrix([[mp.mpf(x) for x in row] for row in cov_q]))
    inverse = mp.inverse(factor)
    whitened = inverse * mp.matrix([[to_mp(x) for x in row] for row in difference]) * inverse.T
    values, vectors = mp.eigsy((whitened + whitened.T) / 2)
    m = vectors.T * inverse * mp.matrix([to_mp(x) for x in gap])
    order = sorted(range(d), key=lambda i: -abs(values[i]))
    t = [values[i] if k < rank else mp.mpf(0) for k, i in enumerate(order)]
    m2 = [m[i] ** 2 for i in order]

    exact_inverse = fmpq_mat([[rational(x) for x in row] for row in cov_q]).inv()
    b = exact_inverse * fmpq_mat(difference)
    column = fmpq_mat([[x] for x in gap])
    row, power = column.transpose(), fmpq_mat(d, d, [int(i == j) for i in range(d) for j in range(d)])
    for k in range(2 * d + 1):
        trace = sum((power[i, i] for i in range(d)), fmpq(0))
        form = (row * power * exact_inverse * column)[0, 0]
        compare("trace", sum(v**k for v in t), to_mp(trace), sum(abs(v) ** k for v in t))
        compare(
            "form",
            sum(w * v**k for v, w in zip(t, m2, strict=True)),
            to_mp(form),
            sum(w * abs(v) ** k for v, w in zip(t, m2, strict=True)),
        )
        power = power * b
    return [(v, w) for v, w in zip(t, m2, strict=True) if v != 0 or w > mp.mpf(10) ** -80]


def compare(name, mine, exact, scale):
    if abs(mine - exact) > scale * mp.mpf(10) ** -40:
        raise ArithmeticError(f"whitening, {name}: {mine} against {exact}")


def groups_from(invariants):
    def ball(x):
        return arb(mp.nstr(x, 100, strip_zeros=False))

    return [
        (arb(0) if t == 0 else ball(t), arb(0) if t == 0 else ball(mp.log1p(t)), ball(m2), 1) for t, m2 in invariants
    ]


def condition(cov_q):
    """Ratio of the extreme nonzero eigenvalues, as given or scaled to unit diagonal, whichever is less; four digits."""
    mp.dps = 60
    given = mp.matrix([[mp.mpf(x) for x in row] for row in cov_q])
    scale = mp.diag([1 / mp.sqrt(given[i, i]) if given[i, i] else mp.mpf(1) for i in range(given.rows)])
    ratios = []
    for matrix in (given, scale * given * scale):
        values = mp.eigsy(matrix, eigvals_only=True)
        top = max(values)
        ratios.append(top / min(v for v in values if v > top * mp.mpf(10) ** -40))
    return float(mp.nstr(min(ratios), 4))


def solve(case):
    ctx.prec = 240
    if case.get("apart"):
        return {"delta": "1", "log_delta": "0", "log_complement": "-inf", "verified": ["mutually singular"]}
    core = case.get("core", case)
    invariants = whiten(core["mean_p"], core["cov_p"], core["mean_q"], core["cov_q"])
    epsilon = case["epsilon"]
    if isinstance(epsilon, dict):
        flat = {
            "variance_ratio": [1 + float(t) for t, _ in invariants],
            "shift": [float(mp.sqrt(w)) for _, w in invariants],
        }
        epsilon = epsilon_near(flat | {"copies": [1] * len(invariants)}, **epsilon)
        if epsilon == 0:
            raise ArithmeticError("no such epsilon")
    groups = groups_from(invariants)
    delta, log_delta, log_rest, _, names = delta_of(groups, exact(epsilon))
    answer = {
        "epsilon": epsilon,
        "delta": text(delta),
        "log_delta": text(log_delta),
        "log_complement": text(log_rest),
    }
    supremum = PairLaw(groups, exact(epsilon)).supremum()
    if supremum is not None:
        answer["edge_distance"] = float((1 - epsilon / supremum).str(4, radius=False))
    return answer | {"verified": ["rational traces and forms", *names]}


def wishes():
    """Yield every case without its answer."""
    rng = np.random.default_rng(20240608)

    def symmetric(a):
        return ((a + a.T) / 2).tolist()  # exactly symmetric: floating addition commutes

    def covariance(d, cond):
        q, _ = np.linalg.qr(rng.standard_normal((d, d)))
        return q @ np.diag(np.geomspace(1.0, cond, d)) @ q.T

    def case(kind, mean_p, cov_p, mean_q, cov_q, **rest):
        out = {"kind": kind, "mean_p": np.asarray(mean_p, float).tolist(), "cov_p": symmetric(np.asarray(cov_p, float))}
        out |= {"mean_q": np.asarray(mean_q, float).tolist(), "cov_q": symmetric(np.asarray(cov_q, float))}
        return out | rest

    def like(cov, spread):
        """A covariance whose ratios to `cov` spread over e^{±spread}: whatever the condition, the pair stays alike."""
        c = np.linalg.cholesky(cov)
        q, _ = np.linalg.qr(rng.standard_normal(cov.shape))
        return c @ q @ np.diag(np.exp(rng.uniform(-spread, spread, len(cov)))) @ q.T @ c.T

    for d, cond, wish in [
        (2, 1.0, -3.0),
        (3, 10.0, -15.0),
        (5, 1e3, -6.0),
        (8, 1e4, -40.0),
        (12, 1e2, -10.0),
        (4, 1e8, -5.0),
        (6, 1e10, -2.0),
        (12, 1e6, -200.0),
        (3, 1e12, -8.0),
    ]:
        cov = covariance(d, cond)
        shift = np.linalg.cholesky(cov) @ rng.normal(0, 0.5, d)
        yield case(
            "general", rng.normal(0, 1, d) + shift, like(cov, 0.8), np.zeros(d), cov, epsilon={"log_delta": wish}
        )
    cov = covariance(6, 10.0)
    yield case("general", rng.normal(0, 8, 6), like(cov, 1.0), rng.normal(0, 8, 6), cov, epsilon=-2.0)
    yield case("general", rng.normal(0, 1, 6), like(cov, 1.0), rng.normal(0, 1, 6), cov, epsilon=0.0)

    for d, cond, sign, wish in [(4, 10.0, 1, -8.0), (12, 1e3, 1, -20.0), (10, 1e5, -1, -0.5)]:
        cov = covariance(d, cond)
        # Multiples of 2^-30, so that adding vvᵀ with small integers over 2^8 is exact and the difference has rank one.
        cov = np.round(np.asarray(symmetric(cov)) * 2**30) / 2**30
        v = rng.integers(-200, 200, d) / 2**8 * (1.0 if sign > 0 else 0.25)
        pair = (np.zeros(d), cov + sign * np.outer(v, v), np.zeros(d), cov)
        yield case("rank_one", *pair, epsilon={"log_delta": wish})
        if sign < 0:
            yield case("rank_one_edge", *pair, epsilon={"log_delta": 8 * wish})
    cov = np.round(np.asarray(symmetric(covariance(7, 50.0))) * 2**30) / 2**30
    v = rng.integers(-200, 200, 7) / 2**8
    yield case("rank_one", v, cov + np.outer(v, v), np.zeros(7), cov, epsilon={"log_delta": -12.0})

    for d, cond, wish in [(3, 5.0, -10.0), (8, 1e3, -20.0), (5, 1e6, -5.0)]:
        cov = np.asarray(symmetric(covariance(d, cond)))
        noise = np.asarray(symmetric(rng.standard_normal((d, d)) * 1e-9))
        mean = rng.normal(0, 1, d)
        yield case(
            "tiny_difference",
            mean * (1 + 1e-9),
            cov + noise * (np.abs(cov) if cond < 100 else 1.0),
            mean,
            cov,
            epsilon={"log_delta": wish},
        )

    blocks_p, blocks_q = np.zeros((9, 9)), np.zeros((9, 9))
    for k in range(3):
        part = covariance(3, 30.0)
        blocks_q[3 * k : 3 * k + 3, 3 * k : 3 * k + 3] = part
        blocks_p[3 * k : 3 * k + 3, 3 * k : 3 * k + 3] = part if k == 1 else like(part, 0.5)
    yield case("block_diagonal", np.zeros(9), blocks_p, rng.normal(0, 0.3, 9), blocks_q, epsilon={"log_delta": -9.0})
    scale = np.diag([2.0**k for k in (-20, -10, 0, 10, 20)])
    core = np.asarray(symmetric(covariance(5, 4.0)))
    yield case(
        "graded",
        scale @ np.ones(5),
        scale @ np.asarray(symmetric(like(core, 0.6))) @ scale,
        np.zeros(5),
        scale @ core @ scale,
        epsilon={"log_delta": -6.0},
    )
    yield case(
        "equal_covariance",
        [3.0, -1.0, 2.0],
        np.diag([2.0, 3.0, 5.0]) + 1,
        [0.0, 0.0, 1.0],
        np.diag([2.0, 3.0, 5.0]) + 1,
        epsilon=2.5,
    )
    yield case("one_dimension", [0.75], [[2.5]], [-1.25], [[0.625]], epsilon={"log_delta": -30.0})

    for n, r, wish in [(4, 2, -7.0), (6, 3, -20.0), (10, 6, -4.0)]:
        f = rng.integers(-3, 4, (n, r))
        a, b = rng.integers(-2, 3, (2, r, r))
        gp, gq = a @ a.T + 2 * np.eye(r, dtype=int), b @ b.T + 3 * np.eye(r, dtype=int)
        gap = rng.integers(-2, 3, r)
        inner = case("core", gap, gp, np.zeros(r), gq)
        assert np.linalg.matrix_rank(f) == r
        yield case(
            "singular", f @ gap + 1, f @ gp @ f.T, np.ones(n), f @ gq @ f.T, core=inner, epsilon={"log_delta": wish}
        )
    f, e = np.array([[1, 0], [2, 1], [0, 3]]), np.array([[1, 0], [2, 1], [0, 4]])
    yield case("singular_apart", np.zeros(3), f @ f.T, np.zeros(3), e @ e.T, epsilon=3.0, apart=True)
    yield case("singular_apart", [0.0, 0.0, 1.0], f @ f.T, np.zeros(3), 2 * f @ f.T, epsilon=3.0, apart=True)


def check_given():
    worst = arb(0)
    for i, case in enumerate(json.loads((DATA / "given_dense_cases.json").read_text())):
        answer = solve(case)
        error = abs(arb(case["delta"]) / arb(answer["delta"]) - 1).mid()
        worst = max(worst, error)
        if not error < arb("1e-16"):
            print(i, case["kind"], case["delta"], answer["delta"], error.str(3, radius=False))
        print(i, case["kind"], case["condition"], condition(case["cov_q"]), answer["verified"], flush=True)
    print("largest relative difference", worst.str(3, radius=False))


def row(case):
    """The row of the table; "core" and "apart" only say how a case was made."""
    answer = case | solve(case) | {"condition": condition(case["cov_q"])}
    return {key: value for key, value in answer.items() if key not in ("core", "apart")}


def shown(row):
    return row["epsilon"], row["condition"], row["log_delta"][:12], row["log_complement"][:12], row["verified"]


if __name__ == "__main__":
    make(
        __doc__,
        "dense_cases.json",
        "delta(epsilon) of N(mean_p, cov_p) from N(mean_q, cov_q); inputs are exact doubles; condition of cov_q "
        "on its range; made by make_dense_cases.py",
        wishes,
        row,
        shown,
        check_given,
    )
