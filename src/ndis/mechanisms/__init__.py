"""Mechanisms: public parameters calibrated to a budget, exact profiles, releases through exact arithmetic."""
