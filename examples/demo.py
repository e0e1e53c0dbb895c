"""What `make demo` runs: two Gaussians told apart exactly, a private regression on real data, and two audits.

Each step is a small function that prints a few lines; `main` runs them in order. Pictures and pages go to out/.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import private_regression
from matplotlib.figure import Figure

import ndis

if TYPE_CHECKING:
    from private_regression import Records

    from ndis.auditing import AuditReport
    from ndis.learn import PrivateRidge

EPSILONS = (0.0, 0.5, 1.0, 2.0, 4.0)
TARGET = 1e-6


def two_gaussians() -> dict[str, Any]:
    """p is the law of the output with the record, q without: other mean, other covariance, no common eigenvectors."""
    return {
        "mean_p": [0.5, 0.0, -0.1],
        "cov_p": [[1.3, 0.2, 0.0], [0.2, 0.9, 0.1], [0.0, 0.1, 1.0]],
        "mean_q": [0.0, 0.0, 0.0],
        "cov_q": [[1.0, -0.1, 0.1], [-0.1, 1.1, 0.0], [0.1, 0.0, 0.9]],
    }


def heading(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


def show_pair(pair: ndis.GaussianPair) -> None:
    heading("Two Gaussians in three dimensions")
    print("p is the law of an output with your record in the data, q without it.")
    print("In coordinates in which q is a standard normal, p has")
    print("  variances", "".join(f"{v:9.4f}" for v in pair.variance_ratio))
    print("  means    ", "".join(f"{v:9.4f}" for v in pair.shift))
    print("Means and variances both differ: no closed formula covers this pair.")


def show_delta(pair: ndis.GaussianPair) -> None:
    heading("δ at given ε")
    print("δ is the most by which Pr[p in S] can exceed e^ε · Pr[q in S], over all events S.")
    print("Privacy needs both orders, so the worst is the guarantee.")
    print("    ε   p from q       q from p       worst")
    profile = ndis.PrivacyProfile(pair)
    for e in EPSILONS:
        p_from_q, q_from_p, worst = (profile.delta(e, order=o) for o in ("remove", "add", "worst"))
        print(f"  {e:3.1f}   {p_from_q:.6e}   {q_from_p:.6e}   {worst:.6e}")


def show_simulation(pair: ndis.GaussianPair, moments: dict[str, Any], *, draws: int = 1_000_000) -> None:
    heading("The same number by simulation")
    mean_p, cov_p, mean_q, cov_q = (np.array(moments[key]) for key in ("mean_p", "cov_p", "mean_q", "cov_q"))
    x = np.random.default_rng(1).multivariate_normal(mean_p, cov_p, size=draws)

    def minus_log_density(mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
        return 0.5 * (np.einsum("ni,ij,nj->n", x - mean, np.linalg.inv(cov), x - mean) + np.log(np.linalg.det(cov)))

    loss = minus_log_density(mean_q, cov_q) - minus_log_density(mean_p, cov_p)
    hinge = np.maximum(0.0, -np.expm1(1.0 - loss))  # δ(ε) is the mean under p of (1 − e^(ε − loss))₊
    print(f"  δ(1), p from q, from {draws:,} random draws   {hinge.mean():.5f} ± {hinge.std() / draws**0.5:.5f}")
    print(f"  δ(1), p from q, from ndis                     {pair.delta(1.0):.16f}")


def show_certificate(pair: ndis.GaussianPair) -> None:
    heading("A certified interval")
    print("Every rounding and truncation error is bounded by proof (ball arithmetic).")
    box = pair.certify(1.0)
    print(f"  δ(1), p from q, is at least   {box.lower!r}")
    print(f"                  and at most   {box.upper!r}")


def show_epsilon(pair: ndis.GaussianPair) -> None:
    heading(f"ε at δ = {TARGET:g}")
    print("The smallest ε whose δ is at most that, rounded to the safe side.")
    profile = ndis.PrivacyProfile(pair)
    same_covariance = ndis.GaussianPair.from_ratios(1.0, shift=float(np.linalg.norm(pair.shift)))
    print(f"  p from q   {profile.epsilon(TARGET, order='remove')!r}")
    print(f"  q from p   {profile.epsilon(TARGET, order='add')!r}")
    print(f"  worst      {profile.epsilon(TARGET)!r}   <- the one to report")
    print(f"  From the means alone one would claim {same_covariance.epsilon(TARGET):.2f}, which is wrong.")


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


def audit_release(model: PrivateRidge, records: Records, page: Path) -> None:
    heading("An audit of that release")
    print("Would any of the patients, left out, be noticed beyond what the receipt says? All of them are tried,")
    print("and the worst person who could be added.")
    receipt, mechanism = model.receipt_, model.mechanism_
    claim = ndis.Claim(epsilon=receipt.epsilon, delta=receipt.delta, adjacency=receipt.adjacency)
    scale = mechanism.target_bound / private_regression.TARGET_BOUND  # the units of the sketch
    data = (records.rows, scale * records.targets)
    names = {"title": "A private regression", "data_name": "patients"}
    show_report(ndis.audit(claim, mechanism=mechanism, data=data, **names), page)


def audit_wrapper(page: Path) -> None:
    heading("An audit of the paper's wrapper, as printed")
    print("The printed bound takes the easier of the two orders for the harder one.")
    sys.path.append(str(Path(__file__).parent / "audits"))
    import printed_wrapper

    show_report(printed_wrapper.exhibit().false, page)


def show_report(report: AuditReport, page: Path) -> None:
    report.save(page)
    witness, tried = report.witness, report.pairs_tried
    print(f"  claimed     δ ≤ {witness.delta:g} at ε = {witness.epsilon:g}")
    print(f"  certified   δ ≥ {report.delta_possible:.6g} on the worst of the neighbours tried ({tried})")
    print(f"  verdict     {report.verdict}")
    print(f"  page        {page}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("out"), help="where pictures and pages are saved")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    moments = two_gaussians()
    pair = ndis.GaussianPair.from_moments(**moments)
    show_pair(pair)
    show_delta(pair)
    show_simulation(pair, moments)
    show_certificate(pair)
    show_epsilon(pair)
    draw_curve(pair, folder / "curve.png")
    print(f"The whole curve is drawn in {folder / 'curve.png'}.")
    heading("A private regression on real data")
    model, records = private_regression.run(folder)
    audit_release(model, records, folder / "audit_release.html")
    audit_wrapper(folder / "audit_printed_wrapper.html")
    print(f"\n{time.perf_counter() - start:.0f} s in all.")


if __name__ == "__main__":
    main()
