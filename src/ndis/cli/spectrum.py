"""Run `ndis delta`, `ndis epsilon` and `ndis curve`: the spectrum of a pair of Gaussians."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ndis.cli.files import numbers, read_profile
from ndis.cli.options import CERTIFY, JSON, PICTURES, argument, choice, command, listed, need_one, option, written
from ndis.cli.output import print_rows, write_picture
from ndis.errors import ParameterError

if TYPE_CHECKING:
    from ndis.profile import Choice, PrivacyProfile

_CHOICE: dict[str, Choice] = {"p-q": "remove", "q-p": "add", "worst": "worst"}

_PAIR = (
    argument("file", "FILE", required=False),
    listed("--ratio variance_ratio", "Variances of p where q is standard normal (1 unless given).", "NUMBERS"),
    listed("--shift", "Mean shifts of p there (0 unless given).", "NUMBERS"),
    listed("--copies", "How often each direction occurs (1 unless given).", "NUMBERS"),
    option("--sampling-rate", "Poisson sampling: p is the output with the record, q without."),
)
_ORDER = choice("--order", "p from q, q from p, or the worse of both.", "p-q q-p worst", "worst")


@command(listed("--epsilon", "One or more ε.", "NUMBERS", required=True), _PAIR, _ORDER, CERTIFY, JSON)
def delta(epsilon: list[str], order: str, certify: bool, as_json: bool, **pair: Any) -> None:
    """Print δ at given ε.

    Example: ndis delta --ratio 2 --epsilon 1

    FILE is a JSON or NPZ file with mean_p, cov_p, mean_q, cov_q (or var_p, var_q; or variance_ratio, shift, copies; or
    mean_p, mean_q, cov_q, factor, sign), or a saved profile.
    """
    profile = _profile(**pair)
    rows = [_delta_row(profile, x, _CHOICE[order], certify) for x in numbers("--epsilon", epsilon)]
    print_rows(rows, as_json=as_json, order=order, sampling_rate=_rate(profile))


@command(listed("--delta", "One or more δ.", "NUMBERS", required=True), _PAIR, _ORDER, CERTIFY, JSON)
def epsilon(delta: list[str], order: str, certify: bool, as_json: bool, **pair: Any) -> None:
    """Print the smallest safe ε at given δ. FILE is as for 'ndis delta'.

    Example: ndis epsilon --ratio 1.02 --copies 100 --delta 1e-6
    """
    profile = _profile(**pair)
    smallest = profile.certified_epsilon if certify else profile.epsilon
    rows = [{"delta": x, "epsilon": smallest(x, order=_CHOICE[order])} for x in numbers("--delta", delta)]
    print_rows(rows, as_json=as_json, order=order, sampling_rate=_rate(profile), certified=certify)


@command(
    _PAIR,
    option("--range epsilon_range", "From which ε to which (chosen by δ unless given).", str, metavar="LOW,HIGH"),
    option("--points", "How many ε (21 in a table, 201 in a picture).", int),
    written("Draw a picture here (png, svg, pdf).", *PICTURES),
    CERTIFY,
    JSON,
)
def curve(points: int | None, output: Path | None, certify: bool, as_json: bool, **given: Any) -> None:
    """Print the whole curve δ(ε) in both orders, or draw it. FILE is as for 'ndis delta'.

    Example: ndis curve --ratio 1.5,0.8 --shift 0,0.7 --output curve.png
    """
    from ndis.plotting import epsilon_grid, plot_profile

    if output is not None and (certify or as_json):
        raise ParameterError("output", "be left out with --certify or --json, which print a table", str(output))
    ends = given.pop("epsilon_range")
    how: dict[str, Any] = {"epsilon_range": None if ends is None else numbers("--range", [ends])}
    how["points"] = (21 if output is None else 201) if points is None else points
    profile = _profile(**given)
    if output is not None:
        names = ("p from q", "q from p")
        write_picture(output, lambda ax: plot_profile(profile, ax=ax, order_names=names, **how))
        return
    grid = epsilon_grid(profile, **how).tolist()
    if certify:
        rows = [_delta_row(profile, x, "worst", True) for x in grid]
    else:
        rows = [{"epsilon": x} | {name: profile.delta(x, order=order) for name, order in _CHOICE.items()} for x in grid]
    print_rows(rows, as_json=as_json, sampling_rate=_rate(profile))


def _profile(file: Path | None, sampling_rate: float | None, **given: list[str]) -> PrivacyProfile:
    """Return the profile that a command is asked about."""
    from ndis.pair import GaussianPair
    from ndis.profile import PrivacyProfile

    options = {key: numbers("--" + key.removeprefix("variance_"), value) for key, value in given.items() if value}
    need_one("be either a file or --ratio, --shift, --copies", file, options or None)
    ratios = options.pop("variance_ratio", [1.0])
    profile = PrivacyProfile(GaussianPair.from_ratios(ratios, **options)) if file is None else read_profile(file)
    return profile if sampling_rate is None else profile.subsampled(sampling_rate)


def _rate(profile: PrivacyProfile) -> float | list[float]:
    """Return the sampling rate, or that of each group of pairs in a composition."""
    from ndis.profile import Group

    pairs = [group for group in profile.groups if isinstance(group, Group)]
    return [group.rate for group in pairs] if profile.composed else profile.sampling_rate


def _delta_row(profile: PrivacyProfile, epsilon: float, order: Choice, certify: bool) -> dict[str, float]:
    if certify:
        box = profile.certify(epsilon, order=order)
        return {"epsilon": epsilon, "lower": box.lower, "upper": box.upper}
    log_delta = profile.log_delta(epsilon, order=order)
    return {"epsilon": epsilon, "delta": math.exp(log_delta), "log_delta": log_delta}
