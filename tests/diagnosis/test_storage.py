"""An audit on disk: it comes back as it was, plain xarray reads it, strange files are refused."""

import pickle

import h5py
import numpy as np
import pytest
import xarray as xr

import twoaxis as ta
from twoaxis.diagnosis.tree import TREE


@pytest.fixture(params=["complete", "candidate"])
def whole(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def saved(complete, tmp_path):
    return complete.to_netcdf(tmp_path / "audit.nc")


def test_round_trip(whole, tmp_path):
    loaded = ta.load_audit(whole.to_netcdf(tmp_path / "audit.nc"))
    assert loaded.tree.identical(whole.tree)
    assert str(loaded) == str(whole)
    assert loaded._repr_html_() == whole._repr_html_()
    assert loaded.summary().equals(whole.summary())
    assert loaded.directions().equals(whole.directions())
    assert loaded.route is whole.route
    assert loaded.tolerance == whole.tolerance
    assert loaded.parameters == whole.parameters
    assert loaded.center == whole.center
    assert repr(loaded.score) == repr(whole.score)
    assert repr(loaded.scan) == repr(whole.scan)
    assert loaded.delivery == whole.delivery
    assert loaded.resolution.summary().equals(whole.resolution.summary())
    again = loaded.to_netcdf(tmp_path / "again.nc")
    assert ta.load_audit(again).tree.identical(whole.tree)


def test_the_tree_gives_back_what_was_measured(made, complete):
    field = made.heat_field(1.3, 1.28)
    score, scan = ta.score(field), ta.frozen_scan(field)
    assert repr(complete.score) == repr(score)
    assert complete.score.doubts == score.doubts
    np.testing.assert_array_equal(complete.score.terms.H, score.terms.H)
    assert repr(complete.scan) == repr(scan)
    assert complete.scan.minimum == scan.minimum
    assert complete.scan.basin_minimum == scan.basin_minimum
    np.testing.assert_array_equal(complete.scan.slices["k"], scan.slices["k"])
    assert complete.delivery == ta.delivery(field.parameters, scan.minimum)


BARE = {
    "flat": lambda made: ta.FrozenResidual(
        lambda k: np.ones(9) + 0 * k,
        {"k": ta.Parameter(truth=1.0, delivered=1.0, bounds=made.BOUNDS)},
        np.arange(9.0),
        ta.views.Pointwise(),
    ),
    "nothing delivered": lambda made: made.heat_field(1.3, None),
    "two parameters": lambda made: made.wave_field(1.0, 1.3, (1.0, 1.3)),
    "several equations": lambda made: ta.FrozenResidual(
        lambda k: (k * np.ones(5) - 1.1, k * np.ones(7) - 1.2),
        {"k": ta.Parameter(truth=1.0, delivered=1.0, bounds=made.BOUNDS)},
        (np.zeros((5, 2)), np.ones((7, 1))),
        ta.views.Blocks([ta.views.Pointwise(), ta.views.Pointwise()]),
    ),
}


@pytest.mark.parametrize("make", BARE.values(), ids=BARE)
@pytest.mark.parametrize("cross", [False, True])
def test_round_trip_of_bare_audits(made, make, cross, tmp_path):
    field, view = make(made), None
    if cross:
        alone = [ta.views.Patch(cells=2), ta.views.Pointwise()]
        view = ta.views.Blocks(alone) if isinstance(field.points, tuple) else alone[0]
    found = ta.audit(field, view=view, candidates=11)
    loaded = ta.load_audit(found.to_netcdf(tmp_path / "audit.nc"))
    assert loaded.tree.identical(found.tree)
    assert str(loaded) == str(found)
    assert loaded.tolerance is None
    assert loaded.resolution is None


@pytest.mark.parametrize("name", ["<script>", "a/b", "κ·ñ 1", "", "/", "parameter", "k\nk", "step"])
def test_strange_names(made, name, tmp_path):
    found = ta.audit(
        made.heat_field(1.3, 1.28, name=name),
        resolution=made.heat_resolution(made.TIGHT, name=name, replicas=3),
        tolerance=made.TOLERANCE,
    )
    loaded = ta.load_audit(found.to_netcdf(tmp_path / "audit.nc"))
    assert list(loaded.routes) == [name]
    assert str(loaded) == str(found)


@pytest.mark.parametrize("name", ["a\0b", "\ud800"], ids=["NUL", "half a character"])
def test_names_that_no_file_can_hold(made, name, tmp_path):
    found = ta.audit(made.heat_field(1.3, 1.28, name=name))
    str(found)
    with pytest.raises(ta.InputError, match="netCDF file can hold"):
        found.to_netcdf(tmp_path / "audit.nc")
    assert not list(tmp_path.iterdir())


def test_plain_xarray_opens_it_and_it_explains_itself(whole, tmp_path):
    path = whole.to_netcdf(tmp_path / "audit.nc")
    with xr.open_datatree(path) as plain:
        assert plain.attrs["schema"] == "twoaxis.audit/1"
        assert plain.attrs["route"] == whole.route.value
        count = 0
        for node in plain.subtree:
            for name, variable in node.to_dataset(inherit=False).variables.items():
                assert variable.attrs.get("long_name"), (node.path, name)
                assert variable.attrs.get("units"), (node.path, name)
                count += 1
        assert count > 80
        assert plain["score/displacement"].sel(parameter="k").item() == pytest.approx(
            whole.score.displacement["k"]
        )


def test_the_layout_is_the_documented_one(whole):
    import twoaxis.diagnosis.tree as tree

    for node in whole.tree.subtree:
        if node.path in TREE:
            data = node.to_dataset(inherit=False)
            for name, variable in data.variables.items():
                assert variable.dims == TREE[node.path][name].dims
            missing = {n for n, v in TREE[node.path].items() if v.required} - set(data.variables)
            assert not missing, (node.path, missing)
    sections = tree.__doc__.split("\n``/") + tree.__doc__.split("\n[``/")
    for path, variables in TREE.items():
        if path.startswith("/training_view"):
            continue
        head = f"{path[1:]}``"
        (section,) = [part for part in sections if part.startswith(head)]
        section = section.split("\n``/")[0].split("\n[``/")[0]
        for name, known in variables.items():
            assert f"``{name}``" in section, (path, name)
            assert all(d in section for d in known.dims), (path, name)


def test_reading_runs_no_code(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("code from a file was run",))

    path = tmp_path / "audit.nc"
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ta.InputError, match="cannot be read"):
        ta.load_audit(path)


