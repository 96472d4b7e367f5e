"""The pages that the documentation's build writes from the records of a reproduction."""

import copy
import importlib
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from twoaxis.errors import InputError
from twoaxis.studies import figures
from twoaxis.studies.record import FORMAT, save_record

DOCS = Path(__file__).parents[2] / "docs"
MODULES = ("myst", "reproduction_block", "reproduction")
STRANGE = "|D| <b>*x*_y_</b> $z$ {sup}`q` [a](b) &amp; # ~t~ \\"


@pytest.fixture(scope="module")
def pages():
    """The script of the documentation, which is no part of the package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        yield importlib.import_module("reproduction")
    for name in MODULES:
        del sys.modules[name]


@pytest.fixture
def written(pages, records, tmp_path):
    """Write records as a reproduction would, document them, and return both directories."""

    def write(changed=records):
        results, docs = tmp_path / "results", tmp_path / "docs"
        (results / "blocks").mkdir(parents=True, exist_ok=True)
        (results / "figures").mkdir(exist_ok=True)
        for record in changed:
            name = {"repeated": "holdout"}.get(record["name"], record["name"])
            whole = {"format": FORMAT, **record, "name": name}
            save_record(whole, results / "blocks" / f"{name}.json")
        for name in figures.draw(changed):
            (results / "figures" / f"{name}.png").touch()
        pages.write(results, docs)
        return results, docs

    return write


class Reader(HTMLParser):
    """The rows of all tables, the tags, and everything that is shown."""

    def __init__(self, markdown):
        super().__init__()
        self.rows, self.tags, self.shown, self.inside = [], [], "", False
        self.feed(MarkdownIt("commonmark").enable("table").render(markdown))

    def handle_starttag(self, tag, attrs):  # noqa: ARG002
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.inside = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.inside = False

    def handle_data(self, data):
        self.shown += data
        if self.inside:
            self.rows[-1][-1] += data

    def row(self, first):
        (found,) = [row for row in self.rows if row and row[0] == first]
        return [cell.replace("\N{NO-BREAK SPACE}", " ") for cell in found]


def page(docs, name):
    return Reader((docs / "reproduction" / f"{name}.md").read_text())


def part(docs, name):
    return Reader((docs / "_build" / "reproduction" / f"{name}.md").read_text())


def test_every_block_has_a_page_in_the_order_of_the_paper(written):
    _, docs = written()
    names = ["resolution", "development", "holdout", "fresh-noise", "spectrum", "darcy"]
    assert {path.stem for path in (docs / "reproduction").iterdir()} == set(names)
    overview = (docs / "_build/reproduction/counts.md").read_text()
    listed = overview.partition(":hidden:\n\n")[2].partition("\n```")[0]
    assert listed.split() == [f"reproduction/{name}" for name in names]


def test_counts(written):
    _, docs = written()
    found = part(docs, "counts")
    told = "37 figures in 6 blocks: 5 exact, 29 agree, 2 differ, 1 not judged."
    assert told in found.shown
    assert found.row("The block repeated") == ["The block repeated", "6", "", "1", "", "2", "1"]
    assert found.row("The block resolution")[1:] == ["", "4", "4", "", "", ""]  # nothing is trained
    assert found.row("all") == ["all", "", "5", "29", "", "2", "1"]
    assert "0 of 4 retrained figures (0%) lie outside all our initializations" in found.shown


def test_verdicts_by_the_first_rule_stand_beside_those_of_the_present_one(written, tmp_path):
    (tmp_path / "results").mkdir()
    first = "block,figure,verdict\ndarcy,full_wins,agrees\n"
    (tmp_path / "results" / "first-rule.csv").write_text(first)
    _, docs = written()
    found = part(docs, "counts")
    assert found.row("agrees") == ["agrees", "1", "", "", "", "", "1"]
    assert found.row("added since") == ["added since", "4", "29", "", "2", "1", "36"]


def test_other_noise_is_told_where_it_was_trained(written, made, records):
    _, docs = written()
    assert "twoaxis reproduce noise-draws --initializations 10" in part(docs, "noise").shown
    figure = made.bounded("excess_burgers", -3.5, -1.0, 2.0, initializations=6, verdict="differs")
    drawn = made.record("noise-draws", [figure], figures_of="fresh-noise", initializations=6)
    _, docs = written([*records, drawn])
    found = part(docs, "noise").row("the figure excess_burgers")
    assert found[1:] == ["−3.5", "−3.475 [−3.500, −3.450]", "[−1.00, 2.00]", "differs"]


def test_verdicts_stand_on_generated_pages_alone():
    words = {"exact", "agrees", "differs", "not contradicted"}
    for path in DOCS.glob("*.md"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("|"):
                assert not words & {cell.strip(" *") for cell in line.split("|")}, path.name


def test_a_page_has_every_figure_with_interval_spread_place_and_verdict(written, made, records):
    changed = copy.deepcopy(records[-1])
    changed["figures"][0] |= {"printed": "-.5", "ours_text": "-0.500", "interval_source": "one"}
    changed["figures"].append(made.bounded("five", 2e-9, -1, 1, ours_text="2e-09"))
    _, docs = written([changed])
    found = page(docs, "holdout")
    spread = ["0.525 [0.500, 0.550]", "5"]
    assert found.rows[0] == ["figure", "published", "ours", "mean and range", "percentile", ""]
    first = ["−.5 [−0.50, 1.50]", "−0.500 [0.40, 0.70]{sup}a", *spread, "agrees"]
    assert found.row("the figure one")[1:] == first
    assert found.row("the figure two")[1:] == ["0.5", "0.500", *spread, "differs {sup}1"]
    assert found.row("the figure three")[1:] == ["0.5", "0.500", *spread, "differs {sup}2"]
    assert found.row("the figure four")[-1] == "not judged"
    # The sign of an exponent is none of a number.
    assert found.row("the figure five")[2] == "2e-09 [−1.00, 1.00]{sup}b"
    for text in (
        "May show what repeated shows.",
        "12 fields, 6 initializations. 2 agree, 2 differ, 1 not judged.",
        "A reading of repeated.",
        "It is drawn by chance.\nNo reason is known.",
        "All figures are those of: Table A1. Our 95% intervals: a: one; b: cluster bootstrap.",
        "twoaxis reproduce repeated: 12 fields trained, 1 initialization, 6 min 52 s on CPU, "
        "with twoaxis 0.1.0, jax 0.11.0.",
    ):
        assert text in found.shown


def test_places_stand_at_each_figure_where_they_are_several(written, made):
    told = [made.figure("a", where="Table 1"), made.figure("b", where="Solver control")]
    _, docs = written([made.record("development", told)])
    found = page(docs, "development")
    assert [row[0] for row in found.rows[1:]] == [
        "the figure a (Table 1)",
        "the figure b (Solver control)",
    ]
    assert "All figures are those of" not in found.shown


def test_main_claims_stand_under_their_blocks(written):
    _, docs = written()
    rows = part(docs, "headlines").rows[1:]
    assert [row[0] for row in rows] == [
        "The block development",
        "the figure pooled_r",
        "The block repeated",
        "the figure one",
        "the figure three",
        "The block fresh-noise",
        "the figure aligned_absolute_r",
    ]
    assert rows[1] == ["the figure pooled_r", ".960", "0.955", "", "agrees"]


def test_pictures_are_those_of_the_reproduction(written):
    results, docs = written()
    text = (docs / "_build/reproduction/figures.md").read_text()
    for name in ("score", "mechanisms", "darcy"):
        assert f"```{{figure}} ../results/figures/{name}.png\n" in text
        assert (docs / f"../results/figures/{name}.png").resolve().exists()
    (results / "figures" / "score.png").unlink()
    with pytest.raises(InputError, match=r"without score\.png"):
        importlib.import_module("reproduction").write(results, docs)


def test_tables_are_linked(written):
    _, docs = written()
    text = (docs / "reproduction/development.md").read_text()
    assert "- [profiles](<../../results/tables/development-profiles.csv>), 18 rows" in text


def test_times_are_those_of_first_calls_and_of_all(written, records):
    changed = copy.deepcopy(records[1:3])
    first = changed[0]["calls"][0]
    changed[0]["calls"].append(first | {"initializations": 10, "trained": 108, "seconds": 4000.0})
    changed[1]["calls"][0]["initializations"] = 10
    _, docs = written(changed)
    found = part(docs, "times")
    took = ["12", "6 min 52 s", "1", "120", "1 h 13 min"]
    assert found.row("The block development")[1:] == took
    assert found.row("The block fresh-noise")[1:] == ["12", "", "1", "12", "6 min 52 s"]
    assert found.row("all")[1:] == ["", "6 min 52 s", "", "132", "1 h 20 min"]
    assert found.shown.startswith("On CPU. ")


def test_strange_texts_stay_texts(written, made):
    whole = made.record(
        "development",
        [made.figure("a", verdict="differs", label=STRANGE, where=STRANGE, reason=STRANGE)],
        title=STRANGE,
        claim=STRANGE,
        notes=[STRANGE],
    )
    whole["calls"][0] |= {"command": "one ` two `` three", "device": STRANGE}
    _, docs = written([whole])
    text = (docs / "reproduction/development.md").read_text()
    found = Reader(text)
    assert found.rows[1][0] == STRANGE
    assert found.shown.count(STRANGE) == 7  # title, claim, note, label, place, reason, device
    assert "one ` two `` three: 12 fields" in found.shown
    assert not {"b", "em", "a"} & set(Reader(text.replace("[How it is done]", "")).tags)
    assert "$" not in text.replace("\\$", "")  # no formula
    assert "{sup}`q`" not in text  # no role


def test_pages_of_blocks_that_are_gone_go_and_unchanged_ones_stay(written):
    results, docs = written()
    kept, gone = docs / "reproduction/development.md", docs / "reproduction/gone.md"
    gone.write_text("old")
    before = kept.stat().st_mtime_ns
    (results / "blocks" / "darcy.json").unlink()
    importlib.import_module("reproduction").write(results, docs)
    assert not gone.exists()
    assert not (docs / "reproduction/darcy.md").exists()
    assert kept.stat().st_mtime_ns == before


def test_without_a_reproduction_it_says_what_to_do(pages, tmp_path):
    with pytest.raises(InputError, match=r"holds no blocks/NAME\.json.*twoaxis reproduce --all"):
        pages.write(tmp_path / "nothing", tmp_path / "docs")
    assert not (tmp_path / "docs").exists()


def test_a_smoke_run_is_not_documented(written, made):
    with pytest.raises(InputError, match="where darcy ran at smoke scale"):
        written([made.record("darcy", [made.figure("a")], scale="smoke")])
