"""Killed at any moment, the same fit goes on where it stopped and ends with the same numbers."""

import io
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import inside
from gpum import BayesianGPLVM, GPUMClassifier, GPUMRegressor, KernelOptions
from gpum.persistence.checkpoint import Checkpoint

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
# Killed when the fourth entry is written and does not yet have its name.
DIE = """
import os, signal, sys
replace, checkpoint = os.replace, []
def replace_or_die(source, target):
    if str(target).endswith(".npz"):
        if len(checkpoint) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        checkpoint.append(target)
    replace(source, target)
os.replace = replace_or_die
"""
FIT = "BayesianGPLVM(1, n_inducing=10, random_state=0, checkpoint=sys.argv[1]).fit(S)\n"


def latent(**options):
    return BayesianGPLVM(1, n_inducing=10, random_state=0, **options)


@pytest.fixture(scope="module")
def whole():
    """A fit that is not interrupted."""
    return latent().fit(S)


def entries(folder):
    """When each entry of a checkpoint folder was written: an entry that is recalled is not written again."""
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*.npz")}


def made(folder, before):
    """Names of the entries that were written since."""
    return sorted(name for name, when in entries(folder).items() if before.get(name) != when)


def same(a, b):
    assert a.bound_ == b.bound_
    np.testing.assert_array_equal(a.latent_, b.latent_)
    assert a.history_ == b.history_
    assert [fit.start for fit in inside.finalists(a)] == [fit.start for fit in inside.finalists(b)]


def test_killed_and_gone_on_with(tmp_path, whole):
    folder = tmp_path / "checkpoint"
    ended = subprocess.run([sys.executable, "-c", DIE + CLOUD + FIT, str(folder)], check=False)
    assert ended.returncode == -signal.SIGKILL
    before = entries(folder)
    assert len(before) == 3
    found = latent(checkpoint=folder).fit(S)
    same(found, whole)
    assert len(made(folder, before)) == len(entries(folder)) - 3 > 0
    assert not list(folder.glob(".*.part"))


def test_a_second_run_recalls_everything(tmp_path, whole):
    first = latent(checkpoint=tmp_path / "checkpoint").fit(S)
    before = entries(tmp_path / "checkpoint")
    second = latent(checkpoint=tmp_path / "checkpoint", n_jobs=1, verbose=0).fit(S)
    assert made(tmp_path / "checkpoint", before) == []
    same(first, whole)
    same(second, whole)
    assert second.notes_ == []


def test_what_is_recalled_is_not_computed(tmp_path, whole):
    """A last entry whose numbers were changed: the fit has the changed numbers."""
    latent(checkpoint=tmp_path).fit(S)
    (entry,) = tmp_path.glob("final*.npz")
    with np.load(entry) as arrays:
        changed = dict(arrays)
    changed["mu"] = changed["mu"] + 0.25
    np.savez(entry, **changed)
    np.testing.assert_allclose(latent(checkpoint=tmp_path).fit(S).latent_, whole.latent_ + 0.25)


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[: len(data) // 2], lambda data: b"PK" + data])
def test_a_damaged_entry_is_recomputed_with_a_note(tmp_path, whole, damage):
    latent(checkpoint=tmp_path).fit(S)
    before = entries(tmp_path)
    entry = sorted(tmp_path.glob("final*.npz"))[0]
    entry.write_bytes(damage(entry.read_bytes()))
    found = latent(checkpoint=tmp_path).fit(S)
    assert made(tmp_path, before) == [entry.name]
    same(found, whole)
    assert len(found.notes_) == 1
    assert entry.name in found.notes_[0]


def test_another_run_is_refused(tmp_path):
    checkpoint = tmp_path / "checkpoint"
    make = lambda **options: GPUMRegressor(1, geometry="flat", checkpoint=checkpoint, **{"random_state": 0, **options})
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
    for text in ("{", "[1]", "null"):
        (checkpoint / "run.json").write_text(text)
        with pytest.raises(ValueError, match="is damaged; delete the folder"):
            make().fit(S, y)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="which is a file"):
        GPUMRegressor(geometry="flat", checkpoint=tmp_path / "file", random_state=0).fit(S, y)
    with pytest.raises(ValueError, match="with other files in it"):
        GPUMClassifier(geometry="flat", checkpoint=tmp_path, random_state=0).fit(S, np.arange(40) % 2)


def test_entries_are_arrays_without_pickles(tmp_path):
    checkpoint = Checkpoint.open(tmp_path / "checkpoint", {"a": 1})
    checkpoint.put("one entry (7)", {"x": np.arange(3.0)})
    np.testing.assert_array_equal(checkpoint.get("one entry (7)")["x"], np.arange(3.0))
    np.savez(tmp_path / "checkpoint" / "two.npz", x=np.array([{}], dtype=object))
    assert checkpoint.get("two") is None
    assert len(checkpoint.notes) == 1
    assert Checkpoint().get("one") is None


