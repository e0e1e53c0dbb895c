"""Exact privacy of compositions of sampled and plain Gaussian releases."""
