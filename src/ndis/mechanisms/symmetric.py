"""Symmetric Gaussian noise: the distance of neighbours, and the exact draw.

One record moves XᵀX by xxᵀ, so neighbours are a mean shift of at most l²/s. For a replaced record the shift is at most
√2·l²/s, and orthogonal rows at the bound attain it. The proof is thm:gram-mechanism.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from ndis._exact import ExactArray
from ndis.gram import Gram, RowLayout
from ndis.mechanisms.base import Adjacency
from ndis.pair import GaussianPair
from ndis.profile import PrivacyProfile
from ndis.sampling import ExactSample, exact_normal, grid_for
from ndis.sampling.bits import random_bits

__all__ = ["noisy_gram", "shift_profile", "squared_sensitivity", "two_rows"]


def squared_sensitivity(layout: RowLayout, adjacency: Adjacency) -> Fraction:
    """l⁴, or 2l⁴ for a replaced record."""
    return layout.joint_norm_bound_squared**2 * (1 if adjacency == "add-remove" else 2)


def two_rows(layout: RowLayout) -> Fraction:
    """‖xxᵀ − yyᵀ‖_F² of two legal integer rows, as large as a simple choice makes it.

    x has its features along the first axis. y has the target reversed, and a first entry that brings xᵀy as near to 0
    as the grid allows. The other features of y take its norm to the bound exactly: by Lagrange's theorem four squares
    of integers are enough, so five features are. Without targets and constant the first entry is 0, and two are.
    """
    full, step = 1 << layout.fractional_bits, layout.steps[0]
    whole, constant = layout.joint_norm_bound_squared, Fraction(layout.intercept or 0) ** 2
    target = Fraction(layout.target_bound or 0) ** 2
    wanted = (target - constant) / (step**2 * full)  # the first entry of y, in steps, with which xᵀy = 0
    first = max(-full, min(full, round(wanted)))
    product = step**2 * full * first - target + constant
    return 2 * whole**2 - 2 * product**2


def shift_profile(shift: float, adjacency: Adjacency) -> PrivacyProfile:
    """The profile of a mean shift of so many standard deviations between neighbours of this kind."""
    return PrivacyProfile(GaussianPair.from_ratios(1.0, shift=shift), adjacency=adjacency)


def noisy_gram(gram: Gram, *, noise_std: float, random_state: Any = None) -> ExactSample:
    """XᵀX plus symmetric noise of variance s² on the diagonal and s²/2 beside it, drawn exactly.

    Parameters
    ----------
    gram : Gram
        Private.
    noise_std : float
        s, public. The grid of the result depends on it only.
    random_state : optional
        As for `GramMechanism.release`.

    Examples
    --------
    >>> import numpy as np
    >>> from ndis.gram import exact_gram
    >>> sample = noisy_gram(exact_gram(np.eye(3), row_norm_bound=1.0), noise_std=2.0)
    >>> bool((sample.values == sample.values.T).all()), sample.private
    (True, True)
    """
    bits, grid = random_bits(random_state), grid_for(noise_std)
    exact, variance = gram.exact(ridge=0), Fraction(noise_std) ** 2
    upper = np.triu_indices(len(exact.numerators), 1)
    diagonal = ExactArray(np.diag(exact.numerators), exact.denominator)
    beside = ExactArray(exact.numerators[upper], exact.denominator)
    on = exact_normal(diagonal, noise_variance=variance, grid=grid, random_state=bits)
    off = exact_normal(beside, noise_variance=variance / 2, grid=grid, random_state=bits)
    integers = np.zeros(exact.shape, dtype=object)
    integers[upper] = off.integers
    integers += integers.T
    integers[np.diag_indices(len(integers))] = on.integers
    return ExactSample(integers, grid, bits.private)
