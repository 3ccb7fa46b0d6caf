"""Killed at any moment, the same fit goes on where it stopped and ends with the same numbers."""

import io
import signal
import subprocess
import sys
import time
from copy import copy

import numpy as np
import pytest

from gpum import BayesianGPLVM, GPUMClassifier, GPUMRegressor
from gpum.files.checkpoint import Checkpoint
from gpum.gplvm import race
from gpum.heat import atlas as heat_atlas
from gpum.regression import graphs, surfaces

# One cloud, made the same way here and in the process that is killed.
CLOUD = """
import numpy as np
from gpum import BayesianGPLVM, GPUMRegressor
t = np.linspace(-1, 1, 40)
S = np.stack([np.sin(2 * t), np.cos(2 * t), 0.3 * t], 1) + 0.01 * np.random.default_rng(0).standard_normal((40, 3))
y = np.where(np.arange(40) % 3 == 0, np.sin(3 * t), np.nan)
"""
MADE: dict = {}
exec(CLOUD, MADE)
S, y = MADE["S"], MADE["y"]
DIE = """
import os, signal, sys
from gpum.files.checkpoint import Checkpoint
put, kept = Checkpoint.put, []
def put_and_die(self, piece, arrays):
    if len(kept) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    put(self, piece, arrays)
    kept.append(piece)
Checkpoint.put = put_and_die
"""
FIT = "BayesianGPLVM(1, n_inducing=10, random_state=0, checkpoint=sys.argv[1]).fit(S)\n"


def latent(**options):
    return BayesianGPLVM(1, n_inducing=10, random_state=0, **options)


@pytest.fixture(scope="module")
def whole():
    """The fit that nobody kills."""
    return latent().fit(S)


@pytest.fixture
def runs(monkeypatch):
    """Names of the starts that are run, not recalled."""
    made, true_rounds = [], race._rounds

    def rounds(model, name, *args):
        made.append(name)
        return true_rounds(model, name, *args)

    monkeypatch.setattr(race, "_rounds", rounds)
    return made


def same(a, b):
    assert a.bound_ == b.bound_
    np.testing.assert_array_equal(a.latent_, b.latent_)
    assert a.history_ == b.history_
    assert [fit.start for fit in a.finalists_] == [fit.start for fit in b.finalists_]


