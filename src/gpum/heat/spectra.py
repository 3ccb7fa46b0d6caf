"""Weights of eigenfunctions in heat and Matérn kernels, as functions of their eigenvalues."""

from __future__ import annotations

import numpy as np

ZERO = 1e-9  # λ/λ_k up to which a mode is constant on each component: rounding of K is less, the narrowest link more


def heat_spectrum(values: np.ndarray, t: float) -> np.ndarray:
    """e^{-λt/2}, [k]."""
    return np.exp(-0.5 * values * t)


def matern_spectrum(values: np.ndarray, nu: float, kappa: float, dim: float) -> np.ndarray:
    """(1 + λκ²/2ν)^{-ν-q/2}, [k]: the Matérn spectrum (2ν/κ² + λ)^{-ν-q/2}, scaled to 1 at λ = 0."""
    return (1 + values * kappa**2 / (2 * nu)) ** (-nu - dim / 2)


def varying(values: np.ndarray) -> np.ndarray:
    """Which modes are not constant, [k]."""
    return values > ZERO * values.max()
