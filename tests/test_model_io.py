"""Model files: no code in them, whole or not at all; foreign, damaged and hostile ones are refused."""

import io
import json
import pickle
import re
import subprocess
import sys
import tracemalloc
import zipfile
from hashlib import sha256

import numpy as np
import pandas as pd
import pytest
from numpy.random import RandomState

import inside
from fuzz.corpus import CORPUS, PREDICTIONS, predicted
from gpum import (
    BayesianGPLVM,
    EmbeddedChart,
    EuclideanGPRegressor,
    GPUMClassifier,
    GpumError,
    GPUMRegressor,
    GraphLaplacianGPRegressor,
    KernelOptions,
    __version__,
    model_io,
)
from gpum.persistence import atomic as whole
from gpum.persistence import container, registry, tree
from gpum.persistence.model_io import Fitted

X = np.random.default_rng(0).normal(size=(30, 2))
Y = np.where(np.arange(30) % 2 == 0, X[:, 0], np.nan)


@pytest.fixture(scope="module")
def fitted():
    model, rows = EuclideanGPRegressor().fit(X, Y), [str(k) for k in range(30)]
    return Fitted(model, ["a", "b"], ["y"], X, Y[:, None], rows, {"source": "t.csv"})


@pytest.fixture
def path(tmp_path, fitted):
    model_io.save(fitted, tmp_path / "m.gpum")
    return tmp_path / "m.gpum"


