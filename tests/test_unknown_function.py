"""Unknown functions: the basis, what the user's functions receive, and every refusal."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.interpolate import CubicSpline, make_interp_spline

import twoaxis as ta
from twoaxis.io import labelled
from twoaxis.parameters import Parameters
from twoaxis.result import PARAMETER_LAYOUT
from twoaxis.unknown_function import Basis, Function

NODES = np.array([0.0, 0.1, 0.35, 0.6, 1.0])
VALUES = np.array([1.0, 2.0, 0.5, 1.5, 3.0])
X = np.linspace(0, 1, 57)


def unknown(**changed):
    given = {"nodes": NODES, "bounds": (0.1, 10.0), "truth": VALUES}
    return ta.UnknownFunction(**{**given, **changed})


def function(basis="hat", values=VALUES):
    return Function(Basis((tuple(NODES),), basis), list(values))


# ---------------------------------------------------------------- the basis


def test_hats_are_linear_interpolation():
    assert_allclose(function()(X), np.interp(X, NODES, VALUES), rtol=0, atol=1e-14)


def test_splines_are_natural_cubic_splines():
    expected = CubicSpline(NODES, VALUES, bc_type="natural")
    assert_allclose(function("spline")(X), expected(X), rtol=0, atol=1e-13)
    assert_allclose(function("spline").derivative(X), expected(X, 1), rtol=0, atol=1e-11)


@pytest.mark.parametrize("basis", ["hat", "spline"])
def test_a_linear_function_and_its_slope_are_exact(basis):
    line = function(basis, 2 + 3 * NODES)
    assert_allclose(line(X), 2 + 3 * X, rtol=1e-13)
    assert_allclose(line.derivative(X), np.full(len(X), 3.0), rtol=1e-12)


@pytest.mark.parametrize("basis", ["hat", "spline"])
def test_the_matrix_of_the_basis_is_one_at_its_nodes_and_sums_to_one(basis):
    matrix = Basis((tuple(NODES),), basis).matrix(X)
    assert_allclose(Basis((tuple(NODES),), basis).matrix(NODES), np.eye(5), atol=1e-14)
    assert_allclose(matrix.sum(axis=1), 1.0, rtol=1e-13)
    assert_allclose(matrix @ VALUES, function(basis)(X), atol=1e-13)


def test_places_of_any_shape_and_batches_of_functions():
    assert function()(0.35) == 0.5
    assert function()(X[:, None]).shape == (57, 1)
    batch = function(values=[np.array([v, 2 * v]) for v in VALUES])
    assert batch.values.shape == (2, 5)
    assert_allclose(batch(X), np.outer([1, 2], function()(X)), rtol=1e-14)


@pytest.mark.parametrize("basis", ["hat", "spline"])
def test_pytorch_differentiates_by_values_and_by_places(basis):
    torch = pytest.importorskip("torch")
    values = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in VALUES]
    x = torch.tensor(X[1:-1:5], dtype=torch.float64, requires_grad=True)
    found = function(basis, values)(x)
    assert_allclose(found.detach(), function(basis)(X[1:-1:5]), atol=1e-13)
    by_x, *by_values = torch.autograd.grad(found.sum(), [x, *values])
    assert_allclose(by_x, function(basis).derivative(X[1:-1:5]), atol=1e-12)
    assert_allclose(
        torch.stack(by_values), Basis((tuple(NODES),), basis).matrix(X[1:-1:5]).sum(0), atol=1e-12
    )


@pytest.mark.parametrize("basis", ["hat", "spline"])
def test_jax_differentiates_by_values_and_by_places(basis):
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        x = jax.numpy.asarray(X[1:-1:5])
        by_values = jax.jacfwd(lambda v: function(basis, list(v))(x))(jax.numpy.asarray(VALUES))
        by_x = jax.jit(jax.vmap(jax.grad(function(basis))))(x)
        outside = jax.jit(function(basis))(jax.numpy.asarray([-0.1, 0.5, 1.1]))
    assert_allclose(by_values, Basis((tuple(NODES),), basis).matrix(x), atol=1e-13)
    assert_allclose(by_x, function(basis).derivative(X[1:-1:5]), atol=1e-12)
    assert np.isnan(outside).tolist() == [True, False, True]  # it cannot be refused while traced


# ---------------------------------------------------------------- one mapping


def test_a_function_becomes_one_parameter_for_each_node_and_comes_back_whole():
    rate = ta.Parameter(bounds=(0.1, 10.0), truth=1.0)
    known = Parameters({"rate": rate, "k": unknown(delivered=lambda x: 1 + x, unit="m")})
    assert known.names == ["rate", "k[0]", "k[0.1]", "k[0.35]", "k[0.6]", "k[1]"]
    assert known.argument_names == ["rate", "k"]
    assert known.scalars == ["rate"]
    group = known.functions["k"]
    assert group.columns.tolist() == [1, 2, 3, 4, 5]
    assert_allclose(group.points[:, 0], NODES)
    assert [known[name].truth for name in group.members] == VALUES.tolist()
    assert_allclose([known[name].delivered for name in group.members], 1 + NODES)
    given = known.arguments(known.truth)
    assert list(given) == ["rate", "k"]
    assert given["rate"] == 1.0
    assert_allclose(given["k"](X), np.interp(X, NODES, VALUES), atol=1e-14)
    assert known.by_member(given) == known.truth
    assert known.by_member({"rate": 1.0, "k": VALUES}) == known.truth
    # What was expanded once stays as it is.
    assert Parameters(dict(known)).functions.keys() == {"k"}


def test_a_dataset_remembers_what_belongs_together():
    known = Parameters({"k": unknown(basis="spline", argument="u"), "h": unknown(nuisance=True)})
    data = labelled(PARAMETER_LAYOUT, known.variables(), {})
    loaded = Parameters.from_dataset(data)
    assert dict(loaded) == dict(known)
    assert loaded.functions["k"].basis == Basis((tuple(NODES),), "spline")
    assert loaded.functions["k"].argument == "u"
    assert loaded.of_interest == list(known.functions["k"].members)
    data["function_node"].values[1] = 0.5
    with pytest.raises(ta.InputError, match="ascending order, on one basis"):
        Parameters.from_dataset(data)


def test_a_center_may_name_the_function():
    known = Parameters({"k": unknown()})
    center = known.center({"k": lambda x: 1 + x})
    assert_allclose(list(center.values.values()), 1 + NODES)
    with pytest.raises(ta.InputError, match="one for each node"):
        known.center({"k": [1.0, 2.0]})


def test_a_network_delivers_its_values_at_the_nodes():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Softplus(), torch.nn.Linear(4, 1))
    with torch.no_grad():
        net[2].bias += 2.0

    def values(x):
        return net(torch.as_tensor(x, dtype=torch.float32)[:, None])

    known = Parameters({"k": unknown(delivered=values)})
    assert_allclose(list(known.delivered.values()), values(NODES).detach()[:, 0], rtol=1e-6)


def test_even_nodes_over_a_domain():
    known = Parameters({"k": unknown(nodes=5, domain=(-1, 1))})
    assert_allclose(known.functions["k"].points[:, 0], [-1, -0.5, 0, 0.5, 1])


def test_nodes_that_look_alike_keep_names_of_their_own():
    near = unknown(nodes=[0.1, 0.1 + 1e-9, 1.0], truth=1.0)
    assert len(set(Parameters({"k": near}))) == 3


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"nodes": [0.0, 0.5, 0.5, 0.7, 1.0]}, "ascending order, each once, got 0.5 after 0.5"),
        ({"nodes": [0.0, 0.5, 0.4, 0.7, 1.0]}, "ascending order, each once, got 0.4 after 0.5"),
        ({"nodes": [0.0]}, "at least 2 finite places"),
        ({"nodes": [0.0, np.nan]}, "at least 2 finite places"),
        ({"nodes": "five"}, "at least 2 finite places"),
        ({"nodes": 5}, "a domain for a number of nodes"),
        ({"nodes": 1, "domain": (0, 1)}, "at least 2 nodes"),
        ({"nodes": 5, "domain": (1, 0)}, "the lower first"),
        ({"domain": (0, 0.5)}, r"nodes inside the domain \[0, 0.5\], got 2 outside, .* at 0.6"),
        ({"truth": VALUES[:4]}, r"truth as 5 finite values, .* got the shape \(4,\)"),
        ({"delivered": lambda x: x[:-1]}, "delivered as 5 finite values"),
        ({"delivered": np.full(5, np.nan)}, "not all finite"),
        ({"delivered": "k"}, "delivered as 5 finite values"),
        ({"truth": 20.0}, "truth inside the bounds .* at every node, got 20 at x = 0"),
        ({"basis": "cubic"}, 'basis "hat" or "spline"'),
        ({"argument": ""}, "argument as the name of a variable"),
    ],
)
def test_what_is_refused(changed, message):
    with pytest.raises(ta.InputError, match=message):
        unknown(**changed)


@pytest.mark.parametrize("changed", [{"bounds": (0.0, 1e6)}, {"bounds": 3}, {"coordinate": "ln"}])
def test_what_a_parameter_refuses_is_refused(changed):
    with pytest.raises(ta.InputError):
        Parameters({"k": unknown(**changed)})


def test_a_function_that_the_nodes_do_not_represent_raises_a_warning():
    with pytest.warns(ta.AccuracyWarning, match="only to .*%.*give more nodes"):
        unknown(truth=lambda x: 2 + np.sin(20 * x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unknown(truth=lambda x: 2 + x)


def test_places_beyond_the_nodes_are_refused():
    with pytest.raises(ta.InputError, match=r"between its outer nodes, 0 and 1, got .* 0 to 1.2"):
        function()(np.array([0.0, 1.2]))


INSIDE = np.linspace(0.4, 0.9, 20)


@pytest.mark.parametrize(
    "diagnosed",
    [
        lambda call: ta.resolve(call, {"k": unknown()}, noise=0.1, replicas=2),
        lambda call: ta.score(call, {"k": unknown()}, ta.views.Pointwise(), points=INSIDE),
    ],
)
def test_nodes_that_nothing_depends_on_are_refused(diagnosed):
    with pytest.raises(ta.InputError, match=r"nodes of k .* 0.4 to 0.9, got 2 outside, .* x = 0;"):
        diagnosed(lambda k: k(INSIDE))


def test_a_function_is_named_where_a_callable_does_not_take_it():
    with pytest.raises(ta.InputError, match="the keywords rate, k"):
        ta.FrozenResidual(
            lambda rate: rate * X,
            {"rate": ta.Parameter(bounds=(1, 2)), "k": unknown()},
            X,
        )


# ---------------------------------------------------------------- both axes


@pytest.mark.parametrize("basis", ["hat", "spline"])
def test_score_and_strength_are_those_of_the_dense_matrices(basis):
    source = np.cos(3 * X)
    wanted = 1.3 + X

    def residual(k, rate):
        return k(X) * source - wanted * source + rate * X**2

    rate = ta.Parameter(bounds=(-5.0, 5.0), coordinate="linear", truth=0.5)
    found = ta.score(
        residual, {"k": unknown(basis=basis), "rate": rate}, ta.views.Pointwise(), points=X
    )
    matrix = Basis((tuple(NODES),), basis).matrix(X)
    jacobian = np.column_stack([source[:, None] * matrix * VALUES, X**2])
    at_center = source * (matrix @ VALUES - wanted) + 0.5 * X**2
    assert_allclose(found.H, jacobian.T @ jacobian / len(X), rtol=1e-5, atol=1e-8)
    assert_allclose(found.B, jacobian.T @ at_center / len(X), rtol=1e-5, atol=1e-8)


def test_the_scan_of_an_affine_residual_finds_the_function_itself():
    found = ta.frozen_scan(
        lambda k: k(X) - (1.3 + X), {"k": unknown()}, ta.views.Pointwise(), points=X
    )
    assert found.affine
    assert_allclose(list(found.minimum.values()), 1.3 + NODES, rtol=1e-9)


def test_adapters_hand_over_tensors_and_traced_arrays():
    torch = pytest.importorskip("torch")
    jax = pytest.importorskip("jax")
    given = {"k": unknown(), "rate": ta.Parameter(bounds=(0.1, 10.0), truth=2.0)}
    expected = ta.score(
        lambda k, rate: rate * k(X) * np.sin(X) - np.cos(X), given, ta.views.Pointwise(), points=X
    )
    scores = [
        ta.score(
            ta.from_torch(
                torch.sin,
                lambda model, x, k, rate: rate * k(x) * model(x) - torch.cos(x),
                given,
                points=X[:, None],
            )
        ),
        ta.score(
            ta.from_jax(
                jax.numpy.sin,
                lambda model, x, k, rate: (
                    rate * k(x[:, 0]) * model(x[:, 0]) - jax.numpy.cos(x[:, 0])
                ),
                given,
                points=X[:, None],
            )
        ),
    ]
    for found in scores:
        assert "exact" in found.derivative or "given" in found.derivative
        assert_allclose(found.B, expected.B, rtol=1e-5)
        assert_allclose(found.H, expected.H, rtol=1e-5, atol=1e-9)


def test_adapters_of_trained_numbers_say_that_they_take_no_functions():
    torch = pytest.importorskip("torch")
    from twoaxis.adapters.deepxde.variables import named_unknowns

    match = "parameters that are numbers, for .* got the unknown function 'k'"
    with pytest.raises(ta.InputError, match=match):
        ta.objective(
            torch.nn.Linear(1, 1),
            lambda model, k: (model(k.values) ** 2).sum(),
            {"k": unknown()},
            residual=lambda model, x, k: model(x) - k(x),
            points=X[:, None],
        )
    with pytest.raises(ta.InputError, match=match):
        named_unknowns(None, [], {"k": (None, unknown())}, None, None, [])


def test_a_saved_residual_still_has_its_function(tmp_path):
    frozen = ta.FrozenResidual(
        lambda k: k(X) - (1.3 + X), {"k": unknown()}, X, view=ta.views.Pointwise()
    )
    loaded = ta.load(frozen.save(tmp_path / "residual.nc"))
    assert loaded.parameters.functions.keys() == {"k"}
    assert_allclose(ta.score(loaded).H, ta.score(frozen).H, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("vectorized", [False, True])
def test_the_fisher_band_is_that_of_linear_least_squares(vectorized):
    # k in linear coordinates observed directly: a linear model, whose fits have a closed form.
    matrix = Basis((tuple(NODES),), "hat").matrix(X)
    found = ta.resolve(
        lambda k: k(X),
        {"k": unknown(coordinate="linear")},
        noise=0.1,
        replicas=20,
        vectorized=vectorized,
    )
    covariance = 0.1**2 * np.linalg.inv(matrix.T @ matrix)
    assert_allclose(
        found.data["fisher_sd_percent"].values[:, 0],
        100 * np.sqrt(np.diag(covariance)) / VALUES,
        rtol=1e-8,
    )
    noise = np.random.default_rng(0).standard_normal((20, len(X))) * 0.1
    fits = VALUES + noise @ matrix @ np.linalg.inv(matrix.T @ matrix)
    assert_allclose(found.estimate.sel(layout="all").values.T, fits, rtol=1e-6)


# ---------------------------------------------------------------- one entry for one function


def test_a_function_has_one_entry_in_words():
    rate = ta.Parameter(bounds=(0.1, 10.0), truth=1.0)
    offset = ta.Parameter(bounds=(0.1, 10.0), truth=1.0, nuisance=True)
    known = Parameters({"rate": rate, "k": unknown(), "offset": offset})
    assert known.value_words(known.truth) == "rate = 1, k(x) = 0.5 to 3"
    direction = [0.1, 0.0, 0.2, -0.9, 0.1, 0.0, 0.3]
    assert known.direction_words(direction) == "+0.10 rate -0.90 k near x = 0.35"
    assert known.main_function(direction).name == "k"
    assert known.main_function([1.0, 0, 0, 0.5, 0, 0, 0]) is None


def test_many_alike_messages_of_a_resolution_are_one():
    # The data see the mean of the function alone, and bounds are so narrow that fits stop there.
    found = ta.resolve(
        lambda k: k.values.mean(-1)[:, None] * np.ones(3),
        {"k": unknown(bounds=(0.4, 3.1))},
        noise=1.0,
        replicas=10,
        vectorized=True,
    )
    codes = [message.code for message in found.messages]
    assert codes.count("resolution.null_direction") == 1
    assert codes.count("resolution.on_bound") == 1
    assert len(found.directions()) == 5


def test_a_scan_of_many_nodes_that_is_not_affine_stays_affordable():
    calls = []
    wanted = 1 + np.linspace(0, 1, 12)

    def residual(k):
        calls.append(1)
        return k(X) ** 2 - np.interp(X, np.linspace(0, 1, 12), wanted) ** 2

    k = ta.UnknownFunction(nodes=12, domain=(0, 1), bounds=(0.5, 4.0), truth=1.5)
    found = ta.frozen_scan(residual, {"k": k}, ta.views.Pointwise(), points=X, starts=2)
    assert not found.affine
    assert_allclose(list(found.minimum.values()), wanted, rtol=1e-6)
    assert len(calls) < 20_000  # three values of each node alone would take half a million


# ---------------------------------------------------------------- two variables

PLACES = (np.array([0.0, 0.4, 1.0]), np.array([-1.0, 0.5, 1.0, 2.0]))
GRID = np.random.default_rng(5).uniform(0.5, 3.0, (3, 4))
U, V = np.random.default_rng(6).uniform((0, -1), (1, 2), (40, 2)).T


def surface(basis="hat", values=GRID):
    axes = tuple(tuple(along.tolist()) for along in PLACES)
    flat = values if isinstance(values, list) else list(values.reshape(12, *values.shape[2:]))
    return Function(Basis(axes, basis), flat)


def of_two(**changed):
    given = {"nodes": PLACES, "bounds": (0.1, 10.0), "truth": GRID}
    return ta.UnknownFunction(**{**given, **changed})


def along(basis, axis, values):
    if basis == "hat":
        return make_interp_spline(axis, values, k=1)
    return CubicSpline(axis, values, bc_type="natural")


def interpolated(basis, dx=0, dy=0):
    """The same by SciPy: along the second variable, then along the first."""
    rows = along(basis, PLACES[1], GRID.T)(V, dy)
    return np.array([along(basis, PLACES[0], row)(x, dx) for x, row in zip(U, rows, strict=True)])


@pytest.mark.parametrize("basis", ["hat", "spline"])
def test_of_two_variables_it_is_interpolated_along_both(basis):
    k = surface(basis)
    assert_allclose(k(U, V), interpolated(basis), rtol=1e-12)
    assert_allclose(k.derivative(U, V), interpolated(basis, 1), rtol=1e-10, atol=1e-12)
    assert_allclose(k.derivative(U, V, axis=1), interpolated(basis, 0, 1), rtol=1e-10, atol=1e-12)
    assert_allclose(k.basis.matrix(np.stack([U, V], 1)) @ GRID.ravel(), k(U, V), rtol=1e-12)
    assert_allclose(k.basis.matrix(k.basis.points), np.eye(12), atol=1e-14)
    assert_allclose(k.basis.grid()[k.basis.rows()], k.basis.points)


def test_of_two_variables_places_are_broadcast_and_functions_come_in_batches():
    k = surface()
    assert_allclose(k(U[:, None], V), [[float(k(x, y)) for y in V] for x in U], rtol=1e-13)
    assert_allclose(k(*np.meshgrid(*k.nodes, indexing="ij")), k.values)
    assert k.values.shape == (3, 4)
    batch = surface(values=np.stack([GRID, 2 * GRID], -1))
    assert batch.values.shape == (2, 3, 4)
    assert_allclose(batch(U, V), np.outer([1, 2], k(U, V)), rtol=1e-13)
    assert repr(k) == "<Function on 3 x 4 nodes from (0, -1) to (1, 2)>"


@pytest.mark.parametrize("basis", ["hat", "spline"])
def test_of_two_variables_pytorch_differentiates_by_values_and_by_places(basis):
    torch = pytest.importorskip("torch")
    x, y, values = (torch.tensor(a, requires_grad=True) for a in (U, V, GRID.ravel()))
    k = surface(basis, list(values))
    found = torch.autograd.grad(k(x[:, None], y[:, None]).sum(), [x, y, values])
    assert_allclose(found[0], interpolated(basis, 1), rtol=1e-10, atol=1e-12)
    assert_allclose(found[1], interpolated(basis, 0, 1), rtol=1e-10, atol=1e-12)
    weights = k.basis.matrix(np.stack([U, V], 1)).sum(0)
    assert_allclose(found[2], weights, rtol=1e-10, atol=1e-12)
    assert_allclose(k.derivative(x, y, axis=1).detach(), interpolated(basis, 0, 1), rtol=1e-10)


@pytest.mark.parametrize("basis", ["hat", "spline"])
def test_of_two_variables_jax_differentiates_by_values_and_by_places(basis):
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        x, y, values = map(jax.numpy.asarray, (U, V, GRID.ravel()))
        k = surface(basis, list(values))
        by_places = jax.jit(jax.vmap(jax.grad(k, argnums=(0, 1))))(x, y)
        by_values = jax.jacfwd(lambda v: surface(basis, list(v))(x, y))(values)
        outside = jax.jit(k)(jax.numpy.asarray([0.5, 1.1, 0.5]), jax.numpy.asarray([0, 0, 2.1]))
    assert_allclose(by_places[0], interpolated(basis, 1), rtol=1e-10, atol=1e-12)
    assert_allclose(by_places[1], interpolated(basis, 0, 1), rtol=1e-10, atol=1e-12)
    assert_allclose(by_values, k.basis.matrix(np.stack([U, V], 1)), atol=1e-13)
    assert np.isnan(outside).tolist() == [False, True, True]


def test_of_two_variables_each_combination_of_places_is_a_parameter():
    known = Parameters({"k": of_two(delivered=lambda x, y: 2 + x * y / 4)})
    assert known.names[:5] == ["k[0,-1]", "k[0,0.5]", "k[0,1]", "k[0,2]", "k[0.4,-1]"]
    group = known.functions["k"]
    assert_allclose(group.points, [(x, y) for x in PLACES[0] for y in PLACES[1]])
    assert_allclose([p.truth for p in known.values()], GRID.ravel())
    assert_allclose(list(known.delivered.values()), 2 + group.points.prod(axis=1) / 4)
    assert_allclose(known.arguments(known.truth)["k"].values, GRID)
    assert known.by_member({"k": GRID}) == known.by_member({"k": surface()}) == known.truth
    assert known.value_words(known.truth).startswith("k(x, y) = ")
    direction = np.eye(12)[5] + 0.1
    assert known.direction_words(direction) == "+1.10 k near (x, y) = (0.4, 0.5)"
    size = np.sqrt(np.mean(GRID**2))
    linear = Parameters({"k": of_two(coordinate="linear")})["k[0,-1]"]
    assert linear.percent_unit(1e-3) == pytest.approx(size / 4)


def test_of_two_variables_a_dataset_remembers_what_belongs_together():
    given = {"k": of_two(argument=("r", "z"), basis="spline"), "h": unknown()}
    known = Parameters(given)
    data = labelled(PARAMETER_LAYOUT, known.variables(), {})
    loaded = Parameters.from_dataset(data)
    assert dict(loaded) == dict(known)
    assert loaded.functions["k"].argument == "r, z"
    assert loaded.functions["k"].basis.axes == tuple(map(tuple, PLACES))
    data["function_second"].values[1] = 0.7
    with pytest.raises(ta.InputError, match="ascending order, on one basis"):
        Parameters.from_dataset(data)


def test_of_two_variables_numbers_of_nodes_lie_evenly_over_the_domain():
    known = Parameters({"k": of_two(nodes=(2, 3), domain=((0, 1), (0, 4)), truth=1.0)})
    assert known.functions["k"].basis.axes == ((0.0, 1.0), (0.0, 2.0, 4.0))
    same = of_two(nodes=2, domain=((0, 1), (0, 4)), truth=1.0)
    assert same.nodes == ((0.0, 1.0), (0.0, 4.0))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"nodes": (PLACES[0], [0.0, 0.0])}, "ascending order, each once, got 0 after 0"),
        ({"nodes": (3, 4), "domain": (0, 1)}, "nodes inside the domain"),
        ({"nodes": PLACES, "domain": (0, 1)}, "of two variables as one pair each"),
        ({"nodes": (3, 3, 3), "domain": ((0, 1), (0, 1))}, "of two variables as one pair each"),
        ({"truth": GRID.T}, r"truth as 12 finite values, .* got the shape \(4, 3\)"),
        ({"truth": lambda x, y: 20 * x - y + 3}, r"every node, got 12 at \(x, y\) = \(0.4, -1\)"),
        ({"argument": "x"}, "argument as the names of two variables"),
    ],
)
def test_of_two_variables_what_is_refused(changed, message):
    with pytest.raises(ta.InputError, match=message):
        of_two(**changed)


def test_of_two_variables_places_are_refused_along_each():
    with pytest.raises(ta.InputError, match=r"-1 and 2 along variable 2, got places from 0 to 3"):
        surface()(U[:2], np.array([0.0, 3.0]))
    with pytest.raises(ta.InputError, match=r"2 variables .* got 1 arrays .* call k\(x, y\)"):
        surface()(U)
    with pytest.raises(ta.InputError, match=r"axis below 2, got 2 arrays of places and axis=2"):
        surface().derivative(U, V, axis=2)
    with pytest.raises(ta.InputError, match=r"nodes of k .* 0.5 to 1, got 1 outside, .* y = -1;"):
        ta.score(
            lambda k: k(np.linspace(0, 1, 9), np.linspace(0.5, 1, 9)) - 1,
            {"k": of_two(nodes=(PLACES[0], [-1.0, 0.5, 1.0]), truth=1.0)},
            ta.views.Pointwise(),
            points=np.linspace(0, 1, 9),
        )
    with pytest.warns(ta.AccuracyWarning, match=r"near \(x, y\) = .*give more nodes"):
        of_two(truth=lambda x, y: 5 + y + np.sin(20 * x))


def test_of_two_variables_adapters_and_files_hand_it_over(tmp_path):
    torch = pytest.importorskip("torch")
    jax = pytest.importorskip("jax")
    known, points = {"k": of_two(basis="spline")}, np.stack([U, V], 1)

    def equation(space):
        def residual(model, at, k):
            x, y = at[:, 0], at[:, 1]
            slope = k.derivative(x, y) + k.derivative(x, y, axis=1)
            return k(x, y) * model(x) + slope * model(y) - space.cos(x)

        return residual

    def frozen(k):
        return equation(np)(np.sin, points, k)

    expected = ta.score(frozen, known, ta.views.Pointwise(), points=points)
    models = [
        ta.from_torch(torch.sin, equation(torch), known, points=points),
        ta.from_jax(jax.numpy.sin, equation(jax.numpy), known, points=points),
        ta.load(
            ta.FrozenResidual(frozen, known, points, view=ta.views.Pointwise()).save(
                tmp_path / "residual.nc"
            )
        ),
    ]
    for model in models:
        found = ta.score(model)
        assert found.parameters.functions["k"].argument == "x, y"
        assert_allclose(found.B, expected.B, rtol=1e-5, atol=1e-9)
        assert_allclose(found.H, expected.H, rtol=1e-5, atol=1e-9)


def test_of_two_variables_both_axes_are_those_of_the_dense_matrices(tmp_path):
    matrix = surface().basis.matrix(np.stack([U, V], 1))
    known = {"k": of_two(coordinate="linear")}
    resolved = ta.resolve(lambda k: k(U, V), known, noise=0.1, replicas=5, progress=False)
    covariance = 0.1**2 * np.linalg.inv(matrix.T @ matrix)
    error = resolved.data["fisher_sd_percent"].values[:, 0] / 100
    assert_allclose(error * GRID.ravel(), np.sqrt(np.diag(covariance)), rtol=1e-7)
    band = resolved.function("k")
    loaded = ta.load(band.save(tmp_path / "band.nc"))
    assert loaded.basis == band.basis == surface().basis
    at_nodes = loaded.data["standard_error"].values[loaded.basis.rows()]
    assert_allclose(at_nodes**2, np.diag(covariance), rtol=1e-7)
    table = loaded.summary()
    assert table.index.names == ["x", "y"]
    assert table.loc[(0.4, 0.5), "center"] == pytest.approx(GRID[1, 1])
    assert table["length_scale"].tolist()[0] == pytest.approx(0.2, rel=0.2)
    assert {"length_scale_second", "determined"} <= set(table)
    assert "widest at (x, y) = (" in repr(loaded)
    with pytest.raises(ta.InputError, match="intervals of a function of one variable"):
        _ = loaded.determined_places
    score = ta.score(
        lambda k: k(U, V) - 1.5 * surface()(U, V), known, ta.views.Pointwise(), points=U
    )
    preference = ta.load(score.function("k").save(tmp_path / "preference.nc"))
    assert_allclose(preference.data["node_displacement"], 0.5 * GRID.ravel(), rtol=1e-6)
    curve = preference.data["displacement"].values
    assert preference.largest[1] == pytest.approx(curve[np.abs(curve).argmax()])
    assert 0.5 * GRID.min() < preference.rms < 0.5 * GRID.max()
