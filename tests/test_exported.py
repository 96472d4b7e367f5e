"""An exported residual gives the numbers of its model where the model's library is not."""

import json
import pickle
import subprocess
import sys

import h5py
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import twoaxis as ta
from twoaxis.exported import interpolant as sampling
from twoaxis.exported.file import seal
from twoaxis.exported.interpolant import TensorGrid, differentiation, nodes_between
from twoaxis.io import write_netcdf

X = np.linspace(0.0, 1.0, 40)
PLANE = np.random.default_rng(0).random((40, 2))
RATE = {"rate": ta.Parameter(truth=1.0, delivered=1.3, bounds=(0.1, 10.0))}
TOLERANCE = ta.Tolerance(material=5.0, resolution=5.0, preference=5.0)


def affine(rate):
    return np.cos(3 * X) - rate * X


def curved(rate):
    return np.exp(-rate * X) * np.sin(4 * X + rate) - 0.1 * np.cos(9 * X)


def curved_slope(rate):
    s, c = np.sin(4 * X + rate), np.cos(4 * X + rate)
    return (np.exp(-rate * X) * (c - X * s))[:, None]


def system(rate, shift):
    return np.exp(-rate * X) - 0.3 + 0.01 * np.sin(9 * X), np.cos(shift * X)[:, None] * rate - 0.5


BOTH = {
    **RATE,
    "shift": ta.Parameter(
        truth=0.2, delivered=0.0, bounds=(-1.0, 2.0), coordinate="linear", scale=0.5
    ),
}
THREE = {
    "a": ta.Parameter(truth=1.0, delivered=1.1, bounds=(0.5, 2.0)),
    "b": ta.Parameter(truth=0.5, delivered=0.4, bounds=(0.1, 2.0), start=0.3),
    "c": ta.Parameter(truth=0.0, delivered=0.1, bounds=(-1, 1), coordinate="linear", scale=1.0),
}
BLOCKS = ta.views.Blocks(
    [ta.views.Weighted(loss_weights=1 + X), ta.views.Patch(cells=4)], weights=[1.0, 0.25]
)
CASES = {
    "affine": ta.FrozenResidual(affine, RATE, X, ta.views.Pointwise()),
    "affine, given derivative": ta.FrozenResidual(
        affine,
        RATE,
        X,
        ta.views.Weighted(loss_weights=X),
        jacobian=lambda rate: -X[:, None] * rate**0,
    ),
    "curved, differences": ta.FrozenResidual(curved, RATE, PLANE, ta.views.Gaussian()),
    "curved, exact": ta.FrozenResidual(
        curved, RATE, PLANE, ta.views.Patch(cells=3), jacobian=curved_slope
    ),
    "two unknowns, two equations": ta.FrozenResidual(
        system,
        BOTH,
        X,
        BLOCKS,
        fitted=[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]],
        data=[[1.1, 2.1], [3.1, 4.1], [np.nan, 6.1]],
        observed=[[0.1], [0.2], [0.3]],
        about={"problem": "a system", "seed": "3"},
        equations=("mass", "momentum"),
        fields=("u", "p"),
    ),
    "points of their own": ta.FrozenResidual(
        lambda rate: (np.exp(-rate * X) - 0.4, rate * PLANE[:9, 0] - 0.8),
        RATE,
        (X[:, None], PLANE[:9]),
        ta.views.Blocks([ta.views.Pointwise(), ta.views.Dense(np.eye(9) + 0.1)]),
    ),
    "three unknowns": ta.FrozenResidual(
        lambda a, b, c: a * np.exp(-b * X) + np.sin(c * X) - 0.7 * X + 0.1 * np.cos(20 * X),
        THREE,
        X,
        ta.views.Pointwise(),
    ),
    "unseen": ta.FrozenResidual(lambda rate: np.cos(X) + 0 * rate, RATE, X, ta.views.Pointwise()),
    "no view, nothing known": ta.FrozenResidual(
        curved, {"rate": ta.Parameter(bounds=(0.5, 2.0))}, X
    ),
}


