"""Score a model on held-out private records with one release: accuracy, AUC and calibration, or R² and errors.

Two classes: one histogram of records over class and predicted probability. One record is in one bin, so it moves the
histogram by 1, or by √2 if it is replaced. A number: the sums of ¾, y, y²/2, e and e² with the target y in [−1, 1] and
the error e in the same units, clipped to [−1, 1]; the squared norms are at most 61/16, or 8 if a record is replaced
(as in thm:describe). Each record is predicted by itself.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np

from ndis._exact import ExactArray, root_up
from ndis._validate import Adjacency, Floats, as_adjacency, as_one_probability, as_scalar, require
from ndis.data.opening import is_dask, open_for
from ndis.describing.release import summed
from ndis.describing.statistics import quantile_of
from ndis.describing.tables import StatisticTable
from ndis.gram.accumulator import IntegerSum
from ndis.learn._saved import LinearModel
from ndis.ledger import pay
from ndis.mechanisms.gaussian import GaussianMechanism
from ndis.mechanisms.mechanism import Receipt
from ndis.noise.bits import random_bits

_NUMBER = ("R²", "root mean square error", "mean error")
_NUMBER_ENDS = np.array([-np.inf, 0.0, -np.inf]), np.array([1.0, np.inf, np.inf])
_CLASS = ("accuracy", "AUC", "observed less predicted share")
_CLASS_ENDS = np.array([0.0, 0.0, -1.0]), np.ones(3)
_UNKNOWN = np.full(3, np.nan), np.full(3, np.inf)
_HIDDEN = "unknown: the noise hides how many records there are, or of one class; more of them or a larger epsilon help"
_BINS = 32  # per class, of predicted probabilities
_BITS = 15  # a sum lies on the grid 2⁻¹⁵
_FILTERED = ("polars", "pyarrow")  # they take rows by a method
_UNTAKEN = ("string_view", "binary_view", "list_view", "run_end_encoded")  # types of which pyarrow takes no rows
_WIDTH = 64  # bits that decide about a record


def split_records(data: Any, share: float = 0.2, *, random_state: Any = None) -> tuple[Any, Any]:
    """Divide rows in memory into a part to fit and a part to score; each record by its own coin.

    The split depends on no cell and on no order. So under "add-remove" a fit on the first part and a score on the
    second cost together no more than the worse of both, at every ε (thm:held-out). Under "replace-one", or with any
    other split, they add up. A ledger adds them in any case.

    Parameters
    ----------
    data : array, data frame, Arrow table, or mapping of columns
        Each part has the types of the whole.
    share : float
        The expected share of the second part.

    Examples
    --------
    >>> fit, held = split_records({"age": np.arange(1000)}, 0.5)
    >>> len(fit["age"]) + len(held["age"])
    1000
    """
    chance = as_one_probability("share", as_scalar("share", share))
    columns = list(data.values()) if isinstance(data, Mapping) else [] if isinstance(data, tuple) else [data]
    rows = columns and all(map(_is_held, columns))
    require(rows, "data", "be rows in memory, in CSR if they are sparse", "a pair or another type")
    views = any(word in str(kind) for one in columns for kind in _types(one) for word in _UNTAKEN)
    require(not views, "data", "have columns of which pyarrow can choose rows", "views", "cast them to string first")
    sizes = {one.shape[0] if hasattr(one, "shape") else len(one) for one in columns}
    require(len(sizes) == 1, "data", "have columns of equal length", "different lengths")
    below = int(Fraction(chance) * 2**_WIDTH)
    coins = random_bits(random_state).take(sizes.pop(), width=_WIDTH)
    held = np.array([coin < below for coin in coins], dtype=np.bool_)
    fit, score = ([_taken(one, kept) for one in columns] for kept in (~held, held))
    if isinstance(data, Mapping):
        return dict(zip(data, fit, strict=True)), dict(zip(data, score, strict=True))
    return fit[0], score[0]


def _is_held(records: Any) -> bool:
    """Return whether rows or cells can be chosen one by one, by their type only."""
    module = type(records).__module__.partition(".")[0]
    if module in ("scipy", "pyarrow"):  # SciPy checks no index of other formats
        return hasattr(records, "filter") if module == "pyarrow" else getattr(records, "format", None) == "csr"
    return isinstance(records, list | tuple) or (not is_dask(records) and len(getattr(records, "shape", ())) > 0)


def _types(records: Any) -> Any:
    """Return the types that pandas or pyarrow declares; a column may have the name of an attribute."""
    module = type(records).__module__.partition(".")[0]
    if module == "pandas":
        return np.ravel(records.dtypes if hasattr(records, "dtypes") else records.dtype)
    return () if module != "pyarrow" else records.schema.types if hasattr(records, "schema") else [records.type]


def _taken(records: Any, kept: Any) -> Any:
    """Return some records in the type that all have. NumPy would choose one type for the cells of a list."""
    if isinstance(records, list | tuple):
        return list(itertools.compress(records, kept))
    if hasattr(records, "iloc") and records.ndim == 2 and records.shape[1]:  # whose own way fails beyond 2 GiB of text
        chosen = {i: records.iloc[:, i][kept] for i in range(records.shape[1])}
        return import_module("pandas").concat(chosen, axis=1).set_axis(records.columns, axis=1)
    return records.filter(kept) if type(records).__module__.partition(".")[0] in _FILTERED else records[kept]


def score_privately(
    model: Any, data: Any, *, epsilon: float, delta: float, adjacency: Adjacency = "add-remove", level: float = 0.95,
    columns: Any = None, header: bool = False, progress: bool | None = None, random_state: Any = None,
    ledger: str | os.PathLike[str] | None = None, slot: str | None = None,
) -> StatisticTable:  # fmt: skip
    """Release how well a model predicts private records that it was not fitted to, with intervals.

    Parameters
    ----------
    model : fitted PrivateLinearRegression, PrivateRidge or PrivateLogisticRegression with a schema, or a saved model
        Public: its coefficients were released.
    data, columns, header, progress
        The private records, as for `Schema.table`. A record with a missing cell does not count.
    epsilon, delta, adjacency, random_state, ledger, slot
        As for `ndis.describe`. `split_records` says when fit and score together cost the worse of both.

    Returns
    -------
    StatisticTable
        Accuracy, AUC and calibration for two classes; R², root mean square error and mean error for a number. Its
        `receipt` states the guarantee.

    Examples
    --------
    >>> import ndis
    >>> schema = ndis.Schema({"age": (0, 100)}, target=("spend", 0, 10))
    >>> rng = np.random.default_rng(0)
    >>> age = rng.uniform(0, 100, 5000)
    >>> table = {"age": age, "spend": 2 + 0.05 * age + rng.normal(0, 0.5, 5000)}
    >>> fit, held = split_records(table, 0.4)
    >>> model = ndis.learn.PrivateLinearRegression(epsilon=1.0, schema=schema).fit_data(fit)
    >>> score = score_privately(model, held, epsilon=1.0, delta=1e-6)
    >>> score.index[0], bool(score.low[0] > 0.5)
    (('R²',), True)
    """
    fitted = LinearModel.of(model)
    schema, classes = fitted.schema, len(fitted.schema.classes)
    require(classes in (0, 2), "model", "predict a number or two classes", f"{classes} classes")
    quantile_of(level)  # refuses a level that is none
    alone, replaced = (Fraction(1), Fraction(2)) if classes else (Fraction(61, 16), Fraction(8))
    bound = root_up(alone if as_adjacency(adjacency) == "add-remove" else replaced)
    mechanism = GaussianMechanism.calibrated(epsilon=epsilon, delta=delta, sensitivity=bound, adjacency=adjacency)
    table = open_for(schema, data, columns=columns, header=header, progress=progress)
    wanted = table.columns_of(schema, target=True)
    count, score, size = (_histogram, _class_scores, 2 * _BINS) if classes else (_sums, _number_scores, 5)

    def read(cells: list[Any]) -> tuple[Floats, Floats]:
        return fitted.scores(schema.encode_cells(cells[:-1])), schema.encode_target_cells(cells[-1])

    def add(sums: list[Any], scores: Floats, target: Floats) -> None:
        here = ~(np.isnan(scores) | np.isnan(target))
        sums[0].add(count(fitted, scores[here], target[here]), len(scores))

    def make() -> StatisticTable:
        """Read the records, and release their sums and what follows from them."""
        ((total,),) = summed(table, wanted, read, (lambda: [IntegerSum(size, 2 * _BITS)], add))
        exact = ExactArray(total.integers().astype(object))
        if not classes:  # in units of 2⁻³¹
            units = np.array([3 << (2 * _BITS - 1), 2 << _BITS, 1, 2 << _BITS, 2], dtype=object)
            exact = ExactArray(exact.numerators * units, 2 << (2 * _BITS))
        release = mechanism.release(exact, random_state=random_state)
        return _table(score(release.values, mechanism.noise_std, fitted), bool(classes), level, release.receipt)

    return pay(mechanism, make, ledger=ledger, slot=slot, random_state=random_state)


def _table(scores: tuple[Floats, Floats], classes: bool, level: float, receipt: Receipt) -> StatisticTable:
    """Return released scores with their errors as a table."""
    names, ends = (_CLASS, _CLASS_ENDS) if classes else (_NUMBER, _NUMBER_ENDS)
    index, notes = [(name,) for name in names], [receipt.words, *[_HIDDEN] * (not np.isfinite(scores[1]).all())]
    return StatisticTable.normal("Scores", ("name",), index, scores, level, notes, ends, receipt=receipt)


def _histogram(fitted: LinearModel, scores: Floats, target: Floats) -> Any:
    """Count records by class and bin of predicted probability."""
    shares = np.arange(1, _BINS) / _BINS
    place = np.searchsorted(np.log(shares / (1.0 - shares)), scores, side="left")
    return np.bincount(target.astype(np.intp) * _BINS + place, minlength=2 * _BINS)


def _sums(fitted: LinearModel, scores: Floats, target: Floats) -> Any:
    """Sum 1, y, y², e and e² as integers on their grid."""
    centre, half = fitted.schema.target_scale()
    with np.errstate(all="ignore"):  # an overflow must not warn: it depends on the record
        error = np.minimum(np.maximum(target - (scores - centre) / half, -1.0), 1.0)
    y, e = (np.rint(x * 2.0**_BITS) for x in (target, error))
    return np.array([len(y), y.sum(), (y * y).sum(), e.sum(), (e * e).sum()]).astype(np.int64)


def _number_scores(values: Floats, noise: float, fitted: LinearModel) -> tuple[Floats, Floats]:
    """Return R², the root mean square error and the mean error, with their errors, from noisy sums."""
    half = fitted.schema.target_scale()[1]

    def statistics(v: Floats) -> Floats:
        n, square = v[0] / 0.75, v[4]
        spread = 2.0 * v[2] / n - (v[1] / n) ** 2
        return np.array([1.0 - square / n / spread, half * math.sqrt(max(square / n, 0.0)), half * v[3] / n])

    records = values[0] / 0.75
    if not (records > 4.0 * noise / 0.75 and values[4] > 0 and 2 * values[2] * records > values[1] ** 2):
        return _UNKNOWN
    estimates = statistics(values)
    steps = np.eye(5) * noise * 1e-3
    slopes = np.array([statistics(values + step) - statistics(values - step) for step in steps]) / (2e-3 * noise)
    r2, root = min(max(estimates[0], 0.0), 1.0), estimates[1]
    sampling = np.array([4.0 * r2 * (1.0 - r2) ** 2, root**2 / 2.0, root**2]) / records
    return estimates, np.sqrt(noise**2 * (slopes**2).sum(axis=0) + sampling)


def _class_scores(values: Floats, noise: float, fitted: LinearModel) -> tuple[Floats, Floats]:
    """Take three averages over bins: of what is right, of the area under the curve, and of class less probability."""
    zeros, ones = values[:_BINS], values[_BINS:]
    records, whole = float(values.sum()), noise * math.sqrt(2 * _BINS)
    if not records > 2.0 * whole:
        return _UNKNOWN
    middles = (np.arange(_BINS) + 0.5) / _BINS
    rows = []
    for each in (np.r_[middles < 0.5, middles > 0.5].astype(float), np.r_[-middles, 1.0 - middles]):
        value = float(each @ values) / records
        error = noise**2 * float((each - value) @ (each - value)) + max(float((each - value) ** 2 @ values), 0.0)
        rows.append((value, math.sqrt(error) / records))
    if not min(zeros.sum(), ones.sum()) > 2.0 * whole:
        return tuple(np.array([rows[0], (math.nan, math.inf), rows[1]]).T)
    below, above = np.cumsum(zeros) - zeros / 2, ones.sum() - np.cumsum(ones) + ones / 2
    area = float(ones @ below) / float(ones.sum() * zeros.sum())
    left, other = below / zeros.sum() - area, above / ones.sum() - area  # slopes of the area, times the class sizes
    slopes = np.r_[other / zeros.sum(), left / ones.sum()]
    error = noise**2 * float(slopes @ slopes) + max(float(slopes**2 @ values), 0.0)  # the second term is DeLong's
    rows.insert(1, (area, math.sqrt(error)))
    scores, errors = np.array(rows).T
    return scores, errors
