"""The pair N(m, diag τ) against N(0, I): its integrals, its closed forms, and δ where they agree."""

import math

from flint import acb, arb, ctx

from quadrature import Integral, agree, check, exact, log_size, with_precision


class PairLaw:
    """exponent(s) = K(s) - s ε, def:log-moment, from exact inputs: lists of (t, log τ, m², copies) as balls."""

    def __init__(self, groups, epsilon):
        self.groups = [g for g in groups if g[0] != 0 or g[2] != 0]
        self.epsilon = epsilon
        self.flat = [(t, n, n * m2) for t, _, m2, n in self.groups if t != 0]
        self.linear = sum((-n * log_tau / 2 for _, log_tau, _, n in self.groups), arb(0)) - epsilon
        self.gauss = sum((n * m2 for t, _, m2, n in self.groups if t == 0), arb(0))
        top = max((t for t, *_ in self.flat), key=lambda t: t.mid(), default=arb(0))
        self.right = 1 / top if top > 0 else None
        self.poles = [1 / t for t, *_ in self.flat]

    def exponent(self, s):
        logs, means = acb(0), acb(self.gauss)
        for t, n, nm2 in self.flat:
            d = 1 - s * t
            logs += d.log() if n == 1 else n * d.log()
            if nm2 != 0:
                means += nm2 / d
        return s * self.linear - logs / 2 + s * (1 + s) * means / 2

    def supremum(self):
        """Largest loss, or None where it is unbounded; `infimum` likewise."""
        return self.bound(-1)

    def infimum(self):
        return self.bound(1)

    def bound(self, sign):
        if self.gauss != 0 or not all(sign * t > 0 for t, *_ in self.flat):
            return None
        return self.linear + self.epsilon + sum((-nm2 / (2 * t) for t, _, nm2 in self.flat), arb(0))


def groups_of(ratio, shift, copies):
    tally = {}
    for tau, m, n in zip(ratio, shift, copies, strict=True):
        key = (float(tau), abs(float(m)))
        tally[key] = tally.get(key, 0) + int(n)
    return [(exact(tau) - 1, exact(tau).log(), exact(m) ** 2, n) for (tau, m), n in tally.items()]


def normal_cdf(x):
    return (-x / arb(2).sqrt()).erfc() / 2


def one_ratio_closed_form(law):
    """P_X(L > ε) - e^ε P_Y(L > ε) where every direction has the same ratio: (δ, name), or None.

    One direction: L is a quadratic in x, the event an interval or its complement. Several: L is affine in a noncentral
    chi-square variable, a Poisson mixture of gamma variables. No ratio but one: normal.
    """
    eps = law.epsilon
    if not law.flat:
        mu = law.gauss.sqrt()
        return normal_cdf(mu / 2 - eps / mu) - eps.exp() * normal_cdf(-mu / 2 - eps / mu), "normal closed form"
    distinct = {t.mid().str(60, radius=False) for t, *_ in law.groups}
    if len(distinct) != 1:
        return None
    t = law.groups[0][0]
    tau = 1 + t
    n = sum(g[3] for g in law.groups)
    mean = sum((g[2] * g[3] for g in law.groups), arb(0))
    # L = linear - mean/(2t) + t/(2τ) Σ (x + m/t)², with x ~ N(0, 1) under Y and N(m, τ) under X.
    q = (eps - (law.linear + eps) + mean / (2 * t)) * 2 / t  # L > ε  <=>  χ²_X > q (t > 0) or < q (t < 0)
    if n == 1:
        m = mean.sqrt()
        root = q.sqrt()

        def above(centre, scale):  # P(|scale·z + centre|² > τ q scaled to scale)
            edge = root * tau.sqrt() / scale
            return normal_cdf(-edge - centre / scale), normal_cdf(-edge + centre / scale)

        parts = []
        for centre, scale in ((m + m / t, tau.sqrt()), (m / t, arb(1))):
            low, high = above(centre, scale)
            parts.append(low + high if t > 0 else 1 - low - high)
        return parts[0] - eps.exp() * parts[1], "normal closed form"

    parts = []
    for ncp, x in ((mean * tau / t**2, q / 2), (mean / t**2, q * tau / 2)):
        if ncp > 3000:
            return None
        parts.append(poisson_gamma(arb(n) / 2, ncp / 2, x, upper=t > 0))
    return parts[0] - eps.exp() * parts[1], "incomplete gamma closed form"


def poisson_gamma(shape, rate, x, upper):
    """P(G > x) or P(G < x), G gamma of shape + Poisson(rate)."""
    if rate == 0:
        q = x.gamma_upper(shape, regularized=1)
        return q if upper else 1 - q
    total, j, weight = arb(0), 0, (-rate).exp()
    while True:
        q = x.gamma_upper(shape + j, regularized=1)
        total += weight * (q if upper else 1 - q)
        j += 1
        weight = weight * rate / j
        if j > 2 * rate and (weight.mid() == 0 or weight < arb(2) ** (-ctx.prec)):
            return total