@pytest.fixture(scope="module", params=CASES)
def path(request, tmp_path_factory):
    return CASES[request.param].save(tmp_path_factory.mktemp("exported") / "residual.nc")


@pytest.fixture
def pair(request, path):
    return CASES[request.node.callspec.params["path"]], ta.load(path)


def close(found, expected, rtol=1e-8):
    """Agreement relative to the largest value: a zero among large numbers is no puzzle."""
    found, expected = np.atleast_1d(found), np.atleast_1d(expected)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * np.abs(expected).max())


def test_observations_and_what_is_said_of_the_field_are_kept(pair):
    frozen, loaded = pair
    for name in ("fitted", "data", "observed"):
        before, after = getattr(frozen, name), getattr(loaded, name)
        assert (before is None) == (after is None)
        if before is not None:
            np.testing.assert_array_equal(before, after)
    assert loaded.about == frozen.about
    assert (loaded.equations, loaded.fields) == (frozen.equations, frozen.fields)
    assert loaded.objective is None


def test_fitted_values_by_layout_are_kept(tmp_path):
    fitted = {"8": np.array([1.0, 2.0]), "9": np.array([[3.0], [4.0], [5.0]])}
    frozen = ta.FrozenResidual(affine, RATE, X, fitted=fitted)
    loaded = ta.load(frozen.save(tmp_path / "residual.nc"))
    assert list(loaded.fitted) == ["8", "9"]
    for name, values in fitted.items():
        np.testing.assert_array_equal(loaded.fitted[name], values)


def test_score_and_scan_are_the_same(pair):
    frozen, _ = pair
    at = (
        None
        if all(p.delivered for p in frozen.parameters.values())
        else {
            name: p.truth if p.truth is not None else 1.0 for name, p in frozen.parameters.items()
        }
    )
    view = ta.views.Pointwise() if frozen.view is None else None
    one, other = (ta.score(each, view=view, at=at) for each in pair)
    for name in ("B", "H", "C"):
        close(getattr(other, name), getattr(one, name))
    close(list(other.displacement.values()), list(one.displacement.values()))
    assert other.residual_norm == pytest.approx(one.residual_norm, rel=1e-10)
    scans = [ta.frozen_scan(each, view=view, at=at, candidates=21) for each in pair]
    assert scans[1].affine == scans[0].affine
    assert scans[1].status == scans[0].status
    if scans[0].minimum is None:
        assert scans[1].minimum is None
    else:
        close(list(scans[1].minimum.values()), list(scans[0].minimum.values()))


def test_spectrum_and_audit_are_the_same(pair):
    if pair[0].view is None:
        return
    name = pair[0].names[-1]
    one, other = (ta.spectrum(each, parameter=name) for each in pair)
    close(other.eigenvalues, one.eigenvalues)
    close(other.strength, one.strength)
    close(other.signed, one.signed)
    audits = [ta.audit(each, tolerance=TOLERANCE, candidates=21) for each in pair]
    assert audits[1].route is audits[0].route
    for name, values in audits[0].summary().select_dtypes("number").items():
        close(audits[1].summary()[name].to_numpy(), values.to_numpy(), rtol=1e-7)


def test_everything_else_comes_back(pair):
    frozen, loaded = pair
    assert dict(loaded.parameters) == dict(frozen.parameters)
    assert type(loaded.points) is type(frozen.points)
    each = frozen.points if isinstance(frozen.points, tuple) else [frozen.points]
    again = loaded.points if isinstance(loaded.points, tuple) else [loaded.points]
    for one, other in zip(each, again, strict=True):
        np.testing.assert_array_equal(one, other)
    assert type(loaded.view) is type(frozen.view)
    if frozen.view is not None:
        assert loaded.view.describe() == frozen.view.describe()
        size = len(
            loaded.at(loaded.coordinates({n: p.bounds[1] for n, p in loaded.parameters.items()}))
        )
        probe = np.random.default_rng(1).standard_normal(size)
        np.testing.assert_array_equal(
            loaded.view.bind(loaded.points).apply(probe),
            frozen.view.bind(frozen.points).apply(probe),
        )
    assert (loaded.jacobian is None) == (frozen.jacobian is None)
    with pytest.raises(ta.InputError, match="known at its points alone"):
        loaded.moved_to(X)


