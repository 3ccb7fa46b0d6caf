"""Plots, diagnostics, reports and model files of odd fits; and every public name has a property test."""

import re
from importlib import import_module
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

mpl.use("Agg")
import matplotlib.pyplot as plt

from gpum import (
    Atlas,
    GPUMClassifier,
    GpumError,
    GPUMRegressor,
    Mesh,
    SwissRoll,
    diagnostics,
    model_io,
    plots,
    report,
)
from odd import COVERED, answered, clouds, covers, finite, labels, quiet, rows_like, setting

pytestmark = pytest.mark.usefixtures("one_thread")
API = Path(__file__).parents[1] / "docs" / "api.md"
OF_MODELS = [
    plots.plot_geometries, plots.plot_prediction, plots.plot_latent, plots.plot_ard, plots.plot_bound,
    plots.plot_relevance, plots.plot_leave_one_out, plots.plot_residuals, plots.plot_evidence, plots.plot_diagnostics,
    plots.overview,
]  # fmt: skip
OF_CHARTS = [plots.plot_boundary, plots.plot_magnification]
OF_FITS = [
    diagnostics.leave_one_out, diagnostics.geometry_weights, diagnostics.evidence_over_scale, diagnostics.level_weights,
]  # fmt: skip
WHOLE = [diagnostics.shown_chart, diagnostics.extents, diagnostics.suggestions, diagnostics.left_out_classes]


def fitted(data, **cloud):
    """A cloud, labels and a flat regressor of them, or None where it says why not."""
    X, rng = data.draw(clouds(gaps=True, **cloud))
    y = labels(data.draw, rng, len(X))
    return X, y, answered(lambda: GPUMRegressor(geometry="flat", smoothness="heat").fit(X, y))


def drawn(use):
    """Axes that were drawn on, or None where a sentence says why not; what is on them can be drawn."""
    try:
        ax = answered(use)
        if ax is not None:
            with quiet():
                np.ravel(ax)[0].figure.canvas.draw()
    finally:
        plt.close("all")


@covers(*(f"plots.{draw.__name__}" for draw in OF_MODELS), "plots.plot_calibration", seconds=0.3, answered=0.48)
@given(data=st.data())
def test_plots_of_fits(data):
    X, y, model = fitted(data)
    if model is None:
        return
    drawn(lambda: data.draw(st.sampled_from(OF_MODELS))(model))
    drawn(lambda: plots.plot_calibration(model, rows_like(X), data.draw(setting(np.zeros(6)))))
    drawn(lambda: plots.plot_prediction(model, data.draw(setting(y)), std=data.draw(st.booleans())))


@covers("plots.plot_cloud", "plots.plot_paths", "plots.plot_atlas", "plots.plot_surface", seconds=0.05, answered=0.33)
@given(data=st.data())
def test_plots_of_clouds(data):
    X, rng = data.draw(clouds())
    values = data.draw(setting(rng.standard_normal(len(X)), None))
    kind = data.draw(st.sampled_from(["cloud", "paths", "atlas", "surface"]))
    if kind == "cloud":
        drawn(lambda: plots.plot_cloud(X, values))
    elif kind == "surface":
        mesh = answered(lambda: Mesh(X, np.column_stack([np.arange(len(X) - 1), np.arange(1, len(X))])))
        if mesh is not None:
            drawn(lambda: plots.plot_surface(mesh, values, paths=data.draw(setting([mesh.vertices[:2]], []))))
    elif kind == "paths":
        drawn(lambda: plots.plot_paths(data.draw(st.sampled_from([[np.asarray(X, float)], X, [], None]))))
    else:
        atlas = answered(lambda: Atlas(data.draw(st.sampled_from([1, 2, 3]))).fit(X))
        if atlas is not None:
            drawn(lambda: plots.plot_atlas(atlas, values))


@covers("plots.plot_boundary", "plots.plot_magnification", "plots.plot_variance", seconds=0.1, answered=0.25)
@given(n=setting(5, 30), draw=st.sampled_from(OF_CHARTS), fill=st.booleans())
def test_plots_of_charts(n, draw, fill):
    drawn(lambda: draw(SwissRoll(), n=n, **({"fill": fill} if draw is plots.plot_boundary else {})))
    drawn(lambda: plots.plot_variance(SwissRoll(), n=n))