def repacked(path, change):
    """The file with its members changed (name → bytes), and a checksum that is right."""
    _, payload = path.read_bytes().split(b"\n", 1)
    with zipfile.ZipFile(io.BytesIO(payload)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in change(members).items():
            archive.writestr(name, content)
    return sealed(buffer.getvalue())


def sealed(payload):
    """A payload below a right first line."""
    line = f"GPUM model, format 4, gpum {__version__}, {len(payload)} bytes, sha256 {sha256(payload).hexdigest()}\n"
    return line.encode() + payload


def edited(path, change):
    """The file with its document changed."""

    def members(found):
        document = json.loads(found["model.json"])
        change(document)
        return {**found, "model.json": json.dumps(document)}

    return repacked(path, members)


def agree(a, b, new):
    """Two regressors say the same of fitted rows and of new ones, in every way."""
    np.testing.assert_allclose(
        b.predict_cloud(return_std=True), a.predict_cloud(return_std=True), rtol=1e-9, atol=1e-12
    )
    for ask in (
        lambda m: m.predict(new, return_std=True),
        lambda m: m.predict(new, return_cov=True)[1],
        lambda m: m.predict_quantiles(new),
        lambda m: m.sample_y(new, 3, random_state=1),
    ):
        np.testing.assert_allclose(ask(b), ask(a), rtol=1e-7, atol=1e-9)


def test_a_file_holds_everything(path, fitted):
    found = model_io.load(path)
    agree(fitted.model, found.model, X + 0.1)
    assert (found.features, found.targets, found.rows, found.about) == (["a", "b"], ["y"], fitted.rows, fitted.about)
    assert np.array_equal(found.X, X)
    assert np.array_equal(found.y, fitted.y, equal_nan=True)
    assert path.read_bytes().startswith(f"GPUM model, format 4, gpum {__version__}, ".encode())
    with zipfile.ZipFile(path) as archive:  # opens with what everyone has
        assert set(archive.namelist()) == {"model.json", "float64.npy", "int64.npy"}
        assert np.load(io.BytesIO(archive.read("float64.npy")), allow_pickle=False).ndim == 1


def test_the_same_model_makes_the_same_file(path, fitted, tmp_path):
    model_io.save(fitted, tmp_path / "again.gpum")
    model_io.save(model_io.load(path), tmp_path / "loaded.gpum")
    assert path.read_bytes() == (tmp_path / "again.gpum").read_bytes() == (tmp_path / "loaded.gpum").read_bytes()


def test_one_format_for_estimators_too(path, fitted, tmp_path):
    assert np.array_equal(EuclideanGPRegressor.load(path).predict(X), fitted.model.predict(X))
    fitted.model.save(tmp_path / "alone.gpum")
    assert np.array_equal(EuclideanGPRegressor.load(tmp_path / "alone.gpum").predict(X), fitted.model.predict(X))
    found = model_io.load(tmp_path / "alone.gpum")  # its table follows from the estimator
    assert (found.features, found.targets) == (["X_1", "X_2"], ["y"])
    assert np.array_equal(found.X, X)
    assert np.array_equal(found.y, fitted.y, equal_nan=True)


def test_a_file_is_replaced_only_when_asked(path, fitted):
    for save in (lambda **how: model_io.save(fitted, path, **how), lambda **how: fitted.model.save(path, **how)):
        with pytest.raises(FileExistsError, match=r"exists already; .* force=True"):
            save()
        save(force=True)


@pytest.mark.parametrize("geometry", ["graph", "atlas", "flat"])
def test_a_regressor_predicts_as_before(geometry, tmp_path):
    u = np.linspace(0, 3, 40)
    S = np.stack([np.cos(u), np.sin(u), 0.3 * u], 1)
    y = np.where(np.arange(40) % 4 == 0, np.sin(2 * u), np.nan)
    model = GPUMRegressor(1, geometry=geometry, random_state=RandomState(3)).fit(S, np.stack([y, 2 * y - 1], 1))
    model.save(tmp_path / "m.gpum")
    loaded = GPUMRegressor.load(tmp_path / "m.gpum")
    assert np.array_equal(loaded.random_state.get_state()[1], model.random_state.get_state()[1])
    agree(model, loaded, S[::5] + 0.01)
    assert (loaded.best_setting_, loaded.geometry_weights_) == (model.best_setting_, model.geometry_weights_)
    assert loaded.notes_ == model.notes_
    assert (tmp_path / "m.gpum").stat().st_size < 1_000_000


@pytest.mark.parametrize("geometry", ["graph", "flat"])
def test_missing_readings_stay_missing(geometry, tmp_path):
    S, new = X.copy(), X[::5] + 0.01
    S[3, 1] = S[7, 0] = new[1, 0] = np.nan
    model = GPUMRegressor(1, geometry=geometry, random_state=0).fit(S, Y)
    model.save(tmp_path / "m.gpum")
    loaded = GPUMRegressor.load(tmp_path / "m.gpum")
    agree(model, loaded, new)
    assert np.array_equal(model_io.load(tmp_path / "m.gpum").X, S, equal_nan=True)


def test_a_learned_chart_is_stored(curve_fit, tmp_path):
    model_io.save(curve_fit, tmp_path / "m.gpum")
    found = model_io.load(tmp_path / "m.gpum").model
    new = curve_fit.X[::4] + 0.01
    agree(curve_fit.model, found, new)
    for a, b in zip(
        curve_fit.model.transform(new, return_std=True), found.transform(new, return_std=True), strict=True
    ):
        assert np.array_equal(a, b)
    assert found.latent_model_.history_ == curve_fit.model.latent_model_.history_
    assert (tmp_path / "m.gpum").stat().st_size < 2_000_000


@pytest.mark.parametrize("likelihood", ["gaussian", "student", "poisson", "binomial", "angle", "known noise"])
def test_every_target_predicts_as_before(likelihood, tmp_path):
    """To the last bit: what was computed is stored, and nothing is computed again."""
    rng = np.random.default_rng(0)
    S = rng.uniform(size=(60, 4))
    y, known = S[:, 0] + 0.1 * rng.normal(size=60), {"noise_std": 0.1} if likelihood == "known noise" else {}
    options = {"period": 2.0} if likelihood == "angle" else {} if known else {"likelihood": likelihood}
    y = {"poisson": np.round(5 * np.abs(y)), "binomial": (y > 0.5).astype(float)}.get(likelihood, y)
    model = GPUMRegressor(geometry="flat", smoothness="heat", **options).fit(S, y, **known)
    model.save(tmp_path / "m.gpum")
    loaded = GPUMRegressor.load(tmp_path / "m.gpum")
    for one, other in zip(
        loaded.predict(S + 0.01, return_std=True), model.predict(S + 0.01, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_a_loaded_model_computes_nothing_again(curve_fit, tmp_path, monkeypatch):
    new = curve_fit.X[::4] + 0.01
    curve_fit.model.save(tmp_path / "m.gpum")
    loaded = GPUMRegressor.load(tmp_path / "m.gpum", ready=True)
    monkeypatch.setattr("gpum.geometry.chart.domain_of", lambda *args: pytest.fail("computed again"))
    monkeypatch.setattr("gpum.inference.gp.decompose", lambda *args: pytest.fail("computed again"))
    agree(curve_fit.model, loaded, new)
    curve_fit.model.latent_model_.save(tmp_path / "l.gpum")
    latent = BayesianGPLVM.load(tmp_path / "l.gpum", ready=True)
    np.testing.assert_allclose(latent.transform(new), curve_fit.model.latent_model_.transform(new), rtol=1e-9)
    classifier = GPUMClassifier(geometry="flat", smoothness="heat").fit(X, (X[:, 0] > 0).astype(int))
    classifier.save(tmp_path / "c.gpum")
    again = GPUMClassifier.load(tmp_path / "c.gpum", ready=True)
    np.testing.assert_allclose(again.predict_proba(X + 0.01), classifier.predict_proba(X + 0.01), rtol=1e-9)
    with pytest.raises(ValueError, match="ready must be True or False, got 'yes'"):
        GPUMRegressor.load(tmp_path / "m.gpum", ready="yes")


SERVES = """
import sys
import numpy as np
from gpum import GPUMRegressor
model = GPUMRegressor.load(sys.argv[1])
X = np.load(sys.argv[2])
model.predict(X[:1])
assert "sklearn.neighbors" not in sys.modules, "the first new row is as any other: no search among the learned rows"
mean, std = model.predict(X, return_std=True)
np.save(sys.argv[3], [mean, std, *model.predict_quantiles(X).T])
assert not {"jax", "matplotlib"} & set(sys.modules), "a prediction needs NumPy and SciPy alone"
"""


@pytest.mark.parametrize("geometry", ["chart", "atlas", "graph", "average"])
def test_a_prediction_needs_no_jax(geometry, curve_fit, tmp_path):
    """A new process reads the file and predicts, new rows and one with a gap, without JAX, to the last bit."""
    known = ~np.isnan(curve_fit.y[:, 0])
    y = np.where(known, curve_fit.y[:, 0], np.nan)
    model = GPUMRegressor(1, geometry=geometry, random_state=0).fit(curve_fit.X, y)
    new = curve_fit.X[::4] + 0.01
    new[1, 0] = np.nan
    model.save(tmp_path / "m.gpum")
    np.save(tmp_path / "X.npy", new)
    done = subprocess.run(
        [sys.executable, "-c", SERVES, *(tmp_path / name for name in ("m.gpum", "X.npy", "out.npy"))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected = [*model.predict(new, return_std=True), *model.predict_quantiles(new).T]
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), expected)


def test_known_charts(sheet_fit, tmp_path):
    sheet_fit.model.save(tmp_path / "m.gpum")
    agree(sheet_fit.model, GPUMRegressor.load(tmp_path / "m.gpum"), sheet_fit.X[::20] + 0.01)
    rows = sheet_fit.X[:30]
    own = EmbeddedChart(lambda x: x, [(0, 13), (0, 13)])
    model = GPUMRegressor(latent_model=own, kernel=KernelOptions(n_modes=9), random_state=0).fit(rows, rows[:, 0])
    with pytest.raises(ValueError, match=r"holds no code, and so not a chart of your own \(.*EmbeddedChart\)"):
        model.save(tmp_path / "e")
    assert not (tmp_path / "e").exists()


@pytest.mark.slow
def test_paths(sheet_fit, tmp_path):
    chart, rows = sheet_fit.model.latent_model, sheet_fit.X[:30]
    for some in (None, 10):
        model = GPUMRegressor(
            latent_model=chart, kernel=KernelOptions("brownian", n_paths=50, n_path_starts=some), random_state=0
        ).fit(rows, rows[:, 0])
        model.save(tmp_path / "paths.gpum", force=True)
        agree(model, GPUMRegressor.load(tmp_path / "paths.gpum"), rows[::10] + 0.01)


def test_other_estimators(tmp_path, curve_fit):
    labels = np.where(np.arange(30) % 3 == 0, np.where(X[:, 0] > 0, "high", "low"), "")
    model = GPUMClassifier(random_state=0).fit(X, labels)
    model.save(tmp_path / "c.gpum")
    loaded = GPUMClassifier.load(tmp_path / "c.gpum")
    np.testing.assert_allclose(loaded.predict_proba(X + 0.01), model.predict_proba(X + 0.01), atol=1e-9)
    assert loaded.predict(X).tolist() == model.predict(X).tolist()
    model = GraphLaplacianGPRegressor(hyperparameters="average").fit(X, Y)
    model.save(tmp_path / "g.gpum")
    agree(model, GraphLaplacianGPRegressor.load(tmp_path / "g.gpum"), X + 0.01)
    model = curve_fit.model.latent_model_
    model.save(tmp_path / "l.gpum")
    loaded = BayesianGPLVM.load(tmp_path / "l.gpum")
    assert np.array_equal(loaded.transform(curve_fit.X + 0.01), model.transform(curve_fit.X + 0.01))
    assert inside.finalists(loaded)[0].bound == model.bound_
    with pytest.raises(ValueError, match=r"BayesianGPLVM, which predicts nothing; .* BayesianGPLVM\.load"):
        model_io.load(tmp_path / "l.gpum")


def test_a_loaded_model_is_fitted_again(tmp_path):
    model = GPUMRegressor(geometry="graph", warm_start=True, random_state=0).fit(X, Y)
    model.save(tmp_path / "m.gpum")
    loaded = GPUMRegressor.load(tmp_path / "m.gpum").fit(X, 2 * Y)
    np.testing.assert_allclose(loaded.transduction_, 2 * model.transduction_, rtol=1e-6)
    loaded.save(tmp_path / "m.gpum", force=True)
    agree(loaded, GPUMRegressor.load(tmp_path / "m.gpum"), X + 0.1)


def test_what_is_not_known_is_not_stored(tmp_path, fitted):
    class Odd:
        pass

    for value, message in [
        (Odd(), r"cannot hold a test_model_io\..*Odd: it is not among the classes of gpum\.persistence\.registry"),
        ([{"a": (open,)}], "not the function 'open'"),
        (np.array([None, 1]), "array of type object"),
        (np.zeros(2, complex), "array of type complex128"),
    ]:
        with pytest.raises(ValueError, match=message):
            model_io.write(tmp_path / "m.gpum", value)
    assert list(tmp_path.iterdir()) == []


def test_plain_values_come_back(tmp_path):
    values = {
        "a": [None, True, 7, -0.1, 1e-320, "ü\n", (1, (2.5,)), {}], 3: slice(1, None), 0.5: np.inf, None: -np.inf,
        "z": np.zeros((0, 3)), "t": np.array([["a", "bc"]]), "i": np.arange(3, dtype=np.int32), "s": np.array(2.0),
        "b": np.array([True, False]), "f": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    }  # fmt: skip
    model_io.write(tmp_path / "m", values)
    found = model_io.read(tmp_path / "m")
    assert list(found) == list(values)
    for key, value in values.items():
        assert np.array_equal(found[key], value) if isinstance(value, np.ndarray) else found[key] == value
    assert [found[k].dtype for k in "bis"] == [bool, np.int32, float]
    assert found["z"].shape == (0, 3)


def test_every_class_of_the_registry_is_there():
    for tag in registry.TAGS:
        assert registry.tag_of(registry.class_of(tag)) == tag
    for name in (
        "os.system",
        ".os:system",
        "builtins.eval",
        "persistence.model_io:Fitted",
        "gpum.persistence",
        "Fitted",
        "",
    ):
        assert registry.class_of(name) is None


def test_truncated_anywhere(path):
    whole = path.read_bytes()
    header = whole.index(b"\n") + 1
    for size in (1, 10, 25, header - 1, header, header + 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="truncated"):
            model_io.load(path)


def test_an_announced_size_is_not_believed(path):
    """Nothing is allocated for bytes that a file announces and does not have."""
    whole = path.read_bytes()
    for size in ("999999999999999999", str(1 << 33)):
        path.write_bytes(re.sub(rb"\d+ bytes", f"{size} bytes".encode(), whole, count=1))
        for read in (model_io.load, model_io.summary):
            tracemalloc.start()
            try:
                with pytest.raises(GpumError, match=f"is truncated: .* of {size} bytes are there"):
                    read(path)
                assert tracemalloc.get_traced_memory()[1] < 5 * len(whole) + 10**6
            finally:
                tracemalloc.stop()


def test_damaged_foreign_older_and_later_files(path):
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[-100] ^= 1
    old = whole.replace(b"format 4", b"format 1", 1)
    for content, message in [
        (bytes(flipped), "checksum"),
        (whole + b"x", "checksum"),
        (b"", "is empty"),
        (b"a,b\n1,2\n", "not a GPUM model"),
        (b"\x80\x04K\x01.", "not a GPUM model"),
        (old, r"in format 1, .* Fit again.* format 1 was a pickle"),
        (whole.replace(b"format 4, gpum 1", b"format 5, gpum 9", 1), r"gpum 9\S* in format 5, .* install a later gpum"),
        (b"GPUM model, format 7, gpum 8.0, written quite differently\n", "gpum 8.0 in format 7"),
    ]:
        path.write_bytes(content)
        for read in (model_io.load, model_io.summary):
            with pytest.raises(ValueError, match=message):
                read(path)


def test_a_small_file_takes_little_memory(tmp_path):
    """Arrays that lie over one another, and text of which one entry is long, would fill any memory."""
    path, many = tmp_path / "m.gpum", np.arange(100_000.0)
    overlapping = [{"array": ["float64", k, [len(many) - 1000]]} for k in range(150)]
    long = {"text": ["x" * 5000, *[""] * 5000], "shape": [5001]}
    for root, words in ((overlapping, "lie over one another"), (long, "one of 5000 characters, would take")):
        container.write(path, container.packed({"objects": [], "root": root}, {"float64": many}))
        with pytest.raises(ValueError, match=words):
            model_io.read(path)
    twice = np.arange(1000.0)
    model_io.write(path, [twice] * 100 + [twice.reshape(10, 100)], force=True)
    found = model_io.read(path)
    assert found[0] is found[-2]  # once in memory, as in the file
    np.testing.assert_array_equal(found[-1], twice.reshape(10, 100))


class Bomb:
    def __reduce__(self):
        return pytest.fail, ("unpickled",)


def test_a_pickle_is_refused_unread_wherever_it_stands(path):
    """In place of the file, of the zip, of every member, and of the numbers below a sound header."""
    bomb, whole = pickle.dumps(Bomb()), path.read_bytes()
    objects = io.BytesIO()
    np.lib.format.write_array(objects, np.array([Bomb()], object), allow_pickle=True)
    bombs = [bomb, sealed(bomb), re.sub(rb"format 4", b"format 1", sealed(bomb))]
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    for name in names:
        bombs += [repacked(path, lambda found, name=name, b=b: {**found, name: b}) for b in (bomb, objects.getvalue())]
    bombs += [repacked(path, lambda found: {**found, "float64.npy": found["float64.npy"][:128] + bomb})]
    bombs += [repacked(path, lambda found: {**found, "more.pkl": bomb})]
    for content in bombs:
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"m\.gpum"):
            model_io.load(path)
    path.write_bytes(whole)
    model_io.load(path)


def npy(dtype, shape, numbers=b""):
    header = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape!r}, }}".encode()
    header += b" " * (117 - len(header)) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + numbers


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: {**m, "float64.npy": npy("<f8", (10**12,))}, "announces float64"),
        (lambda m: {**m, "float64.npy": npy("<f8", (-1,))}, "announces float64"),
        (lambda m: {**m, "float64.npy": npy("<f8", (2, 1), bytes(16))}, "announces float64"),
        (lambda m: {**m, "float64.npy": npy("|O", (1,), bytes(8))}, "announces object"),
        (lambda m: {**m, "float64.npy": npy("|V8", (1,), bytes(8))}, "announces"),
        (lambda m: {**m, "bool.npy": npy("|b1", (1,), b"\2")}, "other than 0 and 1"),
        (lambda m: {**m, "../../evil.npy": b""}, r"it holds '\.\./\.\./evil\.npy'"),
        (lambda m: {**m, "/etc/passwd": b""}, "it holds '/etc/passwd'"),
        (lambda m: {name: m[name] for name in m if name != "model.json"}, "it holds 'float64.npy'"),
        (lambda m: {**m, "float64.npy": bytes(10**8)}, "would unpack to"),
        (lambda m: {**m, "model.json": "[" * 10**5}, "is no JSON"),
        (lambda m: {**m, "model.json": "[]"}, "no JSON object"),
        (lambda m: {**m, "model.json": '{"root": NaN}'}, "NaN is no number"),
        (lambda m: {**m, "model.json": '{"root": ' + "[" * 3000 + "]" * 3000 + "}"}, r"cannot be read|no JSON"),
        (lambda m: {**m, "model.json": '{"root": 1' + "0" * 10**4 + "}"}, "no JSON"),
        (lambda m: {**m, "model.json": b"\xff"}, "no JSON"),
    ],
)
def test_hostile_files(path, change, message):
    path.write_bytes(repacked(path, change))
    with pytest.raises(ValueError, match=message):
        model_io.load(path)


