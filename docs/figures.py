"""Draws the pictures of the docs into docs/img: ``python docs/figures.py`` (needs `plot`, playwright, a Chromium)."""

from __future__ import annotations

import re
import runpy
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import ndis
from ndis.spectrum.contour import DELTA, exponent, path

HERE = Path(__file__).parent
EXAMPLES = HERE.parent / "examples"
sys.path.append(str(EXAMPLES))
DEMO = runpy.run_path(str(EXAMPLES / "demo.py"))


def log_modulus(pair: ndis.GaussianPair, epsilon: float, s: np.ndarray) -> np.ndarray:
    """log10 of |e^{K(s) − sε} / (s(s+1))|, by the kernel that integrates it."""
    form = pair.form
    groups = (form.t, form.ratio, form.nu, form.q)
    above = np.where(s.imag < 0, s.conj(), s)  # the kernel serves the upper half-plane; the modulus is symmetric
    real = [exponent(complex(z), form.mean - epsilon, *groups, False).real for z in above.ravel()]
    return (np.reshape(real, s.shape) - np.log(np.abs(s * (s + 1)))) / np.log(10.0)


def draw_contour(pair: ndis.GaussianPair, epsilon: float, where: Path) -> None:
    """Modulus of the integrand, the vertical line of the definition, and the path taken, with its first nodes."""
    form = pair.form
    groups = (form.t, form.ratio, form.nu, form.q)
    c, w, bend, *_ = path(-41.0, form.mean - epsilon, *groups, False, DELTA)
    u = np.linspace(-5, 5, 401)
    line = c + bend * w * (np.cosh(u) - 1) + 1j * w * np.sinh(u)
    nodes = c + bend * w * (np.cosh(u[::10]) - 1) + 1j * w * np.sinh(u[::10])
    x, y = np.meshgrid(np.linspace(-4, 7, 240), np.linspace(-9, 9, 240))
    height = log_modulus(pair, epsilon, x + 1j * y) - log_modulus(pair, epsilon, np.array([c + 0j]))
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    ax = figure.subplots()
    filled = ax.contourf(x, y, np.clip(height, -6, 2), levels=np.arange(-6, 2.1, 0.5), cmap="YlGnBu_r")
    figure.colorbar(filled, ax=ax, label="log₁₀ |integrand|, 0 at the saddle")
    ax.axvline(c, color="0.2", lw=1, ls=":", label="line of the definition")
    ax.plot(line.real, line.imag, color="#D55E00", lw=1.8, label="path taken")
    ax.plot(nodes.real, nodes.imag, "o", color="#D55E00", ms=4)
    ax.plot([c], [0], "o", color="white", mec="#D55E00", ms=8, label="saddle")
    ax.plot([0, -1], [0, 0], "x", color="k", ms=8, mew=2, label="poles 0 and −1")
    for t in form.t:
        ax.plot([1 / t, 20 * np.sign(t)], [0, 0], color="k", lw=2.5, solid_capstyle="butt")
    ax.plot([], [], color="k", lw=2.5, label="cuts, from 1/t outwards")
    ax.set(xlim=(-4, 7), ylim=(-9, 9), xlabel="Re s", ylabel="Im s")
    ax.legend(loc="lower left", fontsize=8, framealpha=0.95)
    figure.savefig(where, dpi=160)


def draw_accountant(where: Path) -> None:
    """Draw the ways of the accountant: from the releases to a float, and to a certificate."""
    figure = Figure(figsize=(8.4, 4.6), layout="constrained")
    ax = figure.subplots()
    ax.set(xlim=(0, 100), ylim=(0, 60))
    ax.axis("off")
    colours = {"both": "#f1f3f5", "float": "#e3f0fb", "ball": "#fdebdd"}

    def box(x: float, y: float, text: str, kind: str) -> None:
        style = {"boxstyle": "round,pad=0.35", "fc": colours[kind], "ec": "0.45", "lw": 0.8}
        ax.text(x, y, text, ha="center", va="center", fontsize=8.5, bbox=style)

    def arrow(start: tuple[float, float], end: tuple[float, float]) -> None:
        ax.annotate("", xy=end, xytext=start, arrowprops={"arrowstyle": "-|>", "color": "0.35", "lw": 1.0})

    box(9, 30, "releases\nsampled or plain,\nin groups", "both")
    box(31, 30, "one law per group\nlog-moment K(s),\nends of the loss", "both")
    box(55, 52, "1 or 2 steps\nclosed integral", "float")
    box(55, 40, "contour\nΣ n K(s)", "float")
    box(55, 28, "densities\nrare large losses", "float")
    box(55, 16, "period sum\nin balls, or its mirror", "ball")
    box(55, 5, "stand-ins, then Chernoff", "ball")
    box(88, 43, "δ(ε) and its\nerror estimate", "float")
    box(88, 12, "certificate\nlower ≤ δ(ε) ≤ upper", "ball")
    arrow((17.5, 30), (22.5, 30))
    for y in (52, 40, 28, 16, 5):
        arrow((39.5, 30), (45.0, y))
    for y in (52, 40, 28):
        arrow((65.0, y), (80.0, 43 + (y - 40) / 8))
    for y in (16, 5):
        arrow((65.0, y), (78.0, 12 + (y - 10) / 8))
    arrow((88, 18), (88, 37))
    ax.text(89, 27.5, "stands in if no\nestimate is sound", fontsize=7.2, color="0.3")
    figure.savefig(where, dpi=160)


