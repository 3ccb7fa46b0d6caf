"""Against GPy, the reference implementation of the Bayesian GPLVM."""

import jax
import numpy as np
import pytest

from gpum import LearnedChart
from gpum.gplvm import bound, precise
from gpum.gplvm.mapping import Mapping

pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("ignore")]
GPY_JITTER = 1e-8  # absolute, on the diagonal of Kuu


@pytest.fixture(scope="module", params=[(60, 3, 12), (40, 100, 10)])
def both(request):
    GPy = pytest.importorskip("GPy")
    N, p, m = request.param
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 2))
    S = np.sin(X @ rng.standard_normal((2, p))) + 0.1 * rng.standard_normal((N, p))
    S -= S.mean(0)
    theta = bound.Parameters(
        mu=X,
        log_s=np.log(rng.uniform(0.01, 0.3, X.shape)),
        Z=2 * rng.standard_normal((m, 2)),
        log_ell=np.log(np.array([0.6, 0.9])),
        log_gamma=np.log(np.asarray(1.3)),
        log_beta=np.log(np.asarray(25.0)),
    )
    kernel = GPy.kern.RBF(2, 1.3, [0.6, 0.9], ARD=True)
    noise = GPy.likelihoods.Gaussian(variance=1 / 25)
    model = GPy.models.BayesianGPLVM(
        S, 2, X=X, X_variance=np.exp(theta.log_s), Z=theta.Z, kernel=kernel, likelihood=noise
    )
    return theta, S, model


def test_bound_equals_gpy(both):
    theta, S, model = both
    with jax.enable_x64(True):
        ours = float(bound.bound(theta, bound.compress(S), GPY_JITTER / 1.3))
    theirs = -float(np.squeeze(model.objective_function()))
    print(f"bound {ours}, relative difference {abs(ours / theirs - 1):.1e}")
    assert ours == pytest.approx(theirs, rel=1e-8)


def test_expected_metric_equals_gpy(both):
    theta, S, model = both
    with jax.enable_x64(True):
        P, Lam, R = precise.inducing_posterior(theta, GPY_JITTER / 1.3)
        mapping = Mapping.from_weights(
            theta.Z, np.exp(theta.log_ell), np.exp(theta.log_gamma), np.exp(theta.log_beta),
            np.asarray(P) @ S, Lam, R, np.zeros(S.shape[1]), np.ones(S.shape[1]),
        )  # fmt: skip
    chart = LearnedChart(mapping, None)
    points = np.array([[0.1, 0.2], [-0.5, 1.0], [1.5, -1.0]])
    theirs = model.predict_wishart_embedding(points)
    theirs = theirs[0] if isinstance(theirs, tuple) else theirs
    ours = np.array([chart.metric(x) for x in points])
    error = np.abs(ours / theirs - 1).max()
    print(f"E[g]: largest relative difference {error:.1e}")
    assert error < 1e-6
