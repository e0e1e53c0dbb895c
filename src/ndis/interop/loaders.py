"""A data loader of torch shows how it draws its batches. Neither torch nor Opacus is needed to look."""

from __future__ import annotations

import math
from typing import Any

from ndis._validate import require, warn_caller
from ndis.auditing.claim import Claim
from ndis.auditing.loop import TrainingLoop
from ndis.auditing.training import TrainingReport, audit_training
from ndis.errors import ParameterError

History = tuple[tuple[float, float, int], ...]  # noise multiplier, rate, steps

__all__ = ["check", "warn_unless_poisson"]

_SAMPLERS = {  # classes of torch and Opacus, and the words of `TrainingLoop`
    "RandomSampler": "shuffled",
    "SubsetRandomSampler": "shuffled",
    "SequentialSampler": "sequential",
    "WeightedRandomSampler": "weighted",
    "UniformWithReplacementSampler": "poisson",
    "DistributedUniformWithReplacementSampler": "never-empty",  # it leaves out empty batches
}
_POISSON = ("poisson", "never-empty")
_WRAPPERS = ("BatchSampler", "BatchSplittingSampler")  # the first makes batches, the second cuts them to fit in memory
_SEVERAL = 1.5  # times the rate of the sampler, above which a step took several batches; 1 / int(1 / rate) is below


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
    >>> class UniformWithReplacementSampler:  # Opacus has a class of this name
    ...     __iter__ = None
    >>> warn_unless_poisson(SimpleNamespace(batch_sampler=UniformWithReplacementSampler()))
    """
    sampler = _samplers(loader)[-1]
    if _SAMPLERS.get(_drawing_class(sampler)) not in _POISSON:
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


def _drawing_class(sampler: Any) -> str:
    """Name the class whose code draws: a subclass that draws in a way of its own is another sampler."""
    return next((base.__name__ for base in type(sampler).__mro__ if "__iter__" in vars(base)), "")


def _kind(loader: Any, history: History) -> tuple[str, int]:
    """Say how the loader draws, in a word of `TrainingLoop`, and how many of its batches a step takes together."""
    *wrappers, sampler = _samplers(loader)
    kind = _SAMPLERS.get(_drawing_class(sampler), "unknown")
    if kind == "unknown" or any(_drawing_class(one) not in _WRAPPERS for one in wrappers):
        return "unknown", 1
    if len({(noise, rate) for noise, rate, _ in history}) < len(history):  # accountants join equal steps in a row
        return "shared", 1
    if len(places := _places(loader.dataset)) > len(set(places)):
        return "repeated", 1
    rates = {rate for _, rate, _ in history}
    if kind in _POISSON:
        filled = getattr(getattr(loader, "collate_fn", None), "rand_on_empty", False)  # with a record of random numbers
        several = len(rates) > 1 or max(rates) > _SEVERAL * sampler.sample_rate
        return "accumulated" if several else "never-empty" if filled else kind, 1
    if kind == "weighted" or getattr(sampler, "replacement", False):
        return "weighted" if kind == "weighted" else "with-replacement", 1
    if len(sampler) != _drawn_from(loader, sampler):
        return "unknown", 1
    batches = len(_batch_sampler(loader))  # each record in one of them, so several make a larger batch
    together = round(max(rates) * batches)
    whole = all(math.isclose(rate * batches, together) for rate in rates) and batches % together == 0
    return (kind, together) if whole else ("accumulated", 1)


def _places(dataset: Any) -> list[tuple[int, int]]:
    """List the records of a data set that torch made of others: which of those, and which record of it."""
    if hasattr(dataset, "datasets"):
        return [place for one in dataset.datasets for place in _places(one) or _all_of(one)]
    if not hasattr(dataset, "indices") or not hasattr(dataset, "dataset"):
        return []
    inner = _places(dataset.dataset) or _all_of(dataset.dataset)
    return [inner[int(i)] for i in dataset.indices]


def _all_of(dataset: Any) -> list[tuple[int, int]]:
    return [(id(dataset), i) for i in range(len(dataset) if hasattr(dataset, "__len__") else 0)]


def _batch_sampler(loader: Any) -> Any:
    return next(one for one in _samplers(loader) if _drawing_class(one) != "BatchSplittingSampler")


def _drawn_from(loader: Any, sampler: Any) -> int | None:
    """Return the number of different records that a sampler may take."""
    if hasattr(sampler, "indices"):
        return len({int(one) for one in sampler.indices})
    return len(loader.dataset) if hasattr(loader.dataset, "__len__") else None


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
        What may be known: "records" (their number), "rate" and "normaliser" (chosen without the data).
    optimizer : DPOptimizer, optional
        The one that the training steps; it knows the number of parameters and how sums are divided. Check before a
        scheduler gives it the noise of a step that is not taken.
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
    ...     sample_rate, __iter__, __len__ = 0.01, None, lambda self: 100
    >>> loader = Has(batch_sampler=UniformWithReplacementSampler(), dataset=range(5000))
    >>> engine = Has(accountant=Has(history=[(1.0, 0.01, 1000)], get_epsilon=lambda delta: 1.83))
    >>> check(engine, loader).verdict
    'sound'
    >>> check(engine, loader, public=()).verdict
    'no guarantee known'
    """
    history = tuple((float(noise), float(rate), int(n)) for noise, rate, n in engine.accountant.history)
    require(history, "engine", "have counted at least one step", "none", "check it after training")
    own: Any = math.inf if optimizer is None else getattr(optimizer, "noise_multiplier", None)
    require(own is not None, "optimizer", "be the one that make_private returned", type(optimizer).__name__)
    if not all(noise > 0 for noise in (own, *(row[0] for row in history))):
        raise ParameterError("engine", "add noise in every step", "a noise_multiplier of 0", "no claim holds there")
    batcher, sampler = _batch_sampler(loader), _samplers(loader)[-1]
    kind, together = _kind(loader, history)
    records = _drawn_from(loader, sampler)
    size = getattr(batcher, "batch_size", None) or batch_size or getattr(loader, "batch_size", None)
    kind = "unknown" if kind in ("shuffled", "sequential") and None in (size, records) else kind
    rates = [float(sampler.sample_rate) if kind == "poisson" else rate for _, rate, _ in history]
    steady = len(history) > 1 or own >= history[0][0]  # else it fell after the last step, or was accounted wrongly
    settings: dict[str, Any] = {"steps": steps or sum(row[2] for row in history), "noise_multiplier": history[0][0]}
    if len(history) > 1 and steps is None:
        settings = {"schedule": tuple((row[0], rate, row[2]) for row, rate in zip(history, rates, strict=True))}
    elif kind == "poisson" and {"records", "rate"} & set(public):
        settings["sampling_rate"] = rates[0]
    reduction = "mean" if optimizer is None else optimizer.loss_reduction
    known = (optimizer is not None and together == 1) or "records" in public
    batches = len(batcher) if kind == "poisson" else None
    dropped = bool(getattr(batcher, "drop_last", False))
    if kind == "poisson":  # the loader before `make_private` dropped its last batch if that explains the rate
        dropped = bool(size and records and size <= records and records % size and batches == records // size)
    loop = TrainingLoop(
        sampler=kind if steady else "unsteady",
        clipping="adaptive" if hasattr(optimizer, "unclipped_num_std") else "record",
        batch_size=size and size * together,
        records=records,
        batches=batches,
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
