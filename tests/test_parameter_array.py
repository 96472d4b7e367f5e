"""Arrays of parameters: one declaration, an entry a parameter, the whole array in every call."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import twoaxis as ta
from twoaxis.parameter_array import entry_index
from twoaxis.parameters import Parameters

MATRIX = np.array([[1.0, 0.0, 0.5], [-2.0, 0.3, 0.1]])
X = np.linspace(0, 1, 30)


def matrix(**options):
    return ta.ParameterArray(
        **{"truth": MATRIX, "bounds": (-4, 4), "coordinate": "linear"} | options
    )


def test_entries_have_their_index_in_their_name():
    known = Parameters({"a": matrix(), "k": ta.Parameter(truth=1.0, bounds=(0.1, 10))})
    assert known.names == [f"a[{i},{j}]" for i in range(2) for j in range(3)] + ["k"]
    assert known.argument_names == ["a", "k"]
    assert [known[name].truth for name in known.names[:6]] == MATRIX.ravel().tolist()


@pytest.mark.parametrize("kind", ["array", "function"])
def test_percentages_refer_to_the_value_itself_or_near_zero_to_the_size_of_all(kind):
    values, bounds = np.array([10.0, 0.0, -4.0, 0.5]), (-20, 20)

    def units(**options):
        options = {"bounds": bounds, "coordinate": "linear"} | options
        if kind == "array":
            known = Parameters({"a": ta.ParameterArray(**options)})
        else:
            known = Parameters({"a": ta.UnknownFunction(nodes=[0, 1, 2, 3], **options)})
        return known.percent_units(known.center().values)

    least = np.sqrt(np.mean(values**2)) / 4
    assert_allclose(units(truth=values), [10, least, 4, least])
    # Around a truth, whatever was delivered; without one, of the delivered values.
    assert_allclose(units(truth=values, delivered=2 * values), [10, least, 4, least])
    assert_allclose(units(delivered=-2 * values), [20, 2 * least, 8, 2 * least])
    assert_array_equal(units(truth=values, scale=0.5), np.full(4, 0.5))
    with pytest.raises(ta.InputError, match="scale"):
        units(truth=0.0 * values)


def test_numbers_keep_their_own_percentages():
    known = Parameters({"k": ta.Parameter(truth=0.01, bounds=(-1, 1), coordinate="linear")})
    assert_array_equal(known.percent_units(known.center().values), [0.01])
    assert known["k"].percent_of(0.0) == ""


def test_a_percentage_says_what_it_refers_to_if_that_is_not_the_value():
    known = Parameters({"a": matrix()})
    said = [known[name].percent_of(known[name].truth) for name in known]
    least = np.sqrt(np.mean(MATRIX**2)) / 4
    assert [" a)" in words for words in said] == (np.abs(MATRIX.ravel()) < least).tolist()


def test_a_small_entry_far_from_the_data_is_contradicted_as_a_number_would_be():
    basis = np.stack([np.ones(40), np.linspace(0, 1, 40)])
    truth, delivered = np.array([1.0, 0.0492]), np.array([1.0, 0.09])
    noise = 1e-4
    data = truth @ basis + noise * np.random.default_rng(0).standard_normal(40)
    tolerance = ta.Tolerance(material=5.0, resolution=5.0, preference=5.0)

    def audit(known, forward, residual):
        found = ta.resolve(forward, known, noise, replicas=20, data=data, progress=False)
        return ta.audit(
            residual,
            known,
            ta.views.Pointwise(),
            points=basis[1],
            resolution=found,
            tolerance=tolerance,
        )

    shared = {"delivered": delivered, "bounds": (-3, 3), "coordinate": "linear"}
    whole = audit(
        {"a": ta.ParameterArray(**shared)},
        lambda a: a @ basis,
        lambda a: (a - delivered) @ basis,
    )
    apart = audit(
        {
            n: ta.Parameter(**shared | {"delivered": v})
            for n, v in zip("ab", delivered, strict=True)
        },
        lambda a, b: np.array([a, b]) @ basis,
        lambda a, b: (np.array([a, b]) - delivered) @ basis,
    )
    assert whole.routes["a[1]"] == apart.routes["b"] == ta.Route.CONTRADICTED_BY_DATA
    off = whole.group("/matched")["difference_percent"].values[1]
    least = np.sqrt(np.mean(delivered**2)) / 4
    assert_allclose(off, 100 * (0.09 - 0.0492) / least, rtol=0.02)


VECTOR = ta.ParameterArray(truth=[1.0, 2.0, 3.0], bounds=(0.1, 10))
CURVE = ta.UnknownFunction(nodes=[0, 1, 2], truth=1.0, bounds=(0.1, 10))


@pytest.mark.parametrize("group", [VECTOR, CURVE], ids=["array", "function"])
@pytest.mark.parametrize("first", [True, False])
def test_a_name_that_an_entry_has_already_is_refused(group, first):
    number = {"a[2]": ta.Parameter(truth=5.0, bounds=(0.1, 10))}
    known = number | {"a": group} if first else {"a": group} | number
    with pytest.raises(ta.InputError, match=r"a\[2\]") as refusal:
        Parameters(known)
    assert "another name" in refusal.value.fix
    renamed = {name.replace("a[2]", "a2"): each for name, each in known.items()}
    assert set(Parameters(renamed)) == {"a[0]", "a[1]", "a[2]", "a2"}
    assert Parameters({"a": group})["a[2]"].truth == group.truth[2]


def test_arguments_there_and_back():
    known = Parameters({"a": matrix()})
    values = known.center().values
    assert_array_equal(known.arguments(values)["a"], MATRIX)
    assert known.by_member({"a": MATRIX}) == values
    batch = {name: np.array([value, 2 * value]) for name, value in values.items()}
    assert_array_equal(known.arguments(batch)["a"], np.stack([MATRIX, 2 * MATRIX]))


def test_labelled_data_there_and_back():
    score = ta.score(lambda a: a.sum() * X, {"a": matrix()}, ta.views.Pointwise(), points=X)
    known = Parameters.from_dataset(score.data)
    assert known.arrays["a"].shape == (2, 3)
    assert known.arrays["a"].members == tuple(known.names)


def test_score_of_an_array_is_that_of_its_entries():
    def residual(a):
        return (a[0, 0] * X + a[0, 1] - 1.1 * X, a[1, 0] * X + a[0, 2] * a[1, 1] - a[1, 2] * X**2)

    def by_entry(**p):
        return residual(np.array([[p[f"a{i}{j}"] for j in range(3)] for i in range(2)]))

    entries = {
        f"a{i}{j}": ta.Parameter(truth=MATRIX[i, j], bounds=(-4, 4), coordinate="linear", scale=2.0)
        for i in range(2)
        for j in range(3)
    }
    view = ta.views.Blocks([ta.views.Pointwise()] * 2)
    whole = ta.score(residual, {"a": matrix()}, view, points=X)
    apart = ta.score(by_entry, entries, view, points=X)
    assert_allclose(whole.data["H"].values, apart.data["H"].values, rtol=1e-12)
    assert_allclose(
        list(whole.displacement.values()), list(apart.displacement.values()), atol=1e-10
    )


def test_forward_models_receive_the_array():
    def forward(a):
        assert a.shape[-2:] == (2, 3)
        return (a @ np.array([1.0, 2.0, 3.0])) @ np.stack([X, X**2])

    known = {"a": matrix()}
    one = ta.resolve(forward, known, noise=0.1, replicas=4, progress=False, at="truth")
    many = ta.resolve(forward, known, noise=0.1, replicas=4, vectorized=True, progress=False)
    assert_allclose(one.data["fisher_information"], many.data["fisher_information"], rtol=1e-6)


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_arrays_of_other_libraries(library):
    module = pytest.importorskip(library)
    goal = 1.2 * MATRIX[0]
    options = dict(truth=MATRIX[0], delivered=goal, bounds=(-4, 4), coordinate="linear")
    known = {"a": ta.ParameterArray(**options)}
    if library == "torch":

        def residual(model, x, a):
            basis = module.cat([x, x**2, module.ones_like(x)], dim=1)
            return basis @ (a - module.tensor(goal)) + model(x)[:, 0]

        frozen = ta.from_torch(lambda x: 0 * x, residual, known, points=X[:, None])
    else:

        def residual(model, x, a):
            basis = module.numpy.concatenate([x, x**2, module.numpy.ones_like(x)], axis=1)
            return basis @ (a - goal) + model(x)[:, 0]

        frozen = ta.from_jax(lambda x: 0 * x, residual, known, points=X[:, None])
    found = ta.score(frozen)
    assert_allclose(list(found.displacement.values()), 0.2 * MATRIX[0], atol=1e-10)


def test_twenty_unknowns_are_scanned_from_starts_and_slices():
    target = np.random.default_rng(0).uniform(-1, 1, (5, 4))
    basis = np.random.default_rng(1).standard_normal((20, 200))
    calls = []

    def residual(a):
        calls.append(1)
        step = (a - target).ravel()
        return (step + 0.1 * step**3) @ basis

    def jacobian(a):
        return ((1 + 0.3 * (a - target).ravel() ** 2)[:, None] * basis).T

    options = dict(truth=0 * target, delivered=target, bounds=(-3, 3), coordinate="linear")
    frozen = ta.FrozenResidual(
        residual,
        {"a": ta.ParameterArray(**options)},
        np.linspace(0, 1, 200),
        view=ta.views.Pointwise(),
        jacobian=jacobian,
    )
    scan = ta.frozen_scan(frozen, candidates=9)
    assert_allclose(list(scan.minimum.values()), target.ravel(), atol=1e-6)
    assert scan.status == "interior"
    assert len(calls) < 10_000  # three values of each would be 3,486,784,401


@pytest.mark.parametrize(
    "options",
    [
        dict(truth=None),
        dict(truth=1.0),
        dict(shape=(3, 2)),
        dict(delivered=np.ones(4)),
        dict(truth=np.full((2, 3), np.nan)),
        dict(truth="abc"),
        dict(shape=(0,), truth=None),
        dict(truth=9 * MATRIX),
    ],
)
def test_bad_arrays(options):
    with pytest.raises(ta.InputError):
        Parameters({"a": matrix(**options)})


@pytest.mark.parametrize("name", ["a", "a[", "a[x]", "a[-1]", "a[0.5]", "a[1]b", "a[]"])
def test_names_without_an_index(name):
    assert entry_index(name) == (name, None)


def test_values_of_another_shape():
    with pytest.raises(ta.InputError, match=r"shape \(2, 3\)"):
        ta.score(lambda a: a.sum() * X, {"a": matrix()}, ta.views.Pointwise(), points=X,
                 at={"a": np.ones(6)})  # fmt: skip
