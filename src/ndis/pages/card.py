"""A risk card says what a guarantee means for a person: how far attacks get, alone and for groups, and who else did so.

Every number is rounded to the safe side: no attack on neighbouring data sets gets farther.
"""

from __future__ import annotations

import json
import math
import tomllib
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any

from ndis._validate import as_one_probability, as_size
from ndis._version import __version__
from ndis.errors import NdisError
from ndis.pages.html import Page, chart, render
from ndis.pages.text import at_most, few, plain

FALSE_POSITIVE_RATES = tuple(10.0**-k for k in range(2, 13))
_SLACK = 1e-10  # δ may exceed that of the certified μ by this much
_PURE = 1e-10  # δ at which a guarantee is compared with one of pure ε
_HALVINGS = 200  # smaller and smaller δ that are tried for a group
_MOST = 600.0  # e^ε is a float up to this ε
_POINTS = 81  # places of the curve on the page
_NEIGHBOURS = {"add-remove": "there or not", "replace-one": "of one content or another"}


@dataclass(frozen=True)
class RiskCard(Page):
    """The card holds what a manager asks of a guarantee; `to_html` is a page, `to_json` the same numbers.

    Attributes
    ----------
    title : str
        Name of the release.
    adjacency : str
        Which data sets are neighbours.
    epsilon, delta : float
        The guarantee, ε at this δ.
    mu, slack : float
        δ(ε) is at most that of two Gaussians at distance μ, plus the slack, with proof.
    advantage : float
        The largest true less false positive rate of an attack on membership.
    guesses : float
        The largest chance that a guess is right whether one person is in the data, if it was ½ before.
    attacks : tuple of (float, float)
        False positive rates, and the largest true positive rate of an attack at each.
    groups : tuple of (int, float)
        Numbers of people, and ε at δ for all of them together.
    deployments : tuple of dict
        Published guarantees of others, each with the ε of this release at its δ (10⁻¹⁰ for one of pure ε).
    curve : tuple of (float, float)
        ε and δ, for the picture.
    examples_per_user : int
        How many records one person has at most.
    version : str
        Version of the package.

    Examples
    --------
    >>> import ndis
    >>> card = ndis.PrivacyProfile.from_noise_multiplier(4.0).report(1e-6, groups=(2,), title="a count")
    >>> for line in str(card).splitlines()[:4]:
    ...     print(line)
    a count: one person's record is there or not
    ε = 1.061 at δ = 10⁻⁶
    μ = 0.25, except with a chance of 10⁻¹⁰
    a guess of membership is right in 54.98 % of cases at most, a coin in 50 %
    """

    title: str
    adjacency: str
    epsilon: float
    delta: float
    mu: float
    slack: float
    advantage: float
    guesses: float
    attacks: tuple[tuple[float, float], ...]
    groups: tuple[tuple[int, float], ...]
    deployments: tuple[dict[str, Any], ...]
    curve: tuple[tuple[float, float], ...]
    examples_per_user: int = 1
    version: str = __version__

    @property
    def neighbours(self) -> str:
        """Say how two neighbouring data sets differ."""
        whose = "record is" if self.examples_per_user == 1 else f"records, up to {self.examples_per_user}, are"
        return f"one person's {whose} {_NEIGHBOURS[self.adjacency]}"

    def __str__(self) -> str:
        """Write the numbers in words, one per line."""
        lines = [
            f"{self.title or 'risk card'}: {self.neighbours}",
            f"ε = {at_most(self.epsilon)} at δ = {plain(self.delta)}",
            f"μ = {at_most(self.mu)}, except with a chance of {plain(self.slack)}",
            f"a guess of membership is right in {at_most(100.0 * self.guesses)} % of cases at most, a coin in 50 %",
            f"advantage of an attack: at most {at_most(self.advantage)}",
        ]
        lines += [f"true positives at {plain(fpr)} false ones: at most {at_most(tpr)}" for fpr, tpr in self.attacks]
        lines += [f"group of {size} people: ε = {at_most(epsilon)}" for size, epsilon in self.groups]
        for one in self.deployments:
            own = f"{at_most(one['own_epsilon'])} at δ = {plain(one['delta'] or _PURE)}"
            lines.append(f"{one['name']}: ε = {plain(one['epsilon'])} at δ = {plain(one['delta'])}; here {own}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; infinity is the word."""
        plain_values = json.loads(json.dumps(asdict(self)), parse_constant=lambda _: "infinity")
        return {"format": "ndis.RiskCard", "format_version": 1, **plain_values}

    def to_html(self) -> str:
        """Write one page that loads nothing."""
        words = f"δ on a logarithmic axis against ε. The mark is ε = {few(self.epsilon)} at δ = {few(self.delta)}."
        marks = [(self.epsilon, self.delta)] if math.isfinite(self.epsilon) else []
        picture = chart(self.curve, marks, description=words, mark="this guarantee")
        return render("risk.html.jinja", c=self, neighbours=self.neighbours, chart=picture, version=self.version)


def risk_card(profile: Any, delta: float, *, groups: tuple[int, ...] = (2, 5, 10), title: str = "") -> RiskCard:
    """Return the risk card of a `PrivacyProfile` at a δ; `PrivacyProfile.report` calls this."""
    target = as_one_probability("delta", delta)
    epsilon = float(profile.epsilon(target))
    deployments = tomllib.loads((files("ndis.pages") / "templates" / "deployments.toml").read_text(encoding="utf-8"))
    own = [float(profile.epsilon(one["delta"] or _PURE)) for one in deployments["deployment"]]
    end = 1.5 * epsilon if 0.0 < epsilon < math.inf else 1.0
    grid = [end * i / (_POINTS - 1) for i in range(_POINTS)]
    mu, slack = profile.gdp(max(_SLACK, profile.failure_probability))
    rates = profile.true_positive_rate(FALSE_POSITIVE_RATES).tolist()
    return RiskCard(
        title=title,
        adjacency=profile.adjacency,
        epsilon=epsilon,
        delta=target,
        mu=mu,
        slack=slack,
        advantage=profile.advantage(),
        guesses=min((1.0 - profile.bayes_risk(0.5)) * (1.0 + 2.0**-50), 1.0),
        attacks=tuple(zip(FALSE_POSITIVE_RATES, rates, strict=True)),
        groups=tuple((size, _group_epsilon(profile, as_size("groups", size), target)) for size in groups),
        deployments=tuple(one | {"own_epsilon": e} for one, e in zip(deployments["deployment"], own, strict=True)),
        curve=tuple(zip(grid, profile.delta(grid).tolist(), strict=True)),
        examples_per_user=profile._examples_per_user,
    )


def _group_epsilon(profile: Any, size: int, delta: float) -> float:
    """Return ε for a group, all of whose records change: exact if the profile knows it, else by a general bound.

    A μ without slack is k μ for a group (thm:gaussian-groups). Else (ε, δ') for one person gives (k ε, δ) for k with
    δ = δ' (e^(kε) − 1)/(e^ε − 1), and the first δ' below δ with that is taken.
    """
    try:
        return float(profile.group(size).epsilon(delta))
    except NdisError:
        mu = profile.gdp(0.0).mu
    if 0.0 < mu < math.inf:
        noise = (1.0 - 2.0**-50) / (size * mu)
        return float(type(profile).from_noise_multiplier(noise).epsilon(delta))
    halvings = 0
    while halvings < _HALVINGS:
        epsilon = float(profile.epsilon(delta * 2.0**-halvings))
        if not size * epsilon < _MOST:
            break
        factor = math.expm1(size * epsilon) / math.expm1(epsilon) if epsilon > 0.0 else float(size)
        if factor * 2.0**-halvings * (1.0 + 1e-12) <= 1.0:
            return size * epsilon
        halvings = max(halvings + 1, math.floor(math.log2(factor)))  # ε grows, so that none before is enough
    return math.inf