def test_a_second_export_is_the_same(pair, tmp_path):
    _, loaded = pair
    again = ta.load(loaded.save(tmp_path / "again.nc"))
    for share in (0.1, 0.5, 0.77):
        low, high = loaded.coordinate_bounds
        where = low + share * (high - low)
        close(again.at(where), loaded.at(where), rtol=1e-11)


def test_field_axes_and_notes_come_back(tmp_path):
    notes = ("the residual is evaluated in float32", "Zürich — ∂u/∂t")
    frozen = ta.FrozenResidual(
        affine, RATE, PLANE, field=np.sin(X), field_name="T", axes=("x", "t"), notes=notes
    )
    loaded = ta.load(frozen.save(tmp_path / "residual.nc"))
    np.testing.assert_array_equal(loaded.field, frozen.field)
    assert (loaded.field_name, loaded.axes, loaded.notes[:2]) == ("T", ("x", "t"), notes)
    assert loaded.view is None
    assert loaded.notes[2].code == "residual.exported"
    assert "affine in its parameters" in loaded.notes[2].text


def test_notes_with_codes_come_back(tmp_path):
    note = ta.Message("model.precision", "float32 weights", "warning", {"bits": 32.0})
    frozen = ta.FrozenResidual(affine, RATE, X, notes=(note, "a plain note"))
    assert ta.load(frozen.save(tmp_path / "residual.nc")).notes[:2] == (note, "a plain note")


def test_a_residual_of_pytorch_brings_its_derivatives(tmp_path):
    torch = pytest.importorskip("torch")
    x = torch.tensor(X)

    def residual(rate):
        decay = torch.exp(-torch.as_tensor(rate, dtype=torch.float64) * x)
        return decay - 0.4 + 0.1 * torch.cos(9 * x)

    frozen = ta.FrozenResidual(residual, RATE, X, ta.views.Pointwise())
    loaded = ta.load(frozen.save(tmp_path / "residual.nc"))
    assert loaded.jacobian is not None
    one, other = ta.score(frozen), ta.score(loaded)
    for name in ("B", "H", "C"):
        close(getattr(other, name), getattr(one, name))


def test_the_jacobian_is_exact(tmp_path):
    loaded = ta.load(CASES["curved, exact"].save(tmp_path / "residual.nc"))
    for rate in (0.1, 0.3, 1.0, 4.7, 10.0):
        np.testing.assert_allclose(loaded.jacobian(rate=rate), curved_slope(rate), atol=1e-10)
        np.testing.assert_allclose(loaded.residual(rate=rate), curved(rate), atol=1e-12)
    with xr.open_dataset(tmp_path / "residual.nc") as data:
        np.testing.assert_allclose(data["jacobian_center"], curved_slope(1.0), atol=1e-11)
        np.testing.assert_array_equal(data["residual_center"], curved(1.0))
        assert data.attrs["accuracy"] < 1e-12


def test_the_accuracy_is_stored_and_reported(tmp_path):
    loaded = ta.load(CASES["curved, exact"].save(tmp_path / "residual.nc"))
    note = loaded.notes[-1]
    assert note.code == "residual.exported"
    assert 0 <= note.numbers["accuracy"] < 1e-8
    assert note in ta.audit(loaded, tolerance=TOLERANCE).messages


