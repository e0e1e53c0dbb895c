"""Exactly how private is an algorithm with Gaussian output?"""

__version__ = "0.1.0"
