"""PhysicsNeMo's inverse example: behind a heat sink, the viscosity is right and D is not.

Air passes three hot fins in a channel. From velocity, pressure and temperature in the wake, as a
CFD program computed them, the tutorial infers the viscosity (1% off) and the diffusivity (26%
off), with networks that fit the data and two more that see the residual. Rebuilt in PyTorch,
which that library uses, with a small solver of our own in place of the CFD program. At the end
a network of the temperature alone is refined, with the velocity as it was measured.

    python examples/failures/heat_sink.py           # about seven minutes on one core
    python examples/failures/heat_sink.py --quick   # runs every line, shows nothing
"""

import argparse
import time

import numpy as np
import torch
from scipy.sparse import coo_array, csc_array
from scipy.sparse.linalg import splu, spsolve

import twoaxis as ta
from twoaxis.gauss_newton import Continuation

options = argparse.ArgumentParser()
options.add_argument("--quick", action="store_true", help="a few steps; the numbers mean nothing")
options.add_argument("--only", type=int, choices=[1, 2, 3, 4], help="one training alone")
options = options.parse_args()
quick = options.quick
torch.set_num_threads(1)

# ---------------------------------------------------------------- the experiment: flow and heat

viscosity, diffusivity = 0.01, 0.002  # used to make the data, and to judge at the end
h = 1 / 20 if quick else 1 / 40  # cells are squares of this size
columns, rows = round(4.5 / h), round(1 / h)
x, y = -2 + h * (np.arange(columns) + 0.5), -0.5 + h * (np.arange(rows) + 0.5)
fin = np.abs(np.abs(y)[None] - 0.25) < 0.05
fin = ((x > -1) & (x < 0))[:, None] & (fin | (np.abs(y) < 0.05)[None])  # (columns, rows)
inlet = 1.5 * (1 - 4 * y**2)
number = np.arange(columns * rows).reshape(columns, rows)


def flow():
    """Steady velocity on the faces of the cells: (columns + 1, rows) and (columns, rows + 1).

    Explicit steps with a pressure correction, from the inlet profile everywhere to rest.
    """
    open_x = np.ones((columns + 1, rows), bool)  # faces that fluid passes
    open_x[:-1] &= ~fin
    open_x[1:] &= ~fin
    open_y = np.zeros((columns, rows + 1), bool)
    open_y[:, 1:-1] = ~fin[:, 1:] & ~fin[:, :-1]
    solved = open_x.copy()
    solved[0] = False
    ends = [(number[1:][s], number[:-1][s]) for s in (solved[1:-1],)] + [
        (number[:, 1:][open_y[:, 1:-1]], number[:, :-1][open_y[:, 1:-1]])
    ]
    one, other = (np.concatenate(side) for side in zip(*ends, strict=True))
    outlet = number[-1]
    diagonal = np.r_[one, other, outlet, number[fin]]
    weights = np.r_[np.ones(len(one) * 2), np.full(rows, 2.0), np.ones(fin.sum())]
    matrix = coo_array(
        (
            np.r_[weights, -np.ones(2 * len(one))],
            (np.r_[diagonal, one, other], np.r_[diagonal, other, one]),
        ),
    )
    poisson = splu(csc_array(matrix))
    u, v = np.where(open_x, inlet, 0.0), np.zeros((columns, rows + 1))
    dt = 0.1 * h
    for _ in range(20 if quick else round(16 / dt)):
        # u on faces of constant x: ghosts mirror at the walls and continue at the outlet
        wide = np.pad(u, ((0, 1), (1, 1)), mode="edge")
        wide[:, 0], wide[:, -1] = -wide[:, 1], -wide[:, -2]
        mean_v = np.pad((v[1:] + v[:-1]) / 2, ((1, 1), (0, 0)), mode="edge")
        mean_v = (mean_v[:, 1:] + mean_v[:, :-1]) / 2
        u_x = (wide[2:, 1:-1] - wide[:-2, 1:-1]) / (2 * h)
        u_y = (wide[1:-1, 2:] - wide[1:-1, :-2]) / (2 * h)
        spread = wide[2:, 1:-1] + wide[:-2, 1:-1] + wide[1:-1, 2:] + wide[1:-1, :-2]
        new_u = u.copy()
        new_u[1:] += dt * (viscosity * (spread - 4 * u[1:]) / h**2 - u[1:] * u_x - mean_v[1:] * u_y)
        tall = np.pad(v, ((1, 1), (0, 0)), mode="edge")
        tall[0] = -tall[1]
        mean_u = (u[1:] + u[:-1]) / 2
        mean_u = (mean_u[:, 1:] + mean_u[:, :-1]) / 2
        v_x = (tall[2:, 1:-1] - tall[:-2, 1:-1]) / (2 * h)
        v_y = (v[:, 2:] - v[:, :-2]) / (2 * h)
        spread = tall[2:, 1:-1] + tall[:-2, 1:-1] + v[:, 2:] + v[:, :-2]
        new_v = v.copy()
        new_v[:, 1:-1] += dt * (
            viscosity * (spread - 4 * v[:, 1:-1]) / h**2 - mean_u * v_x - v[:, 1:-1] * v_y
        )
        new_u, new_v = np.where(solved, new_u, u * ~solved), np.where(open_y, new_v, 0.0)
        divergence = (np.diff(new_u, axis=0) + np.diff(new_v, axis=1)) * ~fin
        p = poisson.solve(-divergence.ravel() * h / dt).reshape(columns, rows)
        new_u[1:-1] -= dt / h * np.diff(p, axis=0) * solved[1:-1]
        new_u[-1] -= dt / h * (0 - p[-1]) * 2
        new_v[:, 1:-1] -= dt / h * np.diff(p, axis=1) * open_y[:, 1:-1]
        change = np.abs(new_u - u).max() / dt
        u, v = new_u, new_v
    print(f"flow: {columns} x {rows} cells, still changing by {change:.1e} per unit of time")
    return u, v, p


