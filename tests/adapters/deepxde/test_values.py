"""Residuals and derivatives against DeepXDE and PyTorch themselves."""

import copy

import deepxde as dde
import numpy as np
import pytest
import torch

import twoaxis as ta
from twoaxis.adapters.deepxde import from_deepxde

LORENZ = {
    "sigma": ta.Parameter(truth=10.0, bounds=(1, 100)),
    "rho": ta.Parameter(truth=28.0, bounds=(3, 300)),
    "beta": ta.Parameter(truth=8 / 3, bounds=(0.3, 30)),
}
NU = ta.Parameter(truth=0.01 / np.pi, bounds=(1e-4, 1.0))
PERMEABILITY = ta.Parameter(truth=1.0, bounds=(0.01, 100))


def close(found, wanted, tolerance):
    scale = np.abs(wanted).max()
    assert scale > 0
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * scale)


def predicted(model, pde, variables, values, points):
    """The residual as DeepXDE computes it, once the variables hold other values."""
    before = [variable.detach().clone() for variable in variables]
    with torch.no_grad():
        for variable, value in zip(variables, values, strict=True):
            variable.fill_(value)
    found = model.predict(points, operator=pde)
    with torch.no_grad():
        for variable, value in zip(variables, before, strict=True):
            variable.copy_(value)
    return found if isinstance(found, list) else [found]


def by_hand(model, points):
    """The network in double precision: its inputs, outputs and their derivatives."""
    net = copy.deepcopy(model.net).double()
    x = torch.tensor(points, dtype=torch.float64, requires_grad=True)
    u = net(x)
    first, second = [], []
    for n in range(u.shape[1]):
        (slope,) = torch.autograd.grad(u[:, n].sum(), x, create_graph=True)
        first.append(slope)
        bends = []
        for i in range(x.shape[1]):
            (bend,) = torch.autograd.grad(slope[:, i].sum(), x, retain_graph=True)
            bends.append(bend[:, i])
        second.append(torch.stack(bends, dim=1))
    return tuple(each.detach().numpy() for each in (u, torch.stack(first), torch.stack(second)))


def geometry_by_hand(r, J, weights):
    """B, H and D of a residual and its derivatives by log parameters."""
    B, H = J.T @ (weights * r), J.T @ (weights[:, None] * J)
    return B, H, -np.linalg.solve(H, B)


def test_residual_points_are_those_of_the_equation_alone(burgers_model, lorenz_model):
    frozen = from_deepxde(burgers_model.model, {"nu": NU})
    data = burgers_model.data
    assert sum(data.num_bcs) == 22
    np.testing.assert_array_equal(frozen.points, data.train_x_all)
    assert frozen.axes == ("x", "t")
    # Anchors are residual points, and are the observation sites a second time.
    frozen = from_deepxde(lorenz_model.model, LORENZ, unknowns=lorenz_model.variables)
    np.testing.assert_allclose(frozen.points[:12], lorenz_model.sites, rtol=1e-6)
    assert frozen.points.shape == (12 + 25 + 2, 1)
    assert frozen.axes == ("t",)


def test_loss_of_the_training_is_the_residual_under_its_view(
    burgers_model, lorenz_model, darcy_model
):
    """What DeepXDE wrote down at its last step, from the frozen residual alone."""
    cases = [
        (from_deepxde(burgers_model.model, {"nu": NU}), burgers_model, 1),
        (from_deepxde(darcy_model.model, {"k": PERMEABILITY}, transform={"k": torch.exp}),
         darcy_model, 1),
        (from_deepxde(lorenz_model.model, LORENZ, unknowns=lorenz_model.variables),
         lorenz_model, 3),
    ]  # fmt: skip
    for frozen, case, equations in cases:
        values = {name: p.delivered for name, p in frozen.parameters.items()}
        r = frozen.checked(frozen.residual(**values), values)
        loss = frozen.view.bind(frozen.points).quadratic(r, r)
        wanted = case.model.train_state.loss_train[:equations].sum()
        np.testing.assert_allclose(loss, wanted, rtol=1e-5)


@pytest.mark.parametrize("values", [(8.0, 25.0, 2.0), (10.0, 28.0, 8 / 3)])
def test_system_of_three_equations(lorenz_model, values):
    frozen = from_deepxde(lorenz_model.model, LORENZ, unknowns=lorenz_model.variables)
    given = dict(zip(LORENZ, values, strict=True))
    wanted = predicted(
        lorenz_model.model, lorenz_model.pde, lorenz_model.variables.values(), values,
        frozen.points,
    )  # fmt: skip
    for part, other in zip(frozen.residual(**given), wanted, strict=True):
        close(part, other[:, 0], 1e-6)