@covers(
    *(f"diagnostics.{use.__name__}" for use in [*OF_FITS, *WHOLE]), "diagnostics.cuts", "diagnostics.learned_from",
    "diagnostics.LeftOutClasses", "diagnostics.LeaveOneOut", "diagnostics.EvidenceOverScale",
    seconds=0.08, answered=0.45,
)  # fmt: skip
@given(data=st.data())
def test_diagnostics(data):
    X, y, model = fitted(data)
    if model is None:
        return
    output = data.draw(setting(0))
    found = [answered(lambda use=use: use(model, output)) for use in OF_FITS]
    if found[0] is not None:
        assert finite(found[0].mean, found[0].std, found[0].low, found[0].high, found[0].rmse)
        assert np.array_equal(found[0].rows, np.flatnonzero(~np.isnan(y)))
    if found[1] is not None:
        assert sum(found[1].values()) == pytest.approx(1)
    for use in WHOLE:
        answered(lambda use=use: use(model))
    for use in (diagnostics.cuts, diagnostics.learned_from):
        answered(lambda use=use: use(model, np.asarray(X, float)))


@pytest.mark.slow
@covers(seconds=0.1, answered=0.8)
@given(data=st.data())
def test_diagnostics_of_classes(data):
    X, rng = data.draw(clouds(gaps=True))
    model = answered(lambda: GPUMClassifier(geometry="flat", smoothness="heat").fit(X, rng.integers(-1, 2, len(X))))
    left = model and answered(lambda: diagnostics.left_out_classes(model))
    if left is not None:
        assert finite(left.probabilities)
        assert np.allclose(left.probabilities.sum(1), 1)


@covers("model_io.Fitted", "model_io.load", "model_io.save", "model_io.summary", seconds=0.1, answered=0.85)
@given(data=st.data())
def test_model_files(data, tmp_path_factory):
    X, y, model = fitted(data, wide=False)
    if model is None:
        return
    path = tmp_path_factory.mktemp("m") / "m.gpum"
    values = np.asarray(X, float)
    features = [str(name) for name in getattr(X, "columns", range(values.shape[1]))]
    names = [f"row {k}" for k in range(len(y))]
    model_io.save(model_io.Fitted(model, features, ["y"], values, y[:, None], names, {}), path)
    again = model_io.load(path)
    assert model_io.summary(path)["names"] == ["y"]
    assert np.array_equal(again.X, values, equal_nan=True)
    with quiet():
        for one, other in zip(*(m.predict(rows_like(X), return_std=True) for m in (model, again.model)), strict=True):
            assert np.allclose(one, other, rtol=1e-6, atol=1e-9 * np.nanmax(np.abs(y)))
    with pytest.raises((GpumError, OSError)):
        model_io.load(data.draw(st.sampled_from([path.with_name("n.gpum"), path.parent, __file__])))


@pytest.mark.slow
@covers("report.write_report", "report.render", seconds=0.25, answered=0.9)
@given(data=st.data())
def test_reports(data, tmp_path_factory):
    X, y, model = fitted(data, wide=False)
    if model is None:
        return
    values = np.asarray(X, float)
    names = [str(name) for name in range(values.shape[1])]
    told = model_io.Fitted(model, names, ["y"], values, y[:, None], [str(k) for k in range(len(y))], {})
    page = answered(lambda: report.render(told))
    assert page is not None
    assert "NaN" not in re.sub(r"<style.*?</style>|<script.*?</script>", "", page, flags=re.DOTALL)
    path = tmp_path_factory.mktemp("r") / "r.html"
    with quiet():
        report.write_report(told, path)
    assert path.stat().st_size > 1000


def test_every_public_name_has_a_property_test():
    for name in ("", "_settings", "_surfaces"):
        import_module(f"test_properties{name}")
    listed = re.findall(r"^   ([A-Za-z][\w.]*)$", API.read_text(), flags=re.MULTILINE)
    assert len(listed) > 50
    assert set(listed) == COVERED