def temperature(u, v, D, order):
    """Steady c with c = 1 on the fins and 0 at the inlet; `order` is that of the advection."""
    entries = []

    def add(equation, unknown, weight):
        entries.append(
            [np.broadcast_to(part, weight.shape).ravel() for part in (equation, unknown, weight)]
        )

    def faces(velocity, low, high, below, above):
        """Advection and diffusion between cells `low` and `high`; the next ones are upstream."""
        conducts = np.where(fin.ravel()[low] | fin.ravel()[high], 2.0, 1.0) * D / h
        forward = velocity > 0
        center, downstream = np.where(forward, (low, high), (high, low))
        upstream = np.where(forward, below, above)
        smooth = (order == 3) & (upstream >= 0) & ~fin.ravel()[np.maximum(upstream, 0)]
        share = np.where(smooth, [[6 / 8], [3 / 8], [-1 / 8]], [[1.0], [0.0], [0.0]])
        for cell, sign in ((low, 1.0), (high, -1.0)):
            for unknown, part in zip(
                (center, downstream, np.maximum(upstream, 0)), share, strict=True
            ):
                add(cell, unknown, sign * velocity * part)
            add(cell, low, sign * conducts)
            add(cell, high, -sign * conducts)

    far = np.full(rows, -1)
    along = np.vstack([far, far, number, far])  # number with what lies beyond the ends
    faces(*(a.ravel() for a in (u[1:-1], number[:-1], number[1:], along[1:-3], along[4:])))
    side = np.full((columns, 1), -1)
    across = np.hstack([side, side, number, side])
    faces(
        *(
            a.ravel()
            for a in (v[:, 1:-1], number[:, :-1], number[:, 1:], across[:, 1:-3], across[:, 4:])
        )
    )
    add(number[-1], number[-1], u[-1])  # out of the channel
    add(number[0], number[0], np.full(rows, 2 * D / h))  # into it, with c = 0
    equation, unknown, weight = (np.concatenate(part) for part in zip(*entries, strict=True))
    keep = ~fin.ravel()[equation]
    cells = number[fin]
    matrix = coo_array(
        (
            np.r_[weight[keep], np.ones(len(cells))],
            (np.r_[equation[keep], cells], np.r_[unknown[keep], cells]),
        )
    )
    return spsolve(csc_array(matrix), fin.ravel().astype(float)).reshape(columns, rows)


