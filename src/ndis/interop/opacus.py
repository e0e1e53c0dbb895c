"""Opacus takes this accountant by the name "exact"."""

from __future__ import annotations

import math
import sys
from typing import Any

from opacus.accountants import IAccountant, register_accountant
from opacus.accountants.registry import _ACCOUNTANTS

from ndis.dpsgd import DPSGD
from ndis.interop.loaders import check, warn_unless_poisson
from ndis.profile import PrivacyProfile

__all__ = ["MECHANISM", "ExactAccountant", "OpacusAccountant", "check"]

MECHANISM = "exact"


class OpacusAccountant(IAccountant):  # type: ignore[misc]  # the package carries no types
    """Account exactly for the steps of a `PrivacyEngine`. Importing this module registers it as "exact".

    The number is about Poisson sampling, which Opacus does unless `poisson_sampling=False`. The accountant sees only
    noise and rate. It warns by name if the engine shows it a loader that draws its batches in another way.

    Examples
    --------
    >>> accountant = OpacusAccountant()
    >>> for _ in range(1000):
    ...     accountant.step(noise_multiplier=1.0, sample_rate=0.01)
    >>> len(accountant), round(accountant.get_epsilon(1e-5), 6)
    (1000, 1.828237)
    """

    def __init__(self) -> None:
        super().__init__()  # abstract there

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Note one step."""
        noise, rate, steps = self.history[-1] if self.history else (noise_multiplier, sample_rate, 0)
        if (noise, rate) == (noise_multiplier, sample_rate) and steps:
            self.history[-1] = (noise, rate, steps + 1)
        else:
            self.history.append((noise_multiplier, sample_rate, 1))

    def get_optimizer_hook_fn(self, sample_rate: float) -> Any:
        """Return the hook that notes each step. Warn if the engine that asks for it prepared no Poisson samples.

        Opacus hands over the rate only. Its engine holds the loader in the variable `data_loader` while it asks.
        """
        asking = sys._getframe(1).f_locals
        if "data_loader" in asking:
            warn_unless_poisson(asking["data_loader"])
        return super().get_optimizer_hook_fn(sample_rate)

    def get_epsilon(self, delta: float, *, certify: bool = False, **_: Any) -> float:
        """ε of the steps so far, on the safe side; with `certify`, by ball arithmetic."""
        profile = self.profile()
        if profile is None:
            return 0.0
        if isinstance(profile, float):
            return profile
        return profile.certified_epsilon(delta) if certify else float(profile.epsilon(delta))

    def profile(self) -> PrivacyProfile | float | None:
        """The profile of the steps so far; None before the first, and infinity if a step had no noise."""
        if not self.history:
            return None
        if any(noise == 0 for noise, _, _ in self.history):
            return math.inf
        return DPSGD.from_schedule([tuple(row) for row in self.history]).profile()

    def __len__(self) -> int:
        return sum(steps for _, _, steps in self.history)

    @classmethod
    def mechanism(cls) -> str:
        """The name under which Opacus knows it."""
        return MECHANISM


ExactAccountant = OpacusAccountant  # its name in version 0.2

if _ACCOUNTANTS.get(MECHANISM) is None:
    register_accountant(MECHANISM, OpacusAccountant)
