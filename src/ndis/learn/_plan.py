"""Plan a linear regression from public numbers: which standard errors to expect, before any record is read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from ndis._validate import Adjacency, as_adjacency, as_scalar, as_size, require
from ndis.data.schema import Schema
from ndis.data.schema.columns import Boolean, Category
from ndis.learn._linear_regression import PrivateLinearRegression, calibrated_rounds, chosen_shares

_RANGE_IN_SPREADS = 6.0  # the range of a number over its assumed standard deviation
_CLIP = 4.5  # the last clip over the root mean square of terms, for normal errors, with what the clip may take
_WEIGHED = 1.4  # the last round weighs a direction with records far away more, by about this factor
_HIDDEN = 1.2  # records over the largest eigenvalue of the noise of the Gram matrix, below which a direction is hidden


def plan_regression(
    schema: Schema,
    *,
    records: int,
    epsilon: float,
    delta: float,
    adjacency: Adjacency = "add-remove",
    spreads: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Foretell the standard errors of a `PrivateLinearRegression` from public numbers; this costs no budget.

    The errors follow from the noise of the last round and of the Gram matrix. They hold for columns that have little to
    do with each other and for normal errors. Columns that go together have larger errors, as in least squares. Errors
    with long tails may double them.

    Parameters
    ----------
    schema : Schema
    records : int
        About how many records there are, a public number.
    epsilon, delta : float
    adjacency : {"add-remove", "replace-one"}
    spreads : dict, optional
        Standard deviations of columns that other columns do not explain, public numbers, by the names of coefficients.
        A sixth of the range is assumed for others, and values of a category are taken to be equally frequent. State
        √(q(1 − q)) for a value that a share q of records have: a rare one has a larger error than in least squares.

    Returns
    -------
    dict
        By coefficient: the expected standard error over the standard deviation of the residuals, per unit of the
        column. It is infinite if the noise would hide a direction of the columns, or a rare value: more records are
        then needed.

    Examples
    --------
    >>> schema = Schema({"age": (18, 90), "smoker": bool}, target=("cost", 0, 1000))
    >>> errors = plan_regression(schema, records=10_000, epsilon=1.0, delta=1e-6)
    >>> {name: round(error, 5) for name, error in errors.items()}  # times the standard deviation of the residuals
    {'age': 0.0009, 'smoker': 0.02161}
    >>> plan_regression(schema, records=100, epsilon=1.0, delta=1e-6)
    {'age': inf, 'smoker': inf}
    """
    rounds = PrivateLinearRegression.rounds
    count, given = as_size("records", records), dict(spreads or {})
    budget = calibrated_rounds(epsilon=epsilon, delta=delta, adjacency=as_adjacency(adjacency), rounds=rounds)
    every = [(label, column) for name, column in schema.columns.items() for label in column.labels(name)]
    scales: dict[str, tuple[float, bool]] = {}
    for i in schema.against_first():
        label, column = every[i]
        # k equally frequent values, compared with the first: the variance is that of a difference of two means.
        values = 2 if isinstance(column, Boolean) else len(column.texts) if isinstance(column, Category) else 0
        assumed = 1.0 / math.sqrt(2.0 * values) if values else 2.0 * schema.scales()[1][i] / _RANGE_IN_SPREADS
        scales[label] = as_scalar("spreads", given.pop(label, assumed)), bool(values)
        require(0.0 < scales[label][0] < math.inf, "spreads", "be positive", scales[label][0])
    require(not given, "spreads", f"name coefficients of the schema, {', '.join(scales)}", ", ".join(given))
    predictors = len(scales) + 1  # in spreads, with a constant
    budget = budget.reshared(0, **chosen_shares(budget, records=count, predictors=predictors))
    bin_noise = budget.count_noise(0, squared_reach=predictors * (1 if adjacency == "add-remove" else 2))
    # The share of the rarer of two values, and how many spreads it is away. Rows are at most `most` long.
    rarer = {label: (1.0 - math.sqrt(max(1.0 - 4.0 * s**2, 0.0))) / 2.0 for label, (s, two) in scales.items() if two}
    far, most = {label: (1.0 - q) / scales[label][0] for label, q in rarer.items()}, math.sqrt(len(scales)) + 1.0
    longest = min(max(far.values(), default=1.0), most)
    noise = budget.sum_noise(rounds - 1, clip=_CLIP * math.sqrt(predictors + max(longest**2 - 1.0, 0.0)))
    matrix = budget.matrix_noise(1, Fraction(most**2 + 1.0)) * math.sqrt(2.0 * predictors)

    def error(label: str) -> float:
        """Return the error of a column; along one with records far away the noise is larger."""
        longer = max(far.get(label, 1.0) / most, 1.0)
        if count < _HIDDEN * matrix * longer**2 or count * rarer.get(label, 1.0) < bin_noise:
            return math.inf
        kept = 1.0 - (matrix / count) ** 2 / 4  # what the noise of the matrix adds to errors, as in intervals
        own = (max(longer / _WEIGHED, 1.0) * noise) ** 2
        return math.sqrt((count + own) / kept) / count / scales[label][0]

    return {label: error(label) for label in scales}
