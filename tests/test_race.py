"""The optimiser's rounds and the race of the starts."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import inside
from gpum import BayesianGPLVM, GpumError, NoSurface
from gpum.gplvm import bound, starts
from gpum.gplvm.models import PointGPLVM, Variational
from gpum.gplvm.multistart import RowSubset, collapsed, multistart
from gpum.gplvm.optimise import (
    BROKEN,
    CONVERGED,
    CUT_SHORT,
    OUTRUN,
    RUNNING,
    Stage,
    maximise,
    minimise,
    value_and_gradient,
)


@partial(jax.tree_util.register_dataclass, data_fields=["x"], meta_fields=[])
@dataclass(frozen=True)
class Theta:
    x: Any


@dataclass(frozen=True)
class Landscape:
    """A function to be minimised; nothing needs filling up."""

    objective: Any
    finer: Any = None

    @property
    def precise_objective(self):
        return self.finer or self.objective

    def steps(self, theta, data):
        return Theta(np.ones(np.shape(theta.x)))

    def filled(self, theta, data):
        return theta, data

    def cut(self, theta, like):
        return theta


def rounds(objective, x, max_iter=1000, tol=0.01, n_rows=10, leader=-np.inf, finer=None):
    stage = Stage("all free", (), max_iter, tol, leader)
    with jax.enable_x64(True):
        minimised = maximise(Landscape(objective, finer), Theta(np.asarray(x, float)), None, stage, n_rows)
        return [now for _, now in minimised]


def bowl(theta, data):
    return 0.5 * jnp.sum(theta.x**2)


def valley(theta, data):
    """Rosenbrock's function: a long way to go in a bent valley."""
    a, b = theta.x
    return (1 - a) ** 2 + 100 * (b - a * a) ** 2


@jax.custom_vjp
def misleading(x):
    """A bowl whose gradient points the wrong way."""
    return 0.5 * jnp.sum(x**2)


misleading.defvjp(lambda x: (misleading(x), x), lambda x, g: (-g * x,))


@jax.custom_vjp
def rounded(x):
    """A bowl rounded to 1e-6, with the true gradient."""
    return jnp.round(0.5 * jnp.sum(x**2), 6)


rounded.defvjp(lambda x: (rounded(x), x), lambda x, g: (g * x,))


def test_a_bowl_converges():
    found = rounds(bowl, [3.0, -2.0])
    assert found[-1].status == CONVERGED
    assert found[-1].converged
    assert found[-1].value == pytest.approx(0, abs=1e-12)


def test_a_round_cut_short_is_not_converged():
    """Three iterations that gain little say nothing; the same valley with enough of them converges."""
    short, whole = rounds(valley, [-1.2, 1.0], max_iter=3, tol=1e3), rounds(valley, [-1.2, 1.0], tol=1e-6)
    assert [now.status for now in short] == [CUT_SHORT]
    assert not short[-1].converged
    assert whole[-1].status == CONVERGED
    assert whole[-1].value == pytest.approx(0, abs=1e-9)


def test_a_run_that_cannot_catch_up_stops():
    """At the rate of its last round it would still be behind after all iterations that are left."""
    scales = np.logspace(0, -8, 300)
    run = partial(rounds, lambda theta, data: 0.5 * jnp.sum(scales * theta.x**2), scales**-0.5, 1000, 1e-9)
    alone = run()
    assert len(alone) == 10
    assert alone[2].gained == pytest.approx(alone[2].value - alone[1].value)
    ahead = alone[2].value + 7 * alone[2].gained  # seven rounds are left
    assert [now.status for now in run(leader=ahead + 1)] == [RUNNING, RUNNING, OUTRUN]
    assert run(leader=ahead - 1)[:3] == alone[:3]
    assert run(leader=alone[-1].value) == alone


def test_a_failed_line_search_is_reported():
    """A gradient that points the wrong way: nothing is gained, and much is promised."""
    found = rounds(lambda theta, data: misleading(theta.x), [3.0, -2.0])
    assert [now.status for now in found] == [BROKEN, BROKEN]
    assert not found[-1].converged