def test_values_outside_are_refused(tmp_path):
    loaded = ta.load(CASES["curved, exact"].save(tmp_path / "residual.nc"))
    for call in (loaded.residual, loaded.jacobian):
        for rate in (0.09, 10.2, -1.0, np.nan):
            with pytest.raises(ta.InputError, match=r"where the residual was sampled, 0\.1 to 10,"):
                call(rate=rate)
    # An affine residual is known everywhere.
    loaded = ta.load(CASES["affine"].save(tmp_path / "affine.nc"))
    np.testing.assert_allclose(loaded.residual(rate=50.0), affine(50.0), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("coordinate", ["log", "linear"])
def test_a_center_on_the_bound_can_still_be_scored(end, coordinate, tmp_path):
    bounds = (0.5, 2.0)
    known = {"rate": ta.Parameter(delivered=bounds[end], bounds=bounds, coordinate=coordinate)}
    frozen = ta.FrozenResidual(curved, known, X, ta.views.Pointwise())
    loaded = ta.load(frozen.save(tmp_path / "residual.nc"))
    one, other = ta.score(frozen), ta.score(loaded)
    assert other.displacement["rate"] == pytest.approx(one.displacement["rate"], rel=1e-8)


def test_a_residual_that_ends_at_its_bound(tmp_path):
    def root(rate):
        return np.sqrt(1.0 - rate) * X - 0.5 if rate <= 1 else np.full(40, np.nan)

    known = {"rate": ta.Parameter(truth=0.3, bounds=(0.1, 0.9))}
    loaded = ta.load(ta.FrozenResidual(root, known, X).save(tmp_path / "residual.nc"))
    np.testing.assert_allclose(loaded.residual(rate=0.4), root(0.4), atol=1e-10)

    def edge(rate):
        return (rate - 1.0) ** 2 * np.exp(X) if rate <= 1 else np.full(40, np.nan)

    known = {"rate": ta.Parameter(truth=0.3, bounds=(0.1, 1.0))}
    loaded = ta.load(ta.FrozenResidual(edge, known, X).save(tmp_path / "residual.nc"))
    np.testing.assert_allclose(loaded.residual(rate=1.0), edge(1.0), atol=1e-12)
    with pytest.raises(ta.InputError, match=r"sampled, 0\.1 to 1"):
        loaded.residual(rate=1.001)


def test_single_precision_is_exported_to_its_own_accuracy(tmp_path):
    for name, function in (("affine", affine), ("interpolated", curved)):
        frozen = ta.FrozenResidual(
            lambda rate, f=function: f(rate).astype(np.float32), RATE, X, ta.views.Pointwise()
        )
        loaded = ta.load(frozen.save(tmp_path / "residual.nc"))
        assert name in loaded.notes[-1].text
        np.testing.assert_allclose(loaded.residual(rate=3.3), function(3.3), atol=2e-6)
        minima = [ta.frozen_scan(each).minimum["rate"] for each in (frozen, loaded)]
        assert minima[1] == pytest.approx(minima[0], rel=1e-4)


def test_refused_what_cannot_be_sampled(tmp_path, monkeypatch):
    path = tmp_path / "residual.nc"
    kink = ta.FrozenResidual(lambda rate: np.abs(X - rate / 3), RATE, X)
    with pytest.raises(ta.InputError, match="narrow the bounds"):
        kink.save(path)
    generator = np.random.default_rng(0)
    noise = ta.FrozenResidual(lambda rate: generator.standard_normal(40) * rate, RATE, X)
    with pytest.raises(ta.InputError, match="not deterministic"):
        noise.save(path)
    monkeypatch.setattr(sampling, "MOST_NUMBERS", 40 * 4)
    with pytest.raises(ta.InputError, match="at most 5,000 calls and 160 numbers"):
        CASES["curved, exact"].save(path)
    monkeypatch.setattr(sampling, "MOST_CALLS", 4)
    with pytest.raises(ta.InputError, match="42 samples of 40 values"):
        CASES["curved, exact"].save(path)
    assert not path.exists()


@pytest.mark.parametrize(
    "clamped", [lambda rate: max(rate, 0.5), lambda rate: min(rate, 4.0)], ids=["below", "above"]
)
def test_a_clamp_is_not_exported_as_affine(clamped, tmp_path):
    frozen = ta.FrozenResidual(lambda rate: np.cos(3 * X) - clamped(rate) * X, RATE, X)
    with pytest.raises(ta.InputError, match=r"(?s)smooth in rate.*narrow the bounds"):
        frozen.save(tmp_path / "residual.nc")
    assert not (tmp_path / "residual.nc").exists()


def test_a_residual_is_exported_without_leaving_its_bounds(tmp_path):
    for function in (affine, curved):
        calls = []

        def residual(rate, function=function, calls=calls):
            calls.append(rate)
            return function(rate)

        frozen = ta.FrozenResidual(residual, RATE, X)
        loaded = ta.load(frozen.save(tmp_path / "residual.nc"))
        assert (min(calls), max(calls)) == (0.1, 10.0)
        with xr.open_dataset(tmp_path / "residual.nc") as data:
            assert data.attrs["checked"] >= 12
            assert data.attrs["checked"] == loaded.notes[-1].numbers["checked"]


def test_refused_what_is_not_finite_or_changes_its_length(tmp_path):
    path = tmp_path / "residual.nc"
    holes = ta.FrozenResidual(lambda rate: np.log(rate - 0.5) * X, RATE, X)
    with pytest.raises(ta.InputError, match="finite residual"), np.errstate(invalid="ignore"):
        holes.save(path)
    lengths = ta.FrozenResidual(lambda rate: (X[: 20 + int(rate)], X), RATE, X)
    with pytest.raises(ta.InputError, match="same length"):
        lengths.save(path)
    assert not path.exists()


def test_bad_paths(tmp_path):
    calls = []
    frozen = ta.FrozenResidual(lambda rate: calls.append(1) or affine(rate), RATE, X)
    for path in (None, 3, tmp_path, tmp_path / "missing" / "r.nc"):
        with pytest.raises(ta.InputError):
            frozen.save(path)
    assert not calls  # said before the work starts
    for path in (None, 3, tmp_path, tmp_path / "missing.nc"):
        with pytest.raises(ta.InputError):
            ta.load(path)


@pytest.mark.parametrize("name", ["a/b", "κ·ñ 1", "", "parameter", "k\nk", "samples"])
def test_strange_names(name, tmp_path):
    frozen = ta.FrozenResidual(
        lambda **v: affine(v[name]), {name: RATE["rate"]}, X, ta.views.Pointwise()
    )
    loaded = ta.load(frozen.save(tmp_path / "residual.nc"))
    assert loaded.names == [name]


@pytest.mark.parametrize("note", ["a\0b", "\ud800"], ids=["NUL", "half a character"])
def test_texts_that_no_file_can_hold(note, tmp_path):
    frozen = ta.FrozenResidual(affine, RATE, X, notes=(note,))
    with pytest.raises(ta.InputError, match=r"NUL|Unicode"):
        frozen.save(tmp_path / "residual.nc")
    assert not list(tmp_path.iterdir())


def test_plain_xarray_opens_it_and_it_explains_itself(path):
    with xr.open_dataset(path) as data:
        assert data.attrs["schema"] == "twoaxis.residual/2"
        for name, variable in data.variables.items():
            assert variable.attrs.get("long_name"), name
        if data.attrs["form"] == "affine":
            found = data["constant"] + data["slope"].values @ data["center"].values
            close(found, data["residual_center"], rtol=1e-12)
        else:
            assert data["samples"].shape[-1] == data["residual_center"].size


# Damaged and hostile files -------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    return {
        name: CASES[case].save(folder / f"{name}.nc").read_bytes()
        for name, case in (("sampled", "two unknowns, two equations"), ("affine", "affine"))
    }


