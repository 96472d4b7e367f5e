"""Calibrations and confidence sets in files."""

import pickle

import numpy as np
import pytest
import xarray as xr

import twoaxis as ta
from twoaxis.io import write_netcdf
from twoaxis.remedies import calibrate, confidence_set

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
    again = ta.load(found.save(tmp_path / "set.nc"))
    assert again.intervals == found.intervals
    assert again.corrected == found.corrected
    assert repr(again) == repr(found)
    assert again.messages == found.messages
    assert again.summary().equals(found.summary())
    assert again.candidates.equals(found.candidates)
    assert again.retrainings == found.retrainings
    assert again.calibration.rerun is None
    with xr.open_datatree(tmp_path / "set.nc", engine="h5netcdf") as plain:
        assert plain["calibration/parameter"].item() == "k"
        assert plain["low"].values.tolist() == [part.low for part in found.intervals]


def test_an_empty_set_comes_back(found, tmp_path):
    empty = found.calibration.confidence_set(estimate=50.0)
    again = ta.load(empty.save(tmp_path / "set.nc"))
    assert again.intervals == ()
    assert again.messages == empty.messages


def test_a_calibration_comes_back_without_its_pipeline(tmp_path):
    made = calibrate(pipeline, lambda k: k * np.ones(4), K, 0.3, candidates=6, replicas=39)
    again = ta.load(made.save(tmp_path / "calibration.nc"))
    xr.testing.assert_identical(again.data, made.data)
    assert again.messages == made.messages
    one, other = (each.confidence_set(estimate=2.4, level=0.8) for each in (made, again))
    assert one.intervals == other.intervals
    with pytest.raises(ta.InputError, match="run the pipeline on the data and pass estimate"):
        again.confidence_set(np.full(4, 2.0))
    with pytest.raises(ta.InputError, match="neither"):
        again.confidence_set()
    assert pickle.loads(pickle.dumps(made)).rerun is None


def test_the_calibration_of_a_set_is_a_result_of_its_own(found, tmp_path):
    again = ta.load(found.calibration.save(tmp_path / "calibration.nc"))
    assert again.confidence_set(estimate=found.estimate).intervals == found.intervals


def changed(found, path, of_calibration=None, of_set=None):
    groups = {"/": found.data.to_dataset(), "/calibration": found.data["calibration"].to_dataset()}
    if of_calibration is not None:
        groups["/calibration"] = of_calibration(groups["/calibration"])
    if of_set is not None:
        groups["/"] = of_set(groups["/"])
    return write_netcdf(path, xr.DataTree.from_dict(groups))


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.drop_vars("estimate"),
        lambda d: d.drop_attrs(),
        lambda d: d.isel(candidate=slice(None, None, -1)),
        lambda d: d.isel(candidate=[0]),
        lambda d: d.assign(estimate=-d["estimate"]),
        lambda d: d.assign(estimate=d["estimate"] * np.inf),
        lambda d: d.assign(estimate=d["estimate"] * 1.01),
        lambda d: d.assign(coordinate=("parameter", np.array(["linear"], dtype=object))),
        lambda d: d.transpose(),
    ],
)
def test_a_calibration_that_was_changed_is_refused(found, tmp_path, change):
    with pytest.raises(ta.InputError):
        ta.load(changed(found, tmp_path / "set.nc", of_calibration=change))


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.assign_attrs(level=0.5),
        lambda d: d.assign_attrs(level=0.999),
        lambda d: d.assign_attrs(statistic="other"),
        lambda d: d.assign_attrs(delivered=-1.0),
        lambda d: d.assign_attrs(delivered=float("nan")),
        lambda d: d.assign(low=d["low"] * 0.9),
        lambda d: d.assign(corrected=3.0),
        lambda d: d.drop_vars("open_low"),
    ],
)
def test_a_set_that_does_not_follow_from_its_calibration_is_refused(found, tmp_path, change):
    with pytest.raises(ta.InputError):
        ta.load(changed(found, tmp_path / "set.nc", of_set=change))


def test_an_unchanged_copy_is_accepted(found, tmp_path):
    assert ta.load(changed(found, tmp_path / "set.nc")).intervals == found.intervals
