"""A data loader of torch shows how it draws its batches. Neither torch nor Opacus is needed to look."""

from __future__ import annotations

from typing import Any

from ndis._validate import warn_caller
from ndis.auditing.claim import Claim
from ndis.auditing.training import TrainingLoop, TrainingReport, audit_training
from ndis.errors import ParameterError

__all__ = ["check", "warn_unless_poisson"]

_POISSON = {"UniformWithReplacementSampler", "DistributedUniformWithReplacementSampler"}  # classes of Opacus
_SAMPLERS = {  # classes of torch, and the words of `TrainingLoop`
    "RandomSampler": "shuffled",
    "SubsetRandomSampler": "shuffled",
    "SequentialSampler": "sequential",
    "WeightedRandomSampler": "weighted",
    **dict.fromkeys(_POISSON, "poisson"),
}


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
    sampler = _samplers(loader)[-1]
    if not _POISSON & _names(sampler):
        warn_caller(
            f"data_loader must draw Poisson samples; got {type(sampler).__name__}; no accountant of Opacus speaks "
            "about this training run: train with the loader that make_private returns, and with poisson_sampling=True"
        )


def _samplers(loader: Any) -> list[Any]:
    """Return the sampler of batches, and those that it wraps in turn; the last one draws records."""
    sampler = getattr(loader, "batch_sampler", None)
    if sampler is None:  # the truth of a sampler is its length, which may depend on the records
        sampler = getattr(loader, "sampler", None)
    wrapped = [sampler]
    while (inner := getattr(wrapped[-1], "sampler", None)) is not None:
        wrapped.append(inner)
    return wrapped


def _names(sampler: Any) -> set[str]:
    return {base.__name__ for base in type(sampler).__mro__}


def check(
    engine: Any,
    loader: Any,
    public: tuple[str, ...] = ("records",),
    *,
    optimizer: Any = None,
    batch_size: int | None = None,
    steps: int | None = None,
    delta: float = 1e-5,
    claim: Claim | None = None,
) -> TrainingReport:
    """Audit a training run of Opacus: its loader, sampler, normaliser, parameters, clipping and history.

    Parameters
    ----------
    engine : PrivacyEngine
        After training: its accountant knows noise, rate and number of the steps.
    loader : DataLoader
        The one that the training reads.
    public : tuple of str
        What may be known: "records" (their number), "rate" and "normaliser" (chosen without the data), "weights".
    optimizer : DPOptimizer, optional
        The one that the training steps; it knows the number of parameters and how sums are divided.
    batch_size : int, optional
        The batch size of the loader before `make_private`, which forgets it. Without it a divisor that depends on a
        private number of records is not priced, only denied.
    steps : int, optional
        Batches really taken, all with the first noise of the history; those that the accountant knows unless given.
    delta : float
        δ of the claim.
    claim : Claim, optional
        What the accountant says at `delta`, unless given.

    Examples
    --------
    >>> from types import SimpleNamespace as Has
    >>> class UniformWithReplacementSampler:  # Opacus has a class of this name
    ...     sample_rate = 0.01
    >>> class Loader(Has):
    ...     __len__ = lambda self: 100
    >>> loader = Loader(batch_sampler=UniformWithReplacementSampler(), dataset=range(5000))
    >>> engine = Has(accountant=Has(history=[(1.0, 0.01, 1000)], get_epsilon=lambda delta: 1.83))
    >>> check(engine, loader).verdict
    'sound'
    >>> check(engine, loader, public=()).verdict
    'no guarantee known'
    """
    history = tuple((float(noise), float(rate), int(n)) for noise, rate, n in engine.accountant.history)
    if not history:
        raise ParameterError("engine", "have counted at least one step", "none", "check it after training")
    wrapper, sampler = _samplers(loader)[0], _samplers(loader)[-1]
    kind = next((_SAMPLERS[name] for name in _SAMPLERS if name in _names(sampler)), "unknown")
    if kind == "shuffled" and getattr(sampler, "replacement", False):
        kind = "with-replacement"
    records = len(loader.dataset) if hasattr(loader.dataset, "__len__") else None
    size = batch_size or getattr(wrapper, "batch_size", None) or getattr(loader, "batch_size", None)
    kind = "unknown" if kind not in ("poisson", "weighted", "with-replacement") and None in (size, records) else kind
    settings: dict[str, Any] = {"steps": steps or sum(row[2] for row in history), "noise_multiplier": history[0][0]}
    if len(history) > 1 and steps is None:
        settings = {"schedule": history}
    elif kind == "poisson" and {"records", "rate"} & set(public):
        settings["sampling_rate"] = float(sampler.sample_rate)
    if kind == "weighted" and "weights" in public and getattr(sampler, "replacement", True):
        settings["largest_share"] = float(max(sampler.weights)) / float(sum(sampler.weights))
    reduction = "mean" if optimizer is None else optimizer.loss_reduction
    known = optimizer is not None or "records" in public
    dropped = bool(getattr(wrapper, "drop_last", False))
    if kind == "poisson":  # the loader before `make_private` dropped its last batch if that explains the rate
        dropped = bool(size and records and size <= records and records % size and len(loader) == records // size)
    loop = TrainingLoop(
        sampler=kind,
        clipping="adaptive" if hasattr(optimizer, "unclipped_num_std") else "record",
        batch_size=size,
        records=records,
        batches=len(loader) if kind in ("poisson", "weighted", "with-replacement") else None,
        parameters=1 if optimizer is None else sum(int(p.numel()) for p in optimizer.params),
        normaliser=("opacus" if known else "unknown") if reduction == "mean" else "constant",
        drop_last=dropped,
        public=public,
        history=history,
        **settings,
    )
    if claim is None:
        exact = {"certify": True} if hasattr(engine.accountant, "profile") else {}  # the accountant of this package
        claim = Claim(float(engine.accountant.get_epsilon(delta=delta, **exact)), delta)
    return audit_training(loop, claim)
