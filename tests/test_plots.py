"""Every plot: Axes in, Axes out, drawn from a fitted model; what it shows is what the model says."""

import matplotlib as mpl
import numpy as np
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt

from gpum import (
    Atlas,
    BayesianGPLVM,
    EuclideanGPRegressor,
    GPUMClassifier,
    GPUMRegressor,
    KernelOptions,
    Mesh,
    brownian_path,
    diagnostics,
    plots,
)
from shapes import box, sphere


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def fitted(roll, roll_model):
    settings = {
        "latent_model": roll_model,
        "kernel": KernelOptions(boundary=0.5),
        "smoothness": "heat",
        "random_state": 0,
    }
    return GPUMRegressor(geometry=["chart", "flat"], **settings).fit(roll.X, roll.y)


def test_each_plot_draws_on_the_axes_it_is_given(roll, roll_model, fitted):
    chart = roll_model.chart_
    draws = {
        "plot_latent": lambda ax: plots.plot_latent(roll_model, roll.y_true, label="f", ax=ax),
        "plot_magnification": lambda ax: plots.plot_magnification(chart, n=30, ax=ax),
        "plot_variance": lambda ax: plots.plot_variance(chart, n=30, ax=ax),
        "plot_boundary": lambda ax: plots.plot_boundary(chart, fill=True, n=60, ax=ax),
        "plot_paths": lambda ax: plots.plot_paths([np.zeros((5, 2))], ax=ax),
        "plot_prediction": lambda ax: plots.plot_prediction(fitted, roll.y, ax=ax),
        "plot_calibration": lambda ax: plots.plot_calibration(fitted, roll.X[24:40], roll.y_true[24:40], ax=ax),
        "plot_ard": lambda ax: plots.plot_ard(roll_model, ax=ax),
        "plot_bound": lambda ax: plots.plot_bound(roll_model, ax=ax),
        "plot_evidence": lambda ax: plots.plot_evidence(fitted, ax=ax),
        "plot_leave_one_out": lambda ax: plots.plot_leave_one_out(fitted, ax=ax),
        "plot_residuals": lambda ax: plots.plot_residuals(fitted, ax=ax),
        "plot_geometries": lambda ax: plots.plot_geometries(fitted, ax=ax),
    }
    own = {name for name in vars(plots) if name.startswith("plot_")}
    assert own - set(draws) == {
        "plot_atlas",
        "plot_cloud",
        "plot_diagnostics",
        "plot_relevance",
        "plot_surface",
    }  # tested below
    for name, draw in draws.items():
        ax = plt.figure().subplots()
        assert draw(ax) is ax, name
        assert ax.has_data(), name
        assert ax.get_xlabel(), name
        assert ax.get_ylabel(), name
        ax.figure.canvas.draw()


@pytest.mark.slow
def test_axes_are_made_where_none_are_given(roll, roll_model):
    assert plots.plot_ard(roll_model).get_xlabel() == "latent dimension"
    space = plots.plot_cloud(roll.X, roll.y, label="y")
    assert space.name == "3d"
    wide = plots.plot_cloud(np.random.default_rng(0).normal(size=(20, 7)))  # principal components of more columns
    assert wide.name == "3d"
    path = brownian_path(roll_model.chart_, roll_model.latent_[30], 5.0, n_steps=20, random_state=0)
    assert plots.plot_paths([path, path]).lines[0].get_xydata().shape == (21, 2)
    assert plots.plot_paths([np.zeros((4, 3))]).name == "3d"


def test_residuals_and_calibration_show_leave_one_out(fitted):
    left = diagnostics.leave_one_out(fitted)
    dots = plots.plot_residuals(fitted).lines[-1].get_xydata()
    np.testing.assert_allclose(dots, np.stack([left.mean, (left.y - left.mean) / left.std], 1))
    assert f"{left.rmse:.3g}" in plots.plot_leave_one_out(fitted).get_title()


