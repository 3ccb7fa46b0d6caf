"""Shared fixtures. Nothing here sets JAX's configuration: the library must work without."""

import os
from pathlib import Path

import numpy as np
import pytest

from gpum import BayesianGPLVM, datasets

SHARED = Path(os.environ.get("GPUM_SHARED", Path(__file__).parents[2] / "shared"))


@pytest.fixture(scope="session")
def tasks():
    """The folder of ready regression tasks, where it is there."""
    folder = SHARED / "tasks"
    if not folder.is_dir():
        pytest.skip(f"no regression tasks at {folder}: set GPUM_SHARED to the folder that holds tasks/")
    return folder


@pytest.fixture(scope="session")
def roll():
    """A small Swiss roll with its exact coordinates."""
    return datasets.make_swiss_roll(n_unlabeled=250, random_state=0)


@pytest.fixture(scope="session")
def roll_model(roll):
    """The default model of that roll."""
    return BayesianGPLVM(random_state=0).fit(roll.X)


def make_ring(n=66, gap=35.0, p=40, seed=0):
    """Points on a closed curve in R^p with a gap of so many degrees, and their angles."""
    rng = np.random.default_rng(seed)
    angle = np.deg2rad(np.linspace(gap / 2, 360 - gap / 2, n))
    waves = np.concatenate([f(k * angle)[:, None] / k for k in (1, 2, 3) for f in (np.sin, np.cos)], axis=1)
    S = waves @ rng.standard_normal((6, p)) + 0.01 * rng.standard_normal((n, p))
    return S, angle
