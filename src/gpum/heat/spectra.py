"""The spectrum of a surface, and heat and Matérn kernels from it: weights of eigenfunctions, and features of points.

    heat kernel    K_t = Σ_i e^{-λ_i t/2} φ_i φ_iᵀ                       (∂K/∂t = ½ΔK)
    Matérn kernel  Σ_i (1 + λ_i κ²/2ν)^{-ν-q/2} φ_i φ_iᵀ, which is (2ν/κ² + λ_i)^{-ν-q/2} but for a constant factor

κ is the length scale of the Matérn kernel of flat space, √t that of the squared exponential, which is its limit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log, pi
from typing import Any

import numpy as np

from ..basics import checks
from ..basics.checks import GpumError
from ..manifold.stars import ball
from ..manifold.surface import combined

ZERO = 1e-9  # λ/λ_k up to which a mode is constant on each component: rounding of K is less, the narrowest link more
SMOOTHNESS: dict[str, float] = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5, "heat": np.inf}
OTHER = "matern nu="  # the name of another smoothness is this and the number
TAIL = 1e-3  # e^{-λt/2} of the first omitted mode, at the smallest time
USUAL_MODES, MAX_MODES = 200, 1500  # eigenpairs of a surface where nothing says how many are needed, and at most
USUAL = 0.25  # length scale of features where none is given, over the extent π/√λ_1


def smoothness_of(name: str) -> float:
    """ν of the kernel with this name: one of SMOOTHNESS, or any other Matérn kernel."""
    return SMOOTHNESS[name] if name in SMOOTHNESS else float(name.removeprefix(OTHER))


def name_of(nu: float) -> str:
    """The name of the kernel of smoothness ν."""
    return next((name for name, known in SMOOTHNESS.items() if known == nu), f"{OTHER}{float(nu)!r}")


def heat_spectrum(values: np.ndarray, t: float) -> np.ndarray:
    """e^{-λt/2}, [k]."""
    return np.exp(-0.5 * values * t)


def matern_spectrum(values: np.ndarray, nu: float, kappa: float, dim: float) -> np.ndarray:
    """(1 + λκ²/2ν)^{-ν-q/2}, [k]: the Matérn spectrum (2ν/κ² + λ)^{-ν-q/2}, scaled to 1 at λ = 0.

    Of ν = ∞ its limit, the heat spectrum of t = κ².
    """
    if np.isinf(nu):
        return heat_spectrum(values, kappa**2)
    return (1 + values * kappa**2 / (2 * nu)) ** (-nu - dim / 2)


def varying(values: np.ndarray) -> np.ndarray:
    """Which modes are not constant, [k]."""
    return values > ZERO * values.max()


def weyl(volume: float, q: int, last: float) -> float:
    """How many modes of a surface have λ up to `last`."""
    return ball(q) * volume * last ** (q / 2) / (2 * pi) ** q


def modes_for(count: Callable[[float], float], t: float) -> int:
    """How many modes time t needs, with room for the boundary; `count` is how many have λ up to some value."""
    return ceil(1.1 * count(2 * log(1 / TAIL) / t)) + 20


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues λ_i [k] of -Δ on a surface, ascending, and eigenfunctions φ_i, from which kernels follow.

    Attributes
    ----------
    values : λ_i, [k].
    functions : φ_i at the nodes [V, k], with ∫ φ_i φ_j = δ_ij; between nodes they are linear. Where elements are
        quadratic they are at the `unknowns` of the surface.
    surface : onto which points are projected.
    volume : of the surface.
    missing : how many of the requested pairs the solver did not reach; they are left out.
    residual : relative residual of the eigenfunctions.
    n_connected_components : of the surface; so many of the values are 0.
    """

    values: np.ndarray
    functions: np.ndarray
    surface: Any  # with `project` and `dim`
    volume: float
    missing: int = 0
    residual: float = 0.0
    n_connected_components: int = 1

    @property
    def dim(self) -> int:
        """The dimension q of the surface."""
        return int(self.surface.dim)

    @property
    def points(self) -> np.ndarray:
        """The nodes of the surface as rows of the data space, [V, p]."""
        return self.surface.nodes

    @property
    def vectors(self) -> np.ndarray:
        """`functions`, as version 1.0 names them."""
        return self.functions

    @property
    def atlas(self) -> Any:
        """`surface`, as version 1.0 names it for an atlas."""
        return self.surface

    def at(self, points: Any) -> np.ndarray:
        """φ_i at rows [n, p] of the data space, [n, k]: at the point of the surface nearest to each."""
        return combined(self.surface.project(points), self.functions)

    def heat(self, t: float) -> np.ndarray:
        """Weights of eigenfunctions in the heat kernel at time t: e^{-λt/2}, [k]."""
        return heat_spectrum(self.values, checks.positive(t, "t", "it is the diffusion time"))

    def matern(self, nu: float, kappa: float) -> np.ndarray:
        """Weights of eigenfunctions in the Matérn kernel: (1 + λκ²/2ν)^{-ν-q/2}, [k], 1 at λ = 0.

        nu is the smoothness, ∞ that of the heat kernel; kappa is the length scale, as in the Matérn kernel of flat
        space.
        """
        checks.positive(kappa, "kappa", "it is the length scale")
        if not (isinstance(nu, float) and nu == np.inf):
            checks.positive(nu, "nu", "it is the smoothness: 0.5, 1.5, 2.5, or infinity for the heat kernel")
        return matern_spectrum(self.values, nu, kappa, self.dim)

    def space(self) -> Any:
        """The surface as a space of the library GeometricKernels (needs geometric-kernels).

        Its points are those that `at` takes, and it has as many levels as there are eigenpairs.
        """
        try:
            from .space import SurfaceSpace
        except ImportError:
            raise GpumError(
                "space() needs GeometricKernels, which is not installed; pip install geometric-kernels"
            ) from None
        return SurfaceSpace(self)

    def features(
        self, X: Any, length_scale: float | None = None, smoothness: str = "heat", variance: float | None = 1.0
    ) -> np.ndarray:
        """Features [n, k] of points X whose inner products are a kernel: k(x, x') = φ(x) · φ(x').

        Parameters
        ----------
        X : points, as `at` takes them.
        length_scale : √t of a heat kernel, κ of a Matérn kernel; None: a quarter of the surface's extent.
        smoothness : "heat" (default), "matern12", "matern32" or "matern52".
        variance : the mean of k(x, x) over the surface; None: the heat kernel itself, or the Matérn kernel whose
            weights `matern` returns.
        """
        checks.option(smoothness, "smoothness", tuple(SMOOTHNESS))
        if length_scale is None:
            varies = self.values[varying(self.values)]
            length_scale = USUAL * np.pi / float(np.sqrt(varies[0])) if len(varies) else 1.0
        checks.positive(length_scale, "length_scale", "it is √t of a heat kernel, κ of a Matérn kernel")
        weights = matern_spectrum(self.values, SMOOTHNESS[smoothness], float(length_scale), self.dim)
        if variance is not None:
            weights = weights * checks.positive(variance, "variance", "1 is the default") * self.volume / weights.sum()
        return self.at(X) * np.sqrt(weights)
