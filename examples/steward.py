"""Keep one budget for three teams and one year: a plan, a crash, a cheat, and a renewal.

Run it with `python examples/steward.py`. It takes a few seconds, and writes only to a folder of its own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import ndis

BUDGET = {"epsilon": 3.0, "delta": 1e-6}
CRASH = """
import os, sys, ndis
ledger = ndis.Ledger(sys.argv[1])
mechanism = ndis.GaussianMechanism.with_noise(noise_std=20.0, delta=1e-6, sensitivity=1.0)
with ledger.charge("product", mechanism):
    os._exit(1)  # the process dies before it releases
"""


def slots() -> dict[str, tuple[ndis.mechanisms.mechanism.CertifiedMechanism, int]]:
    """Declare the year of three teams, and spare releases for what nobody foresees."""
    bounds = {"row_norm_bound": 1.0, "epsilon": 0.4, "delta": 1e-8}
    return {
        "research": (ndis.RandomProjection.calibrated(sketch_size=50, **bounds), 4),
        "finance": (ndis.GramMechanism.calibrated(**bounds), 4),
        "product": (ndis.GaussianMechanism.with_noise(noise_std=20.0, delta=1e-6, sensitivity=1.0), 52),
        "spare": (ndis.GaussianMechanism.with_noise(noise_std=40.0, delta=1e-6, sensitivity=1.0), 10),
    }


def main(folder: Path) -> dict[str, object]:
    """Run the year, and return what happened."""
    rows = np.random.default_rng(0).uniform(-0.5, 0.5, size=(300, 3))
    plan = slots()
    ledger = ndis.Ledger.create(folder / "2026.ledger", plan=plan, data_name="customers", **BUDGET)
    happened: dict[str, object] = {"plan": ledger.left()}

    # Three teams release, and each names itself.
    for team, data in (("research", rows), ("finance", rows), ("product", [len(rows)])):
        with ndis.ledger.on_behalf(by=team, purpose="first report"):
            ledger.release(team, plan[team][0], data)

    # A crash: what was reserved counts as spent, and the file is whole.
    words = [sys.executable, "-c", CRASH, str(folder / "2026.ledger")]
    happened["crash"] = subprocess.run(words, check=False, env=os.environ).returncode
    happened["after the crash"] = (ledger.remaining()["product"], ledger.releases()[-1]["state"], ledger.verify())

    # A team that asks for more than its slot is refused before anything is read.
    loud = ndis.GaussianMechanism.with_noise(noise_std=2.0, delta=1e-6, sensitivity=1.0)
    happened["too loud"] = refusal(lambda: ledger.release("product", loud, [len(rows)]))

    # A cheat: put back an old copy of the file, and spend again. An anchor that was kept elsewhere shows it.
    shutil.copy(folder / "2026.ledger", folder / "old copy")
    ledger.release("research", plan["research"][0], rows)
    anchor = ledger.anchor()
    shutil.copy(folder / "2026.ledger", folder / "true copy")
    os.replace(folder / "old copy", folder / "2026.ledger")
    heads = {anchor["entry"]: anchor["head"]}
    happened["rolled back"] = refusal(lambda: ledger.verify(heads=heads))
    ledger.release("research", plan["research"][0], rows)
    happened["written twice"] = refusal(lambda: ledger.verify(heads=heads))
    os.replace(folder / "true copy", folder / "2026.ledger")
    ledger.verify(heads=heads)

    # The year ends. The next plan may follow from what was learnt, so the budgets add.
    following = ledger.renew(
        folder / "2027.ledger", plan={"product": (plan["product"][0], 52)}, epsilon=2.0, delta=1e-6
    )
    happened["closed"] = refusal(lambda: ledger.release("spare", plan["spare"][0], [len(rows)]))
    following.release("product", plan["product"][0], [len(rows)])
    closing = following.periods[-1]
    happened["linked"] = ledger.verify(heads={closing["entry"]: closing["head"]}) == closing["entry"]
    happened["total"] = following.total()
    return happened


def refusal(action: object) -> str:
    """Return the sentence with which an action is refused."""
    try:
        action()  # type: ignore[operator]
    except ndis.errors.NdisError as error:
        return str(error)
    raise AssertionError("nothing was refused")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        for name, value in main(Path(place)).items():
            print(f"{name}: {value}")