def test_files_that_are_none(tmp_path, saved):
    with pytest.raises(ta.InputError, match="path of a netCDF file"):
        ta.load_audit(None)
    with pytest.raises(ta.InputError, match="no file at"):
        ta.load_audit(tmp_path / "nothing.nc")
    with pytest.raises(ta.InputError, match="no file at"):
        ta.load_audit(tmp_path)
    text = tmp_path / "text.nc"
    text.write_text("not netCDF")
    with pytest.raises(ta.InputError, match="cannot be read"):
        ta.load_audit(text)
    whole = saved.read_bytes()
    for share in (0.1, 0.5, 0.9, 0.999):
        text.write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(ta.InputError, match="cannot be read"):
            ta.load_audit(text)


def test_a_resolution_is_no_audit(made, tmp_path):
    path = made.heat_resolution(made.TIGHT).to_netcdf(tmp_path / "resolution.nc")
    with pytest.raises(ta.InputError, match=r"schema 'twoaxis.resolution/1'"):
        ta.load_audit(path)


def drop(group):
    def change(file):
        del file[group]

    return change


def write(path, value):
    def change(file):
        file[path][...] = value

    return change


def attribute(path, name, value):
    def change(file):
        file[path].attrs[name] = value

    return change


def without(path, name):
    def change(file):
        del file[path].attrs[name]

    return change


def replaced(path, values):
    def change(file):
        del file[path]
        file[path] = values

    return change


TAMPERED = {
    "another version": (attribute("/", "schema", "twoaxis.audit/2"), "twoaxis.audit/2"),
    "no schema": (without("/", "schema"), "schema None"),
    "no scan": (drop("scan"), "no group /scan"),
    "no verdict": (drop("verdict"), "no group /verdict"),
    "no profile": (drop("scan/profile"), "no variable profile in /scan"),
    "no estimates": (drop("resolution/estimate"), "no variable estimate in /resolution"),
    "no status": (without("scan", "status"), "no attribute status in /scan"),
    "an unknown route": (attribute("/", "route", "panic"), "panic"),
    "an unknown centre": (attribute("/", "centered_on", "hope"), "contradict"),
    "bounds in disorder": (write("lower_bound", 9.0), "contradict"),
    "a centre out of bounds": (write("truth", 99.0), "contradict"),
    "a negative tolerance": (write("verdict/tolerance_material", -1.0), "contradict"),
    "other dimensions": (replaced("score/B", np.zeros((2, 2))), "dimensions|cannot be read"),
    "numbers as texts": (replaced("verdict/route", np.zeros(1)), "dimensions|values of float"),
}


@pytest.mark.parametrize(("change", "message"), TAMPERED.values(), ids=TAMPERED)
def test_files_that_were_changed(saved, change, message):
    with h5py.File(saved, "r+") as file:
        change(file)
    with pytest.raises(ta.InputError, match=message):
        ta.load_audit(saved)


def test_a_failed_write_leaves_the_old_file(complete, saved, tmp_path):
    before = saved.read_bytes()
    with pytest.raises(ta.InputError):
        complete.to_netcdf(tmp_path / "missing" / "audit.nc")
    with pytest.raises(ta.InputError):
        complete.to_netcdf(tmp_path)
    assert saved.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["audit.nc"]