def test_where_rounding_stops_a_search_the_precise_form_goes_on():
    """The valley in steps of 0.1 with its true gradient: nothing is gained on the way, until the form is another."""

    @jax.custom_vjp
    def steep(x):
        return jnp.round(10 * valley(Theta(x), None)) / 10

    steep.defvjp(lambda x: (steep(x), x), lambda x, g: (g * jax.grad(lambda x: valley(Theta(x), None))(x),))
    alone = rounds(lambda theta, data: steep(theta.x), [-1.2, 1.0], tol=1e-6)
    assert alone[-1].status == BROKEN
    both = rounds(lambda theta, data: steep(theta.x), [-1.2, 1.0], tol=1e-6, finer=valley)
    assert both[1].status == BROKEN
    assert both[-1].status == CONVERGED
    assert both[-1].value == pytest.approx(0, abs=1e-9)


def test_a_breakdown_from_rounding_at_the_top_is_converged():
    """An objective rounded to 1e-6: the search ends there, and the gradient says that no more is to be had."""
    found = rounds(lambda theta, data: rounded(theta.x), [1e-4, -1e-4])
    assert found[-1].status == CONVERGED


def test_after_a_breakdown_on_the_way_the_run_goes_on(monkeypatch):
    def first_breaks(number, run, args):
        theta, found = run(*args[:-1], 2 if number == 1 else args[-1])
        return theta, replace(found, cut_short=False) if number == 1 else found

    inside.each_round(monkeypatch, first_breaks)
    found = rounds(valley, [-1.2, 1.0], tol=1e-6)
    assert found[0].status == RUNNING
    assert found[-1].status == CONVERGED


def test_a_start_where_nothing_is_known_is_an_error():
    with pytest.raises(NoSurface, match="not finite at its starting point"):
        rounds(lambda theta, data: jnp.log(-jnp.sum(theta.x**2)), [1.0, 1.0])


def minimised(objective, x, max_steps=200, steps=None):
    theta = Theta(np.asarray(x, float))
    with jax.enable_x64(True):
        unit = Theta(np.ones(len(x)) if steps is None else np.asarray(steps, float))
        return minimise(objective, theta, unit, None, max_steps)


def test_a_parameter_without_a_step_stays():
    found = minimised(valley, [0.5, 2.0], steps=[1.0, 0.0])
    assert found.theta.x[1] == 2.0
    assert found.theta.x[0] == pytest.approx(np.sqrt(2), abs=0.01)


def test_the_optimiser_returns_from_points_without_a_value():
    """-log x + x, far from its minimum at 1: steps beyond 0 have no value."""
    found = minimised(lambda theta, data: jnp.sum(theta.x - jnp.log(theta.x)), [5.0, 0.01], steps=[30.0, 30.0])
    np.testing.assert_allclose(found.theta.x, 1, atol=1e-5)


@pytest.fixture(scope="module")
def sheet():
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 3, (40, 2))
    S = np.column_stack([t, np.sin(t[:, 0]), np.cos(t[:, 1])]) + 0.01 * rng.standard_normal((40, 4))
    S -= S.mean(0)
    return S / np.sqrt(np.mean(S**2))


@pytest.mark.slow
@pytest.mark.parametrize("model", [Variational(), PointGPLVM()])
def test_all_finalists_come_back_best_first(model, sheet):
    seen = []
    with jax.enable_x64(True):
        begin = [
            (n, model.start(X, own))
            for n, X, own in starts.named(sheet, 2, ["pca", "isomap"], np.random.default_rng(0))
        ]
        data = bound.fill_cloud(bound.compress(sheet))
        outcome = multistart(model, begin, data, max_iter=10_000, tol=0.01, see=seen.append)
        assert not collapsed(model, outcome.finalists[0])
        for fit in outcome.finalists:
            value, _ = value_and_gradient(model, fit.theta, data)  # another program: other rounding
            assert fit.bound == pytest.approx(-float(value), abs=1e-4)
    assert len({fit.start for fit in outcome.finalists}) == len(outcome.finalists)
    assert [fit.bound for fit in outcome.finalists] == sorted((f.bound for f in outcome.finalists), reverse=True)
    assert outcome.finalists[0].bound == max(fit.bound for fit in seen)
    assert all(fit.converged for fit in outcome.finalists)
    held = [fit for fit in seen if fit.last.stage == "noise held"]
    assert outcome.held.bound == pytest.approx(max(fit.bound for fit in held), rel=1e-9)
    assert {fit.start for fit in held} == {name for name, _ in begin}


