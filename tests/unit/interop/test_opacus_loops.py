"""Training loops of Opacus itself, really trained, each with its verdict.

They ran with torch 2.13.0 and Opacus 1.6.0.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from ndis.auditing import Claim, TrainingReport
from ndis.errors import ParameterError
from ndis.interop.loaders import check

torch: Any = pytest.importorskip("torch")
opacus: Any = pytest.importorskip("opacus")
data: Any = torch.utils.data
memory: Any = importlib.import_module("opacus.utils.batch_memory_manager")
importlib.import_module("ndis.interop.opacus")  # it registers the accountant "exact"

pytestmark = pytest.mark.filterwarnings("ignore")  # Opacus and torch warn as they like
POISSON, SHUFFLED, IN_ORDER = {}, {"shuffle": True, "poisson_sampling": False}, {"poisson_sampling": False}
PRIVATE: tuple[str, ...] = ()


def trained(
    records: int = 400,
    batch_size: int = 20,
    *,
    noise: float = 1.0,
    accountant: str = "exact",
    outputs: int = 4,
    steps: int | None = None,
    passes: int = 1,
    together: int = 1,
    physical: int | None = None,
    sampler: Any = None,
    shuffle: bool | None = None,
    drop_last: bool = False,
    allow: bool = False,
    wrap: Callable[[Any], Any] = lambda model: model,
    schedule: Callable[[Any], Any] | None = None,
    **options: Any,
) -> tuple[Any, Any, Any]:
    """Make a linear model private, train it, and return engine, loader and optimizer."""
    dataset = data.TensorDataset(torch.zeros(records, 1), torch.zeros(records, dtype=torch.long))
    loader = data.DataLoader(dataset, batch_size=batch_size, sampler=sampler, shuffle=shuffle, drop_last=drop_last)
    model = wrap(torch.nn.Linear(1, outputs))
    loss: Any = torch.nn.CrossEntropyLoss()
    engine = opacus.PrivacyEngine(accountant=accountant)
    options = {"max_grad_norm": 1.0, "criterion": loss, **options}
    made = engine.make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=loader, noise_multiplier=noise,
        **options,
    )  # fmt: skip
    model, optimizer, loader = made[0], made[1], made[-1]
    loss = made[2] if len(made) == 4 else loss
    if allow:
        model.allow_grad_accumulation()
    later = schedule(optimizer) if schedule else None
    limit: Any = nullcontext(loader)
    if physical is not None:
        limit = memory.BatchMemoryManager(data_loader=loader, max_physical_batch_size=physical, optimizer=optimizer)
    with limit as loader:
        for number, (x, y) in enumerate(_batches(loader, passes, steps)):
            loss(model(x), y).backward()
            if (number + 1) % together == 0:
                optimizer.step()
                optimizer.zero_grad()
            if later is not None and (number + 1) % len(loader) == 0:
                later.step()
    return engine, loader, optimizer


def _batches(loader: Any, passes: int, steps: int | None) -> Iterator[Any]:
    every = (batch for _ in range(passes) for batch in loader)
    return (batch for _, batch in zip(range(steps), every, strict=False)) if steps else every


def audited(public: tuple[str, ...] = ("records",), size: int | None = None, **run: Any) -> TrainingReport:
    engine, loader, optimizer = trained(**run)
    return check(engine, loader, public, optimizer=optimizer, batch_size=size)


def halved(optimizer: Any) -> Any:
    return importlib.import_module("opacus.schedulers").ExponentialNoise(optimizer, gamma=0.5)


SOUND: dict[str, dict[str, Any]] = {
    "poisson": POISSON,
    "accountant of Opacus": {"accountant": "rdp"},
    "another accountant of Opacus": {"accountant": "prv"},
    "full batches": {"records": 40, "batch_size": 40, "passes": 4},
    "dropped last batch, public number": {"records": 410, "drop_last": True},
    "49 batches, which Opacus takes for 48": {"records": 980},
    "batches in pieces": {"physical": 5},
    "weights that Opacus replaces (opacus#813)": {
        "records": 10_000, "batch_size": 16, "sampler": data.WeightedRandomSampler([1.0] * 10_000, 128)
    },
    "clipped layer by layer": {"clipping": "per_layer", "max_grad_norm": [1.0, 1.0]},
    "clipped without gradients of records": {"grad_sample_mode": "ghost"},
    "gradients by functorch": {"grad_sample_mode": "functorch"},
    "noise on a schedule": {"noise": 4.0, "passes": 2, "schedule": halved},
    "a private number, nothing divided": {"loss_reduction": "sum", "public": ("rate",)},
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_sound_loops(name: str) -> None:
    report = audited(**SOUND[name])
    assert report.verdict == "sound", report
    assert not report.findings


ONE_BATCH = {"steps": 1, "public": PRIVATE}
REFUTED: dict[str, tuple[float, str, dict[str, Any]]] = {
    "three records (opacus#571)": (
        3.0, "normaliser", {"records": 3, "batch_size": 3, "size": 3, "noise": 4.0, "outputs": 5, **ONE_BATCH}
    ),
    "26,010 parameters (opacus#819)": (
        9.13 / 0.066, "normaliser",
        {"records": 60_000, "batch_size": 250, "size": 250, "outputs": 13_005, **ONE_BATCH},
    ),
    "550,570 parameters (opacus#819)": (
        100.6 / 0.2, "normaliser",
        {"records": 50_000, "batch_size": 500, "size": 500, "outputs": 275_285, **ONE_BATCH},
    ),
    "a private number, batches in pieces": (1.0, "normaliser", {"physical": 5, "size": 20, "public": PRIVATE}),
    "a private number, last batch dropped": (
        1.0, "normaliser", {"records": 410, "drop_last": True, "size": 20, "public": PRIVATE}
    ),
    "batches in order": (2.0, "sampler", {**IN_ORDER, "passes": 2}),
    "an approximation": (2.0, "claim", {"records": 4000, "steps": 40, "noise": 0.6, "accountant": "gdp"}),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUTED)
def test_refuted_loops(name: str) -> None:
    factor, part_of_loop, run = REFUTED[name]
    report = audited(**run)
    assert report.verdict == "refuted", report
    assert report.findings[0].name == part_of_loop
    assert report.epsilon_refuted is not None
    assert report.epsilon_refuted > factor * report.claim.epsilon


ADAPTIVE = {
    "clipping": "adaptive", "target_unclipped_quantile": 0.5, "clipbound_learning_rate": 0.2, "max_clipbound": 10.0,
    "min_clipbound": 0.1, "unclipped_num_std": 5.0,
}  # fmt: skip
DENIED: dict[str, tuple[str, dict[str, Any]]] = {
    "no batch size": ("normaliser", {"public": PRIVATE}),
    "weights (opacus#813)": (
        "weights", {**IN_ORDER, "batch_size": 16, "sampler": data.WeightedRandomSampler([1.0] * 400, 128)}
    ),
    "draws with replacement": (
        "several times", {**IN_ORDER, "sampler": data.RandomSampler(range(400), replacement=True)}
    ),
    "shuffled": ("shuffled epoch", SHUFFLED),
    "shuffled, batches in pieces": ("shuffled epoch", {**SHUFFLED, "physical": 5}),
    "four shuffled batches a step": ("shuffled epoch", {**SHUFFLED, "passes": 8, "together": 4}),
    "three of twenty shuffled batches a step": ("several batches", {**SHUFFLED, "passes": 3, "together": 3}),
    "four Poisson samples a step": ("several batches", {"allow": True, "passes": 2, "together": 4}),
    "a tenth of the records, shuffled": (
        "shuffled epoch", {**IN_ORDER, "passes": 10, "sampler": data.SubsetRandomSampler(range(40))}
    ),
    "some records twice, shuffled": (
        "not one that", {**IN_ORDER, "sampler": data.SubsetRandomSampler([*range(40), *range(40)])}
    ),
    "ten shuffles in a pass": (
        "not one that",
        {**IN_ORDER, "records": 40, "sampler": data.RandomSampler(range(40), num_samples=400)},
    ),
    "empty batches filled": ("made-up record", {"records": 8, "batch_size": 1, "rand_on_empty": True}),
    "adaptive clipping": ("clipping norm", ADAPTIVE),
}  # fmt: skip


@pytest.mark.parametrize("name", DENIED)
def test_loops_without_a_known_guarantee(name: str) -> None:
    words, run = DENIED[name]
    report = audited(**run)
    assert report.verdict == "no guarantee known", report
    assert any(words in f"{one.name} {one.why}" for one in report.findings)


@pytest.mark.parametrize(
    ("run", "passes"),
    [
        ({**SHUFFLED, "passes": 8, "together": 4}, 8),
        ({**IN_ORDER, "passes": 10, "sampler": data.SubsetRandomSampler(range(40))}, 10),
        ({**SHUFFLED, "passes": 2, "physical": 5}, 2),
    ],
)
def test_a_record_takes_part_once_in_every_pass(run: dict[str, Any], passes: int) -> None:
    """thm:loop-guarantee counts the batches that a record can be in: several in a step, or few in a pass."""
    engine, loader, optimizer = trained(**run)
    report = check(engine, loader, optimizer=optimizer, claim=Claim(100.0, 1e-5))
    assert report.loop._times(most=True) == passes
    assert report.verdict == "sound"


def test_processes_that_leave_out_empty_batches(tmp_path: Path) -> None:
    """The sampler of Opacus for several processes yields no batch that drew nobody."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    several = importlib.import_module("opacus.distributed").DifferentiallyPrivateDistributedDataParallel
    try:
        report = audited(wrap=several)
    finally:
        torch.distributed.destroy_process_group()
    assert report.verdict == "no guarantee known"
    assert "an empty batch is left out" in report.findings[0].why


def test_a_loop_without_noise_has_no_claim() -> None:
    engine, loader, optimizer = trained(noise=0.0, steps=2)
    with pytest.raises(ParameterError, match=r"^engine must add noise in every step; got a noise_multiplier of 0; "):
        check(engine, loader, optimizer=optimizer)
