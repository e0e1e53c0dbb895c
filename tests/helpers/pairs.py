"""Pairs against their certificates."""

from ndis import GaussianPair


def agree(pair: GaussianPair, epsilon: float) -> None:
    """The float lies in its certificate, up to its own rounding."""
    box = pair.certify(epsilon)
    value = pair.delta(epsilon)
    assert box.lower * (1 - 1e-11) <= value <= box.upper * (1 + 1e-11)
