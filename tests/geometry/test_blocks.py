r"""Unknowns in initial and boundary conditions: blocks of a residual with points of their own.

Heat conduction ``u_t = k u_xx`` on a rod, with an unknown flux ``q`` at ``x = 0`` and an unknown
initial amplitude ``A``. The learned field decays at the wrong rate,
``u = A_0 exp(-kappa pi^2 t) sin(pi x)``, so that in linear coordinates

.. math::
    r_1 = \pi^2 u\,(k - \kappa), \qquad
    r_2 = \pi A_0 e(t)\,k - q, \qquad
    r_3 = (A_0 - A) \sin \pi x,

with :math:`e = \exp(-\kappa\pi^2 t)`. Only the first two know k, only the second q and only the
third A.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import twoaxis as ta
from twoaxis import views
from twoaxis.errors import InputError
from twoaxis.geometry.score import sampling_error

AMPLITUDE, KAPPA = 1.2, 0.07
K, Q, A = 0.05, 0.2, 1.0
WEIGHTS = np.array([1.0, 10.0, 5.0])
RNG = np.random.default_rng(5)
INSIDE = RNG.uniform(size=(60, 2))
FLUX = np.column_stack([np.zeros(20), np.linspace(0, 1, 20)])
START = np.linspace(0, 1, 15)[:, None]  # of another dimension: x alone
DECAY = np.exp(-KAPPA * np.pi**2 * FLUX[:, 1])


def field(x, t):
    return AMPLITUDE * np.exp(-KAPPA * np.pi**2 * t) * np.sin(np.pi * x)


def residual(k, q, A):
    return (
        np.pi**2 * field(*INSIDE.T) * (k - KAPPA),
        np.pi * AMPLITUDE * DECAY * k - q,
        (AMPLITUDE - A) * np.sin(np.pi * START[:, 0]),
    )


def number(value, *, nuisance=False):
    known = {"start": value} if nuisance else {"truth": value}
    return ta.Parameter(bounds=(-3, 4), coordinate="linear", scale=1.0, nuisance=nuisance, **known)


def frozen(*, nuisance=True, view=None):
    return ta.FrozenResidual(
        residual,
        {"k": number(K), "q": number(Q, nuisance=nuisance), "A": number(A, nuisance=nuisance)},
        (INSIDE, FLUX, START),
        view=view or views.Blocks([views.Pointwise()] * 3, weights=WEIGHTS),
        equations=("heat", "flux", "start"),
        axes=("x", "t"),
    )


# Closed forms of everything below.
SQUARE = np.pi**4 * np.mean(field(*INSIDE.T) ** 2)
SINE = np.mean(np.sin(np.pi * START[:, 0]) ** 2)
SLOPE = np.pi * AMPLITUDE
STRENGTH = np.array(
    [
        [
            WEIGHTS[0] * SQUARE + WEIGHTS[1] * SLOPE**2 * np.mean(DECAY**2),
            -WEIGHTS[1] * SLOPE * DECAY.mean(),
            0.0,
        ],
        [-WEIGHTS[1] * SLOPE * DECAY.mean(), WEIGHTS[1], 0.0],
        [0.0, 0.0, WEIGHTS[2] * SINE],
    ]
)
SCORE = np.array(
    [
        WEIGHTS[0] * SQUARE * (K - KAPPA)
        + WEIGHTS[1] * np.mean(SLOPE * DECAY * (SLOPE * DECAY * K - Q)),
        -WEIGHTS[1] * np.mean(SLOPE * DECAY * K - Q),
        -WEIGHTS[2] * SINE * (AMPLITUDE - A),
    ]
)
# With q free the flux says only that k should not vary along it, that is, that it is zero.
LEFT = WEIGHTS[0] * SQUARE + WEIGHTS[1] * SLOPE**2 * DECAY.var()
BEST = WEIGHTS[0] * SQUARE * KAPPA / LEFT


def test_score_and_strength_in_closed_form():
    found = ta.score(frozen(nuisance=False))
    assert_allclose(found.H, STRENGTH, rtol=1e-8, atol=1e-9)
    assert_allclose(found.B, SCORE, rtol=1e-8)
    moved = found.displacement
    assert moved["k"] == pytest.approx(BEST - K)
    assert moved["A"] == pytest.approx(AMPLITUDE - A)
    assert moved["q"] == pytest.approx(SLOPE * BEST * DECAY.mean() - Q)


def test_conditions_as_nuisance_parameters_in_closed_form():
    found = ta.score(frozen())
    assert found.strength == pytest.approx(LEFT)
    assert found.displacement["k"] == pytest.approx(BEST - K)
    left = SQUARE * (K - KAPPA) ** 2 * WEIGHTS[0] + WEIGHTS[1] * (SLOPE * K) ** 2 * DECAY.var()
    assert found.remaining_norm == pytest.approx(np.sqrt(left))


def test_scan_finds_the_same_minimum():
    scan = ta.frozen_scan(frozen(), candidates=15)
    assert scan.affine
    assert_allclose(
        [scan.minimum[n] for n in ("k", "q", "A")],
        [BEST, SLOPE * BEST * DECAY.mean(), AMPLITUDE],
        rtol=1e-8,
    )
    values, profile = scan.slices["k"]
    fitted = np.clip(SLOPE * values * DECAY.mean(), -3, 4)  # q, where its bounds allow it
    expected = WEIGHTS[0] * SQUARE * (values - KAPPA) ** 2
    expected += WEIGHTS[1] * (SLOPE * values) ** 2 * DECAY.var()
    expected += WEIGHTS[1] * (SLOPE * values * DECAY.mean() - fitted) ** 2
    assert (fitted == 4).any()
    assert_allclose(profile, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    "view",
    [
        views.Blocks([views.Pointwise()] * 3, weights=WEIGHTS),
        views.Blocks([views.Gaussian(), views.Pointwise(), views.Patch(cells=2)], weights=WEIGHTS),
        views.Blocks([views.Gaussian(), views.Gaussian(), views.Gaussian()], weights=WEIGHTS),
    ],
    ids=["pointwise", "mixed", "gaussian"],
)
def test_modes_belong_to_one_equation_and_sum_to_the_whole(view):
    one = frozen(view=view)
    audit = ta.audit(one, spectrum=1000, candidates=9)
    found, score = audit.spectrum, ta.score(one)
    own = found.of("k")
    assert found.complete
    assert own.strength.sum() == pytest.approx(score.strength)
    assert own.signed.sum() == pytest.approx(-score.displacement["k"] * score.strength)
    assert (np.diff(found.eigenvalues) <= 0).all()


def test_pointwise_blocks_are_resolved_from_coarse_to_fine():
    """On its own points: the smooth field needs few modes, single points would need all."""
    audit = ta.audit(frozen(), spectrum=1000, candidates=9)
    assert "each equation" in audit.spectrum.basis
    plain = ta.spectrum(frozen())  # in the eigenvectors of the view itself
    assert 2 * audit.spectrum.of("k").rank_for(0.9) < plain.of("k").rank_for(0.9)


def test_contributions_and_regions_by_equation():
    found = ta.evidence_map(frozen(), regions=2, progress=False)
    table = found.summary()  # of k alone: the others are nuisance parameters
    assert {name.split(":")[0] for name in table.index} == {"heat", "flux", "start"}
    assert table["B"].sum() == pytest.approx((K - BEST) * LEFT)
    assert table["H"].sum() == pytest.approx(LEFT)
    start = table[table.index.str.startswith("start")]
    assert_allclose(start["H"], 0.0, atol=1e-12)  # the initial condition does not know k
    spectrum = ta.spectrum(frozen()).of("k")
    cells = spectrum.region_contributions(cells=2)
    by_equation = cells.groupby("equation")["contribution"].sum()
    assert by_equation["heat"] == pytest.approx(WEIGHTS[0] * SQUARE * (K - KAPPA))
    assert by_equation["flux"] == pytest.approx(WEIGHTS[1] * SLOPE**2 * K * DECAY.var())
    assert by_equation["start"] == pytest.approx(0.0, abs=1e-12)


def test_a_region_left_out_is_fitted_without_it():
    """Without the flux the heat equation decides alone, and q is no longer seen."""
    one = frozen()
    labels = np.repeat(["heat", "flux", "start"], [60, 20, 15])
    found = ta.evidence_map(one, regions=labels, progress=False)
    table = found.summary()
    assert table.loc["flux", "without"] == pytest.approx(KAPPA - K)
    assert table.loc["start", "without"] == pytest.approx(BEST - K)
    assert [message.code for message in found.doubts] == ["evidence.region_needed"]


def test_evidence_of_an_audit_sums_to_the_projected_score():
    audit = ta.audit(frozen(), candidates=9)
    group = audit.field
    assert list(group["equation"].values) == ["heat", "flux", "start"]
    sums = group["contribution"].sum("point")
    assert float(sums.sel(parameter="k")) == pytest.approx((K - BEST) * LEFT)
    assert float(sums.sel(parameter="A")) == pytest.approx(SCORE[2])


def test_sampling_error_of_patches_counts_deviations_within_cells_only():
    """Two blocks of patches have the error of each by itself, added in squares."""
    rng = np.random.default_rng(1)
    r, J = rng.normal(size=60), rng.normal(size=(60, 1))
    points = [rng.uniform(size=(30, 2)) for _ in range(2)]
    patches = views.Patch(cells=3)
    both = views.Blocks([patches, patches]).bind(points)
    H = both.quadratic(J, J)
    step = -np.linalg.solve(H, both.quadratic(J, r))
    whole = sampling_error(r, J, step, H, both)
    parts = [
        sampling_error(r[rows], J[rows], step, H, patches.bind(own))
        for rows, own in zip((slice(0, 30), slice(30, 60)), points, strict=True)
    ]
    assert_allclose(whole**2, np.sum(np.square(parts), axis=0), rtol=1e-9)


def test_saved_and_loaded(tmp_path):
    loaded = ta.load(frozen().save(tmp_path / "heat.nc"))
    assert ta.score(loaded).displacement["k"] == pytest.approx(BEST - K, rel=1e-6)


def test_refusals():
    with pytest.raises(InputError, match="a view for each of the 3 equations"):
        ta.score(frozen(), view=views.Pointwise())
    with pytest.raises(InputError, match="a name for each of the 3 equations"):
        ta.FrozenResidual(
            residual,
            {"k": number(K), "q": number(Q), "A": number(A)},
            (INSIDE, FLUX, START),
            equations=("heat", "flux"),
        )
