"""The property tests can fail: a library that is broken, or that refuses everything, does not pass them."""

import numpy as np
import pytest

import test_properties
import test_properties_surfaces
from gpum import GpumError, GPUMRegressor
from gpum import manifold as geometry


def test_a_bug_in_fit_is_not_taken_for_a_refusal(monkeypatch):
    monkeypatch.setattr(GPUMRegressor, "fit", lambda *args: np.zeros(3) + np.zeros(4))
    with pytest.raises(ValueError, match="operands could not be broadcast"):
        test_properties.test_flat_regressors()


def test_a_library_that_refuses_everything_fails(monkeypatch):
    def refuse(*args):
        raise GpumError("X is refused, whatever it is")

    monkeypatch.setattr(GPUMRegressor, "fit", refuse)
    with pytest.raises(AssertionError, match=r"only 0 of \d+ questions were answered"):
        test_properties.test_flat_regressors()


def test_a_refusal_that_is_not_a_sentence_fails(monkeypatch):
    def refuse(*args, **options):
        raise GpumError("bad volume")

    monkeypatch.setattr(geometry, "volume", refuse)
    with pytest.raises(AssertionError, match="not a sentence: bad volume"):
        test_properties_surfaces.test_geometry_of_charts()
