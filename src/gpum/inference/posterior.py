"""The posterior of a GP as a mixture over settings and noise ratios, at rows that were located in every space.

Given a part (a setting with K = U S Uᵀ on the labels, and noise ratios r),

    mean(x) = k(x)U (z/(S + r)),   var(x) = σ_h² (K(x, x) - Σ (k(x)U)²/(S + r))          (errata 4)

A row whose place is uncertain is seen at several places (`Located.around`): a component's mean is the mean over
them, its variance the mean of theirs plus the variance of their means. A row far from the surface has the prior.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Generic, TypeVar

import numpy as np
from scipy.linalg import eigh

from ..geometry.family import Setting
from .quantiles import mixture_quantiles

S = TypeVar("S", bound="Share")


@dataclass(frozen=True)
class Located:
    """n rows in every space (None in spaces that nobody asked for).

    at : representation [n, k] of each row's place.
    around : the same at places around it, where the place is uncertain; else an empty list.
    far : which rows are far from the surface that the space belongs to, [n].
    """

    at: list[np.ndarray | None]
    around: list[list[np.ndarray]]
    far: list[np.ndarray]

    @classmethod
    def exactly(cls, rows: Sequence[np.ndarray | None]) -> Located:
        """Rows that are where they are."""
        n = len(next(r for r in rows if r is not None))
        return cls(list(rows), [[] for _ in rows], [np.zeros(n, bool) for _ in rows])

    def __len__(self) -> int:
        return len(self.far[0])


@dataclass(frozen=True)
class Decomposed:
    """K = U S Uᵀ on the labels and y in that basis.

    Where label i has noise σ² d_i of its own, all that for D^-½ K D^-½ and D^-½ y, and `U` is D^-½ U: what predicts
    then reads as before. `precision` is 1/d.
    """

    U: np.ndarray  # [n, k]
    S: np.ndarray
    z: np.ndarray
    rest: float  # |y|² outside the span of U
    precision: np.ndarray | float = 1.0  # [n]

    def quadratic(self, r: float | np.ndarray) -> np.ndarray:
        """Q for each ratio."""
        r = np.atleast_1d(r)
        return (self.z**2) @ (1 / (self.S[:, None] + r)) + self.rest / r

    def log_det(self, r: float | np.ndarray) -> np.ndarray:
        """log|K + rI| for each ratio."""
        r = np.atleast_1d(r)
        return np.log(self.S[:, None] + r).sum(0) + (len(self.U) - len(self.S)) * np.log(r)

    def of(self, y: np.ndarray) -> Decomposed:
        """The same K with other labels y [n]."""
        z = self.U.T @ y
        rest = max(float(np.sum(self.precision * y**2) - z @ z), 0.0) if len(self.S) < len(y) else 0.0
        return replace(self, z=z, rest=rest)


class Share:
    """A setting with its share of a posterior: one weight for each noise ratio."""

    setting: Setting
    weights: np.ndarray

    @property
    def weight(self) -> float:
        """The setting's weight, whatever the ratio."""
        return float(self.weights.sum())


class Mixture(Generic[S]):
    """A posterior that is a mixture over settings, whatever the likelihood."""

    parts: list[S]

    @property
    def best(self) -> S:
        """The heaviest part."""
        return max(self.parts, key=lambda part: part.weight)

    @property
    def spaces(self) -> set[int]:
        """The spaces in which rows must be located."""
        return {part.setting.space for part in self.parts}


@dataclass(frozen=True)
class Part(Share):
    """A setting with its share of the posterior: one weight, and one E[σ_h²], for each noise ratio."""

    setting: Setting
    d: Decomposed
    ratios: np.ndarray
    weights: np.ndarray
    signal: np.ndarray

    def only(self, j: int) -> Part:
        """The part with its noise ratio j alone, which has all the weight."""
        return replace(self, ratios=self.ratios[[j]], weights=np.ones(1), signal=self.signal[[j]])


