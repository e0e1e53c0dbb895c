"""This module has every exception and warning of the package, and the check that refuses an argument.

Messages follow one form, ``<name> must <rule>; got <value>[; <remedy>]``, and never quote private data.
"""

from __future__ import annotations

__all__ = ["BudgetError", "LedgerError", "NdisError", "NotPrivateWarning", "ParameterError", "PrecisionError"]


class NdisError(Exception):
    """This class is the base of the package's exceptions.

    >>> import ndis
    >>> try:
    ...     ndis.GaussianMechanism.calibrated(epsilon=-1.0, delta=1e-6, sensitivity=1.0)
    ... except ndis.NdisError as error:
    ...     print(error)
    epsilon must not be negative; got -1.0
    """


class ParameterError(NdisError, ValueError):
    """The error means that a public argument breaks its rule.

    >>> raise ParameterError("delta", "lie strictly between 0 and 1", 2.0)
    Traceback (most recent call last):
    ...
    ndis.errors.ParameterError: delta must lie strictly between 0 and 1; got 2.0
    """

    def __init__(self, name: str, rule: str, got: object, remedy: str = "") -> None:
        super().__init__(f"{name} must {rule}; got {got}" + (f"; {remedy}" if remedy else ""))
        self.name, self._given = name, (name, rule, str(got), remedy)

    def __reduce__(self) -> tuple[object, ...]:
        return ParameterError, self._given  # so that it leaves a worker process unchanged


def require(good: object, name: str, rule: str, got: object, remedy: str = "") -> None:
    """Refuse a public argument unless its rule holds. Say what holds: NaN fails every comparison.

    >>> require(0.0 < 2.0 <= 1.0, "rate", "be above 0 and at most 1", 2.0)
    Traceback (most recent call last):
    ...
    ndis.errors.ParameterError: rate must be above 0 and at most 1; got 2.0
    """
    if not good:
        raise ParameterError(name, rule, got, remedy)


class PrecisionError(NdisError, ArithmeticError):
    """A number could not be computed to the tolerance asked for. No number is returned.

    `reached` is the tolerance that was reached, if it is known.

    >>> raise PrecisionError("delta must be certified to 1e-09; got a width of 1e-05", reached=1e-5)
    Traceback (most recent call last):
    ...
    ndis.errors.PrecisionError: delta must be certified to 1e-09; got a width of 1e-05
    """

    def __init__(self, message: str, *, reached: float = float("nan")) -> None:
        super().__init__(message)
        self.reached = reached


class BudgetError(NdisError, ValueError):
    """The error means that no parameter of the mechanism meets the privacy budget.

    >>> import ndis
    >>> ndis.PTRProjection.calibrated(epsilon=0.1, delta=1e-6, row_norm_bound=1.0, sketch_size=10, test_noise_std=1.0)
    Traceback (most recent call last):
    ...
    ndis.errors.BudgetError: the test alone spends the budget: ...; take a larger test_noise_std
    """


class LedgerError(NdisError, RuntimeError):
    """A budget ledger cannot be read or written, or its history does not fit together.

    >>> import tempfile, ndis
    >>> with tempfile.NamedTemporaryFile("w", suffix=".ledger") as file:
    ...     _ = file.write("no ledger"), file.flush()
    ...     ndis.Ledger(file.name)
    Traceback (most recent call last):
    ...
    ndis.errors.LedgerError: the ledger ... could not be read or written: file is not a database
    """


class NotPrivateWarning(UserWarning):
    """The result is reproducible or inexact, and therefore must not be treated as private.

    >>> import warnings, ndis
    >>> mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)
    >>> with warnings.catch_warnings(record=True) as seen:
    ...     warnings.simplefilter("always")
    ...     release = mechanism.release(10.0, random_state=0)
    >>> seen[0].category.__name__, release.private
    ('NotPrivateWarning', False)
    """
