"""Draw the pictures of these pages when they are built; none is kept in the repository."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import snippets
from scipy.interpolate import RectBivariateSpline

import twoaxis as ta
from twoaxis.forward import get_solver
from twoaxis.problems import get_problem
from twoaxis.remedies.inversion import medians, rank_bounds

DOCS = Path(__file__).parent
FOLDER = DOCS / "_build" / "figures"
CONFIDENCE = DOCS.parent / "results" / "remedies" / "confidence"

# Pages whose own code draws their pictures.
PAGES = (
    "tutorial-audit.md",
    "tutorial.md",
    "tutorial-preference.md",
    "concepts/two-axes.md",
    "concepts/delivery.md",
    "concepts/spectrum.md",
    "howto/read-the-page.md",
)

BLUE, RED, GREEN, BLACK = "#4C78A8", "#E45756", "#54A24B", "#222222"

# The unknown of each scalar benchmark problem, as it is written.
UNKNOWN = {"burgers": "ν", "buckley-leverett": "M", "allen-cahn": "λ"}


def draw(app: object) -> None:  # noqa: ARG001
    """Draw everything; most pictures come from the code of the page that shows them."""
    import matplotlib.pyplot as plt

    FOLDER.mkdir(parents=True, exist_ok=True)
    for page in PAGES:
        snippets.run(DOCS / page, FOLDER)
    observations_and_refits().savefig(FOLDER / "burgers.png", dpi=150)
    profile_and_models().savefig(FOLDER / "profile.png", dpi=150)
    which_part_pushes().savefig(FOLDER / "push.png", dpi=150)
    answers_and_truths().savefig(FOLDER / "answers.png", dpi=150)
    predicted_biases().savefig(FOLDER / "predicted.png", dpi=150)
    inside().savefig(FOLDER / "inside.svg")
    plt.close("all")


def observations_and_refits():
    """Where Burgers' field is observed, and how far off its viscosity then comes back."""
    import matplotlib.pyplot as plt

    solver = get_solver("burgers")
    data = ta.published_dataset("burgers", 8)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    left.pcolormesh(
        solver.t[::10], solver.x, solver.true_field()[::10].T, cmap="RdBu_r", shading="nearest"
    )
    left.plot(data.coordinates[:, 1], data.coordinates[:, 0], ".", color="black", ms=3)
    left.set(xlabel="t", ylabel="x", title="Burgers' field, observed at 200 noisy sites")
    found = ta.resolve("burgers", layouts=[8], replicas=1000, progress=False)
    ta.plots.plot_resolution(found, ax=right)
    return figure


def profile_and_models():
    """The frozen profile of a layer that is 40% too wide, and two local models of it."""
    import matplotlib.pyplot as plt

    x, truth, width = np.linspace(-0.15, 0.15, 301), 0.01, 0.014
    s = np.tanh(x / (2 * width))
    u, u_x, u_xx = -s, (s**2 - 1) / (2 * width), s * (1 - s**2) / (2 * width**2)

    def residual(nu):
        return u * u_x - nu * u_xx + 0.5 * np.cos(200 * x)

    question = {
        "residual": residual,
        "parameters": {"nu": ta.Parameter(truth=truth, bounds=(0.004, 0.03))},
        "view": ta.views.Pointwise(),
        "points": x,
    }
    score = ta.score(**question)
    scan = ta.frozen_scan(**question, candidates=201)
    q = np.log(scan.slices["nu"][0] / truth)
    base = score.residual_norm**2
    newton = -score.B / (score.H + score.C)

    figure, ax = plt.subplots(figsize=(7.4, 3.8), layout="constrained")
    ax.plot(q, scan.slices["nu"][1], color=BLUE, lw=2.5, label="frozen profile")
    for curvature, color, style, label, end in (
        (score.H, RED, "--", "model behind D, curvature H", score.displacement["nu"]),
        (score.H + score.C, GREEN, ":", "Taylor series, curvature H + C", newton),
    ):
        model = base + 2 * score.B * q + curvature * q**2
        ax.plot(q, model, color=color, ls=style, lw=1.8, label=label)
        ax.plot(end, base + score.B * end, "o", color=color)
    ax.plot(scan.displacement["nu"], scan.local_minima["profile"][0], "o", color=BLUE)
    ax.axvline(0, color=BLACK, lw=1)
    top, lowest = 3.2 * base, scan.local_minima["profile"][0]
    ax.text(0, 0.85 * top, " truth")
    ax.text(score.displacement["nu"], lowest - 0.1 * top, "D", color=RED, ha="center")
    ax.text(newton, -0.3 * top, "Newton: D/(1 − D)", color=GREEN, ha="center")
    ax.annotate(
        "minimum: log(1 + D)",
        (scan.displacement["nu"], lowest),
        (scan.displacement["nu"], 0.4 * top),
        color=BLUE,
        ha="center",
        arrowprops={"arrowstyle": "-", "lw": 0.6},
    )
    ax.set(xlim=(-0.8, 1.0), ylim=(-0.42 * top, top))
    ax.set(xlabel="log(ν / truth)", ylabel="residual loss, field held", yticks=[])
    ax.legend(frameon=False, loc="lower left")
    return _bare(figure, ax)