@pytest.mark.slow
def test_starts_of_one_chart_go_on_as_one(sheet):
    """Two copies of a start occupy both slots of the final: a third, of another chart and lower, has none."""
    model = Variational()
    along = starts.standardise(starts.pca(sheet, 2))
    folded = np.abs(along) @ [[1.0, 0.2], [0.1, -1.0]]
    seen = []
    with jax.enable_x64(True):
        cloud = bound.fill_cloud(bound.compress(sheet))
        begin = [
            (name, model.start(X, np.random.default_rng(0)))
            for name, X in (("one", along), ("folded", folded), ("two", along @ [[0.0, 1.0], [-1.0, 0.0]]))
        ]
        outcome = multistart(model, begin, cloud, max_iter=300, tol=0.05, see=seen.append)
    later = [fit.start for fit in seen if fit.last.stage == "all free"]
    assert list(dict.fromkeys(fit.start for fit in seen if fit.last.stage == "noise held")) == ["one", "folded", "two"]
    assert set(later) == {outcome.held.start, "folded"}
    assert outcome.held.start in ("one", "two")
    assert [fit.start for fit in outcome.finalists] == [outcome.held.start]


def test_a_subset_of_the_rows_compares_starts(sheet):
    """Starts and semifinal have some rows, the final has all, where the others were projected."""
    model, some = Variational(), np.flatnonzero(np.arange(40) % 7)  # as many as share the programs of all
    X = starts.standardise(starts.pca(sheet, 2))
    grown, seen = [], []

    def grow(theta):
        grown.append(theta)
        return replace(theta, mu=X, log_s=np.full(X.shape, -4.0))

    with jax.enable_x64(True):
        whole, subset = (bound.fill_cloud(bound.compress(rows)) for rows in (sheet, sheet[some]))
        begin = [("pca", model.start(X[some], np.random.default_rng(0)))]
        outcome = multistart(model, begin, whole, max_iter=300, tol=0.05, see=seen.append, few=RowSubset(subset, grow))
    assert {fit.last.rows for fit in seen if fit.last.stage != "all free"} == {34}
    assert {fit.last.rows for fit in seen if fit.last.stage == "all free"} == {34, 40}
    assert len(grown) == 1
    assert outcome.held.theta.mu.shape == (34, 2)
    assert outcome.finalists[0].theta.mu.shape == (40, 2)


def test_a_closed_curve_is_cut_where_it_is_thinnest():
    """Angles from the gap on, whatever the unit of each axis; a full disc is not cut."""
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(0.4, 2 * np.pi - 0.2, 80))
    cut = starts.unrolled(np.stack([3 * np.cos(t), np.sin(t)], 1) - [0.1, 0.0])
    assert np.all(np.diff(cut[:, 0]) > 0)
    assert starts.unrolled(rng.standard_normal((80, 2))) is None
    assert starts.unrolled(np.zeros((5, 2))) is None
    S = np.stack([np.cos(t), np.sin(t), 0.3 * np.cos(2 * t)], 1)
    assert any(name.endswith("unrolled") for name, *_ in starts.named(S, 1, ["isomap"], rng))
    assert not any(name.endswith("unrolled") for name, *_ in starts.named(S[:30], 1, ["isomap"], rng))
    for rows in (S, S[:30]):  # "curve" is one start in the order of the rows, for a ring and for an arc
        ((_, X, _),) = starts.named(rows, 1, ["curve"], rng)
        step = np.diff(X[:, 0])
        assert np.all(step > 0) or np.all(step < 0)
    with pytest.raises(GpumError, match="starts='curve' is for latent_dim=1"):
        BayesianGPLVM(2, starts="curve").fit(S)


def test_equal_rows_start_at_one_point():
    """As the whole rows of an incomplete cloud may lie."""
    found = starts.isomap(np.full((8, 3), 0.7), 2, 5, np.random.default_rng(0))
    assert np.array_equal(found, np.zeros((8, 2)))
