"""Where a learned surface ends."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.ndimage import label

from conftest import make_ring
from gpum import BayesianGPLVM, datasets
from gpum.manifold import evaluate, volume
from gpum.manifold.boundary import corridor_boundary, paper_alpha, variance_boundary
from gpum.manifold.complex import complex_of


def n_components(chart, n=500):
    """Connected components of the inside on a grid of pixels."""
    axes = [np.linspace(lo, hi, n) for lo, hi in chart.bounds]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    return label(evaluate(chart, "inside", points).reshape(n, n), np.ones((3, 3)))[1]


@pytest.fixture(scope="module")
def ring_model():
    S, _ = make_ring()
    return BayesianGPLVM(random_state=0).fit(S)


@pytest.mark.slow
def test_every_level_is_connected_and_holds_the_data(roll_model, ring_model):
    for model in (roll_model, ring_model):
        points = np.random.default_rng(0).uniform(*model.chart_.bounds.T, (4000, 2))
        inner = np.zeros(len(points), bool)
        for level in model.chart_.boundary.levels(4):
            chart = model.chart_.with_level(level)
            assert evaluate(chart, "inside", model.latent_).all()
            assert n_components(chart, 1000) == 1
            inside = evaluate(chart, "inside", points)
            assert np.all(inside[inner])  # a family: nested
            inner = inside
        assert model is ring_model or inner.sum() > evaluate(model.chart_.with_level(0.0), "inside", points).sum()


def test_the_width_of_the_roll_is_closed(roll, roll_model):
    area = 12 * np.ptp(roll.chart.arc_length([2, 12.5]))
    assert volume(roll_model.chart_) == pytest.approx(area, rel=0.08)
    rule = variance_boundary(np.random.default_rng(0), roll_model.chart_.mapping, roll_model.latent_)
    open_chart = replace(roll_model.chart_, boundary=rule)
    assert volume(open_chart) > 1.15 * area  # the paper's rule alone lets it run on


@pytest.mark.slow
def test_a_random_cloud_has_no_holes():
    cloud = datasets.make_swiss_roll(n_unlabeled=300, grid=False, random_state=1)
    model = BayesianGPLVM(random_state=0).fit(cloud.X)
    area = 12 * np.ptp(cloud.chart.arc_length([2, 12.5]))
    assert volume(model.chart_) == pytest.approx(area, rel=0.12)


def test_the_gap_and_the_middle_of_a_ring_stay_open(ring_model):
    X, chart = ring_model.latent_, ring_model.chart_
    assert evaluate(chart, "inside", X).all()
    between = X[0] + np.linspace(0.3, 0.7, 5)[:, None] * (X[-1] - X[0])
    assert not evaluate(chart, "inside", between).any()
    assert not chart.inside(X.mean(0))


@pytest.mark.slow
def test_a_closed_ring_is_closed():
    S, _ = make_ring(n=60, gap=6.0)
    model = BayesianGPLVM(random_state=0).fit(S)
    X = model.latent_
    between = X[0] + np.linspace(0, 1, 9)[:, None] * (X[-1] - X[0])
    assert evaluate(model.chart_.with_level(0.2), "inside", between).all()


def test_equal_rows_of_a_huge_cloud(roll_model):
    """Steps of no length: what is not known between such rows, in steps, is a number all the same."""
    mapping, X = roll_model.chart_.mapping, roll_model.latent_[[0, 0, 40, 90, 90, 200]]
    mapping = replace(mapping, scale=1e17 * mapping.scale)
    family = corridor_boundary(np.random.default_rng(0), mapping, X)
    assert np.isfinite(family.max_level)
    assert not np.isnan(family.corridor_level).any()
    assert evaluate(replace(roll_model.chart_, mapping=mapping, boundary=family.at(0.0)), "inside", X).all()


def test_paper_rule(roll_model):
    mapping, X = roll_model.chart_.mapping, roll_model.latent_
    chart = replace(roll_model.chart_, boundary=variance_boundary(np.random.default_rng(0), mapping, X))
    assert evaluate(chart, "inside", X).all()
    alpha = float(chart.boundary.alpha)
    assert alpha == paper_alpha(np.random.default_rng(0), mapping, X)
    variance = evaluate(chart, "variance", X)
    assert alpha > variance.max()
    far = X.mean(0, keepdims=True) + 10 * np.ptp(X, axis=0)
    assert not evaluate(chart, "inside", far).any()
    with pytest.raises(ValueError, match="no levels"):
        chart.with_level(1.0)


def test_the_domains_of_a_curve_are_the_curve_and_bridges():
    """Corridors over several rows lie on the curve: beside it, they made the curve longer."""
    t = np.sort(np.random.default_rng(0).uniform(-1, 1, 40))
    S = np.stack([np.sin(2 * t), np.cos(2 * t), 0.8 * t], 1) + 0.01 * np.random.default_rng(1).standard_normal((40, 3))
    model = BayesianGPLVM(1, n_inducing=12, starts="isomap", random_state=0).fit(S)
    extent = np.ptp(model.latent_)
    for level in model.chart_.boundary.levels(6):
        domain = complex_of(model.chart_.boundary.at(level))
        sides = [domain.vertices[cells, 0] for cells in (domain.simplices, domain.corridors[domain.bridge == 0])]
        assert sum(np.ptp(side, axis=1).sum() for side in sides) == pytest.approx(extent, rel=1e-9)
