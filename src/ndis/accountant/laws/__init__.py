"""Log-moments of single steps, as the contour needs them."""
