"""Assert in the test suite of a mechanism: each run audits its claim.

>>> import ndis
>>> from ndis.testing import assert_not_refuted
>>> def test_my_mechanism_keeps_its_claim():
...     neighbours = ndis.GaussianPair.from_diagonal([0.0], [14.0], [1.0], [14.0])
...     assert_not_refuted(ndis.Claim(epsilon=1.0, delta=1e-5), pairs=[neighbours])
>>> test_my_mechanism_keeps_its_claim()
"""

from __future__ import annotations

from typing import Any

from ndis.auditing import AuditReport, Claim, audit

__all__ = ["assert_not_refuted", "assert_proved", "assert_refuted"]


def assert_not_refuted(claim: Claim, **audit_arguments: Any) -> AuditReport:
    """Audit a claim and fail if it is refuted. A test that passes proves nothing about pairs that were not tested.

    Parameters
    ----------
    claim : Claim
        The claim of the mechanism.
    **audit_arguments
        As for `ndis.audit`: `pairs`, or `algorithm` with `data`, or `mechanism`.

    Returns
    -------
    AuditReport

    Raises
    ------
    AssertionError
        If the claim is refuted. The message has the witness and the numbers.

    Examples
    --------
    >>> import ndis
    >>> too_little_noise = ndis.GaussianPair.from_diagonal([0.0], [13.0], [1.0], [13.0])
    >>> assert_not_refuted(ndis.Claim(epsilon=1.0, delta=1e-5), pairs=[too_little_noise])
    Traceback (most recent call last):
    ...
    AssertionError: the claim is false
    claim: (ε = 1.0, δ = 1e-05)-differential privacy under add-remove
    verdict: refuted
    worst pair: pair 0 of those given; p and q as given
    δ at ε = 1.0 lies in [1.7...e-05, 1.7...e-05]; claimed 1e-05, which is less with certainty
    event: The privacy loss log(p/q) exceeds ε = 1. ...
    at δ = 1e-05 largest ε refuted: 1.0...
    """
    __tracebackhide__ = True
    report = audit(claim, **audit_arguments)
    if report.refuted:
        raise AssertionError(f"the claim is false\n{report}")
    return report


def assert_proved(claim: Claim, **audit_arguments: Any) -> AuditReport:
    """Audit a claim and fail unless a theorem proves it, under the assumptions that the report lists.

    >>> import ndis
    >>> gauss = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-5, sensitivity=1.0)
    >>> assert_proved(ndis.Claim(epsilon=1.0, delta=1e-5), mechanism=gauss).proof.theorem
    'thm:mean-shift'
    """
    __tracebackhide__ = True
    report = assert_not_refuted(claim, **audit_arguments)
    if not report.proved:
        raise AssertionError(f"the claim was expected to be proved, and was {report.verdict}\n{report}")
    return report


def assert_refuted(claim: Claim, **audit_arguments: Any) -> AuditReport:
    """Audit a claim and fail unless it is refuted. Use it to test that a claim is tight or a known flaw is found.

    >>> import ndis
    >>> neighbours = ndis.GaussianPair.from_diagonal([0.0], [14.0], [1.0], [14.0])
    >>> assert_refuted(ndis.Claim(epsilon=0.9, delta=1e-5), pairs=[neighbours]).witness.neighbours
    'pair 0 of those given'
    """
    __tracebackhide__ = True
    report = audit(claim, **audit_arguments)
    if not report.refuted:
        raise AssertionError(f"the claim was expected to be false, and was {report.verdict}\n{report}")
    return report