def test_hostile_zips(path):
    _, payload = path.read_bytes().split(b"\n", 1)
    twice = io.BytesIO(payload)
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(twice, "a") as archive:
        archive.writestr("model.json", "{}")
    flag = payload.index(b"PK\1\2") + 8
    locked = payload[:flag] + bytes([payload[flag] | 1]) + payload[flag + 1 :]
    size = payload.index(b"PK\1\2") + 24
    larger = payload[:size] + (10**6).to_bytes(4, "little") + payload[size + 4 :]
    smaller = payload[:size] + (10).to_bytes(4, "little") + payload[size + 4 :]
    odd = payload[: flag + 2] + b"\x0c" + payload[flag + 3 :]
    for content in (twice.getvalue(), locked, larger, smaller, odd, payload[:-1], b"PK\5\6" + bytes(18), b""):
        path.write_bytes(sealed(content))
        with pytest.raises(ValueError, match=r"is not a model that gpum wrote|is truncated"):
            model_io.load(path)


def first(document, name):
    return next(state for kind, state in document["objects"] if kind == name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["objects"][0].__setitem__(0, "os.system"), "names 'os.system', which is no class"),
        (lambda d: d.update(root={"object": 10**6}), "is not before it"),
        (lambda d: d.update(root={"object": -1}), "is not before it"),
        (lambda d: d.update(objects=None), "is not the list"),
        (lambda d: d["objects"].append(["table-and-model", {}]), "lacks its field 'model'"),
        (lambda d: first(d, "table-and-model").update(more=1), "no field 'more'"),
        (lambda d: first(d, "table-and-model").update(rows=7), "rows of a Fitted is a int"),
        (lambda d: first(d, "table-and-model").update(rows=[]), "the table of 30 rows has 0 names"),
        (lambda d: first(d, "EuclideanGPRegressor").update(predict=7), "no field 'predict'"),
        (lambda d: first(d, "EuclideanGPRegressor").update(__class__=7), "no field '__class__'"),
        (lambda d: first(d, "EuclideanGPRegressor").update(stored_=7), "its settings are not there"),
        (lambda d: first(d, "EuclideanGPRegressor").update(n_features_in_=3), "and 3 features"),
        (lambda d: first(d, "setting").update(space=5), "its candidates do not belong to its spaces"),
        (lambda d: first(d, "family").update(geometry_of=[9]), "do not belong"),
        (lambda d: first(d, "model").update(outputs=[7]), "does not fit together"),
        (lambda d: first(d, "table-and-model").update(X={"array": ["float64", 0, [10**9, 10**9]]}), "reaches beyond"),
        (lambda d: first(d, "table-and-model").update(X={"array": ["float64", -1, [2]]}), "reaches beyond"),
        (lambda d: first(d, "table-and-model").update(X={"array": ["object", 0, [2]]}), "is not there"),
        (lambda d: first(d, "table-and-model").update(X={"array": ["float64", 0, [1] * 99]}), "impossible shape"),
        (lambda d: first(d, "table-and-model").update(X={"array": ["float64", 0, [True]]}), "impossible shape"),
        (lambda d: d.update(root={"python": "1"}), "unknown form"),
        (lambda d: d.update(root={"float": "1e5"}), "is no number"),
        (lambda d: d.update(root={"slice": ["a", 0, 0]}), "no whole numbers"),
        (lambda d: d.update(root={"dict": [[[1], 2]]}), "no word"),
        (lambda d: d.update(root={"text": ["a"], "shape": [2]}), "1 entries"),
        (lambda d: d.update(root={"random_state": ["MT19937", 1, 2, 3, 4]}), "random state"),
    ],
)
def test_hostile_documents(path, change, message):
    path.write_bytes(edited(path, change))
    with pytest.raises(ValueError, match=message):
        model_io.load(path)