def ruben(terms, x, upper):
    """P(W > x) or P(W < x), W = Σ λ χ²_ν(ncp) with every λ > 0, by Ruben's (1962) series; None if it is slow."""
    beta = min((g[0] for g in terms), key=lambda v: v.mid())
    gammas = [(1 - beta / lam, nu, ncp) for lam, nu, ncp in terms]
    worst = max(float(g.mid()) for g, *_ in gammas)
    bits = ctx.prec
    spread = sum(float((ncp / 2).mid()) for *_, ncp in terms)
    count = int(bits * math.log(2) / -math.log(worst)) + 50 if worst > 0 else 50
    count += int(4 * spread)
    if count > 2500:
        return None
    a0 = (-sum((ncp for *_, ncp in terms), arb(0)) / 2).exp()
    for lam, nu, _ in terms:
        a0 *= (beta / lam) ** (arb(nu) / 2)
    powers = [arb(1) for _ in gammas]
    g = [arb(0)]
    for k in range(1, count):
        value = arb(0)
        for i, (gamma, nu, ncp) in enumerate(gammas):
            value += ncp * k * powers[i] * (1 - gamma) / 2
            powers[i] = powers[i] * gamma
            value += arb(nu) * powers[i] / 2
        g.append(value)
    a = [a0]
    for k in range(1, count):
        a.append(sum((g[k - r] * a[r] for r in range(k)), arb(0)) / k)
    shape, y = sum((arb(nu) for _, nu, _ in terms), arb(0)) / 2, x / beta / 2
    total = arb(0)
    for k, weight in enumerate(a):
        q = y.gamma_upper(shape + k, regularized=1)
        total += weight * (q if upper else 1 - q)
    return total


def ruben_pair(law):
    """δ where every ratio lies on the same side of one, as a difference of two series; None elsewhere or if slow."""
    if law.gauss != 0 or len(law.flat) > 12:
        return None
    sign = 1 if all(t > 0 for t, *_ in law.flat) else -1 if all(t < 0 for t, *_ in law.flat) else 0
    if sign == 0:
        return None
    edge = law.bound(sign)
    x = (law.epsilon - edge) * sign  # |L - edge| is a positive combination of chi-squares
    parts = []
    for under_x in (True, False):
        terms = []
        for t, n, nm2 in law.flat:
            tau = 1 + t
            lam = sign * t / 2 if under_x else sign * t / (2 * tau)
            terms.append((lam, n, nm2 * tau / t**2 if under_x else nm2 / t**2))
        part = ruben(terms, x, upper=sign > 0)
        if part is None:
            return None
        parts.append(part)
    return parts[0] - law.epsilon.exp() * parts[1]


def delta_of(groups, epsilon):
    """δ, log δ, log(1-δ) and d log δ/dε as balls (None for minus infinity), and the methods that agreed."""
    law = PairLaw(groups, epsilon)
    supremum, infimum = law.supremum(), law.infimum()
    if not law.groups:
        raise ValueError("a pair of equal laws needs no oracle")
    if supremum is not None and epsilon >= supremum:
        return arb(0), None, arb(0), None, ["loss bounded: zero"]
    if infimum is not None and epsilon <= infimum:  # L > ε surely: δ = 1 - e^ε
        value = 1 - epsilon.exp()
        return value, value.log(), epsilon, -epsilon.exp() / value, ["loss bounded below: 1 - exp(epsilon)"]
    count = len(law.flat)
    both = Integral(law, lambda s: 1 / (s * (s + 1)), arb(0), law.right)
    delta, names = agree(both, count)
    if count > 500 and delta < 0.5:  # the identity will have to do; every evaluation is dear here
        rest, slope = 1 - delta, None
    else:
        rest, more = agree(Integral(law, lambda s: 1 / (s * (s + 1)), arb(-1), arb(0)), count)
        rest = -rest
        names = list(dict.fromkeys(names + more))
        check("delta + complement", delta + rest, arb(1))
        slope = -Integral(law, lambda s: 1 / (s + 1), arb(-1), law.right).line() / delta
    # Enough for p0 - e^ε p1, 1 - p and 1 - δ to keep 60 digits: log2 e < 3/2.
    bits = 320 + int(1.5 * (-log_size(delta) - log_size(rest)))
    if infimum is None:
        bits += int(1.5 * abs(float(epsilon)))
    if bits < 60000:
        closed = with_precision(bits, lambda: one_ratio_closed_form(PairLaw(groups, epsilon)))
        if closed is not None:
            check("closed form", closed[0], delta)
            check("closed form, complement", with_precision(bits, lambda: 1 - closed[0]), rest)
            names.append(closed[1])
        elif bits < 1500:
            series = with_precision(bits, lambda: ruben_pair(PairLaw(groups, epsilon)))
            if series is not None:
                check("Ruben", series, delta)
                check("Ruben, complement", with_precision(bits, lambda: 1 - series), rest)
                names.append("Ruben series")
    log_delta = delta.log() if delta < 0.5 else (-rest).log1p()
    log_rest = rest.log() if rest < 0.5 else (-delta).log1p()
    return delta, log_delta, log_rest, slope, names
