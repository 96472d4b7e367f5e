import pickle

import numpy as np
import pytest
import xarray as xr

import twoaxis as ta
from twoaxis.remedies.calibration import (
    calibrate,
    confidence_set,
    load_calibration,
    load_confidence_set,
)

K = {"k": ta.Parameter(bounds=(1.0, 5.0))}


def pipeline(values, seed):
    return 1.2 * values.mean() if seed % 9 else np.nan


@pytest.fixture(scope="module")
def found():
    return confidence_set(
        pipeline, lambda k: k * np.ones(4), K, 0.3, np.full(4, 2.0), candidates=6, replicas=39,
        progress=False, budget=2000,
    )  # fmt: skip


def test_a_set_comes_back_as_it_was(found, tmp_path):
    again = load_confidence_set(found.to_netcdf(tmp_path / "set.nc"))
    assert again.intervals == found.intervals
    assert again.corrected == found.corrected
    assert repr(again) == repr(found)
    assert again.summary().equals(found.summary())
    assert again.candidates.equals(found.candidates)
    assert again.calibration.live is None
    with xr.open_dataset(tmp_path / "set.nc") as plain:
        assert plain.attrs["parameter"] == "k"


def test_a_calibration_comes_back_without_its_pipeline(tmp_path):
    made = calibrate(pipeline, lambda k: k * np.ones(4), K, 0.3, candidates=6, replicas=39)
    again = load_calibration(made.to_netcdf(tmp_path / "calibration.nc"))
    xr.testing.assert_identical(again.data.drop_vars("reason"), made.data.drop_vars("reason"))
    assert (again.data["reason"].values == made.data["reason"].values).all()
    assert again.messages == made.messages
    one, other = (each.confidence_set(estimate=2.4, level=0.8) for each in (made, again))
    assert one.intervals == other.intervals
    with pytest.raises(ta.InputError, match="run the pipeline on the data and pass estimate"):
        again.confidence_set(np.full(4, 2.0))
    with pytest.raises(ta.InputError, match="neither"):
        again.confidence_set()
    assert pickle.loads(pickle.dumps(made)).live is None


def test_strange_files_are_refused(found, tmp_path):
    path = found.to_netcdf(tmp_path / "set.nc")
    with pytest.raises(ta.InputError, match="twoaxis-calibration-1"):
        load_calibration(path)
    with pytest.raises(ta.InputError, match="no file at"):
        load_confidence_set(tmp_path / "other.nc")
    (tmp_path / "text.nc").write_text("not netCDF")
    with pytest.raises(ta.InputError, match="cannot be read"):
        load_confidence_set(tmp_path / "text.nc")


def changed(found, tmp_path, change):
    data = found.data.copy(deep=True)
    data = change(data)
    data.to_netcdf(tmp_path / "changed.nc", engine="h5netcdf")
    return tmp_path / "changed.nc"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda d: d.drop_vars("estimate"), "no estimate"),
        (lambda d: d.drop_attrs().assign_attrs(schema=d.attrs["schema"]), "no attribute"),
        (lambda d: d.assign_attrs(level=2.0), "a level between 0 and 1"),
        (lambda d: d.assign_attrs(statistic="best"), "statistic"),
        (lambda d: d.assign_attrs(coordinate="square"), "coordinate"),
        (lambda d: d.assign_attrs(set_estimate=-3.0), "contradict"),
        (lambda d: d.isel(candidate=slice(None, None, -1)), "ascend"),
        (lambda d: d.isel(candidate=[0]), "ascend"),
        (lambda d: d.assign(estimate=-d["estimate"]), "contradict"),
        (lambda d: d.assign(estimate=d["estimate"] * np.inf), "not finite"),
        (lambda d: d.transpose(), "dimensions"),
    ],
)  # fmt: skip
def test_files_that_were_changed_are_refused(found, tmp_path, change, fault):
    with pytest.raises(ta.InputError, match=fault):
        load_confidence_set(changed(found, tmp_path, change))
