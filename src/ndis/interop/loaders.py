"""A data loader of torch shows how it draws its batches. Neither torch nor Opacus is needed to look."""

from __future__ import annotations

from typing import Any

from ndis._validate import warn_caller

__all__ = ["warn_unless_poisson"]

_POISSON = {"UniformWithReplacementSampler", "DistributedUniformWithReplacementSampler"}  # classes of Opacus


def warn_unless_poisson(loader: Any) -> None:
    """Warn if a data loader does not draw Poisson samples, and name its sampler.

    The accountants of Opacus see only the noise and the rate of each step. So they give the same ε for a loader that
    shuffles or weights its records, and that ε is not about such a training run.

    Parameters
    ----------
    loader : DataLoader
        The one that the training reads, for example the last thing that `PrivacyEngine.make_private` returns.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> class UniformWithReplacementSampler: ...  # Opacus has a class of this name
    >>> warn_unless_poisson(SimpleNamespace(batch_sampler=UniformWithReplacementSampler()))
    """
    sampler = getattr(loader, "batch_sampler", None)
    if sampler is None:  # the truth of a sampler is its length, which may depend on the records
        sampler = getattr(loader, "sampler", None)
    while (inner := getattr(sampler, "sampler", None)) is not None:  # samplers of batches wrap a sampler of records
        sampler = inner
    if not _POISSON & {base.__name__ for base in type(sampler).__mro__}:
        warn_caller(
            f"data_loader must draw Poisson samples; got {type(sampler).__name__}; no accountant of Opacus speaks "
            "about this training run: train with the loader that make_private returns, and with poisson_sampling=True"
        )
