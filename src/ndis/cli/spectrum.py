"""`ndis delta`, `ndis epsilon` and `ndis curve`: the spectrum of a pair of Gaussians."""

from __future__ import annotations

import math
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ndis._files import write_file
from ndis.cli.output import check_picture, picture, print_rows
from ndis.cli.source import numbers, profile_from
from ndis.errors import ParameterError

if TYPE_CHECKING:
    from ndis.profile import Choice, PrivacyProfile

__all__ = ["register"]


class Order(StrEnum):
    """Which of the two orders: p from q, q from p, or the worse of both."""

    P_Q = "p-q"
    Q_P = "q-p"
    WORST = "worst"


_CHOICE: dict[Order, Choice] = {Order.P_Q: "remove", Order.Q_P: "add", Order.WORST: "worst"}
_ORDER_NAMES = ("p from q", "q from p")

File = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE",
        help="JSON or NPZ file with mean_p, cov_p, mean_q, cov_q (or var_p, var_q; or variance_ratio, shift, copies; "
        "or mean_p, mean_q, cov_q, factor, sign), or a saved profile.",
        show_default=False,
    ),
]
Ratio = Annotated[
    list[str] | None,
    typer.Option("--ratio", metavar="NUMBERS", help="Variances of p where q is standard normal (1 unless given)."),
]
Shift = Annotated[
    list[str] | None, typer.Option("--shift", metavar="NUMBERS", help="Mean shifts of p there (0 unless given).")
]
Copies = Annotated[
    list[str] | None,
    typer.Option("--copies", metavar="NUMBERS", help="How often each direction occurs (1 unless given)."),
]
Rate = Annotated[
    float | None, typer.Option("--sampling-rate", help="Poisson sampling: p is the output with the record, q without.")
]
Epsilons = Annotated[list[str], typer.Option("--epsilon", metavar="NUMBERS", help="One or more ε.")]
Deltas = Annotated[list[str], typer.Option("--delta", metavar="NUMBERS", help="One or more δ.")]
OrderOption = Annotated[Order, typer.Option("--order", help="p from q, q from p, or the worse of both.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON; null stands for infinity.")]
Certify = Annotated[bool, typer.Option("--certify", help="Rigorous bounds, by ball arithmetic from the exact inputs.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    for command in (delta, epsilon, curve):
        app.command()(command)


def delta(
    epsilon: Epsilons,
    file: File = None,
    ratio: Ratio = None,
    shift: Shift = None,
    copies: Copies = None,
    sampling_rate: Rate = None,
    order: OrderOption = Order.WORST,
    certify: Certify = False,
    as_json: Json = False,
) -> None:
    """δ at given ε.

    Example: ndis delta --ratio 2 --epsilon 1
    """
    profile = profile_from(file, ratio=ratio, shift=shift, copies=copies, sampling_rate=sampling_rate)
    rows = [_delta_row(profile, x, _CHOICE[order], certify) for x in numbers("--epsilon", epsilon)]
    print_rows(rows, as_json=as_json, order=order.value, sampling_rate=_rate(profile))


def epsilon(
    delta: Deltas,
    file: File = None,
    ratio: Ratio = None,
    shift: Shift = None,
    copies: Copies = None,
    sampling_rate: Rate = None,
    order: OrderOption = Order.WORST,
    certify: Certify = False,
    as_json: Json = False,
) -> None:
    """The smallest safe ε at given δ.

    Example: ndis epsilon --ratio 1.02 --copies 100 --delta 1e-6
    """
    profile = profile_from(file, ratio=ratio, shift=shift, copies=copies, sampling_rate=sampling_rate)
    smallest = profile.certified_epsilon if certify else profile.epsilon
    rows = [{"delta": x, "epsilon": smallest(x, order=_CHOICE[order])} for x in numbers("--delta", delta)]
    print_rows(rows, as_json=as_json, order=order.value, sampling_rate=_rate(profile), certified=certify)


def curve(
    file: File = None,
    ratio: Ratio = None,
    shift: Shift = None,
    copies: Copies = None,
    sampling_rate: Rate = None,
    epsilon_range: Annotated[
        tuple[float, float] | None, typer.Option("--range", help="From which ε to which (chosen by δ unless given).")
    ] = None,
    points: Annotated[
        int | None, typer.Option("--points", help="How many ε (21 in a table, 201 in a picture).")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Draw a picture here (png, svg, pdf).")] = None,
    certify: Certify = False,
    as_json: Json = False,
) -> None:
    """The whole curve δ(ε) in both orders, as a table or as a picture.

    Example: ndis curve --ratio 1.5,0.8 --shift 0,0.7 --output curve.png
    """
    from ndis.plotting import epsilon_grid, plot_profile

    if output is not None:
        if certify or as_json:
            raise ParameterError("output", "be left out with --certify or --json, which print a table", str(output))
        check_picture(output)
    profile = profile_from(file, ratio=ratio, shift=shift, copies=copies, sampling_rate=sampling_rate)
    if output is not None:
        how: dict[str, Any] = {"points": 201 if points is None else points, "order_names": _ORDER_NAMES}
        drawn = picture(lambda ax: plot_profile(profile, epsilon_range=epsilon_range, ax=ax, **how), output.suffix)
        write_file(output, drawn)
        return
    grid = epsilon_grid(profile, epsilon_range=epsilon_range, points=21 if points is None else points).tolist()
    if certify:
        rows = [_delta_row(profile, x, "worst", True) for x in grid]
    else:
        rows = [
            {
                "epsilon": x,
                "p-q": profile.delta(x, order="remove"),
                "q-p": profile.delta(x, order="add"),
                "worst": profile.delta(x),
            }
            for x in grid
        ]
    print_rows(rows, as_json=as_json, sampling_rate=_rate(profile))


def _rate(profile: PrivacyProfile) -> float | list[float]:
    """The sampling rate, or that of each group of a composition."""
    return [group.rate for group in profile.groups] if profile.composed else profile.sampling_rate


def _delta_row(profile: PrivacyProfile, epsilon: float, order: Choice, certify: bool) -> dict[str, float]:
    if certify:
        box = profile.certify(epsilon, order=order)
        return {"epsilon": epsilon, "lower": box.lower, "upper": box.upper}
    log_delta = profile.log_delta(epsilon, order=order)
    return {"epsilon": epsilon, "delta": math.exp(log_delta), "log_delta": log_delta}