def refused(path, message=None):
    with pytest.raises(ta.InputError, match=message):
        ta.load(path)


def test_files_that_are_none(saved, tmp_path):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("code from a file was run",))

    path = tmp_path / "residual.nc"
    for content in (b"", b"not netCDF", pickle.dumps(Bomb())):
        path.write_bytes(content)
        refused(path, "is empty|not a netCDF-4 file")
    for share in (0.1, 0.5, 0.9, 0.999):
        path.write_bytes(saved["sampled"][: int(share * len(saved["sampled"]))])
        refused(path)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_changed_bytes_are_refused_or_do_not_matter(saved, tmp_path, data):
    kind = data.draw(st.sampled_from(sorted(saved)))
    whole = bytearray(saved[kind])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(whole) - 1))
        whole[place] ^= data.draw(st.integers(1, 255))
    path = tmp_path / "mutated.nc"
    path.write_bytes(bytes(whole))
    try:
        loaded = ta.load(path)
    except ta.InputError:
        return
    # Some bytes carry nothing, such as padding. What loads is what was saved.
    original = CASES["affine" if kind == "affine" else "two unknowns, two equations"]
    middle = sum(original.coordinate_bounds) / 2
    np.testing.assert_allclose(loaded.at(middle), original.at(middle), rtol=1e-8, atol=1e-8)
    assert dict(loaded.parameters) == dict(original.parameters)


