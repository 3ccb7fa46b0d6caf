"""Axes to draw on, and numbers to draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..basics.checks import GpumError
from ..basics.extras import needs

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def axes_of(ax: Any, projection: str | None = None) -> Any:
    """The given axes, or new ones in a figure of their own."""
    if ax is not None:
        return ax
    return needs("matplotlib.pyplot", "a figure").figure(layout="constrained").add_subplot(projection=projection)


def values_of(values: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Values [n], all NaN where none are given, and which are known."""
    values = np.full(n, np.nan) if values is None else numbers_of(values, "values", (n,))
    return values, np.isfinite(values)


def numbers_of(values: Any, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Values as an array of that shape."""
    try:
        numbers = np.asarray(values, float)
    except (TypeError, ValueError):
        raise GpumError(f"{name} must be numbers, got {values!r}; give one for each row") from None
    if numbers.shape != shape:
        raise GpumError(f"{name} must have the shape {shape}, got {numbers.shape}; give one for each row")
    return numbers


def label_axes(ax: Axes) -> Axes:
    """Axes with the names of latent coordinates."""
    ax.set(xlabel="latent dimension 1", ylabel="latent dimension 2")
    return ax