def test_bound_ends_at_the_model(roll_model):
    tops = [line.get_ydata().max() for line in plots.plot_bound(roll_model).lines]
    assert max(tops) == pytest.approx(roll_model.bound_, rel=1e-4)  # see test_the_roll_unrolls


def test_evidence_has_all_the_weight(fitted):
    """Of one geometry: lengths of different geometries cannot be on one axis."""
    first = next(iter(diagnostics.geometry_weights(fitted)))
    assert first in plots.plot_evidence(fitted).get_title()
    with pytest.raises(ValueError, match="geometry is 'plane', which has no weight here"):
        plots.plot_evidence(fitted, geometry="plane")
    found = diagnostics.evidence_over_scale(fitted).of(first)
    top = max(c.get_paths()[0].vertices[:, 1].max() for c in plots.plot_evidence(fitted).collections)
    assert found.weight.max() * 0.9 <= top <= 1.0 + 1e-9


def test_geometries_as_bars(fitted):
    ax = plots.plot_geometries(fitted)
    found = diagnostics.geometry_weights(fitted)
    assert [bar.get_width() for bar in ax.patches] == list(found.values())
    assert [label.get_text() for label in ax.get_yticklabels()] == list(found)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_an_atlas_shows_its_edges(dim):
    """A ring, a sheet and a block in R⁵: every simplex is drawn; rows without a value stay grey."""
    rng = np.random.default_rng(0)
    u = rng.uniform(0, 1, (60, dim))
    X = (
        np.pad(u, ((0, 0), (0, 5 - dim)))
        if dim > 1
        else np.pad(np.stack([np.cos(7 * u[:, 0]), np.sin(7 * u[:, 0])], 1), ((0, 0), (0, 3)))
    )
    atlas = Atlas(dim).fit(X)
    values = np.where(np.arange(60) % 2, u[:, 0], np.nan)
    ax = plots.plot_atlas(atlas, values, label="u")
    assert ax.name == "3d"
    if dim == 2:
        (faces,) = ax.collections
        colours = faces.get_array()
        assert len(colours) == len(atlas.simplices_)
        assert 0 < np.ma.count(colours) < len(colours)
    else:
        unknown, lines, known = ax.collections
        pairs = {tuple(sorted((int(a), int(b)))) for s in atlas.simplices_ for a in s for b in s if a != b}
        assert len(lines._segments3d) == len(pairs)
        assert (len(unknown._offsets3d[0]), len(known._offsets3d[0])) == (30, 30)
    ax.figure.canvas.draw()
    assert not plots.plot_atlas(atlas).get_title()


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_surfaces(dim):
    shapes = {1: (np.eye(4)[:, :2], [[0, 1], [1, 2]]), 2: sphere(1), 3: box(2)}
    mesh = Mesh(*shapes[dim])
    path = mesh.geodesic(mesh.nodes[0], mesh.nodes[2]).path
    ax = mesh.plot(mesh.nodes[:, 0], paths=[path], label="x")  # plots.plot_surface
    assert ax.name == "3d"
    (drawn,) = ax.collections
    assert len(drawn.get_array()) == (len(mesh.faces) if dim == 2 else len(mesh.surface.edges))
    assert len(ax.lines) == 1
    ax.figure.canvas.draw()
    with pytest.raises(ValueError, match="paths must be arrays"):
        plots.plot_surface(mesh, paths=[[1.0, 2.0]])


def test_without_a_chart_there_is_no_map(roll):
    model = GPUMRegressor(geometry="flat").fit(roll.X, roll.y)
    for draw in (plots.plot_prediction, plots.plot_latent):
        with pytest.raises(ValueError, match="geometry is 'flat', which has no chart to draw on"):
            draw(model)
    assert plots.plot_diagnostics(model).shape == (2, 2)


