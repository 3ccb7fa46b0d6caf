"""The optimiser's rounds and the race of the starts."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

from gpum.gplvm import bound, optimise, starts
from gpum.gplvm.models import ByPoints, Variational
from gpum.gplvm.optimise import BROKEN, CONVERGED, CUT_SHORT, RUNNING, Stage, climb
from gpum.gplvm.race import collapsed, race


@partial(jax.tree_util.register_dataclass, data_fields=["x"], meta_fields=[])
@dataclass(frozen=True)
class Theta:
    x: Any


def rounds(negative, x, max_iter=1000, tol=0.01, n_rows=10):
    stage = Stage("all free", (), max_iter, tol)
    steps = lambda theta, data: Theta(np.ones(np.shape(theta.x)))
    return [now for _, now in climb(negative, steps, Theta(np.asarray(x, float)), None, stage, n_rows)]


def valley(theta, data):
    """Rosenbrock's function: a long way to go in a bent valley."""
    a, b = theta.x
    gradient = [-2 * (1 - a) - 400 * a * (b - a * a), 200 * (b - a * a)]
    return (1 - a) ** 2 + 100 * (b - a * a) ** 2, Theta(np.array(gradient))


def test_a_bowl_converges():
    found = rounds(lambda theta, data: (0.5 * np.sum(theta.x**2), Theta(theta.x)), [3.0, -2.0])
    assert found[-1].status == CONVERGED
    assert found[-1].converged
    assert found[-1].value == pytest.approx(0, abs=1e-12)


def test_a_round_cut_short_is_not_converged():
    """Three iterations that gain little say nothing; the same valley with enough of them is walked to its end."""
    short, whole = rounds(valley, [-1.2, 1.0], max_iter=3, tol=1e3), rounds(valley, [-1.2, 1.0], tol=1e-6)
    assert [now.status for now in short] == [CUT_SHORT]
    assert not short[-1].converged
    assert whole[-1].status == CONVERGED
    assert whole[-1].value == pytest.approx(0, abs=1e-9)


def test_a_breakdown_of_the_line_search_is_told():
    """A gradient that points the wrong way: nothing is gained, and much is promised."""
    found = rounds(lambda theta, data: (0.5 * np.sum(theta.x**2), Theta(-theta.x)), [3.0, -2.0])
    assert [now.status for now in found] == [BROKEN, BROKEN]
    assert not found[-1].converged


def test_a_breakdown_from_rounding_at_the_top_is_converged():
    """An objective rounded to 1e-6: the search ends there, and the gradient says that no more is to be had."""
    found = rounds(lambda theta, data: (np.round(0.5 * np.sum(theta.x**2), 6), Theta(theta.x)), [1e-4, -1e-4])
    assert found[-1].status == CONVERGED


def test_after_a_breakdown_on_the_way_the_run_goes_on(monkeypatch):
    true_round, calls = optimise._round, []

    def first_breaks(*args):
        calls.append(0)
        theta, value, result = true_round(*args[:-1], 2 if len(calls) == 1 else args[-1])
        if len(calls) == 1:
            result.status = 2
        return theta, value, result

    monkeypatch.setattr(optimise, "_round", first_breaks)
    found = rounds(valley, [-1.2, 1.0], tol=1e-6)
    assert found[0].status == RUNNING
    assert found[-1].status == CONVERGED


@pytest.fixture(scope="module")
def sheet():
    rng = np.random.default_rng(0)
    t = rng.uniform(0, 3, (40, 2))
    S = np.column_stack([t, np.sin(t[:, 0]), np.cos(t[:, 1])]) + 0.01 * rng.standard_normal((40, 4))
    S -= S.mean(0)
    return S / np.sqrt(np.mean(S**2))


@pytest.mark.parametrize("model", [Variational(), ByPoints()])
def test_all_finalists_come_back_best_first(model, sheet):
    seen = []
    with jax.enable_x64(True):
        begin = [
            (n, model.start(X, own))
            for n, X, own in starts.named(sheet, 2, ["pca", "isomap"], np.random.default_rng(0))
        ]
        outcome = race(
            model, begin, bound.fill_cloud(bound.compress(sheet)), max_iter=10_000, tol=0.01, see=seen.append
        )
        assert not collapsed(model, outcome.finalists[0])
        for fit in outcome.finalists:
            assert fit.bound == pytest.approx(-float(model.negative(fit.theta, bound.compress(sheet))[0]), rel=1e-9)
    assert len(outcome.finalists) == 2
    assert len({fit.start for fit in outcome.finalists}) == 2
    assert outcome.finalists[0].bound == max(fit.bound for fit in seen) >= outcome.finalists[1].bound
    assert all(fit.converged for fit in outcome.finalists)
    held = [fit for fit in seen if fit.last.stage == "noise held"]
    assert outcome.held.bound == pytest.approx(max(fit.bound for fit in held), rel=1e-9)
    assert {fit.start for fit in held} == {name for name, _ in begin}
