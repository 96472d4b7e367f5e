"""Pictures of an unknown function: what is drawn is what was found."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from numpy.testing import assert_allclose
from web_pages import Reader

import twoaxis as ta
from twoaxis import report
from twoaxis.diagnosis.functions import deciding_node
from twoaxis.report.figures.function import curves_of, describe
from twoaxis.report.theme import named

X = np.linspace(0, 1, 41)
NODES = np.linspace(0, 1, 5)
TRUTH = 1 + NODES
K = ta.UnknownFunction(
    nodes=NODES, bounds=(0.1, 20.0), truth=TRUTH, delivered=1.1 * TRUTH, unit="m/s", label="$k$"
)


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def resolution():
    return ta.resolve(
        lambda k: k(X), {"k": K}, noise=0.1, replicas=20, vectorized=True, progress=False
    )


@pytest.fixture(scope="module")
def audit(resolution):
    readings = np.interp(X, NODES, TRUTH) + 0.1 * np.random.default_rng(0).standard_normal(41)
    return ta.audit(
        lambda k: k(X) - 1.3 * np.interp(X, NODES, TRUTH),
        {"k": K},
        ta.views.Pointwise(),
        points=X,
        resolution=resolution,
        data=readings,
    )


def lines(ax):
    return {line.get_label(): line for line in ax.lines if not line.get_label().startswith("_")}


def test_the_picture_of_an_audit_has_all_functions_and_the_interval_of_the_matched_one(audit):
    ax = ta.plots.plot_function(audit, function="k")
    drawn = lines(ax)
    assert set(drawn) == {"truth", "delivered", "preferred", "matched"}
    x = drawn["truth"].get_xdata()
    assert_allclose(drawn["truth"].get_ydata(), 1 + x, rtol=1e-12)
    assert_allclose(drawn["delivered"].get_ydata(), 1.1 * (1 + x), rtol=1e-12)
    assert_allclose(drawn["preferred"].get_ydata(), 1.3 * (1 + x), rtol=1e-6)
    matched = audit.group("/matched")
    at_nodes = np.interp(NODES, x, drawn["matched"].get_ydata())
    assert_allclose(at_nodes, matched["estimate"].values, rtol=1e-9)
    shown = curves_of(audit)
    low, high = (np.interp(NODES, shown.places, end) for end in shown.band)
    assert_allclose(low, matched["lower"].values, rtol=1e-9)
    assert_allclose(high, matched["upper"].values, rtol=1e-9)
    assert len([c for c in ax.collections if isinstance(c, PolyCollection)]) >= 1
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x", "$k$ (m/s)")
    assert describe(audit, "k").startswith(
        "k(x) from 0 to 1: truth, delivered, preferred, matched;"
    )


def test_a_resolution_draws_its_fisher_band_and_the_fits_to_replicas(resolution):
    ax = resolution.function("k").plot()
    found = resolution.function("k").data
    assert_allclose(lines(ax)["fits to replicas"].get_ydata(), found["replica_lower"])
    band = next(c for c in ax.collections if isinstance(c, PolyCollection))
    heights = band.get_paths()[0].vertices[:, 1]
    assert_allclose([heights.min(), heights.max()], [found["lower"].min(), found["upper"].max()])


def test_what_the_data_do_not_determine_is_hatched():
    seen = X < 0.5

    def forward(k):
        return np.where(seen, k(X), 0.0)

    ax = ta.plots.plot_function(
        ta.resolve(forward, {"k": K}, noise=0.1, replicas=2, vectorized=True, progress=False)
    )
    (hatched,) = [patch for patch in ax.patches if patch.get_hatch()]
    corners = hatched.get_extents().transformed(ax.transData.inverted())
    assert 0.45 < corners.x0 < 0.55
    assert_allclose(corners.x1, 1.0)


def test_the_displacement_is_drawn_signed(audit):
    drawn = lines(ta.plots.plot_function_displacement(audit))
    assert_allclose(drawn["minimum of the frozen scan"].get_ydata(), np.log(1.3), rtol=1e-6)
    assert_allclose(drawn["D, first order"].get_ydata(), 0.3, rtol=1e-5)
    score = ta.plots.plot_function_displacement(audit.score)
    assert set(lines(score)) == {"D, first order"}


@pytest.mark.parametrize("part", ["audit", "resolution"])
def test_directions_are_drawn_as_functions(audit, resolution, part):
    result = audit if part == "audit" else resolution
    ax = ta.plots.plot_function_directions(result, count=2)
    found = (audit.score if part == "audit" else resolution).function().data
    drawn = list(lines(ax).values())
    assert len(drawn) == 2
    for k in range(2):
        assert_allclose(drawn[k].get_ydata(), found["direction_curve"].values[k])


@pytest.mark.parametrize(
    "draw",
    [
        ta.plots.plot_function,
        ta.plots.plot_function_displacement,
        ta.plots.plot_function_directions,
    ],
)
def test_other_results_are_refused(draw):
    with pytest.raises(ta.InputError):
        draw("audit.nc")


def test_a_page_and_a_notebook_view_of_a_function(resolution, tmp_path):
    found = resolution.function()
    page = found.to_html(tmp_path / "function.html").read_text()
    assert "<svg" in page
    assert "length_scale" in found._repr_html_()


def test_the_page_shows_the_function_and_not_its_node_values_one_by_one(audit):
    page = audit._repr_html_(), report.page(audit)
    for html in page:
        assert html.count("along k[") == 0
        assert 'scope="row">k[' not in html
    pictures = Reader(page[1]).all("svg")
    told = [svg["aria-label"] for svg in pictures if describe(audit, "k") in svg["aria-label"]]
    assert len(told) == 3
    assert "The function k" in Reader(page[1]).text


def test_the_page_of_an_audit_has_one_table_for_the_function(audit, tmp_path):
    page = audit.to_html(tmp_path / "audit.html").read_text()
    assert page.count("<caption>Parameter <strong>") == 1
    assert "<caption>Parameter <strong>k(x)</strong></caption>" in page
    assert "The function k</h2>" in page
    assert page.count("<svg") < 12  # of the function, of the data and of the field; none of a node


def test_results_show_a_function_once_and_not_its_nodes(resolution, audit):
    for result, pictures in ((resolution, 1), (audit.scan, 1), (audit.score, 2)):
        assert report.notebook_html(result).count("<svg") == pictures
    assert "k(x) = 1.1 to 2.2" in audit.parameters.value_words(audit.parameters.delivered)
    flat = ta.UnknownFunction(nodes=NODES, bounds=(0.1, 20.0), delivered=1.0)
    known = ta.resolve(
        lambda k: k(X), {"k": flat}, noise=0.1, replicas=2, vectorized=True, progress=False
    )
    assert known.parameters.value_words(known.center.values) == "k(x) = 1"


def test_nodes_on_the_decision_map_share_a_marker_and_their_labels_do_not_overlap(audit):
    ax = ta.plots.plot_decision_map(audit)
    drawn = [line for line in ax.lines if line.get_marker() != "None"]
    assert len(drawn) == len(NODES)
    assert {line.get_marker() for line in drawn} == {"o"}
    ax.figure.canvas.draw()
    nodes = [named(audit.parameters[name], name) for name in audit.names]
    labels = [text for text in ax.texts if text.get_text() in nodes]
    # The deciding one is named whatever else there is.
    deciding = deciding_node(audit, audit.functions["k"])
    assert named(audit.parameters[deciding], deciding) in [text.get_text() for text in labels]
    boxes = [text.get_window_extent() for text in labels]
    assert not any(a.overlaps(b) for j, a in enumerate(boxes) for b in boxes[:j])


# ---------------------------------------------------------------- two variables

SITES = np.random.default_rng(1).uniform(size=(60, 2))
DESIGN = np.stack([np.outer((1 - x, x), (1 - y, y)).ravel() * (1 + x) for x, y in SITES])
CORNERS = np.array([[1.0, 2.0], [3.0, 5.0]])


@pytest.fixture(scope="module")
def refined():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 9)] * 2), -1).reshape(-1, 2)
    frozen = ta.from_torch(
        net.double(),
        lambda model, p, k: model(p) - k(p[:, :1], p[:, 1:]) * (1 + p[:, :1]),
        {
            "k": ta.UnknownFunction(
                nodes=(2, 2), domain=((0, 1), (0, 1)), bounds=(-20, 20), coordinate="linear",
                delivered=1.1 * CORNERS, unit="m",
            )
        },
        points=grid,
    )  # fmt: skip
    data = DESIGN @ CORNERS.ravel() + 0.1 * np.random.default_rng(2).standard_normal(60)
    observations = ta.Observations(data, at=SITES, noise=0.1)
    return frozen, observations, ta.refine(frozen, observations, progress=False)


def test_of_two_variables_a_refinement_is_linear_least_squares(refined, tmp_path):
    _, observations, found = refined
    covariance = 0.1**2 * np.linalg.inv(DESIGN.T @ DESIGN)
    fit = covariance @ DESIGN.T @ observations.readings / 0.1**2
    errors = np.array(list(found.standard_error.values()))
    assert found.trusted
    assert_allclose((np.array(list(found.values.values())) - fit) / errors, 0, atol=0.02)
    assert_allclose(errors, np.sqrt(np.diag(covariance)), rtol=0.02)
    loaded = ta.load(found.save(tmp_path / "refinement.nc"))
    assert loaded.parameters.functions["k"].basis.axes == ((0.0, 1.0), (0.0, 1.0))
    middle = np.full(4, 0.25)
    maps = plotted(ta.plots.plot_function(loaded))
    assert list(maps) == ["refined", "before", "half width of the 95% band"]
    center = 20  # of 41 places
    assert_allclose(maps["refined"][center, center], middle @ fit, rtol=1e-3)
    width = 1.96 * np.sqrt(middle @ covariance @ middle)
    assert_allclose(maps["half width of the 95% band"][center, center], width, rtol=0.02)
    assert loaded._repr_html_().count("<svg") == 1  # not one for each node


def plotted(axes):
    """The values of each map, over the first variable and the second."""
    return {
        ax.get_title(loc="left"): ax.collections[0].get_array().reshape(41, 41).T
        for ax in np.ravel(axes)
    }


def test_of_two_variables_an_audit_draws_maps(refined):
    tolerance = ta.Tolerance(material=5.0, resolution=5.0, preference=5.0)
    audit = ta.audit(refined[2], field="before", tolerance=tolerance, replicas=10, progress=False)
    maps = plotted(ta.plots.plot_function(audit))
    assert list(maps) == ["matched", "delivered", "preferred", "half width of the 95% band"]
    assert_allclose(maps["delivered"][[0, 0, -1, -1], [0, -1, 0, -1]], 1.1 * CORNERS.ravel())
    low, high = (audit.group("/matched")[end].values for end in ("lower", "upper"))
    corners = maps["half width of the 95% band"][[0, 0, -1, -1], [0, -1, 0, -1]]
    assert_allclose(corners, (high - low) / 2, rtol=1e-9)
    moved = plotted(ta.plots.plot_function_displacement(audit))
    first = audit.score.displacement
    assert_allclose(
        moved["D, first order"][[0, 0, -1, -1], [0, -1, 0, -1]], list(first.values()), rtol=1e-9
    )
    assert len(plotted(ta.plots.plot_function_directions(audit))) == 3
    one = plt.figure().subplots()
    assert ta.plots.plot_function(audit, ax=one) is one
    assert describe(audit, "k").startswith("k(x, y) from (0, 0) to (1, 1): delivered, preferred")
    page = Reader(report.page(audit))
    assert "The function k" in page.text
    assert "k(x, y)" in str(audit)
    assert "at (x, y) = (" in str(audit)