@pytest.mark.parametrize(("precision", "tolerance"), [("model", 1e-5), ("float64", 1e-10)])
def test_system_geometry(lorenz_model, precision, tolerance):
    frozen = from_deepxde(
        lorenz_model.model, LORENZ, unknowns=lorenz_model.variables, precision=precision
    )
    truth = {name: p.truth for name, p in LORENZ.items()}
    u, slopes, _ = by_hand(lorenz_model.model, frozen.points)
    x, y, z = u.T
    zero = np.zeros_like(x)
    r = np.concatenate(
        [
            slopes[0, :, 0] - 10 * (y - x),
            slopes[1, :, 0] - x * (28 - z) + y,
            slopes[2, :, 0] - x * y + 8 / 3 * z,
        ]
    )
    J = np.concatenate(
        [np.stack(rows, 1) for rows in ([x - y, zero, zero], [zero, -x, zero], [zero, zero, z])]
    )
    close(np.concatenate(frozen.residual(**truth)), r, tolerance)
    close(frozen.jacobian(**truth), J, tolerance)
    weights = np.repeat([1.0, 10.0, 0.5], len(x)) / len(x)
    B, H, D = geometry_by_hand(r, J * [10, 28, 8 / 3], weights)
    score = ta.score(frozen)
    close(score.B, B, tolerance)
    close(score.H, H, tolerance)
    np.testing.assert_allclose(list(score.displacement.values()), D, rtol=tolerance)
    assert score.derivative == "given with the residual"


@pytest.mark.parametrize(("precision", "tolerance"), [("model", 1e-5), ("float64", 1e-10)])
def test_space_and_time(burgers_model, precision, tolerance):
    frozen = from_deepxde(burgers_model.model, {"nu": NU}, precision=precision)
    u, first, second = by_hand(burgers_model.model, frozen.points)
    r = first[0, :, 1] + u[:, 0] * first[0, :, 0] - NU.truth * second[0, :, 0]
    close(frozen.residual(nu=NU.truth), r, tolerance)
    J = -second[0, :, :1]
    close(frozen.jacobian(nu=NU.truth), J, tolerance)
    B, H, D = geometry_by_hand(r, J * NU.truth, np.full(len(r), 1 / len(r)))
    score = ta.score(frozen)
    np.testing.assert_allclose(score.B, B, rtol=tolerance)
    np.testing.assert_allclose(score.H, H, rtol=tolerance)
    np.testing.assert_allclose(score.displacement["nu"], D[0], rtol=tolerance)
    close(frozen.field, u[:, 0], tolerance)
    elsewhere = np.array([[0.3, 0.2], [-0.7, 0.9]])
    u, first, second = by_hand(burgers_model.model, elsewhere)
    r = first[0, :, 1] + u[:, 0] * first[0, :, 0] - 0.2 * second[0, :, 0]
    close(frozen.residual_at(elsewhere, nu=0.2), r, tolerance)
    other = from_deepxde(burgers_model.model, {"nu": NU}, points=elsewhere, precision=precision)
    close(other.residual(nu=0.2), r, tolerance)


def bounded(raw):
    return 2 + 1.5 * torch.tanh(raw)