def test_weights_that_are_none(path):
    def change(document):
        component = first(document, "component")
        component["weights"] = {"array": [component["weights"]["array"][0], 0, component["weights"]["array"][2]]}

    path.write_bytes(edited(path, change))
    with pytest.raises(ValueError, match=r"add up to|weights are not numbers"):
        model_io.load(path)


def test_what_shrinks_like_a_bomb_is_stored_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(container, "ROOM", 1000)
    model_io.write(tmp_path / "m", np.zeros(100_000))
    assert (tmp_path / "m").stat().st_size > 800_000
    assert model_io.read(tmp_path / "m").shape == (100_000,)


def test_shared_objects_stay_shared(tmp_path):
    space = registry.class_of("scaled-space")(np.arange(5.0))
    model_io.write(tmp_path / "m", [space, space, np.arange(5.0)])
    a, b, _ = model_io.read(tmp_path / "m")
    assert a is b
    writer = tree.Writer()
    writer.node([space, np.arange(5.0)])
    assert writer.arrays()["float64"].size == 5  # equal numbers are stored once


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError])
def test_a_write_that_fails_leaves_the_old_file(path, stop, monkeypatch):
    before = path.read_bytes()

    def fail(fd):
        raise stop

    monkeypatch.setattr(whole.os, "fsync", fail)  # when all has been written to the new file
    with pytest.raises(stop):
        model_io.write(path, {"another": "object"}, force=True)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_where_nothing_can_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    for path, message in [
        (tmp_path / "no" / "m.gpum", "there is no folder"),
        (tmp_path / "file" / "m.gpum", "is a file"),
        (tmp_path, "is a folder"),
        (tmp_path / ("m" * 300), "File name too long"),
    ]:
        for call in (whole.check_writable, lambda p: model_io.write(p, 1, force=True)):
            with pytest.raises(OSError, match=message):
                call(path)
    whole.check_writable(tmp_path / "m.gpum")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link.gpum").symlink_to(tmp_path / "m.gpum")
    model_io.write(tmp_path / "link.gpum", 5)
    assert (tmp_path / "link.gpum").is_symlink()
    assert model_io.read(tmp_path / "m.gpum") == 5


def test_a_fit_to_a_data_frame_is_stored(tmp_path):
    """With the names of its columns: another order is refused as before."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((10, 2)), columns=["a", "b"])
    model = EuclideanGPRegressor(smoothness="heat").fit(X, X["a"])
    model.save(tmp_path / "m.gpum")
    loaded = EuclideanGPRegressor.load(tmp_path / "m.gpum")
    assert loaded.feature_names_in_.dtype == object
    assert loaded.feature_names_in_.tolist() == ["a", "b"]
    assert np.array_equal(loaded.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(X[["b", "a"]])


@pytest.mark.parametrize("name", ["flat", "graph", "classes", "chart"])
@pytest.mark.filterwarnings("ignore:.*far from the fitted surface")
def test_files_of_an_earlier_version_predict_what_they_did(name):
    stored = json.loads(PREDICTIONS.read_text())[name]
    model = model_io.load(CORPUS / f"{name}.gpum").model
    np.testing.assert_allclose(predicted(model, np.array(stored["rows"])), stored["predicted"], rtol=1e-6, atol=1e-8)
