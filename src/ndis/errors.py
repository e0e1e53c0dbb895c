"""This module has every exception and warning of the package.

Messages follow one form, ``<name> must <rule>; got <value>[; <remedy>]``, and never quote private data.
"""

from __future__ import annotations

__all__ = ["BudgetError", "LedgerError", "NdisError", "NotPrivateWarning", "ParameterError", "PrecisionError"]


class NdisError(Exception):
    """This class is the base of the package's exceptions."""


class ParameterError(NdisError, ValueError):
    """The error means that a public argument breaks its rule.

    >>> raise ParameterError("delta", "lie strictly between 0 and 1", 2.0)
    Traceback (most recent call last):
    ...
    ndis.errors.ParameterError: delta must lie strictly between 0 and 1; got 2.0
    """

    def __init__(self, name: str, rule: str, got: object, remedy: str = "") -> None:
        super().__init__(f"{name} must {rule}; got {got}" + (f"; {remedy}" if remedy else ""))
        self.name = name

    def __reduce__(self) -> tuple[object, ...]:
        return _parameter_error, (str(self), self.name)  # so that it leaves a worker process unchanged


def _parameter_error(message: str, name: str) -> ParameterError:
    error = ParameterError.__new__(ParameterError, message)
    error.args, error.name = (message,), name
    return error


class PrecisionError(NdisError, ArithmeticError):
    """A number could not be computed to the tolerance asked for. No number is returned."""

    def __init__(self, message: str, *, reached: float = float("nan")) -> None:
        super().__init__(message)
        self.reached = reached


class BudgetError(NdisError, ValueError):
    """The error means that no parameter of the mechanism meets the privacy budget."""


class LedgerError(NdisError, RuntimeError):
    """A budget ledger cannot be read or written, or its history does not fit together."""


class NotPrivateWarning(UserWarning):
    """The result is reproducible or inexact, and therefore must not be treated as private."""
