"""Sentences of errors: plain numbers, singular and plural, and the class that was called."""

import numpy as np
import pytest

from gpum import Atlas, BayesianGPLVM, EuclideanGPRegressor, GPUMRegressor, KernelOptions, diagnostics
from gpum.basics.checks import GpumError

X = np.random.default_rng(0).normal(size=(12, 3))
y = X[:, 0]


def regressor(**settings):
    return GPUMRegressor(geometry="flat", smoothness="heat", random_state=0, **settings)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: GPUMRegressor(kernel=KernelOptions(max_time=np.float64(-1))).fit(X, y), "got -1.0;"),
        (lambda: GPUMRegressor(latent_dim=[1, np.int64(-2)]).fit(X, y), "got -2;"),
        (lambda: GPUMRegressor(n_jobs=np.int64(0)).fit(X, y), "got 0;"),
        (lambda: Atlas(np.int64(0)).fit(X), "got 0;"),
        (lambda: BayesianGPLVM(np.int64(7)).fit(X), "latent_dim is 7 but"),
        (lambda: regressor().fit(X, y).predict_quantiles(X, [np.float64(1.5)]), r"got \[1\.5\];"),
        (lambda: diagnostics.leave_one_out(regressor().fit(X, y), np.int64(4)), "output must be 0, got 4;"),
        (
            lambda: EuclideanGPRegressor().fit(np.where(y[:, None] == y[0], np.inf, X), y),
            "has 3 NaN or infinite entries",
        ),
        (lambda: EuclideanGPRegressor().fit(np.where(X[0, 0] == X, np.inf, X), y), "has 1 NaN or infinite entry"),
        (lambda: GPUMRegressor().fit(X), "GPUMRegressor requires y to be passed"),
        (lambda: EuclideanGPRegressor().fit(X, None), "EuclideanGPRegressor requires y to be passed"),
    ],
)
def test_numbers_and_names_are_plain(call, said):
    with pytest.raises(GpumError, match=said) as found:
        call()
    assert "np." not in str(found.value)
