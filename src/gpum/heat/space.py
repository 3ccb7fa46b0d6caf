"""A surface as a space of GeometricKernels, so that the kernels of that library act on it.

Eigenfunctions there have mean square 1, here ∫φ² = 1: they differ by √volume. With `normalize=True` a Matérn kernel of
theirs is that of `Spectrum.features` with variance 1. Gradients go to the parameters of a kernel, not to points.
"""

from __future__ import annotations

from typing import Any

import lab as B
import numpy as np
from geometric_kernels.lab_extras import dtype_integer, from_numpy
from geometric_kernels.spaces.base import DiscreteSpectrumSpace
from geometric_kernels.spaces.eigenfunctions import EigenfunctionsFromEigenvectors

from ..basics.checks import GpumError


class SurfaceSpace(DiscreteSpectrumSpace):
    """A surface with the eigenpairs `pairs` (see `spectra.Spectrum`); each pair is a level."""

    def __init__(self, pairs: Any) -> None:
        self.pairs = pairs

    def __str__(self) -> str:
        return f"SurfaceSpace({len(self.pairs.values)} eigenpairs, dimension {self.dimension})"

    @property
    def dimension(self) -> int:
        """The dimension of the surface."""
        return int(self.pairs.dim)

    @property
    def element_shape(self) -> list[int]:
        """The shape of a point: [columns]."""
        return [self.pairs.points.shape[1]]

    @property
    def element_dtype(self) -> Any:
        """Points are rows of real numbers."""
        return B.Float

    def get_eigenvalues(self, num: int) -> np.ndarray:
        """λ of the first levels, [num, 1]."""
        return self._first(self.pairs.values, num)[:, None]

    def get_repeated_eigenvalues(self, num: int) -> np.ndarray:
        """The same: a level is one eigenpair."""
        return self.get_eigenvalues(num)

    def get_eigenfunctions(self, num: int) -> SurfaceEigenfunctions:
        """The first eigenfunctions, with mean square 1 over the surface."""
        self._first(self.pairs.values, num)
        return SurfaceEigenfunctions(self.pairs, num)

    def random(self, key: Any, number: int) -> tuple[Any, Any]:
        """The key, advanced, and so many nodes of the surface at random, [number, columns]."""
        key, index = B.randint(key, dtype_integer(key), number, lower=0, upper=len(self.pairs.points))
        return key, from_numpy(index, self.pairs.points[B.to_numpy(index)])

    def _first(self, values: np.ndarray, num: int) -> np.ndarray:
        if num > len(values):
            raise GpumError(f"{num} levels are asked for, but the spectrum has {len(values)} eigenpairs; ask for fewer")
        return values[:num]


class SurfaceEigenfunctions(EigenfunctionsFromEigenvectors):
    """The first eigenfunctions of a surface at any of its points."""

    def __init__(self, pairs: Any, num: int) -> None:
        self._pairs, self._scale = pairs, float(np.sqrt(pairs.volume))
        super().__init__(pairs.vectors[:, :num] * self._scale)

    def __call__(self, X: Any, **kwargs: Any) -> Any:
        """Their values at points X [n, columns], [n, num], in the kind of array that X is."""
        values = self._pairs.at(B.to_numpy(X))[:, : self.num_eigenfunctions]
        return B.cast(B.dtype(X), from_numpy(X, values * self._scale))
