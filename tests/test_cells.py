"""Single cells: an AnnData in Python, and files of one, of which `cells.h5ad.gz` was written by anndata 0.12."""

import gzip
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from typer.testing import CliRunner

from gpum import EuclideanGPRegressor, GPUMClassifier, GpumError, GPUMRegressor
from gpum.app.cli import app
from gpum.app.tables import tables
from gpum.basics import annotated

QUICK = {"geometry": "flat", "smoothness": "heat", "random_state": 0}
FLAT = ("--geometry", "flat", "--smoothness", "heat", "-q")
N, T = 40, np.linspace(0, 1, 40)


def gpum(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


@pytest.fixture
def path(tmp_path):
    pytest.importorskip("h5py")
    path = tmp_path / "cells.h5ad"
    path.write_bytes(gzip.decompress((Path(__file__).parent / "cells.h5ad.gz").read_bytes()))
    return path


def in_memory(**changes):
    """What an AnnData has, by its names."""
    counts = np.random.default_rng(0).poisson(30 * np.exp(-((T[:, None] - np.linspace(0, 1, 12)) ** 2) / 0.05))
    kinds = pd.Categorical(np.where(np.arange(N) % 4 == 0, np.where(T < 0.5, "stem", "late"), None))
    parts = {
        "X": csr_matrix(counts.astype(float)),
        "obsm": {"X_pca": np.stack([np.cos(3 * T), np.sin(3 * T)], 1)},
        "layers": {"log": np.log1p(counts)},
        "obs": pd.DataFrame({"t": np.where(np.arange(N) % 3 == 0, T, np.nan), "kind": kinds}),
        "var_names": [f"gene{k}" for k in range(12)],
    }
    return SimpleNamespace(**parts | changes)


def test_an_anndata_is_fitted_by_its_components_and_the_name_of_a_label():
    cells = in_memory()
    model = GPUMRegressor(**QUICK).fit(cells, "t")
    plain = GPUMRegressor(**QUICK).fit(cells.obsm["X_pca"], cells.obs["t"].to_numpy())
    assert np.array_equal(model.predict(cells), plain.predict(cells.obsm["X_pca"]))
    assert list(model.feature_names_in_) == ["X_pca_1", "X_pca_2"]
    assert model.score(cells, "t") == plain.score(cells.obsm["X_pca"], cells.obs["t"].to_numpy())
    kinds = GPUMClassifier(**QUICK).fit(cells, "kind")
    assert list(kinds.classes_) == ["late", "stem"]
    assert kinds.score(cells, "kind") == 1.0
    some = in_memory(obsm={"X_pca": cells.obsm["X_pca"][:5]})
    assert np.allclose(model.predict(some), model.predict(cells)[:5], rtol=1e-9)


def test_labels_of_an_anndata_are_added_to_a_fit():
    cells, more = in_memory(), in_memory(obs=pd.DataFrame({"t": np.where(np.arange(N) % 3 == 1, T, np.nan)}))
    X = cells.obsm["X_pca"]
    model = GPUMRegressor(**QUICK).fit(cells, "t").partial_fit(more, "t")
    plain = GPUMRegressor(**QUICK).fit(X, cells.obs["t"].to_numpy()).partial_fit(X, more.obs["t"].to_numpy())
    assert np.array_equal(model.predict(cells), plain.predict(X))


def test_genes_are_taken_where_there_are_no_components_and_counts_are_spoken_of():
    cells = in_memory(obsm={})
    with pytest.warns(UserWarning, match=r"X holds counts.*scanpy\.pp\.log1p"):
        model = EuclideanGPRegressor().fit(cells, "t")
    assert list(model.feature_names_in_[:2]) == ["gene0", "gene1"]
    plain = EuclideanGPRegressor().fit(cells.X.toarray(), cells.obs["t"].to_numpy())
    assert np.array_equal(model.predict(cells), plain.predict(cells.X.toarray()))
    assert annotated.cell_advice(annotated.cell_columns(cells, "log")) is None
    many = in_memory(X=np.random.default_rng(0).normal(size=(N, 300)), obsm={}, var_names=range(300))
    assert "X has 300 genes" in annotated.cell_advice(annotated.cell_columns(many))


@pytest.mark.parametrize(
    ("changes", "y", "message"),
    [
        ({}, "time", r"y is 'time', but obs has no such column; it has t, kind"),
        ({"X": None, "obsm": {}}, "t", "the matrix X of the cells is empty"),
        ({"X": csr_matrix((20_000, 30_000)), "obsm": {}}, "t", "is sparse, 20,000 × 30,000, .*principal components"),
        ({"obsm": {"X_pca": T}}, "t", r"the matrix X_pca has shape \(40,\)"),
    ],
)
def test_what_cannot_be_taken_is_said(changes, y, message):
    with pytest.raises(GpumError, match=message):
        GPUMRegressor(**QUICK).fit(in_memory(**changes), y)
    with pytest.raises(GpumError, match="there is no matrix 'raw' of the cells; there are X, X_pca, log"):
        annotated.cell_columns(in_memory(), "raw")


def test_a_sparse_matrix_is_refused_with_what_to_pass():
    with pytest.raises(GpumError, match=r"X is a sparse matrix; pass X\.toarray\(\), or better.*TruncatedSVD"):
        GPUMRegressor().fit(in_memory().X, T)


def test_a_file_of_cells_is_a_table(path):
    table = tables.read(path)
    assert list(table.columns) == ["cell", "pseudotime", "kind", "n", "note", *(f"X_pca_{k}" for k in (1, 2, 3, 4))]
    assert (table.index, table.features) == ("cell", [f"X_pca_{k}" for k in (1, 2, 3, 4)])
    assert table.columns["cell"][:2].tolist() == ["cell_0", "cell_1"]
    assert table.columns["kind"][[0, 1, 24]].tolist() == ["stem", "", "late"]
    assert np.flatnonzero(np.isnan(table.columns["n"])).tolist() == [1]
    log, counts = tables.read(path, matrix="log"), tables.read(path, matrix="X")
    of = lambda table: table.matrix(table.features, "")
    totals = of(counts).sum(1)
    assert np.allclose(of(log), np.log1p(of(counts) / totals[:, None] * 100), rtol=1e-6)
    assert np.array_equal(totals[2:], table.columns["n"][2:])
    assert "counts" in counts.advice
    assert log.advice is None
    assert tables.read(path, matrix="frame").columns["frame_2"][-1] == 1.0


def test_predictions_go_back_into_obs(path, tmp_path):
    """Labels, names and matrices stay; the columns are found by anndata, where it is installed."""
    model, out = tmp_path / "m.gpum", tmp_path / "p.h5ad"
    assert gpum("fit", path, "--target", "pseudotime", "--out", model, *FLAT).exit_code == 0
    assert gpum("predict", model, path, "--out", out, "-q").exit_code == 0
    before, after = tables.read(path), tables.read(out)
    assert list(before.columns) == [name for name in after.columns if name in before.columns]
    assert np.sqrt(np.mean((after.columns["pseudotime_mean"] - T) ** 2)) < 0.05
    assert gpum("fit", path, "--target", "kind", "--matrix", "log", "--out", model, "--force", *FLAT).exit_code == 0
    assert gpum("predict", model, out, "--out", tmp_path / "k.h5ad", "-q").exit_code == 0
    found = tables.read(tmp_path / "k.h5ad")
    assert found.columns["kind"].tolist() == before.columns["kind"].tolist()
    assert (found.columns["kind_predicted"] == np.where(T < 0.5, "stem", "late")).mean() > 0.9
    if find_spec("anndata") is not None:
        cells = import_module("anndata").read_h5ad(tmp_path / "k.h5ad")
        assert {"pseudotime_mean", "kind_predicted", "kind_p_stem"} <= set(cells.obs)
        assert set(cells.obsm) == {"X_pca", "frame"}


def test_advice_on_genes_stands_in_the_list(path):
    assert "log1p" in gpum("check", path, "--target", "pseudotime", "--matrix", "X").output
    assert "log1p" not in gpum("check", path, "--target", "pseudotime").output


def test_files_that_are_none_are_refused(path, tmp_path):
    with pytest.raises(GpumError, match="there is no matrix 'raw' of the cells; there are X, X_pca, frame, log"):
        tables.read(path, matrix="raw")
    (tmp_path / "t.csv").write_text("a\n1\n")
    with pytest.raises(GpumError, match=r"matrix is for single cells \(\.h5ad\), but"):
        tables.read(tmp_path / "t.csv", matrix="X")
    with pytest.raises(GpumError, match="would be a copy of a file of single cells"):
        tables.write(tmp_path / "new.h5ad", {"a": [1.0]})
    whole = path.read_bytes()
    for content in (b"no", whole[:1000], whole[: len(whole) // 2], whole.replace(b"obs", b"sob")):
        path.write_bytes(content)
        with pytest.raises(GpumError, match=r"is not a file of AnnData 0\.8 or later, or damaged"):
            tables.read(path)
