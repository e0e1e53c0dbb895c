"""This package computes the spectrum δ(ε) of one pair: float64 contour, ball arithmetic, closed forms and bounds."""
