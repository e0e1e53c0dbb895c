"""Compositions of sampled releases from plain numbers, for tests."""

from __future__ import annotations

from ndis.accountant.certify import Certifier
from ndis.accountant.composition import Composition, law_of_pair
from ndis.accountant.floats import FloatComposition
from ndis.pair import GaussianPair
from ndis.spectrum.certified import log_of


def releases(rate, excess, shift, count, copies=1):
    """Describe `count` releases of the pair N(shift, 1 + excess) against N(0, 1), in the remove order."""
    ratios = [1.0 + t for t in excess] if isinstance(excess, list) else 1.0 + excess
    return GaussianPair.from_ratios(ratios, shift=shift, copies=copies), (rate,) if rate < 1.0 else (), count


def shifts(rate, shift, count):
    """Describe `count` sampled mean shifts."""
    return releases(rate, 0.0, shift, count)


def composition(parts, order):
    """Compose releases that are described in the remove order."""
    pairs = ((p if order == "remove" else p.reversed(), rates, n) for p, rates, n in parts)
    return Composition([(law_of_pair(p, rates, order), n) for p, rates, n in pairs], order)


def in_floats(parts, order) -> FloatComposition:
    """Compose releases in floats only."""
    return composition(parts, order).floats


def in_balls(parts, order) -> Certifier:
    """Compose releases in balls only."""
    return composition(parts, order).certifier


def certify_log(certifier, epsilon, relative_width):
    """Enclose log δ(ε); −inf if δ is exactly zero."""
    return log_of(certifier.enclose(epsilon, relative_width))


def of_case(case):
    """Read the releases of a case of the oracle tables."""
    return [
        releases(g["rate"], g.get("excess", 0.0), g["shift"], g["steps"], g.get("copies", 1)) for g in case["groups"]
    ]