TRANSFORMS = {
    "exp": (torch.exp, -1.0, lambda raw: np.exp(raw), (0.01, 100.0)),
    "softplus": (torch.nn.functional.softplus, 0.5, lambda raw: np.logaddexp(0, raw), (0.01, 50.0)),
    "tanh": (bounded, -0.2, lambda raw: 2 + 1.5 * np.tanh(raw), (0.6, 3.4)),
    "scaled": (lambda raw: 1e-3 * raw, 700.0, lambda raw: 1e-3 * raw, (0.01, 100.0)),
    "square": (lambda raw: raw**2, 1.5, lambda raw: raw**2, (0.01, 100.0)),
    "decreasing": (lambda raw: 1 / raw, 2.0, lambda raw: 1 / raw, (0.01, 100.0)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("precision", [pytest.param("model", marks=pytest.mark.long), "float64"])
def test_unknown_through_a_transform(problems, name, precision):
    """The physical parameter is what is read, varied and differentiated by."""
    to_physical, start, in_numpy, bounds = TRANSFORMS[name]
    case = problems.darcy(to_physical, start, steps=5)
    about = ta.Parameter(truth=1.0, bounds=bounds)
    frozen = from_deepxde(
        case.model, {"k": (case.stored, about)}, transform={"k": to_physical}, precision=precision
    )
    np.testing.assert_allclose(
        frozen.parameters["k"].delivered, in_numpy(case.stored.item()), rtol=1e-12
    )
    _, _, second = by_hand(case.model, frozen.points)
    laplacian = second[0].sum(axis=1)
    tolerance = 1e-10 if precision == "float64" else 1e-5
    for value in (0.7, 1.0, 3.1):
        close(frozen.residual(k=value), -value * laplacian - 1, tolerance)
        close(frozen.jacobian(k=value)[:, 0], -laplacian, tolerance)
    r = -laplacian - 1
    score = ta.score(frozen)
    np.testing.assert_allclose(score.displacement["k"], (r @ laplacian) / (laplacian @ laplacian),
                               rtol=tolerance)  # fmt: skip


def test_transform_with_its_inverse(darcy_model):
    plain = from_deepxde(darcy_model.model, {"k": PERMEABILITY}, transform={"k": torch.exp})
    both = {"k": (torch.exp, torch.log)}
    given = from_deepxde(darcy_model.model, {"k": PERMEABILITY}, transform=both)
    close(given.residual(k=3.0), plain.residual(k=3.0), 1e-6)


def test_parameter_alone_pair_and_variable_alone_agree(burgers_model):
    model, nu = burgers_model.model, burgers_model.nu
    frozen = [
        from_deepxde(model, {"nu": NU}),
        from_deepxde(model, parameters={"nu": (nu, NU)}),
        from_deepxde(model, {"nu": NU}, unknowns={"nu": nu}),
        from_deepxde(model, parameters={"nu": nu}),
    ]
    assert {f.parameters["nu"].delivered for f in frozen} == {nu.item()}
    for other in frozen[1:]:
        np.testing.assert_array_equal(other.residual(nu=0.02), frozen[0].residual(nu=0.02))
    assert frozen[3].parameters["nu"].bounds == (nu.item() / 10, nu.item() * 10)
    assert frozen[3].notes[1].code == "parameter.assumed_bounds"


def test_unknowns_are_found_by_identity_not_by_order(lorenz_model):
    names = ["beta", "sigma", "rho"]
    frozen = from_deepxde(
        lorenz_model.model, {name: (lorenz_model.variables[name], LORENZ[name]) for name in names}
    )
    assert frozen.names == names
    for name in names:
        assert frozen.parameters[name].delivered == lorenz_model.variables[name].item()
    J = frozen.jacobian(beta=1.0, sigma=1.0, rho=1.0).reshape(3, -1, 3)
    seen = [np.flatnonzero(rows.any(axis=0)).tolist() for rows in J]
    assert seen == [[1], [2], [0]]


def test_loss_weights_become_the_view(lorenz_model, problems, burgers_model):
    frozen = from_deepxde(lorenz_model.model, LORENZ, unknowns=lorenz_model.variables)
    np.testing.assert_array_equal(frozen.view.weights, [1, 10, 0.5])
    plain = problems.lorenz()
    frozen = from_deepxde(plain.model, LORENZ, unknowns=plain.variables)
    np.testing.assert_array_equal(frozen.view.weights, [1, 1, 1])
    adaptive = np.linspace(1, 2, 39)
    frozen = from_deepxde(
        plain.model, LORENZ, unknowns=plain.variables, loss_weights=[adaptive, 2.0, 3.0]
    )
    assert isinstance(frozen.view.views[0], ta.views.Weighted)
    given = from_deepxde(burgers_model.model, {"nu": NU}, view=ta.views.Patch(cells=4))
    assert isinstance(given.view, ta.views.Patch)


def test_equation_of_two_columns_counts_half_each(problems):
    """A PDE may return an array (N, 2): its loss is one mean over both columns."""
    k = dde.Variable(2.0)

    def pair(t, u):
        return torch.cat([dde.grad.jacobian(u, t) + k * u, 3 * u - k], dim=1)

    data = dde.data.PDE(dde.geometry.TimeDomain(0, 1), pair, [], num_domain=10)
    net = dde.nn.FNN([1, 6, 1], "tanh", "Glorot uniform")
    model = problems.trained(data, net, k, steps=3, loss_weights=[4.0])
    frozen = from_deepxde(model, {"k": (k, ta.Parameter(truth=1.0, bounds=(0.1, 10)))})
    np.testing.assert_array_equal(frozen.view.weights, [2, 2])
    r = frozen.checked(frozen.residual(k=k.item()), {})
    loss = frozen.view.bind(frozen.points).quadratic(r, r)
    np.testing.assert_allclose(loss, model.train_state.loss_train[0], rtol=1e-5)


def test_auxiliary_variables(problems):
    k = dde.Variable(2.0)
    drawn = np.random.default_rng(0).random((30, 1))

    def source(x):
        # Known at the training points alone, and in their order: conditions first.
        return drawn[: len(x)]

    def equation(t, u, source):
        return dde.grad.jacobian(u, t) + k * u * source

    geometry = dde.geometry.TimeDomain(0, 1)
    start = dde.icbc.IC(geometry, lambda _: 1, lambda _, on: on)
    data = dde.data.PDE(
        geometry, equation, [start], num_domain=20, num_boundary=2, auxiliary_var_function=source
    )
    model = problems.trained(data, dde.nn.FNN([1, 6, 1], "tanh", "Glorot uniform"), k, steps=3)
    frozen = from_deepxde(model, {"k": (k, ta.Parameter(truth=1.0, bounds=(0.1, 10)))},
                          precision="float64")  # fmt: skip
    u, first, _ = by_hand(model, frozen.points)
    seen = drawn[sum(data.num_bcs) :][: len(u), 0]
    assert sum(data.num_bcs) > 0
    close(frozen.residual(k=3.0), first[0, :, 0] + 3 * u[:, 0] * seen, 1e-7)
    np.testing.assert_allclose(
        np.mean(frozen.residual(k=k.item()) ** 2), model.train_state.loss_train[0], rtol=1e-5
    )


# The first torch.func.jvp loads parts of PyTorch that use its own deprecated functions.
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_forward_mode_derivatives_of_deepxde(problems):
    dde.config.set_default_autodiff("forward")
    try:
        k = dde.Variable(2.0)

        def equation(t, u):
            return dde.grad.jacobian(u, t)[0] + k**2 * u[0]

        data = dde.data.PDE(dde.geometry.TimeDomain(0, 1), equation, [], num_domain=12)
        model = problems.trained(data, dde.nn.FNN([1, 6, 1], "tanh", "Glorot uniform"), k, steps=3)
        frozen = from_deepxde(
            model, {"k": (k, ta.Parameter(truth=1.0, bounds=(0.1, 10)))}, precision="float64"
        )
        r, J = frozen.residual(k=3.0), frozen.jacobian(k=3.0)
    finally:
        dde.config.set_default_autodiff("reverse")
    u, first, _ = by_hand(model, frozen.points)
    close(r, first[0, :, 0] + 9 * u[:, 0], 1e-10)
    close(J, 6 * u, 1e-10)


def test_model_in_double_precision(problems):
    dde.config.set_default_float("float64")
    try:
        case = problems.burgers(steps=3)
        frozen = from_deepxde(case.model, {"nu": NU})
        assert frozen.notes == ()
        wanted = predicted(case.model, case.pde, [case.nu], [0.3], frozen.points)[0][:, 0]
    finally:
        dde.config.set_default_float("float32")
    assert wanted.dtype == float
    close(frozen.residual(nu=0.3), wanted, 1e-13)


def test_precision_is_noted(burgers_model):
    (note,) = from_deepxde(burgers_model.model, {"nu": NU}, precision="model").notes
    assert note.code == "precision.model"
    (note,) = from_deepxde(burgers_model.model, {"nu": NU}).notes
    assert note.code == "precision.copy"


def test_scan_and_audit_run_on_it(burgers_model, tmp_path):
    frozen = from_deepxde(burgers_model.model, {"nu": NU}, precision="float64")
    u, first, second = by_hand(burgers_model.model, frozen.points)
    plain, bend = first[0, :, 1] + u[:, 0] * first[0, :, 0], second[0, :, 0]
    best = np.clip((plain @ bend) / (bend @ bend), *NU.bounds)
    scan = ta.frozen_scan(frozen)
    assert scan.affine
    np.testing.assert_allclose(scan.minimum["nu"], best, rtol=1e-6)
    audit = ta.audit(frozen, tolerance=ta.Tolerance(material=5, resolution=5, preference=5))
    assert f"{frozen.parameters['nu'].delivered:.4g}"[:5] in str(audit)
    audit.save(tmp_path / "audit.nc")
    assert str(ta.load(tmp_path / "audit.nc")) == str(audit)