def test_diagnostics_in_four_panels(roll, fitted):
    axes = plots.plot_diagnostics(fitted)
    assert axes.shape == (2, 2)
    assert all(ax.get_title() for ax in axes.ravel())
    known = GPUMRegressor(latent_model=roll.chart, smoothness="heat").fit(roll.chart_coords, roll.y)
    words = plots.plot_diagnostics(known)[0, 0].texts[0].get_text()
    assert words == "no latent model was learned"
    plain = EuclideanGPRegressor().fit(roll.X, roll.y)
    assert plots.plot_diagnostics(plain).shape == (2, 2)


def test_an_overview_of_numbers_and_classes(fitted, roll):
    axes = plots.overview(fitted)
    assert axes.shape == (2, 2)
    assert [ax.get_title().split("\n")[0] for ax in axes.ravel()[[0, 2, 3]]] == [
        f"{len(roll.X)} rows; 24 with a label (rings)",
        "what the labels say of the geometry",
        "what the labels say of the kernel",
    ]
    assert axes[0, 0].get_xlabel() == "latent dimension 1"
    assert "RMSE" in axes[0, 1].get_title()
    with pytest.raises(ValueError, match="output must be"):
        plots.overview(fitted, output=1)
    X = np.random.default_rng(0).normal(size=(40, 3)) + 4 * (np.arange(40)[:, None] % 2)
    y = np.where(np.arange(40) < 24, np.where(np.arange(40) % 2, "up", "down"), "")
    ax, left_out, *_ = plots.overview(GPUMClassifier(geometry="flat", smoothness="heat").fit(X, y)).ravel()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["down", "up"]
    assert ax.get_xlabel() == "main direction 1"
    assert left_out.get_title() == "24 of 24 left-out labels right"
    ax.figure.canvas.draw()


def test_an_overview_has_all_its_text_in_the_figure(fitted):
    axes = plots.overview(fitted)
    plots.plot_geometries(fitted, ax=axes[1, 0]).set_yticks([0], labels=["flat space, a length per column"])
    figure = axes[0, 0].figure
    figure.canvas.draw()
    for ax in axes.ravel():
        for text in (ax.title, ax.xaxis.label, ax.yaxis.label):
            box = text.get_window_extent()
            assert box.x0 >= 0, text
            assert box.x1 <= figure.bbox.width, text


def test_an_overview_shows_relevance_where_it_is_known():
    X = np.random.default_rng(0).uniform(size=(60, 4))
    model = GPUMRegressor(geometry="flat", smoothness="matern52").fit(X, np.sin(9 * X[:, 1]))
    assert plots.overview(model)[1, 1].get_title() == "which columns matter"


def test_relevance_marks_what_is_retained():
    model = BayesianGPLVM()
    model.relevance_, model.latent_ = np.array([1.0, 0.2, 0.001]), np.zeros((5, 2))
    ax = plots.plot_relevance(model)
    assert [bar.get_height() for bar in ax.patches] == [1.0, 0.2, 0.001]
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["1%", "retained", "not retained"]


def test_relevance_of_columns():
    X = np.random.default_rng(0).standard_normal((40, 3)) * [1.0, 50.0, 1.0]
    model = GPUMRegressor(geometry="flat", smoothness="heat", random_state=0).fit(X, np.sin(2 * X[:, 2]))
    ax = plots.plot_relevance(model)
    assert [t.get_text() for t in ax.get_yticklabels()][-1] == "column 2"
    assert [bar.get_width() for bar in ax.patches] == sorted(model.relevance_)
    with pytest.raises(ValueError, match="need at least ten labels"):
        plots.plot_relevance(EuclideanGPRegressor().fit(X, X[:, 0]))


def test_a_chart_of_three_dimensions_cannot_be_drawn():
    class Chart:
        dim = 3

    with pytest.raises(ValueError, match="only a two-dimensional chart can be drawn, this one has 3"):
        plots.plot_boundary(Chart())