def small() -> tuple[Figure, Axes]:
    """Make the axes of a picture on a card."""
    figure = Figure(figsize=(5.0, 2.6), layout="constrained")
    ax = figure.subplots()
    ax.spines[["top", "right"]].set_visible(False)
    return figure, ax


def draw_samplers(where: Path) -> None:
    """Draw ε of one training plan by the way in which batches are drawn."""
    rows = ndis.DPSGD.compare(noise_multiplier=1.0, batch_size=100, records=10_000, epochs=1, delta=1e-5)
    figure, ax = small()
    names = [row.run.stages[0].sampling for row in rows]
    ax.barh(names[::-1], [row.epsilon for row in rows][::-1], color="#0072B2", height=0.6)
    ax.set_xlabel("ε at δ = 10⁻⁵ (fixed size: a record is replaced)")
    figure.savefig(where, dpi=120)


def draw_risk(where: Path) -> None:
    """Draw the best attacks on membership at three guarantees."""
    figure, ax = small()
    alpha = np.linspace(0.0, 1.0, 201)
    for epsilon, colour in ((0.5, "#009E73"), (2.0, "#0072B2"), (8.0, "#D55E00")):
        mechanism = ndis.GaussianMechanism.calibrated(epsilon=epsilon, delta=1e-6, sensitivity=1.0)
        ax.plot(alpha, 1.0 - mechanism.profile().tradeoff(alpha), color=colour, lw=2.0, label=f"ε = {epsilon:g}")
    ax.plot([0, 1], [0, 1], color="0.6", lw=1.0, ls=":", label="a guess")
    ax.set(xlabel="people outside who are named", ylabel="people inside who are named", xlim=(0, 1), ylim=(0, 1))
    ax.legend(frameon=False, fontsize=8)
    figure.savefig(where, dpi=120)


def draw_budget(where: Path) -> None:
    """Draw how ε at δ = 10⁻⁶ grows while the slots of a plan are used."""
    sketch = ndis.RandomProjection.calibrated(epsilon=0.4, delta=1e-7, sketch_size=50, row_norm_bound=1.0).profile()
    fit = ndis.GaussianMechanism.calibrated(epsilon=0.6, delta=1e-7, sensitivity=1.0).profile()
    spent, total = [0.0], None
    for release in (sketch, sketch, fit, sketch, sketch, fit, sketch, sketch, fit):
        total = release if total is None else total.compose(release)
        spent.append(total.epsilon(1e-6))
    figure, ax = small()
    ax.step(range(len(spent)), spent, where="post", color="#0072B2", lw=2.0)
    ax.axhline(spent[-1], color="#D55E00", lw=1.2, ls="--")
    ax.text(0.1, spent[-1] * 0.93, "the budget of the year", color="#D55E00", va="top", fontsize=8)
    ax.set(xlabel="releases", ylabel="ε spent", xlim=(0, len(spent) - 1), ylim=(0, spent[-1] * 1.08))
    figure.savefig(where, dpi=120)


def draw_laws(where: Path) -> None:
    """Draw two laws of an output, and δ: what the first has above e^ε times the second."""
    figure, ax = small()
    x = np.linspace(-3.5, 5.0, 400)
    p, q = (np.exp(-((x - m) ** 2) / 2) / np.sqrt(2 * np.pi) for m in (1.2, 0.0))
    ax.plot(x, p, color="#0072B2", lw=2.0, label="with the record")
    ax.plot(x, np.e * q, color="#D55E00", lw=2.0, ls="--", label=r"without, times $e^\varepsilon$")
    ax.fill_between(x, p, np.e * q, where=p > np.e * q, color="#0072B2", alpha=0.3, label="δ(ε)")
    ax.set(xlabel="output", yticks=[], xlim=(-3.5, 5.0), ylim=(0, 0.75))
    ax.legend(frameon=False, fontsize=8)
    figure.savefig(where, dpi=120)