def which_part_pushes():
    """Signed contributions over Burgers' domain, for a layer too wide early, too narrow late."""
    import matplotlib.pyplot as plt

    solver = get_solver("burgers")
    true = RectBivariateSpline(solver.t, solver.x, solver.true_field(), kx=5, ky=5)
    squeeze = 0.12 + 0.2 * np.tanh((0.65 - solver.t) / 0.06)
    where = solver.x * (1 - squeeze[:, None] * np.exp(-((solver.x / 0.1) ** 2)))
    values = true(np.broadcast_to(solver.t[:, None], where.shape), where, grid=False)
    field = RectBivariateSpline(solver.t, solver.x, values, kx=5, ky=5)
    x, t = np.linspace(-1, 1, 801), np.linspace(0, 1, 201)
    points = np.stack(np.meshgrid(x, t), axis=-1).reshape(-1, 2)
    u, u_x, u_xx = (field(t, x, dy=order).ravel() for order in range(3))
    u_t = field(t, x, dx=1).ravel()
    found = ta.spectrum(
        lambda nu: u_t + u * u_x - nu * u_xx,
        {"nu": ta.Parameter(truth=0.01, bounds=(0.002, 0.05))},
        ta.views.Pointwise(),
        points=points,
        modes=1,
    )
    push = -found.point_contributions / found.H
    up, down = push[push > 0].sum(), push[push < 0].sum()
    density = push.reshape(t.size, x.size).T / push.std()

    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
    left.pcolormesh(t, x, field(t, x).T, cmap="RdBu_r", shading="nearest")
    left.axhspan(-0.1, 0.1, fill=False, ec=BLACK, lw=1)
    left.set(xlabel="t", ylabel="x", title="The field: layer too wide early, too narrow late")
    right.pcolormesh(t, x, density, cmap="PuOr_r", vmin=-12, vmax=12, shading="nearest")
    right.set(xlabel="t", ylabel="x", ylim=(-0.1, 0.1))
    right.text(0.03, 0.078, f"up: {up:+.3f}", color="#B35806", weight="bold")
    right.text(0.03, -0.088, f"down: {down:+.3f}".replace("-", "−"), color="#542788", weight="bold")
    right.set(title=f"Contributions to D = {up + down:+.3f}, near the layer".replace("-", "−"))
    return figure