@dataclass(frozen=True)
class Posterior(Mixture[Part]):
    """A mixture of GPs. `dof` is that of each part's Student t (infinite for "evidence")."""

    parts: list[Part]
    labels: list[np.ndarray | None]  # representation of the labelled points in each space that a part uses
    dof: float
    log_evidence: float
    notes: tuple[str, ...] = ()
    spread: ClassVar[float] = 1.0  # variance of the noise over σ²

    @staticmethod
    def noise(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Draws of the noise over σ."""
        return rng.standard_normal(shape)

    def components(self, rows: Located, noise: bool) -> Iterator[tuple[Part, np.ndarray, np.ndarray]]:
        """Each part with its means [n, J] and variances [n, J]."""
        for part in self.parts:
            k = part.setting.space
            at = rows.around[k] or [_known(rows.at[k])]
            found = [self._conditioned(part, b) for b in at]
            means = np.array([mean for mean, _ in found])
            variances = np.array([variance for _, variance in found])
            mean, variance = means.mean(0), variances.mean(0) + means.var(0)
            far = rows.far[k][:, None]
            if far.any():
                mean = np.where(far, 0.0, mean)
                variance = np.where(far, part.signal * part.setting.covariance.prior, variance)
            yield part, mean, variance + noise * self.spread * part.signal * part.ratios

    def _conditioned(self, part: Part, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of f, [n, J] each, at one place."""
        G, inverse = self._project(part, b)
        variance = np.maximum(part.setting.covariance.diag(b)[:, None] - G**2 @ inverse, 0.0)
        return G @ (part.d.z[:, None] * inverse), part.signal * variance

    def _project(self, part: Part, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        G = part.setting.covariance.times(b, _known(self.labels[part.setting.space]), part.d.U)
        return G, 1 / (part.d.S[:, None] + part.ratios)

    def moments(self, rows: Located, noise: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the mixture, [n] each."""
        mean, square = np.zeros(len(rows)), np.zeros(len(rows))
        for part, means, variances in self.components(rows, noise):
            mean += means @ part.weights
            square += (variances + means**2) @ part.weights
        return mean, np.maximum(square - mean**2, 0.0)

    def covariance(self, rows: Located, noise: bool = True) -> np.ndarray:
        """Covariance of the mixture between rows, [n, n]; its diagonal is the variance in `moments`."""
        n = len(rows)
        total, mean = np.zeros((n, n)), np.zeros(n)
        for part, means, variances in self.components(rows, False):
            total += self._joint(part, part.weights, rows, variances)
            total += noise * self.spread * float((part.weights * part.signal) @ part.ratios) * np.eye(n)
            total += (means * part.weights) @ means.T
            mean += means @ part.weights
        total -= np.outer(mean, mean)
        return 0.5 * (total + total.T)

    def _joint(self, part: Part, weights: np.ndarray, rows: Located, variances: np.ndarray) -> np.ndarray:
        """Covariance of f [n, n] given a part, summed over its ratios with weights [J]; variances [n, J] are exact.

        What an uncertain place adds to a row's variance is its own; rows far away go with no other.
        """
        b, far = _known(rows.at[part.setting.space]), rows.far[part.setting.space]
        G, inverse = self._project(part, b)
        scaled = weights * part.signal
        K = scaled.sum() * part.setting.covariance.gram(b, b) - (G * (inverse @ scaled)) @ G.T
        if far.any():
            K[far] = K[:, far] = 0.0
        variance = variances @ weights
        shrink = np.sqrt(np.minimum(variance / np.maximum(np.diag(K), 1e-300), 1.0))
        K *= shrink[:, None] * shrink
        K[np.diag_indices_from(K)] = variance
        return K

    def quantiles(self, rows: Located, levels: np.ndarray, noise: bool = True) -> np.ndarray:
        """Quantiles of the mixture, [n, levels]."""
        weights, means, variances, _ = self.flat(rows, noise)
        return mixture_quantiles(weights[:, None], means, np.sqrt(variances), self.dof, levels)

    def flat(self, rows: Located, noise: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Weights [J], means and variances [J, n] of all components, and the variances σ² of their noise [J]."""
        found = [(part, mean.T, variance.T) for part, mean, variance in self.components(rows, noise)]
        weights, own = (
            np.concatenate(v) for v in zip(*((p.weights, p.signal * p.ratios) for p, _, _ in found), strict=True)
        )
        return weights, np.concatenate([m for _, m, _ in found]), np.concatenate([v for _, _, v in found]), own

    def choose(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """A component, counted over parts and ratios, for each of n draws."""
        weights = np.concatenate([part.weights for part in self.parts])
        return rng.choice(len(weights), n, p=weights)

    def samples(
        self, rng: np.random.Generator, rows: Located, n: int, noise: bool, chosen: np.ndarray | None = None
    ) -> np.ndarray:
        """n draws of f (or, with noise, of new observations) at rows, [rows, n]; `chosen` are their components."""
        flat = [(i, j) for i, part in enumerate(self.parts) for j in range(len(part.weights))]
        chosen = self.choose(rng, n) if chosen is None else chosen
        draws = np.empty((len(rows), n))
        found = list(self.components(rows, False))
        for index in np.unique(chosen):
            i, j = flat[index]
            part, means, variances = found[i]
            where = np.flatnonzero(chosen == index)
            w, V = eigh(self._joint(part, np.eye(len(part.weights))[j], rows, variances))
            # the symmetric root: unlike V√w it does not depend on the signs of eigenvectors, which rounding decides
            z = (V * np.sqrt(np.maximum(w, 0.0))) @ (V.T @ rng.standard_normal((len(rows), len(where))))
            z += noise * np.sqrt(part.signal[j] * part.ratios[j]) * self.noise(rng, z.shape)
            if np.isfinite(self.dof):  # signal is the mean of σ_h², an inverse gamma with shape dof/2
                z *= np.sqrt((0.5 * self.dof - 1) / rng.gamma(0.5 * self.dof, size=len(where)))
            draws[:, where] = means[:, [j]] + z
        return draws


def _known(rows: np.ndarray | None) -> np.ndarray:
    assert rows is not None, "rows were not located in a space that the posterior uses"
    return rows
