"""The documentation names files, functions and words that exist."""

import inspect
import re
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import twoaxis as ta

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    + [p for p in (ROOT / "docs").rglob("*.md") if not {"_build", "reproduction"} & {*p.parts}]
)
# Words that readers of SciPy's or ArviZ's documentation would have to decode.
PRIVATE = re.compile(
    r"\b(to mend|mended|per cent|whole numbers?|foretold|said aloud|delivered less|"
    r"excess of the field|does not matter|the same by frozen scan|pale places)\b"
    r"|\d (?:%|percent\b)"
    r"|\b(cent(?:re|red|res)|neighbours?|colours?|optimis\w+|minimis\w+|initialis\w+|licence)\b",
    re.IGNORECASE,
)


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/how-it-works-inside.md"])
def test_the_files_that_a_page_names_exist(page):
    named = re.findall(r"`([\w/]+(?:\.py|/))`", (ROOT / page).read_text())
    assert len(named) > 20
    src = Path(ta.__file__).parent
    # Made while the documentation is built; and where the package may be installed from.
    elsewhere = {"docs/api/", "docs/gallery/", "src/twoaxis/"}
    places = [n for n in named if n not in elsewhere]
    assert [n for n in places if not (src / n).exists() and not (ROOT / n).exists()] == []


def test_every_public_name_is_in_the_reference():
    reference = (ROOT / "docs" / "reference" / "api.md").read_text()
    missing = [n for n in ta.__all__ if not re.search(rf"\b{n}\b", reference)]
    assert missing == ["__version__"]


MODULES = {"methods", "plots", "views"}


@pytest.mark.parametrize("name", sorted({*ta.__all__} - MODULES - {"__version__"}))
def test_every_public_name_has_an_example(name):
    try:
        documented = getattr(ta, name)
    except ta.InputError as error:  # names the library that is not installed
        pytest.importorskip("jax", reason=str(error))
        raise
    assert "\nExamples\n--------\n" in inspect.getdoc(documented)


@pytest.mark.parametrize("name", ta.plots.__all__)
def test_every_figure_is_in_the_gallery(name):
    drawn = [
        path
        for path in (ROOT / "examples" / "gallery").rglob("plot_*.py")
        if f"ta.plots.{name}(" in path.read_text()
    ]
    assert drawn


def test_external_links_are_well_formed():
    """Where they lead is checked with a network: CONTRIBUTING.md says how."""
    links = {
        (page.name, link)
        for page in PAGES
        for link in re.findall(r"https?:[^\s)>`\"']*", page.read_text())
    }
    assert len(links) > 20
    parts = {link: urlsplit(link[1]) for link in links}
    wrong = [
        link for link, part in parts.items() if part.scheme != "https" or "." not in part.netloc
    ]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_plain_words(page):
    found = [match.group() for match in PRIVATE.finditer(page.read_text())]
    assert found == []


def test_the_version_has_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited[1] == ta.__version__


def test_the_conda_recipe_needs_what_the_wheel_needs():
    yaml = pytest.importorskip("yaml")
    jinja2 = pytest.importorskip("jinja2")
    text = (ROOT / "packaging" / "recipe" / "meta.yaml").read_text()
    # What conda-build supplies: its templates, with the version in the place of a file.
    supplied = {"load_file_regex": lambda **_: (None, ta.__version__), "PYTHON": "python"}
    recipe = yaml.safe_load(jinja2.Template(text).render(supplied))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {"matplotlib": "matplotlib-base", "flatbuffers": "python-flatbuffers"}

    def as_conda(requirement):
        name, least = requirement.split(">=")
        return f"{named.get(name, name)} >={least}"

    needed, extra = project["dependencies"], project["optional-dependencies"]["train"]
    assert recipe["package"]["version"] == ta.__version__
    python = f"python {project['requires-python']}"
    assert recipe["requirements"]["run"] == [python, *map(as_conda, needed)]
    assert recipe["requirements"]["run_constrained"] == [*map(as_conda, extra)]
