"""``twoaxis runs`` as a user meets it: what is printed, what becomes of files, exit codes."""

import json
import os
import re
import time
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from command import process
from command import twoaxis as command

pytest.importorskip("jax")

from made_up_runs import run_of

import twoaxis as ta
from twoaxis.problems import BURGERS
from twoaxis.runs.run_file import seal

COMMANDS = ("list", "verify", "prune")
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]")


@pytest.fixture
def store(tmp_path):
    made = ta.RunStore(tmp_path / "runs", create=True)
    for number in range(3):
        made.save(run_of(number, delivered=0.0123))
    return made


@pytest.fixture
def twoaxis(tmp_path):
    """Run the command line in this process, and return its exit code and what it printed."""

    def run(*arguments):
        done = command(*arguments, cwd=tmp_path, columns="80")
        return done.returncode, done.stdout, done.stderr

    return run


def spoil(store, number=0):
    """Change a bit of the arrays, and return the key."""
    key = run_of(number).key
    path = store.path(key) / "arrays.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    return key


def forge(path, **changes):
    plain = json.loads((path / "run.json").read_text()) | changes
    plain.pop("sha256")
    (path / "run.json").write_text(json.dumps(plain | {"sha256": seal(plain)}))


# ------------------------------------------------------------------ list


def test_list(store, twoaxis):
    code, out, _ = twoaxis("runs", "list", store.directory)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    for key in store.keys():  # noqa: SIM118
        assert re.search(rf"{key} +10 nu 0.0123 finished +[\d.]+ kB", out)
    assert re.search(r"^3 runs, [\d.]+ kB$", out, re.MULTILINE)


def test_list_as_json(store, twoaxis, tmp_path):
    code, out, _ = twoaxis("runs", "list", store.directory, "--json", "-")
    rows = json.loads(out)["runs"]
    assert code == 0
    assert [row["key"] for row in rows] == store.keys()
    assert rows[0]["delivered"] == {"nu": 0.0123}
    assert rows[0]["seed"] == 0
    forge(store.path(rows[0]["key"]), delivered={"nu": float("nan")})
    assert twoaxis("runs", "list", store.directory, "--json", "out.json")[0] == 0
    assert json.loads((tmp_path / "out.json").read_text())["runs"][0]["delivered"] == {"nu": None}


def test_list_tells_damage_and_long_stories(store, twoaxis):
    first, second, _ = store.keys()
    (store.path(first) / "run.json").write_text("{")
    story = "diverged at step 3: loss or weights were no longer finite"
    forge(store.path(second), status=story)
    code, out, _ = twoaxis("runs", "list", store.directory)
    assert code == 1
    assert f"  {first}: damaged: its manifest is not JSON" in out
    assert f"  {second}: {story}" in out
    assert "3 runs" in out
    assert ", 1 damaged" in out
    code, out, _ = twoaxis("runs", "list", store.directory, "--json", "-")
    assert code == 1
    assert json.loads(out)["runs"][0]["problem"] is None


@pytest.mark.parametrize("name", COMMANDS)
def test_empty_and_missing_directories(twoaxis, tmp_path, name):
    (tmp_path / "empty").mkdir()
    code, out, _ = twoaxis("runs", name, "empty")
    assert code == 0
    assert out.strip() in ("no runs in empty", "0 runs sound", "nothing to remove")
    (tmp_path / "file").write_text("")
    for wrong in ("missing", "file"):
        code, out, err = twoaxis("runs", name, wrong)
        assert code == 2
        assert out == ""
        assert "error: expected a directory of runs" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file"]


# ------------------------------------------------------------------ show


def test_show(store, twoaxis):
    key = store.keys()[1]
    code, out, _ = twoaxis("runs", "show", store.directory, key[:-5])
    assert code == 0
    assert re.search(rf"key +{key}", out)
    assert re.search(r"settings.method.options.decay +0.999", out)
    assert "sound: the checksums match and the run can be rebuilt" in out