def resealed(path, change):
    """Change a file as someone would who knows how to make the checksum."""
    with xr.open_dataset(path, engine="h5netcdf") as opened:
        data = change(opened.load())
    data.attrs["sha256"] = seal(data)
    write_netcdf(path, data)


def put(name, value):
    def change(data):
        values = data[name].values.copy()
        values[...] = value
        return data.assign({name: (data[name].dims, values, data[name].attrs)})

    return change


def attribute(name, value):
    return lambda data: data.assign_attrs({name: value})


def blocks(**changes):
    def change(data):
        plain = json.loads(data.attrs["view"])
        return data.assign_attrs(view=json.dumps(plain | changes))

    return change


DEEP = '{"kind": "blocks", "weights": [1], "views": [' * 1200 + "]}" * 1200
NESTED = {"kind": "blocks", "weights": [1.0], "views": [{"kind": "pointwise"}]}
for _ in range(20):
    NESTED = {"kind": "blocks", "weights": [1.0], "views": [NESTED]}
TAMPERED = {
    "another version": (attribute("schema", "twoaxis.residual/3"), r"version .3."),
    "no form": (attribute("form", "code"), "form 'code'"),
    "samples of elsewhere": (put("samples", 1.0), "residual_center"),
    "samples not finite": (put("samples", np.nan), "not finite"),
    "another residual": (put("residual_center", 3.0), "residual_center"),
    "another Jacobian": (put("jacobian_center", 3.0), "jacobian_center"),
    "equal nodes": (put("nodes", 1.0), "Chebyshev"),
    "nodes elsewhere": (lambda d: d.assign(nodes=d["nodes"] + 9), "Chebyshev"),
    "other numbers of nodes": (put("node_count", 3), "samples on"),
    "numbers of nodes that wrap around": (put("node_count", 2**62), "samples on"),
    "bounds in disorder": (put("lower_bound", 99.0), "bounds"),
    "a truth out of bounds": (put("truth", 99.0), "truth"),
    "an unknown coordinate": (put("coordinate", "polar"), "polar"),
    "the same name twice": (put("parameter", "rate"), "different names"),
    "sizes that do not add up": (put("equation_size", 7), "equations of"),
    "negative sizes": (put("equation_size", -40), "equations of"),
    "a false accuracy": (attribute("accuracy", -1.0), "accuracy"),
    "a tolerance of anything": (attribute("tolerance", np.inf), "tolerance"),
    "points not finite": (put("points", np.inf), "points"),
    "too few points": (lambda d: d.isel(point=slice(7)), "sets of"),
    "no samples": (lambda d: d.drop_vars("samples"), "no variable samples"),
    "no points": (lambda d: d.drop_vars("points"), "no variable 'points'"),
    "turned samples": (lambda d: d.assign(samples=d["samples"].transpose()), "samples"),
    "numbers as names": (
        lambda d: d.drop_vars("coordinate").assign(coordinate=("parameter", [1.0, 2.0])),
        "not text",
    ),
    "points of another kind": (attribute("several_points", 5), "several_points=5"),
    "a view of no kind": (attribute("view", '{"kind": "os.system"}'), "a view of the kind"),
    "a view that is no JSON": (attribute("view", "{"), "agree"),
    "a view without end": (attribute("view", DEEP), None),
    "a view too deep": (attribute("view", json.dumps(NESTED)), "a view of the kind"),
    "a view with options": (attribute("view", '{"kind": "patch", "x": 1}'), "a view of the kind"),
    "fitted values of another shape": (attribute("fitted_shapes", "[[null, [3, 3]]]"), "6 numbers"),
    "shapes below zero": (attribute("fitted_shapes", "[[null, [-3, -2]]]"), "6 numbers"),
    "shapes that are none": (attribute("fitted_shapes", '{"a": 3}'), "shapes of fitted"),
    "shapes without end": (attribute("fitted_shapes", "[" * 50_000), None),
    "a fitted value too many": (
        attribute("fitted_shapes", '[[null, [3, 2]], ["a", [0]]]'),
        "fitted values of",
    ),
    "data of a huge shape": (attribute("data_shape", "[4611686018427387904, 4]"), "6 numbers"),
    "data of no shape": (attribute("data_shape", '"os.system"'), "6 numbers"),
    "data of too many axes": (attribute("data_shape", str([6] + [1] * 20)), "6 numbers"),
    "too few observed points": (lambda d: d.isel(observation=slice(2)), "observed of shape"),
    "no value about it": (lambda d: d.drop_vars("about_value"), "2 keys and 0 values"),
    "weights too few": (blocks(weights=[1.0]), "one weight for each"),
    "weights of nothing": (blocks(weights="abc"), None),
    "views that are none": (blocks(views=3), None),
    "a shape too large": (
        blocks(views=[{"kind": "weighted", "shape": [10**12]}] * 2),
        "values are all there",
    ),
    "a shape below zero": (
        blocks(views=[{"kind": "weighted", "shape": [-1, -40]}] * 2),
        "values are all there",
    ),
    "values left over": (blocks(views=[{"kind": "pointwise"}] * 2), "belong to none"),
    "too few weights of points": (
        lambda d: blocks(views=[{"kind": "weighted", "shape": [7]}, {"kind": "pointwise"}])(
            d.isel(view_column=slice(7))
        ),
        "one loss weight for each",
    ),
}


