"""What the objects of a training run show: repeated records, optimizers that share a batch, and other noise."""

from __future__ import annotations

from types import SimpleNamespace as Has
from typing import Any

import pytest

from ndis import DPSGD
from ndis.errors import ParameterError
from ndis.interop.loaders import check

RATE = 0.05


class UniformWithReplacementSampler:  # Opacus has a class of this name
    sample_rate = RATE

    def __iter__(self) -> Any:
        raise NotImplementedError  # nothing is drawn here

    def __len__(self) -> int:
        return 20


class Subset:  # as torch has it
    def __init__(self, dataset: Any, indices: list[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __len__(self) -> int:
        return len(self.indices)


def run(dataset: Any = range(400), history: Any = ((1.0, RATE, 20),), **shown: Any) -> Any:
    epsilon = DPSGD.from_schedule(history).certified_epsilon
    engine = Has(accountant=Has(history=list(history), get_epsilon=epsilon))
    return check(engine, Has(batch_sampler=UniformWithReplacementSampler(), dataset=dataset), **shown)


def optimizer(noise: float) -> Any:
    return Has(noise_multiplier=noise, loss_reduction="mean", params=[Has(numel=lambda: 8)])


ROWS = range(200)


@pytest.mark.parametrize(
    ("dataset", "verdict"),
    [
        (Subset(ROWS, list(range(100))), "sound"),
        (Subset(ROWS, [*range(100), 7]), "no guarantee known"),
        (Subset(Subset(ROWS, [3, 3]), [0, 1]), "no guarantee known"),
        (Has(datasets=[Subset(ROWS, [0, 1]), Subset(ROWS, [2])]), "sound"),
        (Has(datasets=[Subset(ROWS, [0, 1]), Subset(ROWS, [1])]), "no guarantee known"),
        (Has(datasets=[ROWS, ROWS]), "no guarantee known"),
    ],
)
def test_a_data_set_that_repeats_records(dataset: Any, verdict: str) -> None:
    report = run(dataset)
    assert report.verdict == verdict
    assert [one.name for one in report.findings] == ["data set"] * (verdict != "sound")


def test_noise_that_alternates_is_that_of_optimizers_that_share_a_batch() -> None:
    report = run(history=((1.0, RATE, 1), (2.0, RATE, 1), (1.0, RATE, 1), (2.0, RATE, 1)))
    assert report.verdict == "no guarantee known"
    assert "steps share a batch" in report.findings[0].why
    assert run(history=((2.0, RATE, 10), (1.0, RATE, 10))).verdict == "sound"


def test_the_noise_of_the_optimizer_counts() -> None:
    assert run(optimizer=optimizer(1.0)).verdict == "sound"
    report = run(optimizer=optimizer(0.5))  # a scheduler may have halved it after the only pass: that is no crime
    assert report.verdict == "no guarantee known"
    assert [one.name for one in report.findings] == ["noise"]
    assert "it fell after the last step" in report.findings[0].why
    fallen = run(history=((2.0, RATE, 10), (1.0, RATE, 10)), optimizer=optimizer(0.5))
    assert fallen.verdict == "sound"  # every step was noted with the noise that it had
    with pytest.raises(ParameterError, match="engine must add noise in every step"):
        run(optimizer=optimizer(0.0))
    with pytest.raises(ParameterError, match="optimizer must be the one that make_private returned; got SimpleName"):
        run(optimizer=Has())
