"""What 1.x promises stays: every public name and signature, and a sentence where an earlier spelling is used."""

import importlib
import inspect

import numpy as np
import pytest

import gpum
import odd
import public_names
from gpum import Atlas, BayesianGPLVM, GPUMClassifier, GpumError, GPUMRegressor, KernelOptions


def test_public_names_and_signatures_are_as_promised():
    """A changed line breaks what users wrote: deprecate instead."""
    now, promised = public_names.lines(), public_names.STORED.read_text().splitlines()
    assert not set(promised) - set(now), "these were promised"
    assert not set(now) - set(promised), "these are new; if on purpose, run python tests/public_names.py"


@pytest.mark.parametrize("name", [name for name in gpum.__all__ if inspect.ismodule(getattr(gpum, name))])
def test_public_modules_are_imported_like_any_other(name):
    module = importlib.import_module(f"gpum.{name}")  # as `from gpum.kernels import Heat` does
    assert module is getattr(gpum, name)
    assert module.__spec__.name == module.__name__  # as if it had been imported from its folder


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (lambda: GPUMRegressor(boundary=0.5), r"kernel=KernelOptions\(boundary=...\)"),
        (lambda: GPUMRegressor(n_kernel_inducing=5), r"kernel=KernelOptions\(n_modes=...\), or n_path_starts"),
        (lambda: GPUMRegressor(target="angle"), "period=360.0"),
        (lambda: GPUMClassifier(n_inducing=5), r"latent_model=BayesianGPLVM\(n_inducing=...\)"),
        (lambda: GPUMClassifier().set_params(max_time=2.0), r"kernel=KernelOptions\(max_time=...\)"),
        (lambda: Atlas(2, random_state=0), "no seed: an atlas is not random"),
        (lambda: BayesianGPLVM(boundary_level=0.3), "boundary=..., the level itself"),
    ],
)
def test_spellings_of_earlier_versions_name_the_new_ones(old, new):
    with pytest.raises(TypeError, match=f"any more; use {new}") as found:
        old()
    assert isinstance(found.value, GpumError)


def test_an_attribute_of_earlier_versions_names_the_new_one():
    with pytest.raises(AttributeError, match="use length_scale_"):
        getattr(GPUMRegressor(), "diffusion_time_")  # noqa: B009


def test_parameters_are_refused_where_they_cannot_be():
    with pytest.raises(TypeError, match="unexpected keyword"):
        GPUMRegressor(no_such=1)
    with pytest.raises(GpumError, match="method must be one of"):
        KernelOptions("spectrum")
    assert repr(KernelOptions(boundary=0.5)) == "KernelOptions(boundary=0.5)"


def test_a_latent_model_without_a_dimension_is_fitted_in_every_one():
    t = np.linspace(0, 3, 14)
    X, y = np.stack([np.cos(t), np.sin(t), t], 1), t
    options = {"n_inducing": 4, "starts": "pca", "max_iter": 30, "tol": 1.0}
    make = lambda model: GPUMRegressor((1, 2), geometry="chart", latent_model=model, smoothness="heat", random_state=0)
    with odd.quiet():  # neither converges
        both = make(BayesianGPLVM(**options)).fit(X, y)
        one = make(BayesianGPLVM(1, **options, random_state=0)).fit(X, y)
    assert {m.surface.dim for m in both.model_.geometries.members} == {1, 2}
    assert {m.surface.dim for m in one.model_.geometries.members} == {1}
    assert both.latent_model.latent_dim is None  # the given model is not changed
    assert both.latent_model_.n_inducing == 4