@pytest.mark.parametrize(("change", "message"), TAMPERED.values(), ids=TAMPERED)
def test_files_that_were_changed_with_care(saved, tmp_path, change, message):
    path = tmp_path / "residual.nc"
    path.write_bytes(saved["sampled"])
    resealed(path, change)
    refused(path, message)


def test_resealing_alone_is_accepted(saved, tmp_path):
    path = tmp_path / "residual.nc"
    path.write_bytes(saved["sampled"])
    resealed(path, lambda data: data)
    ta.load(path)


def test_a_changed_number_without_its_checksum(saved, tmp_path):
    path = tmp_path / "residual.nc"
    path.write_bytes(saved["affine"])
    with h5py.File(path, "r+") as file:
        file["delivered"][...] = 1.2
    refused(path, "another checksum")


def test_a_text_that_is_no_unicode_any_more(saved, tmp_path):
    path = tmp_path / "mutated.nc"
    changed = saved["sampled"].replace(b'{"kind"', b'\xfb"kind"')  # the attribute view
    assert changed != saved["sampled"]
    path.write_bytes(changed)
    with pytest.raises(ta.InputError):
        ta.load(path)


# Interpolation ---------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(
    st.integers(2, 9),
    st.floats(-5, 5),
    st.floats(0.1, 10),
    st.lists(st.floats(-3, 3), min_size=9, max_size=9),
    st.floats(0, 1),
)
def test_polynomials_are_reproduced(count, low, width, coefficients, share):
    polynomial = np.polynomial.Polynomial(
        coefficients[:count], domain=[low, low + width], window=[-1, 1]
    )
    grid = TensorGrid((nodes_between(low, low + width, count),))
    samples = polynomial(grid.nodes[0])[:, None]
    where = np.array([low + share * width])
    size = 1 + np.abs(coefficients).sum()
    assert abs(grid.at(samples, where)[0] - polynomial(where[0])) < 1e-12 * size
    slope = polynomial.deriv()(where[0])
    assert abs(grid.slopes(samples, where)[0, 0] - slope) < 1e-9 * size / width