def test_an_entry_damaged_anywhere_is_no_error(tmp_path):
    """Whatever byte of it changes, it is read correctly or recomputed."""
    checkpoint = Checkpoint.open(tmp_path / "checkpoint", {"a": 1})
    checkpoint.store("one", [0.5, "text"])
    entry = tmp_path / "checkpoint" / "one.npz"
    whole = entry.read_bytes()
    for position in range(len(whole)):
        entry.write_bytes(whole[:position] + b"\xff" + whole[position + 1 :])
        assert checkpoint.recall("one", list) in (None, [0.5, "text"])


def fitted(folder, **options):
    return GPUMRegressor(1, **{"geometry": ["atlas", "graph"], "random_state": 0, "checkpoint": folder, **options})


def test_atlases_and_graphs_are_recalled(tmp_path):
    plain = fitted(None).fit(S, y)
    first = fitted(tmp_path).fit(S, y)
    before = entries(tmp_path)
    assert sorted(name.split("-")[0] for name in before) == ["atlas", "graphs.npz"]
    second = fitted(tmp_path).fit(S, y)
    assert made(tmp_path, before) == []
    for found in (first, second):
        np.testing.assert_array_equal(
            found.predict(S + 0.01, return_std=True), plain.predict(S + 0.01, return_std=True)
        )
        assert found.notes_ == plain.notes_
        assert found.log_evidence_ == plain.log_evidence_


def tampered(data):
    """An entry of another kind: no object at all."""
    out = io.BytesIO()
    np.savez(out, document=np.frombuffer(b'{"objects": [], "root": 7}', np.uint8))
    return out.getvalue()


def foreign(data):
    """An entry that names a class which no file may hold."""
    out = io.BytesIO()
    np.savez(out, document=np.frombuffer(b'{"objects": [["os.system", {}]], "root": {"object": 0}}', np.uint8))
    return out.getvalue()


@pytest.mark.parametrize(
    ("entry", "damage"),
    [
        ("atlas-1", lambda data: data[: len(data) // 2]),
        ("atlas-1", foreign),
        ("graphs", lambda data: b""),
        ("graphs", tampered),
    ],
)
def test_damaged_entries_of_them_are_recomputed(tmp_path, entry, damage):
    first = fitted(tmp_path).fit(S, y)
    before, (path,) = entries(tmp_path), tmp_path.glob(f"{entry}*.npz")
    path.write_bytes(damage(path.read_bytes()))
    found = fitted(tmp_path).fit(S, y)
    assert made(tmp_path, before) == [path.name]
    assert found.notes_ == [f"a damaged entry of the checkpoint, {path.name}, was recomputed", *first.notes_]
    np.testing.assert_array_equal(found.predict(S), first.predict(S))
    assert fitted(tmp_path).fit(S, y).notes_ == first.notes_


@pytest.mark.parametrize("kernel", ["spectral", "brownian"])
def test_domains_of_a_chart_are_recalled(tmp_path, whole, kernel):
    """Of a model that was learned in another process: a copy from a file has computed nothing yet."""
    options = {"geometry": "chart", "kernel": KernelOptions(kernel, n_paths=20)}
    whole.save(tmp_path / "whole.gpum")
    copy = lambda: BayesianGPLVM.load(tmp_path / "whole.gpum")
    folder = tmp_path / "checkpoint"
    plain = fitted(None, latent_model=copy(), **options).fit(S, y)
    fitted(folder, latent_model=copy(), **options).fit(S, y)
    before = entries(folder)
    assert before
    found = fitted(folder, latent_model=copy(), **options).fit(S, y)
    assert made(folder, before) == []
    np.testing.assert_array_equal(found.predict(S), plain.predict(S))
    # Another model of the same settings has domains of its own.
    other = copy()
    other.latent_ = whole.latent_ + 1e-3
    fitted(folder, latent_model=other, **options).fit(S, y)
    assert len(made(folder, before)) == len(before)


@pytest.mark.slow
def test_killed_at_ten_random_moments(tmp_path):
    """A regressor with all its geometries, killed again and again, predicts what an undisturbed one does."""
    options = "1, latent_model=BayesianGPLVM(n_inducing=10), random_state=0"
    fit = f"GPUMRegressor({options}, checkpoint=sys.argv[1]).fit(S, y)\n"
    command = [sys.executable, "-c", "import sys\n" + CLOUD + fit, str(tmp_path / "checkpoint")]
    rng, kills = np.random.default_rng(0), 0
    begin = time.perf_counter()
    whole = GPUMRegressor(1, latent_model=BayesianGPLVM(n_inducing=10), random_state=0).fit(S, y)
    longest = 3 + time.perf_counter() - begin
    while kills < 10:
        process = subprocess.Popen(command)
        try:
            process.wait(rng.uniform(2, longest))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        kills += 1
    found = GPUMRegressor(
        1, latent_model=BayesianGPLVM(n_inducing=10), random_state=0, checkpoint=tmp_path / "checkpoint"
    ).fit(S, y)
    np.testing.assert_allclose(found.predict(S), whole.predict(S), rtol=1e-10)
    assert found.log_evidence_ == pytest.approx(whole.log_evidence_, rel=1e-10)