# ---------------------------------------------------------------- the tutorial's training

u, v, p = flow()
# Values in the middle of cells, in the wake and away from walls, as in the tutorial.
wake = ((x > 0.1) & (x < 2.3))[:, None] & (np.abs(y) < 0.42)[None]
sites = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1)[wake]
velocity = np.stack([(u[1:] + u[:-1]) / 2, (v[:, 1:] + v[:, :-1]) / 2, p], axis=-1)[wake]


class Scaled(torch.nn.Module):
    """Coordinates of the wake, each from -2 to 2."""

    def forward(self, z):
        return (z - z.new_tensor([1.2, 0.0])) / z.new_tensor([0.55, 0.21])


def network(outputs, scaled):
    """As in the tutorial, but narrower; or with scaled coordinates and tanh."""
    activation = torch.nn.Tanh if scaled else torch.nn.SiLU
    layers = [Scaled()] if scaled else []
    for inputs in (2, 40, 40):
        layers += [torch.nn.Linear(inputs, 40), activation()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(40, outputs))


def slopes(quantity, z):
    return torch.autograd.grad(quantity.sum(), z, create_graph=True)[0].T


def terms(networks, z):
    """What the equations are made of: advection and diffusion of u, v and c, and the pressure."""
    moved, heat = networks["flow"](z).T, networks["heat"](z)[:, 0]
    along, across = moved[0], moved[1]
    found = []
    for quantity in (along, across, heat):
        q_x, q_y = slopes(quantity, z)
        found.append((along * q_x + across * q_y, slopes(q_x, z)[0] + slopes(q_y, z)[1]))
    return found, slopes(moved[2], z)


def descend(modules, loss, steps):
    optimizer = torch.optim.Adam(modules.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.01 ** (1 / steps))
    for _ in range(steps):
        optimizer.zero_grad()
        loss(torch.randint(len(sites), (512,))).backward()
        optimizer.step()
        schedule.step()


