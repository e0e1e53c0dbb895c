"""The spectrum δ(ε) itself: float64 contour, ball arithmetic, closed forms and bounds."""
