"""Private values of every type that a caller may hand over."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd

ANYTHING = [
    "x", "1", b"1", None, pd.NA, 1j, math.nan, math.inf, np.array([1, 2]), np.array([]), np.array(1.0), [1, [2, 3]],
    [[1]], (1,), 10**400, -(10**400), True, np.float32(1), np.longdouble(1), np.complex128(1j), Fraction(1), object(),
    np.datetime64("2020-01-01"), pd.Timestamp("2020-01-01"), Decimal("sNaN"), {}, 2, "",
]  # fmt: skip