def test_nodes_are_nested_and_constants_have_no_slope():
    fine, coarse = nodes_between(-2.0, 3.0, 17), nodes_between(-2.0, 3.0, 9)
    np.testing.assert_allclose(fine[::2], coarse, atol=1e-15)
    np.testing.assert_allclose(differentiation(fine).sum(axis=1), 0, atol=1e-13)


# Without the library ---------------------------------------------------------------------------

ELSEWHERE = """
import json, sys

class Absent:
    # A machine without these libraries. (SciPy trips over a None in sys.modules.)
    names = {"torch", "jax", "jaxlib", "equinox", "flax", "deepxde", "pina", "jinns"}
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import twoaxis as ta
for path in sys.argv[1:]:
    frozen = ta.load(path)
    tolerance = ta.Tolerance(material=5.0, resolution=5.0, preference=5.0)
    print(json.dumps({
        "route": ta.audit(frozen, tolerance=tolerance).route.value,
        "notes": list(map(str, frozen.notes)),
        "minimum": ta.frozen_scan(frozen).minimum,
        "displacement": dict(ta.score(frozen).displacement),
        "loaded": sorted(Absent.names & set(sys.modules)),
    }))
try:
    ta.from_torch(None, None, None, points=None)
except ta.InputError as error:
    print(json.dumps(str(error)))
"""


def test_an_audit_where_pytorch_and_jax_are_not(tmp_path):
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)
    ).double()

    def decay(model, t, rate, bend):
        u = model(t)
        (u_t,) = torch.autograd.grad(u.sum(), t, create_graph=True)
        return u_t + bend(rate) * u + 0.1 * torch.cos(9 * t)

    t = torch.linspace(0, 1, 50, dtype=torch.float64)[:, None]
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(50):
        optimizer.zero_grad()
        torch.mean((net(t) - torch.exp(-1.2 * t)) ** 2).backward()
        optimizer.step()
    here = {}
    for name, bend in (("affine", lambda rate: rate), ("interpolated", torch.sqrt)):
        frozen = ta.from_torch(net, lambda m, t, rate, b=bend: decay(m, t, rate, b), RATE, points=t)
        here[name] = frozen, str(frozen.save(tmp_path / f"{name}.nc"))
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, *(path for _, path in here.values())],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *audits, message = map(json.loads, done.stdout.splitlines())
    assert "pip install 'twoaxis[torch]'" in message
    for (name, (frozen, _)), there in zip(here.items(), audits, strict=True):
        assert there["loaded"] == []
        assert name in there["notes"][-1]
        assert there["route"] == ta.audit(frozen, tolerance=TOLERANCE).route.value
        close(there["displacement"]["rate"], ta.score(frozen).displacement["rate"])
        close(there["minimum"]["rate"], ta.frozen_scan(frozen).minimum["rate"])


WEIGHTS = 1 + 9 * X
# What weighted least squares prefer of cos(3 x) + (3 - rate) x.
PREFERRED = 3 + (WEIGHTS * X) @ np.cos(3 * X) / ((WEIGHTS * X) @ X)


@pytest.mark.parametrize("place", [RATE["rate"].delivered, PREFERRED])
def test_a_narrow_bump_where_a_residual_is_used_is_not_exported(tmp_path, place):
    def residual(height):
        return ta.FrozenResidual(
            lambda rate: affine(rate - 3) + (height if abs(rate - place) < 1e-4 else 0.0),
            RATE,
            X,
            ta.views.Weighted(loss_weights=WEIGHTS),
        )

    saved = ta.load(residual(0.0).save(tmp_path / "residual.nc"))
    assert ta.frozen_scan(saved).minimum["rate"] == pytest.approx(PREFERRED, rel=1e-9)
    with pytest.raises(ta.InputError, match="can be sampled"):
        residual(0.01).save(tmp_path / "residual.nc")