def answers_and_truths():
    """What RBA delivers at every truth of three problems, and new data that test the sets."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator

    candidates = pd.read_csv(CONFIDENCE / "candidates.csv")
    tests = pd.read_csv(CONFIDENCE / "coverage.csv").query("source == 'new'")
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.7), layout="constrained")
    for ax, (name, symbol) in zip(axes, UNKNOWN.items(), strict=True):
        problem = get_problem(name)
        answers = candidates[candidates["problem"] == name].pivot(
            index="candidate", columns="replica", values="estimate"
        )
        values, estimates = answers.index.to_numpy(), answers.to_numpy()
        band = rank_bounds(estimates, values, 0.9, "signed")
        ax.fill_between(values, *band, color=BLUE, alpha=0.25, lw=0, label="90% of the results")
        ax.plot(values, medians(estimates), color=BLUE, lw=2, label="median result")
        ax.plot(values, values, color=BLACK, lw=1, ls=":", label="result = truth")
        (truth,) = (each.truth for each in problem.parameters.values())
        ax.axvline(truth, color=BLACK, lw=0.6, alpha=0.5, label="the benchmark's truth")
        tested = tests[tests["problem"] == name]
        kinds = ((True, BLACK, "new data, in the set"), (False, RED, "not in it"))
        for held, color, label in kinds:
            chosen = tested[tested["holds"] == held]
            ax.plot(chosen["truth"], chosen["delivered"], ".", color=color, ms=5, label=label)
        ax.set(xscale="log", yscale="log", xlabel=f"true {symbol}", title=problem.title)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter("{x:g}")
            axis.set_minor_formatter("")
    axes[0].set(ylabel="delivered")
    axes[0].legend(fontsize=8, framealpha=1, edgecolor="none")
    return figure


def predicted_biases():
    """The mean error of twenty real runs per layout against the prediction from simulations."""
    import matplotlib.pyplot as plt

    runs = pd.read_csv(CONFIDENCE / "predictions.csv")
    figure, ax = plt.subplots(figsize=(5.2, 4.2), layout="constrained")
    for name, color in zip(UNKNOWN, (BLUE, GREEN, RED), strict=True):
        layouts = runs[runs["problem"] == name].groupby("dataset")
        means = layouts[["predicted_error", "real_error", "standard_error"]].mean()
        ax.errorbar(
            means["predicted_error"],
            means["real_error"],
            xerr=means["standard_error"],
            yerr=layouts["real_error"].sem(),
            fmt="o",
            color=color,
            ms=5,
            elinewidth=0.8,
            label=get_problem(name).title,
        )
    ax.axline((0, 0), slope=1, color=BLACK, lw=1, ls=":")
    ax.set(xlabel="predicted by simulations", ylabel="mean log error of the real runs")
    ax.set(aspect="equal", xlim=(-0.2, 0.25), ylim=(-0.2, 0.25))
    ax.legend(frameon=False, loc="upper left")
    return figure


# Layers of the package, top first: their files, with the steps of ``twoaxis audit burgers`` and of
# ``ta.score`` that happen there, as "How it works inside" numbers them.
LAYERS = {
    "cli, studies": {"cli/audit.py": ("1", "")},
    "report": {"report/": ("11", "")},
    "remedies": {"remedies/": ("", "")},
    "runs": {"train.py": ("3", ""), "run.py": ("5, 6", ""), "run_file.py": ("5", "")},
    "training, adapters": {
        "training/loop.py": ("4", ""),
        "training/adam.py": ("4", ""),
        "training/methods/": ("4", ""),
        "adapters/": ("", "2"),
    },
    "diagnosis": {
        "audit.py": ("8", ""),
        "decision_map.py": ("9", ""),
        "messages.py": ("9", ""),
        "actions.py": ("9", ""),
    },
    "resolution, geometry": {
        "resolution/resolve.py": ("7", ""),
        "geometry/derivatives.py": ("8", "5"),
        "geometry/score.py": ("8", "6"),
        "geometry/scan.py": ("8", ""),
    },
    "fields and data": {
        "frozen.py": ("6", "2"),
        "views/": ("8", "4"),
        "forward/": ("2", ""),
        "datasets.py": ("2", ""),
    },
    "problems": {"problems/burgers.py": ("2", "")},
    "foundations": {
        "result.py": ("10", "7"),
        "io.py": ("10", "7"),
        "parameters.py": ("6", "3"),
        "errors.py": ("", "2"),
    },
}


def inside():
    """The files in layers, with the numbers of the steps in "How it works inside"."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(10, 6.4), layout="constrained")
    width, left = 2.1, 2.0
    for row, (title, files) in enumerate(LAYERS.items()):
        shade = "#F3F6FA" if row % 2 == 0 else "#FFFFFF"
        ax.axhspan(-row - 0.5, -row + 0.5, color=shade, lw=0)
        ax.text(0.05, -row, title, va="center", fontsize=10, weight="bold", color=BLACK)
        for column, (name, (audit, score)) in enumerate(files.items()):
            x = left + column * width
            box = {"boxstyle": "round,pad=0.35", "fc": "white", "ec": "#888888", "lw": 0.8}
            ax.text(x, -row + 0.1, name, va="center", fontsize=8, family="monospace", bbox=box)
            ax.text(x, -row - 0.36, audit, va="center", fontsize=8, color=RED, weight="bold")
            ax.text(x + 0.5, -row - 0.36, score, va="center", fontsize=8, color=BLUE, weight="bold")
    last, right = 1 - len(LAYERS), left + 4 * width
    arrow = {"arrowstyle": "->", "color": BLACK}
    ax.annotate("imports", (right, last), (right, 0), ha="center", color=BLACK, arrowprops=arrow)
    ax.text(left, last - 0.8, "steps of twoaxis audit burgers", color=RED, fontsize=9)
    ax.text(left + 1.5 * width, last - 0.8, "steps of ta.score(...)", color=BLUE, fontsize=9)
    ax.set(xlim=(0, right + 0.4), ylim=(last - 1, 0.7))
    ax.axis("off")
    return figure


def _bare(figure, ax):
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    return figure