def draw_rounded(where: Path) -> None:
    """Draw released integers above the law that they are rounded from."""
    figure, ax = small()
    drawn = ndis.noise.exact_gaussian(0, [[9]], size=3_000, grid=1, random_state=0).values
    values, counts = np.unique(np.asarray(drawn, dtype=float), return_counts=True)
    ax.bar(values, counts / counts.sum(), width=0.75, color="#0072B2", alpha=0.6, label="released, on the grid")
    x = np.linspace(-10, 10, 400)
    ax.plot(x, np.exp(-(x**2) / 18) / np.sqrt(18 * np.pi), color="#D55E00", lw=2.0, label="ideal law")
    ax.set(xlabel="output", yticks=[], xlim=(-10, 10))
    ax.legend(frameon=False, fontsize=8)
    figure.savefig(where, dpi=120)


def draw_faults(where: Path) -> None:
    """Draw the ε that the audit refutes for some faults of docs/known-faults.md; each claims 1."""
    rows = re.findall(r"^\| `([\w-]+)` \|.*?\| ([\d.e+]+) \|", (HERE / "known-faults.md").read_text("utf-8"), re.M)
    shown = [(name, float(found)) for name, found in rows if float(found) < 100][::4]
    figure, ax = small()
    ax.barh([name for name, _ in shown][::-1], [found for _, found in shown][::-1], color="#D55E00", height=0.6)
    ax.axvline(1.0, color="0.2", lw=1.2, ls="--")
    ax.set(xlabel="ε refuted; the claim is 1", xscale="log", xlim=(0.5, 100))
    figure.savefig(where, dpi=120)


def draw_costs(where: Path) -> None:
    """Draw some times of docs/costs.md."""
    times = dict(re.findall(r"^\| ([^|]+?) \| ([\d.e-]+) \|", (HERE / "costs.md").read_text("utf-8"), re.M))
    chosen = re.compile("δ of a pair|DP-SGD, 14,062 steps: ε|random proj.*release|linear|logistic")
    shown = [name for name in times if chosen.match(name)]
    figure, ax = small()
    ax.barh([name.split(":")[0] for name in shown][::-1], [float(times[name]) for name in shown][::-1], color="#009E73")
    ax.set(xlabel="milliseconds", xscale="log")
    ax.tick_params(labelsize=8)
    figure.savefig(where, dpi=120)


def draw_neighbours(where: Path) -> None:
    """Draw ε of one noise for different neighbours: what a number is about decides what it is."""
    one = ndis.PrivacyProfile.from_noise_multiplier(4.0)
    rows = {
        "a record comes or goes": one,
        "a record is replaced": ndis.PrivacyProfile.from_noise_multiplier(2.0, adjacency="replace-one"),
        "a family of four": ndis.PrivacyProfile.from_noise_multiplier(1.0),
        "a release a week, one year": one.repeat(52),
    }
    figure, ax = small()
    ax.barh(list(rows)[::-1], [profile.epsilon(1e-6) for profile in rows.values()][::-1], color="#0072B2", height=0.6)
    ax.set_xlabel("ε at δ = 10⁻⁶ of the same noise")
    ax.tick_params(labelsize=8)
    figure.savefig(where, dpi=120)


def draw_interop(where: Path) -> None:
    """Draw ε of one training run here, and by Rényi divergences in dp_accounting."""
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
    from dp_accounting.rdp import RdpAccountant

    epochs = np.arange(1, 21)
    exact, renyi = [], []
    for epoch in epochs:
        steps = 200 * int(epoch)
        exact.append(ndis.DPSGD(noise_multiplier=1.0, sampling_rate=0.005, steps=steps).epsilon(1e-5))
        event = SelfComposedDpEvent(PoissonSampledDpEvent(0.005, GaussianDpEvent(1.0)), steps)
        renyi.append(RdpAccountant().compose(event).get_epsilon(1e-5))
    figure, ax = small()
    ax.plot(epochs, renyi, color="#D55E00", lw=2.0, ls="--", label="dp_accounting, Rényi")
    ax.plot(epochs, exact, color="#0072B2", lw=2.0, label="ndis, exact")
    ax.set(xlabel="epochs", ylabel="ε at δ = 10⁻⁵", xlim=(1, 20), ylim=(0, None))
    ax.legend(frameon=False, fontsize=8)
    figure.savefig(where, dpi=120)


