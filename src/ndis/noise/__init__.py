"""Exact rounded Gaussians from the operating system's random bits (thm:exact-draw).

>>> from ndis.noise import exact_normal
>>> exact_normal(10, noise_std=2.0).private
True
"""

from ndis.noise.gaussian import ExactSample, exact_gaussian, exact_normal, grid_for

__all__ = ["ExactSample", "exact_gaussian", "exact_normal", "grid_for"]
