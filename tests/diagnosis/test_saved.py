"""An audit on disk: it comes back as it was, xarray reads it, and contradictions are refused."""

import shutil
import sys

import h5py
import numpy as np
import pytest
import xarray as xr

import twoaxis as ta
from twoaxis.diagnosis.result import PARTS


@pytest.fixture(params=["complete", "candidate"])
def whole(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def written(complete, tmp_path_factory):
    return complete.save(tmp_path_factory.mktemp("audit") / "audit.nc")


@pytest.fixture
def saved(written, tmp_path):
    return shutil.copy(written, tmp_path / "audit.nc")


def test_round_trip(whole, tmp_path):
    loaded = ta.load(whole.save(tmp_path / "audit.nc"))
    assert isinstance(loaded, ta.Audit)
    assert loaded.data.identical(whole.data)
    assert str(loaded) == str(whole)
    assert loaded.summary().equals(whole.summary())
    assert loaded.directions().equals(whole.directions())
    assert loaded.route is whole.route
    assert loaded.tolerance == whole.tolerance
    assert loaded.parameters == whole.parameters
    assert loaded.center == whole.center
    assert loaded.messages == whole.messages
    assert loaded.actions == whole.actions


def test_the_groups_are_the_datasets_of_the_results(made, complete):
    field = made.heat_field(1.3, 1.28)
    score, scan = ta.score(field), ta.frozen_scan(field)
    assert complete.score.data.identical(score.data)
    assert complete.scan.minimum == scan.minimum
    np.testing.assert_array_equal(complete.scan.data["profile"], scan.data["profile"])
    view = complete.training.score.view
    assert complete.delivery.data.identical(
        ta.delivery(field.parameters, scan.minimum, view=view).data
    )
    assert complete.resolution.data.identical(made.heat_resolution(made.TIGHT).data)
    assert complete.snapshots.data["step"].values.tolist() == [1, 2]


def test_every_part_is_a_result_by_itself(complete, tmp_path):
    for path, cls in PARTS.items():
        group = complete.group(path)
        if group is not None:
            again = ta.load(cls(group).save(tmp_path / "part.nc"))
            assert type(again) is cls
            assert again.data.identical(group)
            assert len(again.summary())


def test_loading_draws_nothing(saved):
    import subprocess

    code = (
        f"import twoaxis, sys; twoaxis.load({str(saved)!r}); sys.exit('matplotlib' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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
    loaded = ta.load(found.save(tmp_path / "audit.nc"))
    assert loaded.data.identical(found.data)
    assert str(loaded) == str(found)
    assert loaded.tolerance is None
    assert loaded.resolution is None
    assert loaded.cross_view == cross


def test_directions_of_equal_strength_may_be_turned(tmp_path):
    x = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    found = ta.audit(
        lambda a, b: (a - 1.2) * np.sin(x) + (b - 1.1) * np.cos(x),
        {n: ta.Parameter(truth=1.0, delivered=1.1, bounds=(0.5, 2.0)) for n in "ab"},
        ta.views.Pointwise(),
        points=x,
        candidates=11,
        tolerance=ta.Tolerance(5.0, 5.0, 5.0),
    )
    loaded = ta.load(found.save(tmp_path / "audit.nc"))
    assert loaded.data.identical(found.data)


@pytest.mark.parametrize("name", ["<script>", "a/b", "κ·ñ 1", "", "/", "parameter", "k\nk", "step"])
def test_strange_names(made, name, tmp_path):
    found = ta.audit(
        made.heat_field(1.3, 1.28, name=name),
        resolution=made.heat_resolution(made.TIGHT, name=name, replicas=3),
        tolerance=made.TOLERANCE,
    )
    loaded = ta.load(found.save(tmp_path / "audit.nc"))
    assert list(loaded.routes) == [name]
    assert str(loaded) == str(found)


@pytest.mark.parametrize("name", ["a\0b", "\ud800"], ids=["NUL", "half a character"])
def test_names_that_no_file_can_hold(made, name):
    with pytest.raises(ta.InputError, match=r"NUL|Unicode"):
        ta.audit(made.heat_field(1.3, 1.28, name=name))


def test_plain_xarray_opens_it_and_it_explains_itself(whole, tmp_path):
    path = whole.save(tmp_path / "audit.nc")
    with xr.open_datatree(path) as plain:
        assert plain.attrs["schema"] == "twoaxis.audit/1"
        assert plain.attrs["route"] == whole.route.value
        count = 0
        for node in plain.subtree:
            for name, variable in node.to_dataset(inherit=False).variables.items():
                assert variable.attrs.get("long_name"), (node.path, name)
                count += 1
        assert count > 80
        assert plain["score/displacement"].sel(parameter="k").item() == pytest.approx(
            whole.score.displacement["k"]
        )


def drop(group):
    return lambda file: file.__delitem__(group)


def write(path, value):
    def change(file):
        file[path][...] = value

    return change


def text(path, value):
    def change(file):
        stored = np.frombuffer(value.encode(), "S1")
        width = file[path].shape[-1]
        file[path][...] = np.array([stored.tolist() + [b""] * (width - len(stored))], "S1")

    return change


def attribute(path, name, value):
    def change(file):
        file[path].attrs[name] = np.bytes_(value)

    return change


# What is changed in a file, and a word of the refusal.
TAMPERED = {
    "another version": (attribute("/", "schema", "twoaxis.audit/9"), "version"),
    "no scan": (drop("scan"), "/scan"),
    "no verdict": (drop("verdict"), "/verdict"),
    "no profile": (drop("scan/profile"), "profile"),
    "no estimates": (drop("resolution/estimate"), "estimate"),
    "an unknown route": (attribute("/", "route", "panic"), "panic"),
    "another route": (attribute("/", "route", "within tolerance"), "route"),
    "another reason": (attribute("/", "reason", "all is well"), "reason"),
    "a route of a parameter": (text("verdict/route", "within tolerance"), "route"),
    "an unknown center": (attribute("score", "centered_on", "hope"), "hope|center"),
    "bounds in disorder": (write("score/lower_bound", 9.0), "bounds"),
    "a truth out of bounds": (write("score/truth", 99.0), "truth"),
    "another truth in the scan": (write("scan/truth", 1.1), "truth|center"),
    "a negative tolerance": (write("tolerance_material", -1.0), "material"),
    "a larger tolerance": (write("tolerance_material", 50.0), "route|reason"),
    "another delivered error": (write("verdict/delivered_percent", 2.0), "delivered_percent"),
    "another displacement": (write("score/displacement", 0.1), "displacement"),
    "another strength": (write("score/H", 9.0), "strength"),
    "another gap": (write("delivery/gap", 0.1), "gap"),
    "another preferred value": (write("delivery/preferred", 1.1), "gap|preferred|preference"),
    "another matched error": (write("matched/deviation_percent", 9.0), "deviation_percent"),
    "another misfit": (write("resimulation/rms", 9.0), "rms"),
    "estimates that are not numbers": (write("resolution/estimate", np.nan), "estimate"),
    "residuals that are not numbers": (write("field/residual", np.inf), "residual"),
}


@pytest.mark.parametrize(("change", "word"), TAMPERED.values(), ids=TAMPERED)
def test_files_that_contradict_themselves(saved, change, word):
    with h5py.File(saved, "r+") as file:
        change(file)
    with pytest.raises(ta.InputError, match=word):
        ta.load(saved)
