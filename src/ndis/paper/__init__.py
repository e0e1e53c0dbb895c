"""Tools of the paper that only exhibits and claims need. The rest of the package does not import them."""

from ndis.paper.calibrations import calibrated_projection

__all__ = ["calibrated_projection"]