def test_show_what_is_damaged(store, twoaxis):
    key = spoil(store, 1)
    code, out, _ = twoaxis("runs", "show", store.directory, key)
    assert code == 1
    assert re.search(r"delivered.nu +0.0123", out)  # the manifest is in order
    assert "damaged: its arrays do not have the checksum" in out
    (store.path(key) / "run.json").unlink()
    code, out, _ = twoaxis("runs", "show", store.directory, key)
    assert code == 1
    assert "damaged: run.json cannot be read" in out


def test_show_a_problem_of_ones_own(store, twoaxis):
    store.save(run_of(7, replace(BURGERS, name="own")))
    code, out, _ = twoaxis("runs", "show", store.directory, "own")
    assert code == 0
    assert "not rebuilt: its problem is not built in: own" in out


@pytest.mark.parametrize("key", ["burgers", "nothing", "../..", "*", "[bold]"])
def test_show_needs_one_run(store, twoaxis, key):
    code, out, err = twoaxis("runs", "show", store.directory, key)
    assert code == 2
    assert out == ""
    assert "expected the key of one run" in err


# ------------------------------------------------------------------ verify


def test_verify(store, twoaxis):
    code, out, _ = twoaxis("runs", "verify", store.directory)
    assert code == 0
    assert out == "3 runs sound\n"


def test_verify_finds_damage_and_sets_it_aside(store, twoaxis):
    key = spoil(store)
    (store.directory / "notes").write_text("")
    code, out, _ = twoaxis("runs", "verify", store.directory)
    assert code == 1
    shard = store.path(key).parent.name
    assert f"  damaged {shard}/{key}: its arrays do not have the checksum" in out
    assert "  leftover notes: no part of a store" in out
    assert out.endswith("2 runs sound, 1 damaged, 1 leftover\n")
    assert store.holds(key)
    code, out, _ = twoaxis("runs", "verify", store.directory, "--set-aside", "--json", "-")
    found = json.loads(out)
    assert code == 1
    assert found["ok"] is False
    assert found["damaged"][0]["moved"] == f"damaged/{key}.1"
    assert not store.holds(key)
    code, out, _ = twoaxis("runs", "verify", store.directory)
    assert code == 0
    assert "1 set aside earlier" in out


# ------------------------------------------------------------------ prune


def test_prune(store, twoaxis):
    key = spoil(store)
    twoaxis("runs", "verify", store.directory, "--set-aside")
    old = store.directory / ".twoaxis-old"
    old.write_text("12345")
    os.utime(old, (time.time() - 10_000,) * 2)
    code, out, _ = twoaxis("runs", "prune", store.directory, "--dry-run", "--damaged")
    assert code == 0
    assert "would remove: 2" in out
    assert old.exists()
    code, out, _ = twoaxis("runs", "prune", store.directory)
    assert code == 0
    assert ".twoaxis-old (5 B): " in out
    assert "removed: 1, 5 B" in out
    assert not old.exists()
    assert (store.directory / "damaged" / f"{key}.1").is_dir()
    assert twoaxis("runs", "prune", store.directory, "--damaged")[0] == 0
    assert not (store.directory / "damaged" / f"{key}.1").exists()
    assert twoaxis("runs", "prune", store.directory)[1] == "nothing to remove\n"
    assert len(store.keys()) == 2


# ------------------------------------------------------------------ export


def test_export_and_everything_works_on_it(store, twoaxis, tmp_path):
    code, out, _ = twoaxis("runs", "export", store.directory, "copy")
    assert code == 0
    assert out == "3 runs in copy\n"
    assert twoaxis("runs", "verify", "copy")[:2] == (0, "3 runs sound\n")
    assert twoaxis("runs", "list", "copy", "--json", "-") == twoaxis(
        "runs", "list", store.directory, "--json", "-"
    )
    for left, right in zip(
        ta.load_runs(store.directory), ta.load_runs(tmp_path / "copy"), strict=True
    ):
        np.testing.assert_array_equal(left.residual(nu=0.01), right.residual(nu=0.01))
    key = store.keys()[0]
    code, *_ = twoaxis("runs", "export", "copy", "one.zip", "--keys", key[:-2])
    assert code == 0
    with zipfile.ZipFile(tmp_path / "one.zip") as packed:
        assert sum(name.endswith("run.json") for name in packed.namelist()) == 1


