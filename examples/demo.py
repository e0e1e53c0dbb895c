"""What `make demo` runs: a table, a private regression with intervals, an ε of DP-SGD, two audits and a budget.

Each step is a small function that prints a few lines; `main` runs them in order. Pictures and pages go to out/.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import ndis

TARGET = 1e-6
SCHEMA = ndis.Schema(
    {"age": (18, 90), "income": (0, 150_000), "region": ["north", "south", "west"]}, target=("cost", 0, 2_500)
)
MECHANISM = ndis.RandomProjection.calibrated(
    epsilon=1.0, delta=TARGET, sketch_size=300, row_norm_bound=SCHEMA.row_norm_bound
)


def heading(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


def table(rows: int = 20_000) -> dict[str, Any]:
    """A table as people have it: units, a text column. In real life it is private."""
    rng = np.random.default_rng(2026)
    age, region = rng.integers(18, 91, rows), rng.choice(["north", "south", "west"], rows)
    income = rng.lognormal(10.4, 0.5, rows)
    cost = 800 + 9 * age - 0.004 * income + 150 * (region == "south") + rng.normal(0, 250, rows)
    return {"age": age, "income": income, "region": region, "cost": cost}


def show_table() -> None:
    heading("1. What is public about a table")
    print("A schema states columns, ranges and categories. It never looks at the data.")
    print(SCHEMA.to_toml())


def show_regression(data: dict[str, Any]) -> None:
    heading("2. A private regression, in the units of the table")
    model = ndis.learn.PrivateLinearRegression(epsilon=1.0, delta=TARGET, schema=SCHEMA).fit(data)
    print(model.summary())
    print(f"The guarantee of the whole fit is (ε, δ) = ({model.receipt_.epsilon:g}, {model.receipt_.delta:g}).")
    print("The truth is 9 per year, -0.004 per unit of income, +150 in the south.")


def show_training() -> None:
    heading("3. The ε of a DP-SGD training run")
    training = ndis.DPSGD(noise_multiplier=1.1, sampling_rate=256 / 60_000, steps=14_062)
    training.epsilon(1e-5)  # compiles at the first call
    start = time.perf_counter()
    epsilon = training.epsilon(1e-5)
    print("noise multiplier 1.1, batches of 256 out of 60,000 records, 60 epochs, δ = 1e-5:")
    print(f"  ε = {epsilon:.9f}, exact, in {1000 * (time.perf_counter() - start):.0f} ms")
    box = training.profile().certify(epsilon)
    print(f"  proved: δ(ε) lies between {box.lower:.9e} and {box.upper:.9e}")


def show_audits(out: Path) -> None:
    heading("4. Two audits")
    claim = ndis.Claim(epsilon=1.0, delta=TARGET)
    weak = ndis.GaussianPair.from_diagonal([58.0], [16.0], [57.0], [16.0])  # a count with and without one visit
    reports = {
        "audit-refuted.html": ndis.audit(claim, pairs=[weak], title="A count with noise of 4", data_name="visits"),
        "audit-proved.html": ndis.audit(claim, mechanism=MECHANISM, title="A sketch of the table", data_name="visits"),
    }
    for name, report in reports.items():
        report.save(out / name)
        print(f"  {report.title}: {report.verdict}")
        print(f"    {out / name}")


def show_budget(data: dict[str, Any], out: Path) -> None:
    heading("5. A budget that is kept")
    path = out / "visits.ledger"
    path.unlink(missing_ok=True)
    plan = {"monthly": (MECHANISM, 3)}
    ledger = ndis.Ledger.create(path, epsilon=2.5, delta=TARGET, plan=plan, data_name="visits")
    print("The plan allows three sketches; their joint guarantee is certified to be (2.5, 1e-06).")
    for _ in range(3):
        ledger.release("monthly", MECHANISM, data, schema=SCHEMA)
        print(f"  released; left: {ledger.remaining()}")
    try:
        ledger.release("monthly", MECHANISM, data, schema=SCHEMA)
    except ndis.BudgetError as error:
        print(f"  a fourth is refused before data is read: {error}")
    print(f"  {ledger.verify()} entries verified")
    page = out / "budget.html"
    page.write_text(ledger.report().to_html(), encoding="utf-8")
    print(f"  what may still be released: {page}")


def two_gaussians() -> dict[str, Any]:
    """p is the law of the output with the record, q without: other mean, other covariance, no common eigenvectors."""
    return {
        "mean_p": [0.5, 0.0, -0.1],
        "cov_p": [[1.3, 0.2, 0.0], [0.2, 0.9, 0.1], [0.0, 0.1, 1.0]],
        "mean_q": [0.0, 0.0, 0.0],
        "cov_q": [[1.0, -0.1, 0.1], [-0.1, 1.1, 0.0], [0.1, 0.0, 0.9]],
    }


def draw_curve(pair: ndis.GaussianPair, path: Path) -> None:
    """The whole curve in both orders, with the ε of the target marked."""
    profile = ndis.PrivacyProfile(pair)
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    ax = profile.plot(ax=figure.subplots(), order_names=("p from q", "q from p"))
    epsilon = profile.epsilon(TARGET)
    ax.plot([ax.get_xlim()[0], epsilon, epsilon], [TARGET, TARGET, ax.get_ylim()[0]], color="0.35", lw=1, ls=":")
    ax.plot(epsilon, TARGET, "o", color="0.15", ms=5)
    ax.annotate(f"ε = {epsilon:.2f} at δ = 10⁻⁶", (epsilon, TARGET), (8, 6), textcoords="offset points", color="0.15")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)


def show_curve(out: Path) -> None:
    heading("6. Any two Gaussians")
    pair = ndis.GaussianPair.from_moments(**two_gaussians())
    print("Means and covariances both differ: no closed formula covers this pair.")
    print(f"  δ(1) = {pair.delta(1.0):.15f} in one order, {pair.reversed().delta(1.0):.15f} in the other")
    draw_curve(pair, out / "curve.png")
    print(f"  the whole curve: {out / 'curve.png'}")


def main() -> None:
    """Run all steps."""
    parser = argparse.ArgumentParser(description="The story of ndis in two minutes.")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for pictures and pages")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    start, data = time.perf_counter(), table()
    show_table()
    show_regression(data)
    show_training()
    show_audits(out)
    show_budget(data, out)
    show_curve(out)
    print(f"\nDone in {time.perf_counter() - start:.0f} s. Open the pages in {out}/ with a browser.")


if __name__ == "__main__":
    main()