def test_killed_and_gone_on_with(tmp_path, whole, runs):
    folder = tmp_path / "kept"
    ended = subprocess.run([sys.executable, "-c", DIE + CLOUD + FIT, str(folder)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert len(list(folder.glob("*.npz"))) == 3
    found = latent(checkpoint=folder).fit(S)
    same(found, whole)
    assert len(runs) == len(list(folder.glob("*.npz"))) - 3
    assert not list(folder.glob(".*.part"))


def test_a_second_run_recalls_everything(tmp_path, whole, runs):
    first = latent(checkpoint=tmp_path / "kept").fit(S)
    made = len(runs)
    second = latent(checkpoint=tmp_path / "kept", n_jobs=1, verbose=0).fit(S)
    assert len(runs) == made
    same(first, whole)
    same(second, whole)
    assert second.notes_ == []


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[: len(data) // 2], lambda data: b"PK" + data])
def test_a_damaged_piece_is_made_again_with_a_note(tmp_path, whole, runs, damage):
    latent(checkpoint=tmp_path).fit(S)
    made = len(runs)
    piece = sorted(tmp_path.glob("final*.npz"))[0]
    piece.write_bytes(damage(piece.read_bytes()))
    found = latent(checkpoint=tmp_path).fit(S)
    assert len(runs) == made + 1
    same(found, whole)
    assert len(found.notes_) == 1
    assert piece.name in found.notes_[0]


def test_another_run_is_refused(tmp_path):
    kept = tmp_path / "kept"
    make = lambda **options: GPUMRegressor(1, geometry="flat", checkpoint=kept, **{"random_state": 0, **options})
    make().fit(S, y)
    make(n_jobs=1, warm_start=True).fit(S, y)  # nothing depends on these
    with pytest.raises(ValueError, match="belongs to another run: smoothness was"):
        make(smoothness="heat").fit(S, y)
    with pytest.raises(ValueError, match="belongs to another run: X was"):
        make().fit(S + 1, y)
    with pytest.raises(ValueError, match="belongs to another run: y was"):
        make().fit(S, y + 1)
    with pytest.raises(ValueError, match="give random_state a whole number"):
        make(random_state=None).fit(S, y)
    (kept / "run.json").write_text("{")
    with pytest.raises(ValueError, match="is damaged; delete the folder"):
        make().fit(S, y)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="which is a file"):
        GPUMRegressor(geometry="flat", checkpoint=tmp_path / "file", random_state=0).fit(S, y)
    with pytest.raises(ValueError, match="with other files in it"):
        GPUMClassifier(geometry="flat", checkpoint=tmp_path, random_state=0).fit(S, np.arange(40) % 2)


def test_pieces_are_arrays_without_pickles(tmp_path):
    kept = Checkpoint.open(tmp_path / "kept", {"a": 1})
    kept.put("one piece (7)", {"x": np.arange(3.0)})
    np.testing.assert_array_equal(kept.get("one piece (7)")["x"], np.arange(3.0))
    np.savez(tmp_path / "kept" / "two.npz", x=np.array([{}], dtype=object))
    assert kept.get("two") is None
    assert len(kept.notes) == 1
    assert Checkpoint().get("one") is None


def fitted(folder, **options):
    return GPUMRegressor(1, **{"geometry": ["atlas", "graph"], "random_state": 0, "checkpoint": folder, **options})


@pytest.fixture
def built(monkeypatch):
    """What is built, not recalled: surfaces of atlases, eigenpairs of graphs, domains of charts, paths."""
    made = []

    def counted(module, name):
        true = getattr(module, name)

        def run(*args, **options):
            made.append(name)
            return true(*args, **options)

        monkeypatch.setattr(module, name, run)

    for module, name in (
        (heat_atlas, "surface"), (heat_atlas, "piecewise"), (graphs, "_walk"), (surfaces, "_eigenfunctions"),
        (surfaces, "walk_features"),
    ):  # fmt: skip
        counted(module, name)
    return made


def test_atlases_and_graphs_are_recalled(tmp_path, built):
    plain = fitted(None).fit(S, y)
    assert set(built) == {"surface", "piecewise", "_walk"}
    first = fitted(tmp_path).fit(S, y)
    built.clear()
    second = fitted(tmp_path).fit(S, y)
    assert built == []
    for found in (first, second):
        np.testing.assert_array_equal(
            found.predict(S + 0.01, return_std=True), plain.predict(S + 0.01, return_std=True)
        )
        assert found.notes_ == plain.notes_
        assert found.log_evidence_ == plain.log_evidence_


def tampered(data):
    """A piece of another kind: no object at all."""
    out = io.BytesIO()
    np.savez(out, document=np.frombuffer(b'{"objects": [], "root": 7}', np.uint8))
    return out.getvalue()


def foreign(data):
    """A piece that names a class which no file may hold."""
    out = io.BytesIO()
    np.savez(out, document=np.frombuffer(b'{"objects": [["os.system", {}]], "root": {"object": 0}}', np.uint8))
    return out.getvalue()


@pytest.mark.parametrize(
    ("piece", "made", "damage"),
    [
        ("atlas-1", ["piecewise", "surface"], lambda data: data[: len(data) // 2]),
        ("atlas-1", ["piecewise", "surface"], foreign),
        ("graphs", ["_walk"], lambda data: b""),
        ("graphs", ["_walk"], tampered),
    ],
)
def test_what_is_damaged_of_them_is_made_again(tmp_path, built, piece, made, damage):
    first = fitted(tmp_path).fit(S, y)
    path = tmp_path / f"{piece}.npz"
    path.write_bytes(damage(path.read_bytes()))
    built.clear()
    found = fitted(tmp_path).fit(S, y)
    assert sorted(set(built)) == made
    assert found.notes_ == [f"a damaged piece of the checkpoint, {path.name}, was made again", *first.notes_]
    np.testing.assert_array_equal(found.predict(S), first.predict(S))
    assert fitted(tmp_path).fit(S, y).notes_ == first.notes_


@pytest.mark.parametrize(("kernel", "made"), [("spectral", "_eigenfunctions"), ("brownian", "walk_features")])
def test_domains_of_a_chart_are_recalled(tmp_path, whole, built, kernel, made):
    options = {"geometry": "chart", "kernel": kernel, "n_paths": 20}
    plain = fitted(None, latent_model=whole, **options).fit(S, y)
    whole._surfaces.clear()
    fitted(tmp_path, latent_model=whole, **options).fit(S, y)
    assert set(built) == {made}
    whole._surfaces.clear()
    built.clear()
    found = fitted(tmp_path, latent_model=whole, **options).fit(S, y)
    assert built == []
    np.testing.assert_array_equal(found.predict(S), plain.predict(S))
    # Another model of the same settings has domains of its own.
    other = copy(whole)
    other.latent_, other._surfaces = whole.latent_ + 1e-3, {}
    fitted(tmp_path, latent_model=other, **options).fit(S, y)
    assert set(built) == {made}


@pytest.mark.slow
def test_killed_at_ten_random_moments(tmp_path):
    """A regressor with all its geometries, killed again and again, predicts what an undisturbed one does."""
    options = "1, n_inducing=10, random_state=0"
    fit = f"GPUMRegressor({options}, checkpoint=sys.argv[1]).fit(S, y)\n"
    command = [sys.executable, "-c", "import sys\n" + CLOUD + fit, str(tmp_path / "kept")]
    rng, kills = np.random.default_rng(0), 0
    begin = time.perf_counter()
    whole = GPUMRegressor(1, n_inducing=10, random_state=0).fit(S, y)
    longest = 3 + time.perf_counter() - begin
    while kills < 10:
        process = subprocess.Popen(command)
        try:
            process.wait(rng.uniform(2, longest))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        kills += 1
    found = GPUMRegressor(1, n_inducing=10, random_state=0, checkpoint=tmp_path / "kept").fit(S, y)
    np.testing.assert_allclose(found.predict(S), whole.predict(S), rtol=1e-10)
    assert found.log_evidence_ == pytest.approx(whole.log_evidence_, rel=1e-10)