def train(c, scaled, steps):
    """Fit the fields to the data, then nu and D, which are networks of their own, to the residual.

    The tutorial trains all of them at once, and keeps the residual from moving the fields. So the
    fields do not depend on nu and D, and can be trained first.
    """
    torch.manual_seed(0)
    fields = torch.nn.ModuleDict({"flow": network(3, scaled), "heat": network(1, scaled)})
    place, goal = (
        torch.tensor(sites).float(),
        torch.tensor(np.column_stack([velocity, c[wake]])).float(),
    )

    def misfit(chosen):
        predicted = torch.hstack([fields["flow"](place[chosen]), fields["heat"](place[chosen])])
        return (predicted - goal[chosen]).square().mean(dim=0).sum()

    descend(fields, misfit, steps)
    parts, pressure = terms(fields, place.clone().requires_grad_(True))
    moves = [part[0].detach() for part in parts]
    spreads = [part[1].detach() for part in parts]
    forces = [*(each.detach() for each in pressure), torch.zeros(len(place))]
    inverted = torch.nn.ModuleDict({"nu": network(1, scaled), "D": network(1, scaled)})

    def residual(chosen):
        nu, D = (inverted[name](place[chosen])[:, 0] for name in ("nu", "D"))
        equations = zip(moves, forces, (nu, nu, D), spreads, strict=True)
        return sum(
            (m[chosen] + f[chosen] - k * s[chosen]).square().mean() for m, f, k, s in equations
        )

    descend(inverted, residual, steps // 2)
    with torch.no_grad():
        return fields, {name: inverted[name](place).mean().item() for name in inverted}


BOUNDS = (2e-4, 2e-2)


def audit(frozen, c):
    """The diffusivity alone: its equation, and the solver with third-order advection."""
    resolution = ta.resolve(
        lambda D: temperature(u, v, D, order=3)[wake],
        frozen.parameters,
        data=c[wake],
        points=sites,
        replicas=50,
        bank=25,
        seed=0,
        progress=False,
    )
    return ta.audit(
        frozen,
        resolution=resolution,
        tolerance=ta.Tolerance(material=5.0, resolution=5.0, preference=5.0),
        about={"problem": "heat sink", "data": f"{len(sites)} values of a CFD program"},
    )


def trained(networks, D):
    """The equation of the temperature, in the flow that the networks found."""
    return ta.from_torch(
        networks,
        lambda model, z, D: (lambda heat: heat[0] - D * heat[1])(terms(model, z)[0][2]),
        {"D": ta.Parameter(delivered=float(np.clip(D, *BOUNDS)), bounds=BOUNDS)},
        points=sites,
        observed=sites,
        field=lambda model, z: model["heat"](z),
        axes=("x", "y"),
    )


# ---------------------------------------------------------------- the remedy


class Places(torch.nn.Module):
    """The scaled coordinates alone of points that carry their velocity along."""

    def forward(self, z):
        return Scaled()(z[:, :2])


def refine(c, D):
    """Refine a smaller network of the temperature, from a diffusivity D.

    The velocity was measured at every point. No network needs to find it.
    """
    torch.manual_seed(0)
    width = 4 if quick else 30
    heat = torch.nn.Sequential(
        Places(),
        *(torch.nn.Linear(2, width), torch.nn.Tanh(), torch.nn.Linear(width, width)),
        *(torch.nn.Tanh(), torch.nn.Linear(width, 1)),
    )
    moving = np.column_stack([sites, velocity[:, :2]])  # columns x, y, u and v
    place, goal = torch.tensor(moving).float(), torch.tensor(c[wake]).float()
    descend(
        heat,
        lambda chosen: (heat(place[chosen])[:, 0] - goal[chosen]).square().mean(),
        20 if quick else 3000,
    )

    def residual(model, z, D):
        c_z = slopes(model(z), z)
        spread = slopes(c_z[0], z)[0] + slopes(c_z[1], z)[1]
        return z[:, 2] * c_z[0] + z[:, 3] * c_z[1] - D * spread

    frozen = ta.from_torch(
        heat,
        residual,
        {"D": ta.Parameter(delivered=D, bounds=BOUNDS)},
        points=moving,
        observed=moving,
        axes=("x", "y", "u", "v"),
    )
    return ta.refine(
        frozen,
        c[wake],
        noise=0.01 * float(c[wake].std()),  # as the audit assumes for noise-free data
        continuation=Continuation(10, 10, 30, 30, free_steps=1, more=1) if quick else None,
        progress=False,
    )


trainings = {
    1: ("third-order advection", 3, False),
    2: ("upwind advection", 1, False),
    3: ("third-order advection, coordinates scaled", 3, True),
}
table = []
for key, (name, order, scaled) in trainings.items():
    if options.only not in (None, key):
        continue
    c = temperature(u, v, diffusivity, order)
    networks, delivered = train(c, scaled, steps=20 if quick else 8000 if scaled else 6000)
    found = audit(trained(networks, delivered["D"]), c)
    print(f"==== {name}: nu = {delivered['nu']:.4g}, D = {delivered['D']:.4g}\n\n{found}\n")
    found.to_html(f"heat_sink_{key}.html")
    matched = found.group("/matched").sel(parameter="D")
    fit = [float(matched[end]) for end in ("estimate", "lower", "upper")]
    values = [delivered["D"], found.scan.minimum["D"], *fit]
    table.append((name, *(f"{1000 * value:.3f}" for value in values)))

if options.only in (None, 4):
    c = temperature(u, v, diffusivity, order=3)
    began = time.process_time()
    refined = refine(c, 0.0028)  # what the first training delivered
    print(f"==== refined: {refined}\ntrusted: {refined.trusted}")
    path = refined.data.sel(parameter="D")
    for weight, misfit, value in zip(path["weight"], path["misfit"], path["value"], strict=True):
        print(f"weight {float(weight):.0e}: D = {value:.6f}, misfit {float(misfit) ** 0.5:.2f}")
    print(f"processor time: {time.process_time() - began:.0f} s\n")
    print(f"{audit(refined.frozen, c)}\n")

if table:
    print(f"1000 D, which is {1000 * diffusivity} in the data")
    print("data with                                   delivered  preferred  matched fit (95%)")
    for name, D, preferred, estimate, low, high in table:
        print(f"{name:44}{D:>9}{preferred:>11}  {estimate} ({low} to {high})")