def draw_score(where: Path) -> None:
    """Draw the private R² of one model on held-out records, with intervals, against ε."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 100, 8_000)
    table = {"x": x, "y": 2 + 0.05 * x + rng.normal(0, 1.0, 8_000)}
    schema = ndis.Schema({"x": (0, 100)}, target=("y", 0, 10))
    fit, held = ndis.learn.split_records(table, 0.3, random_state=0)
    model = ndis.learn.PrivateLinearRegression(epsilon=1.0, delta=1e-6, schema=schema, random_state=0).fit_data(fit)
    figure, ax = small()
    for k, epsilon in enumerate((0.25, 0.5, 1.0, 2.0, 4.0)):
        score = ndis.learn.score_privately(model, held, epsilon=epsilon, delta=1e-6, random_state=k)
        ax.plot([k, k], [score.low[0], score.high[0]], color="#0072B2", lw=3.0)
        ax.plot([k], [score.estimate[0]], "o", color="#0072B2", ms=7)
    y = held["y"]
    truth = 1 - np.mean((y - model.predict({"x": held["x"]})) ** 2) / np.var(y)
    ax.axhline(truth, color="#D55E00", lw=1.2, ls="--")
    ax.text(4.4, truth, "exact", color="#D55E00", va="bottom", ha="right", fontsize=8)
    ax.set(xlabel="ε of the score", ylabel="R²", xticks=range(5), xlim=(-0.5, 4.5))
    ax.set_xticklabels(["0.25", "0.5", "1", "2", "4"])
    figure.savefig(where, dpi=120)


def terminal() -> str:
    """Return a page with what two commands print."""
    from click.testing import CliRunner

    from ndis.cli import app

    lines = []
    for line in (
        "ndis delta --ratio 2 --epsilon 1",
        "ndis calibrate gaussian --epsilon 1 --delta 1e-6 --sensitivity 1",
        "ndis risk --noise-multiplier 4 --delta 1e-6",
    ):
        lines += [f"$ {line}", CliRunner().invoke(app, line.split()[1:]).output.strip(), ""]
    text = "\n".join(lines).replace("&", "&amp;").replace("<", "&lt;")
    style = "margin: 0; padding: 18px; background: #1e2430; color: #e8ecf1; font-size: 15px"
    return f'<body style="margin: 0; background: #1e2430"><pre style="{style}">{text}</pre>'


def picture_pages(where: Path) -> None:
    """Photograph a report of a table and a page of an audit, for the README (needs playwright and a Chromium)."""
    from playwright.sync_api import sync_playwright

    report = ndis.describe(DEMO["table"](), schema=DEMO["SCHEMA"], epsilon=1.0, delta=1e-6)
    pair = ndis.GaussianPair.from_ratios(1.0, shift=1 / 4)
    audit = ndis.audit(ndis.Claim(epsilon=1.0, delta=1e-6), pairs=[pair], title="A count with noise of 4")
    browsers = ("chromium", "chromium-headless-shell", "google-chrome")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=next(filter(None, map(shutil.which, browsers)), None))
        for name, html, width, height in (
            ("report_page", report.to_html(title="Visits of 2025"), 1000, 1060),
            ("audit_page", audit.to_html(), 800, 680),
            ("terminal", terminal(), 760, 400),
        ):
            page = browser.new_page(viewport={"width": width, "height": height})
            page.set_content(html)
            page.screenshot(path=where / f"{name}.png")
        browser.close()


def main() -> None:
    warnings.simplefilter("ignore", ndis.NotPrivateWarning)  # seeds, so that a picture changes only with the code
    pair = ndis.GaussianPair.from_moments(**DEMO["two_gaussians"]())
    (HERE / "img").mkdir(exist_ok=True)
    DEMO["draw_curve"](pair, HERE / "img" / "curve.png")
    draw_contour(pair, 1.0, HERE / "img" / "contour.png")
    draw_accountant(HERE / "img" / "accountant.png")
    draw_samplers(HERE / "img" / "samplers.png")
    draw_risk(HERE / "img" / "risk.png")
    draw_budget(HERE / "img" / "budget.png")
    cards = (draw_laws, draw_rounded, draw_faults, draw_costs, draw_neighbours, draw_interop, draw_score)
    for name, draw in zip(("laws", "rounded", "faults", "costs", "neighbours", "interop", "score"), cards, strict=True):
        draw(HERE / "img" / f"{name}.png")
    picture_pages(HERE / "img")
    import paper_figure
    import private_regression

    paper_figure.draw(paper_figure.table()).savefig(HERE / "img" / "paper_figure.png", dpi=160)
    found = private_regression.errors(private_regression.load(), repeats=12)
    private_regression.draw_errors(found).savefig(HERE / "img" / "private_error.png", dpi=160)


if __name__ == "__main__":
    main()
