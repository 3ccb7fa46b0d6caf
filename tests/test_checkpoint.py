"""Killed at any moment, the same fit goes on where it stopped and ends with the same numbers."""

import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import inside
from gpum import BayesianGPLVM, GPUMRegressor, KernelOptions
from gpum.persistence import container
from gpum.persistence.store import Held, Store, digest

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
    document, arrays = container.contents(entry, entry.read_bytes())
    numbers = arrays["float64"].copy()
    (start,) = [k for k in range(len(numbers) - 39) if np.array_equal(numbers[k : k + 40], whole.latent_[:, 0])]
    numbers[start : start + 40] += 0.25
    entry.write_bytes(container.packed(document, {**arrays, "float64": numbers}))
    np.testing.assert_allclose(latent(checkpoint=tmp_path).fit(S).latent_, whole.latent_ + 0.25)


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[: len(data) // 2] + b"damage" + data[len(data) // 2 + 6 :],
    ],
)
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


def test_a_folder_serves_other_data_and_settings(tmp_path):
    """What was stored for another run is not used, and that run still finds it."""
    first = latent(checkpoint=tmp_path).fit(S)
    before = entries(tmp_path)
    other = latent(checkpoint=tmp_path, starts="pca").fit(2 * S[:, ::-1])
    assert set(made(tmp_path, before)).isdisjoint(before)
    np.testing.assert_array_equal(other.latent_, latent(starts="pca").fit(2 * S[:, ::-1]).latent_)
    before = entries(tmp_path)
    same(latent(checkpoint=tmp_path).fit(S), first)
    assert made(tmp_path, before) == []


def test_other_folders_are_refused(tmp_path):
    make = lambda folder, seed=0: GPUMRegressor(1, geometry="flat", checkpoint=folder, random_state=seed).fit(S, y)
    make(tmp_path / "new")
    with pytest.raises(ValueError, match="give random_state a whole number"):
        make(tmp_path / "new", None)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="which is a file"):
        make(tmp_path / "file")
    with pytest.raises(ValueError, match="with other files in it"):
        make(tmp_path)
    with pytest.raises(ValueError, match="give the name of a folder"):
        make(7)


def test_keys_name_their_content():
    """Type, shape, order in memory and every number count; equal content has an equal name."""
    a = np.arange(6.0)
    values = [
        a, a.astype(np.float32), a.reshape(2, 3), a.reshape(3, 2), np.asfortranarray(a.reshape(2, 3)), a + 1e-9,
        -0.0 * a, 0.0 * a, a.tolist(), tuple(a), [a], [[*a]], {"a": 1}, {"a": 1.0}, {"a": True}, {"b": 1}, "a", b"a",
        None, 1, 1.0, True, np.float64(1.0), slice(0, 1), KernelOptions(), KernelOptions(n_modes=9), latent(),
        latent(tol=0.1), np.array(["a", None], object), np.array(["a", "b"], object),
    ]  # fmt: skip
    assert len({digest(value) for value in values}) == len(values)
    assert digest([a, {"x": KernelOptions()}]) == digest([a.copy(), {"x": KernelOptions()}])
    assert digest(latent(n_jobs=2)) == digest(latent(n_jobs=3))  # nothing depends on it
    inputs = []
    assert digest(lambda: 0, inputs) != digest(lambda: 0, inputs)
    assert digest(Held(a), inputs) != digest(Held(a.copy()), inputs)
    assert len(inputs) == 4


def test_a_store_computes_once(tmp_path):
    asked = []
    make = lambda value: lambda: asked.append(value) or [value, 0.5]
    for store in (Store(), Store.open(tmp_path / "run"), Store.open(tmp_path / "run")):
        assert store.get(("one", np.arange(3)), list) in (None, [7, 0.5])
        assert store.once(("one", np.arange(3)), make(7), list) == [7, 0.5]
        assert store.once(("one", np.arange(3.0)), make(8)) == [8, 0.5]  # no kind: in memory alone
        assert store.once(("one", np.arange(3.0)), make(9)) == [8, 0.5]
        assert store.get(("two",), list) is None
    assert asked == [7, 8, 7, 8, 8]
    function = lambda: 0
    store = Store.open(tmp_path / "run")
    store.once(("of a function", function), make(1), list)
    assert Store.open(tmp_path / "run").get(("of a function", function), list) is None
    assert len(entries(tmp_path / "run")) == 1


def test_threads_wait_for_one_result():
    """Eight threads ask for the same result while it is computed, and others for their own."""
    store, asked, begun = Store(), [], threading.Event()

    def make(k):
        asked.append(k)
        begun.wait(5)
        return [k]

    with ThreadPoolExecutor(9) as pool:
        shared = [pool.submit(store.once, ("shared",), lambda: make(0)) for _ in range(8)]
        other = pool.submit(store.once, ("other",), lambda: begun.set() or make(1))
        assert other.result(5) == [1]
        assert all(one.result(5) is shared[0].result() for one in shared)
    assert sorted(asked) == [0, 1]


def test_a_failed_result_is_computed_again():
    store = Store()
    with pytest.raises(ZeroDivisionError):
        store.once(("one",), lambda: 1 // 0)
    assert store.once(("one",), lambda: 2) == 2


def test_entries_are_arrays_without_pickles(tmp_path):
    store = Store.open(tmp_path / "run")
    store.once(("one entry (7)",), lambda: [np.arange(3.0)], list)
    (path,) = (tmp_path / "run").glob("one-entry--7-*.npz")
    np.testing.assert_array_equal(Store.open(tmp_path / "run").get(("one entry (7)",), list)[0], np.arange(3.0))
    np.savez(path, document=np.array([{}], dtype=object))
    again = Store.open(tmp_path / "run")
    assert again.get(("one entry (7)",), list) is None
    assert len(again.notes) == 1


def test_an_entry_damaged_anywhere_is_no_error(tmp_path):
    """Whatever byte of it changes, it is read correctly or recomputed."""
    Store.open(tmp_path / "run").once(("one",), lambda: [0.5, "text"], list)
    (entry,) = (tmp_path / "run").glob("one-*.npz")
    whole = entry.read_bytes()
    for position in range(len(whole)):
        entry.write_bytes(whole[:position] + b"\xff" + whole[position + 1 :])
        assert Store.open(tmp_path / "run").get(("one",), list) in (None, [0.5, "text"])


def fitted(folder, **options):
    return GPUMRegressor(1, **{"geometry": ["atlas", "graph"], "random_state": 0, "checkpoint": folder, **options})


def test_atlases_and_graphs_are_recalled(tmp_path):
    plain = fitted(None).fit(S, y)
    first = fitted(tmp_path).fit(S, y)
    before = entries(tmp_path)
    assert sorted(name.rsplit("-", 1)[0] for name in before) == [
        "atlas-1",
        *sorted(f"graph-{k}" for k in (4, 6, 10, 15)),
    ]
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
    return container.packed({"objects": [], "root": 7}, {})


def foreign(data):
    """An entry that names a class which no file may hold."""
    return container.packed({"objects": [["os.system", {}]], "root": {"object": 0}}, {})


@pytest.mark.parametrize(
    ("entry", "damage"),
    [
        ("atlas-1", lambda data: data[: len(data) // 2]),
        ("atlas-1", foreign),
        ("graph-6", lambda data: b""),
        ("graph-10", tampered),
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
    other.chart_ = other.chart_.with_level(0.25)
    other.latent_ = whole.latent_ + 1e-3
    mapping = replace(other.chart_.mapping, beta=1.01 * other.chart_.mapping.beta)
    other.chart_ = replace(other.chart_, mapping=mapping)
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
