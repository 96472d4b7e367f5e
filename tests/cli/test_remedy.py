"""``twoaxis remedy``: what is computed, printed and kept."""

import shutil

import pytest
from command import twoaxis

pytest.importorskip("jax")

import twoaxis as ta


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """An early-stopped run of Allen–Cahn, whose observations are weak, with its audit."""
    folder = tmp_path_factory.mktemp("audited") / "audit-allen-cahn"
    ta.train(
        "allen-cahn", datasets=8, steps=12, snapshots=2, residual_points=300,
        network=ta.Network(16, 2), store=folder / "runs", engine="in-process", progress=False,
    )  # fmt: skip
    options = ("--replicas", "20", "--tolerance", "1", "--out", folder)
    done = twoaxis("audit", "--run", folder / "runs", *options)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def remedied(audited):
    before = ta.load(audited / "audit.nc")
    done = twoaxis("remedy", audited.name, "--sites", "50", "--simulate", "2", cwd=audited.parent)
    assert done.returncode == 0, done.stderr
    return before, ta.load(audited / "audit.nc"), done


def test_the_route_is_followed_with_computed_numbers(remedied, audited):
    before, after, done = remedied
    assert after.route is before.route
    expected = {action.kind for action in before.actions}
    assert expected <= {action.kind for action in after.actions}
    assert "\\x" not in done.stdout
    for action in after.actions:
        assert action.title in done.stdout
    computed = {"observations": "predicted with 50", "evidence": "without", "delivery": "finished"}
    for action in after.actions:
        if action.kind in computed:
            assert computed[action.kind] in " ".join(n.label for n in action.numbers)
    page = (audited / "audit.html").read_text(encoding="utf-8")
    assert all(action.title in page for action in after.actions)


def test_the_simulated_audit_is_kept_and_not_trained_twice(remedied, audited):
    _, after, _ = remedied
    assert "bias" in {action.kind for action in after.actions}
    stored = sorted((audited / "simulated").glob("??/*/run.json"))
    assert len(stored) == 2
    times = [path.stat().st_mtime_ns for path in stored]
    done = twoaxis("remedy", audited / "audit.nc", "--sites", "50", "--simulate", "2")
    assert done.returncode == 0, done.stderr
    assert [path.stat().st_mtime_ns for path in stored] == times
    assert ta.load(audited / "audit.nc").actions == after.actions


def test_an_audit_without_its_run_says_what_it_can(audited, tmp_path):
    shutil.copy(audited / "audit.nc", tmp_path / "mine.nc")
    done = twoaxis("remedy", "mine.nc", "--out", "plan.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Route: " in done.stdout
    assert (tmp_path / "plan.html").exists()
    assert (tmp_path / "plan.nc").exists()
    failed = twoaxis("remedy", "mine.nc", "--simulate", "2", cwd=tmp_path)
    assert failed.returncode == 2
    assert "the run of the audit" in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere"),
        (["nowhere.nc"], "nowhere.nc"),
        (["{}", "--out", "page.txt"], ".html"),
        (["{}", "--run", "elsewhere"], "elsewhere"),
        (["{}", "--sites", "0"], "--sites"),
    ],
)
def test_bad_input_is_a_sentence_and_leaves_nothing(audited, tmp_path, arguments, message):
    done = twoaxis("remedy", *(a.format(audited) for a in arguments), cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
