"""The least eigenvalue of an exact Gram matrix, rounded down to a public grid without any error.

The grid points are c = k·g − o with k = 0, 1, …. The step g divides l², and the offset satisfies 0 < o < g. Take two
numbers that are at most l² apart. Rounded down to the grid, they are still at most l² apart, because l² is a whole
number of steps. So the rounded eigenvalue has the sensitivity of the eigenvalue, l². Adding one row of norm at most l
increases the eigenvalue by at most l². Replacing a row leaves both values between λ and λ + l² of the common rows.

The offset is a power of two over three. The entries of the Gram matrix are whole multiples of a power of two, and so
are its rational eigenvalues. So no grid point is ever an eigenvalue. A Cholesky factorisation in ball arithmetic of
enough precision therefore decides whether DᵀD − cI is positive definite. Floats only propose where to look.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from ndis.gram.accumulator import Gram
from ndis.noise.root import positive_definite

__all__ = ["least_eigenvalue_floor"]


def least_eigenvalue_floor(gram: Gram, *, step: Fraction) -> Fraction:
    """The largest grid point not above λ_min(DᵀD). **Private.**

    Parameters
    ----------
    gram : Gram
    step : Fraction
        g, public; l² is a whole multiple of it.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.gram import exact_gram
    >>> gram = exact_gram(np.diag([1.0, 0.5]), row_norm_bound=1.0)
    >>> float(least_eigenvalue_floor(gram, step=Fraction(1, 1024))) <= 0.25
    True
    """
    offset = _power_below(step) / 3
    exact = gram.exact(ridge=0)

    def below(k: int) -> bool:
        point = k * step - offset
        numerators = exact.numerators * point.denominator
        numerators[np.diag_indices(len(numerators))] -= point.numerator * exact.denominator
        return positive_definite(numerators)

    def fits(k: int) -> bool:
        return k == 0 or below(k)  # no Gram matrix has an eigenvalue below −o

    low = high = max(int((_guess(gram) + offset) // step), 0)
    reach = 1
    if fits(low):
        while fits(high := low + reach):
            low, reach = high, 2 * reach
    else:
        while not fits(low := max(high - reach, 0)):
            high, reach = low, 2 * reach
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * step - offset


def _guess(gram: Gram) -> Fraction:
    try:
        return Fraction(float(np.linalg.eigvalsh(gram.to_float())[0]))
    except np.linalg.LinAlgError:
        return Fraction(0)


def _power_below(value: Fraction) -> Fraction:
    """The largest power of two not above a positive rational."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    power = Fraction(2) ** exponent
    return power if power <= value else power / 2
