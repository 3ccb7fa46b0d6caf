"""Every parameter of every estimator and of every function without a cloud: used, or refused in a sentence."""

from dataclasses import fields

import numpy as np
import pytest
from gpum.kernels import Linear, Surface
from hypothesis import given
from hypothesis import strategies as st

from gpum import (
    GPLVM,
    BayesianGPLVM,
    EuclideanGPRegressor,
    GPUMClassifier,
    GpumError,
    GPUMRegressor,
    GraphLaplacianGPRegressor,
    GraphMaternGPRegressor,
    KernelOptions,
    LatentGPRegressor,
    Priors,
    datasets,
)
from odd import ODD, answered, covers, finite, setting

pytestmark = pytest.mark.usefixtures("one_thread")
SOUND = {
    "latent_dim": (1, "average"), "geometry": ("flat", ("flat", "graph")), "latent_model": ("bgplvm",),
    "n_inducing": (None, 5), "boundary": ("average", "variance", 0.5), "kernel": ("auto", KernelOptions(max_time=1.0)),
    "smoothness": ("heat", "average"), "hyperparameters": ("average", "evidence"), "n_paths": (1000,),
    "step_size": (None,), "max_time": (None, 1.0), "n_modes": (None, 20), "metric_draws": (0,), "method": ("auto",),
    "n_path_starts": (None, 5), "likelihood": ("gaussian", "student"), "period": (None, 360.0), "warm_start": (False,),
    "checkpoint": (None,), "n_jobs": (None, 1), "random_state": (None, 3), "verbose": (0,), "n_neighbors": (3, None),
    "normalisation": ("paper", "authors"), "starts": ("pca", ("pca", "isomap")), "scale": ("auto", "robust"),
    "max_iter": (20,), "tol": (0.05,), "unlabelled": ("auto", None), "mean": ("constant", "linear"),
    "covariance": (None, Surface() + Linear()), "priors": (None, Priors(evidence_power=1.0)),
}  # fmt: skip
QUICK = {"smoothness": "heat"}
LATENT = {"latent_dim": 1, "starts": "pca", "max_iter": 20, "random_state": 0}
ESTIMATORS = {
    GPUMRegressor: {"geometry": "flat", **QUICK},
    GPUMClassifier: {"geometry": "flat", **QUICK},
    EuclideanGPRegressor: QUICK,
    GraphLaplacianGPRegressor: {},
    GraphMaternGPRegressor: {"n_neighbors": 3, **QUICK},
}
SLOW = {
    LatentGPRegressor: {"latent_dim": 1, **QUICK},
    BayesianGPLVM: LATENT,
    GPLVM: LATENT,
}
t = np.linspace(0, 1, 12)
CURVE = np.stack([t, t**2, t**3], 1)


def used_or_refused(data, estimator, given):
    name = data.draw(st.sampled_from(sorted(estimator().get_params())))
    value = data.draw(setting(*SOUND[name]))
    if name == "checkpoint" and isinstance(value, str):
        return  # a folder of that name
    y = (t > 0.5).astype(int) if estimator is GPUMClassifier else t
    model = answered(lambda: estimator(**{**given, name: value}).fit(CURVE, y))
    if hasattr(model, "transduction_"):
        assert estimator is GPUMClassifier or finite(model.transduction_)
    elif model is not None:
        assert finite(model.latent_)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@covers("GpumError", seconds=0.03, answered=0.45)
@given(data=st.data())
def test_settings(estimator, data):
    used_or_refused(data, estimator, ESTIMATORS[estimator])


@covers("KernelOptions", seconds=0.03, answered=0.4)
@given(data=st.data())
def test_kernel_options(data):
    name = data.draw(st.sampled_from(sorted(f.name for f in fields(KernelOptions))))
    value = data.draw(setting(*SOUND[name]))
    make = lambda: GPUMRegressor(geometry=("flat", "graph"), kernel=KernelOptions(**{name: value}), **QUICK)
    model = answered(lambda: make().fit(CURVE, t))
    assert model is None or finite(model.transduction_)


@covers("Priors", seconds=0.03, answered=0.4)
@given(data=st.data())
def test_priors(data):
    sound = {
        "noise": (((1.0, -2.0, 0.5),), ((0.5, -3, 1), (0.5, 0, 1))), "noise_of_copies": (((1, -1.0, 0.5),),),
        "signal": ((1.0, 3.0), (5, 0.1)), "length_scale": ((0.1,), (1e-3, 10.0)),
        "geometry": (None, {"flat": 3.0}), "evidence_power": (None, 0.2),
    }  # fmt: skip
    name = data.draw(st.sampled_from(sorted(sound)))
    value = data.draw(setting(*sound[name]))
    make = lambda: GPUMRegressor(geometry=("flat", "graph"), priors=Priors(**{name: value}), **QUICK)
    model = answered(lambda: make().fit(CURVE, t))
    assert model is None or finite(model.transduction_)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", SLOW)
@covers(seconds=0.3, answered=0.55)
@given(data=st.data())
def test_settings_of_latent_models(estimator, data):
    used_or_refused(data, estimator, SLOW[estimator])


@covers("datasets.make_swiss_roll", seconds=0.005, answered=0.2)
@given(data=st.data())
def test_rolls(data):
    options = {
        "n_labeled": (24, 0, 3), "n_unlabeled": (450, 10, 0, 7), "grid": (True, False), "noise": (0.05, 0.0),
        "random_state": (None, 3),
    }  # fmt: skip
    chosen = {name: data.draw(setting(*sound)) for name, sound in options.items() if data.draw(st.booleans())}
    for name in ("n_labeled", "n_unlabeled"):
        if not isinstance(chosen.get(name), int | None):
            chosen[name] = data.draw(st.sampled_from([-1, 1.5, "many", None, np.nan]))
    cloud = answered(lambda: datasets.make_swiss_roll(**chosen))
    if cloud is not None:
        assert finite(cloud.X, cloud.y_true)
        assert np.isfinite(cloud.y).sum() == chosen.get("n_labeled", 24)


@covers("datasets.fetch_wifi", "datasets.fetch_coil", seconds=0.003, answered=0)
@given(subset=st.sampled_from(ODD), name=st.sampled_from(["wifi", "coil"]))
def test_subsets_that_are_not_there(subset, name, real_data):
    with pytest.raises(GpumError, match="subset"):
        getattr(datasets, f"fetch_{name}")(subset=subset, data_home=real_data)