def test_export_leaves_damage_out(store, twoaxis, tmp_path):
    key = spoil(store)
    code, out, _ = twoaxis("runs", "export", store.directory, "copy")
    assert code == 1
    assert f"left out {store.path(key).parent.name}/{key}: " in out
    assert "2 runs in copy" in out
    for other in (1, 2):
        spoil(store, other)
    code, out, _ = twoaxis("runs", "export", store.directory, "none.zip")
    assert code == 1
    assert "nothing was written" in out
    assert not (tmp_path / "none.zip").exists()


def test_export_refuses_what_is_there(store, twoaxis, tmp_path):
    (tmp_path / "mine.zip").write_text("precious")
    code, out, err = twoaxis("runs", "export", store.directory, "mine.zip")
    assert code == 2
    assert out == ""
    assert "which is there already" in err
    assert (tmp_path / "mine.zip").read_text() == "precious"


# ------------------------------------------------------------------ hostile texts

TEXTS = [
    "\x1b[2J\x1b[31mfinished\x1b[0m",
    "[bold red]finished[/] [link=file:///etc/passwd]here[/link]",
    "[/]",
    "finished\nburgers-rba-d9-s9-000000000000 finished",
    "\x9b2J\x07\x08\r\u202edehsinif",
    "\ud800",
    ":skull: a:b:c",
    "x" * 100_000,
]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_texts_from_files_are_printed_and_not_obeyed(store, twoaxis, text):
    path = store.path(store.keys()[0])
    settings = json.loads((path / "run.json").read_text())["settings"]
    forge(path, status=text, twoaxis=text, delivered={text[:200]: 1.0})
    other = store.path(store.keys()[1])
    forge(other, settings=settings | {text[:200]: 1})  # what the error will quote
    directory = store.directory
    printed = [
        *twoaxis("runs", "list", directory)[1:],
        *twoaxis("runs", "show", directory, path.name)[1:],
        *twoaxis("runs", "show", directory, other.name)[1:],
        *twoaxis("runs", "verify", directory)[1:],
        *twoaxis("runs", "export", directory, "copy")[1:],
        *twoaxis("runs", "verify", directory, "--set-aside")[1:],
        *twoaxis("runs", "prune", directory, "--damaged")[1:],
    ]
    for each in printed:
        assert not CONTROL.search(each)
        assert not re.search("^burgers-rba-d9", each, re.MULTILINE)
    if text.startswith(("[", ":")):
        assert text in printed[0]
    assert len(printed[0]) < 5000


NAMES = ["\x1b[2Jevil", "[bold]evil", "two\nlines", "x" * 255, "\udcff", "-rf", "a b"]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names_of_files_are_printed_and_not_obeyed(store, twoaxis, name):
    shard = store.path(store.keys()[0]).parent
    store.path(store.keys()[0]).rename(shard / name)
    (store.directory / name).write_text("")
    for chosen in (("list",), ("verify",), ("verify", "--set-aside"), ("prune", "--damaged")):
        code, out, err = twoaxis("runs", chosen[0], store.directory, *chosen[1:])
        assert code in (0, 1)
        assert not CONTROL.search(out + err)
        assert "\nlines" not in out


def test_errors_are_printed_and_not_obeyed(store, twoaxis):
    path = store.path(store.keys()[0])
    settings = json.loads((path / "run.json").read_text())["settings"]
    forge(path, settings=settings | {"problem": "\x1b[2J[bold]\n"})
    code, _, err = twoaxis("audit", "--run", store.directory)
    assert code == 2
    assert not CONTROL.search(err)
    assert "the problem \\x1b[2J[bold]\\n" in err


# ------------------------------------------------------------------ the real thing


def test_as_a_process(store, tmp_path):
    """One command from the outside, with its exit code, and nothing but JSON on the output."""
    key = spoil(store)
    done = process("runs", "verify", store.directory, "--json", "-", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert [each["path"].split("/")[1] for each in json.loads(done.stdout)["damaged"]] == [key]
    assert done.stderr == ""
