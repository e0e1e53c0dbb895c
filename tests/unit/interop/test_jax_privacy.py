"""jax-privacy plans a training run with the exact accountant, in phases and by its own calibrations."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("jax_privacy")

from jax_privacy.accounting import accountants, analysis, calibrate

import ndis
from ndis.interop.dp_accounting import ExactAccountant

pytestmark = pytest.mark.filterwarnings("default")  # jax warns as it likes
RECORDS, DELTA = 60_000, 1e-5


class ExactConfig(accountants.DpAccountantConfig):  # type: ignore[misc]  # the package carries no types
    """What the page shows."""

    def create_accountant(self) -> Any:
        return ExactAccountant()


EXACT = analysis.DpsgdTrainingAccountant(ExactConfig())


def plan(noise: float, batch: int, **options: Any) -> Any:
    return analysis.DpParams(noise_multipliers=noise, num_samples=RECORDS, delta=DELTA, batch_size=batch, **options)


def test_two_phases_of_batch_sizes() -> None:
    epsilon = EXACT.compute_epsilon(4000, plan(1.1, 64, batch_size_scale_schedule={2000: 4}))
    phases = ndis.DPSGD.from_schedule([(1.1, 64 / RECORDS, 2000), (1.1, 256 / RECORDS, 2000)])
    assert epsilon == pytest.approx(phases.epsilon(DELTA), rel=1e-7)  # jax rounds the second rate to float32
    assert epsilon == pytest.approx(0.8715597, abs=1e-7)


def test_its_own_accountant_lies_above() -> None:
    theirs = analysis.DpsgdTrainingAccountant(accountants.PldAccountantConfig(value_discretization_interval=1e-3))
    assert EXACT.compute_epsilon(50, plan(1.0, 600)) <= theirs.compute_epsilon(50, plan(1.0, 600))


@pytest.mark.sweep
def test_its_own_accountant_on_the_page() -> None:
    theirs = analysis.DpsgdTrainingAccountant(accountants.PldAccountantConfig())
    epsilon = theirs.compute_epsilon(4000, plan(1.1, 64, batch_size_scale_schedule={2000: 4}))
    assert epsilon == pytest.approx(0.90911, abs=1e-5)


def test_calibrations() -> None:
    target = {"target_epsilon": 1.0, "target_delta": DELTA, "accountant": EXACT, "num_samples": RECORDS}
    noise = calibrate.calibrate_noise_multiplier(batch_sizes=256, num_updates=4000, tol=1e-6, **target)
    assert noise == pytest.approx(1.236656, abs=2e-6)
    assert EXACT.compute_epsilon(4000, plan(noise, 256)) <= 1.0
    assert EXACT.compute_epsilon(4000, plan(noise - 4e-6, 256)) > 1.0
    updates = calibrate.calibrate_num_updates(batch_sizes=256, noise_multipliers=1.1, **target)
    assert EXACT.compute_epsilon(updates, plan(1.1, 256)) <= 1.0 < EXACT.compute_epsilon(updates + 1, plan(1.1, 256))


def test_what_it_keeps_to_its_own_accountant() -> None:
    """As the page says. If this fails, jax-privacy has opened the door, and the page may say so."""
    users = analysis.DpsgdTrainingUserLevelAccountant(ExactConfig())
    for accountant, option in ((users, {"examples_per_user": 4}), (EXACT, {"truncated_batch_size": 320})):
        with pytest.raises(ValueError, match="a PLDAccountant"):
            accountant.compute_epsilon(10, plan(1.0, 256, **option))
