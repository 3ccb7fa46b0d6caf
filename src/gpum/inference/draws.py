"""Draws of the function: from the prior at some rows, and from a posterior so that they can be evaluated anywhere.

Before there are labels candidate, signal and noise come from their priors (`prior_draws`). Afterwards (Matheron's rule)

    f = mean + σ_h s (g - k(·) C⁻¹ (g(labels) + ε)),    g ~ GP(0, K),  ε ~ N(0, r D),  s² of the Student t

A kernel that is linear in features F has g = F w exactly; a stationary one has g from FREQUENCIES random Fourier
features, whose covariance differs from K by about 1/√FREQUENCIES.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh
from scipy.special import logsumexp

from ..basics.checks import GpumError
from ..geometry.candidate_set import CandidateSet
from ..geometry.priors import RATIOS
from ..heat.covariances import Covariance, KernelSum, Stationary, Weighted
from ..heat.terms import Combined, LinearOf, OfColumns, OfSurface, SumOf, Term
from .decisions import FREQUENCIES
from .nearest import SEEN, Nearest, Search, conditionals
from .posterior import Component, Posterior, RowsInSpaces

Function = Callable[[np.ndarray], np.ndarray]
AT_ONCE = 2000  # labels


@dataclass(frozen=True, eq=False)
class Draw:
    """One draw of the function: `at(points)` gives it at points [n, k] of the space of this number."""

    space: int
    told: Callable[[np.ndarray], np.ndarray]  # what the labels add
    wiggle: Callable[[np.ndarray], np.ndarray]
    size: float

    def at(self, points: np.ndarray) -> np.ndarray:
        """The function at points, [n]."""
        return self.size * self.wiggle(points) + self.told(points)


@dataclass(frozen=True, eq=False)
class NearestDraw:
    """A draw where each point sees the nearest labels only: g and ε are the same everywhere, C is that of these."""

    space: int
    component: Component  # with one noise ratio
    known: np.ndarray
    search: Search
    wiggle: Callable[[np.ndarray], np.ndarray]
    at_known: np.ndarray  # g + ε at the labels
    size: float

    def at(self, points: np.ndarray) -> np.ndarray:
        """The function at points, [n]."""
        d, covariance, r = self.component.d, self.component.candidate.covariance, float(self.component.ratios[0])
        assert isinstance(d, Nearest)
        assert isinstance(covariance, Stationary)
        index = self.search.nearest(points, SEEN)
        mean = conditionals(covariance, self.known, d, r, points, index)
        back = conditionals(covariance, self.known, replace(d, y=self.at_known), r, points, index)
        local = np.sqrt(mean.scale(float(d.sharing[0]), float(self.component.signal[0])))
        return mean.mean + self.size * local * (self.wiggle(points) - back.mean)


def draws(posterior: Posterior, rng: np.random.Generator, n: int) -> list[Draw | NearestDraw]:
    """n draws, each of a candidate and noise ratio that are drawn by their weights."""
    numbers = [(i, j) for i, component in enumerate(posterior.components) for j in range(len(component.weights))]
    return [_draw(posterior, rng, *numbers[k]) for k in posterior.choose(rng, n)]


def _draw(posterior: Posterior, rng: np.random.Generator, i: int, j: int) -> Draw | NearestDraw:
    component: Component = posterior.components[i]
    candidate, d, r = component.candidate, component.d, component.ratios[j]
    known = posterior.labels[candidate.space]
    assert known is not None
    wiggle = _prior(candidate.covariance, known.shape[1], rng)
    size = 1.0
    if np.isfinite(posterior.dof):  # signal is the mean of σ_h², an inverse gamma with shape dof/2
        size = float(np.sqrt((0.5 * posterior.dof - 1) / rng.gamma(0.5 * posterior.dof)))
    noise = np.sqrt(r / np.broadcast_to(d.precision, len(known))) * rng.standard_normal(len(known))
    at_known = np.concatenate([wiggle(known[k : k + AT_ONCE]) for k in range(0, len(known), AT_ONCE)]) + noise
    if isinstance(d, Nearest):
        return NearestDraw(candidate.space, component.only(j), known, Search.of(known), wiggle, at_known, size)
    size *= float(np.sqrt(component.signal[j]))
    U = d.at(candidate.covariance, known).U
    along = U @ ((d.z - size * (U.T @ at_known)) / (d.S + r))
    told = KernelSum.of([(candidate.covariance, along)], known)
    return Draw(candidate.space, told, wiggle, size)


def _prior(covariance: Covariance, k: int, rng: np.random.Generator) -> Function:
    """A draw of GP(0, K) as a function of points [n, k]."""
    constant, varying = rng.standard_normal(), _varying(covariance, k, rng)
    return lambda points: constant + varying(points)


def _varying(covariance: Covariance, k: int, rng: np.random.Generator) -> Function:
    """The same of K less its constant."""
    if isinstance(covariance, Weighted):
        weights = rng.standard_normal(covariance.features(np.zeros((1, k))).shape[1])
        return lambda points: covariance.features(points) @ weights
    if isinstance(covariance, Stationary):
        return _waves(covariance.nu, covariance.scale, k, rng)
    if isinstance(covariance, Combined):
        return _of_term(covariance.term, covariance, k, rng)
    raise GpumError(f"functions of the kernel {type(covariance).__name__} cannot be drawn")


def _waves(nu: float, scale: float, k: int, rng: np.random.Generator) -> Function:
    """A draw with the stationary kernel of points [n, k], without its constant."""
    waves = rng.standard_normal((k, FREQUENCIES))
    if np.isfinite(nu):
        waves /= np.sqrt(rng.gamma(nu, 1 / nu, FREQUENCIES))
    phases = rng.uniform(0, 2 * np.pi, FREQUENCIES)
    weights = np.sqrt(2 / FREQUENCIES) * rng.standard_normal(FREQUENCIES)
    return lambda points: np.cos(points / scale @ waves + phases) @ weights


def _of_term(term: Term, covariance: Combined, k: int, rng: np.random.Generator) -> Function:
    """A draw with a term of a kernel, of points [n, k] whose last numbers are those of columns."""
    c = covariance.columns
    if isinstance(term, SumOf):
        functions = [_of_term(one, covariance, k, rng) for one in term.terms]
        return lambda points: sum(v**0.5 * f(points) for v, f in zip(term.shares, functions, strict=True))
    if isinstance(term, OfSurface):
        on_surface, share = _varying(covariance.inner, k - c, rng), covariance.inner.constant
        constant = share**0.5 * rng.standard_normal()
        return lambda points: constant + (1 - share) ** 0.5 * on_surface(points[:, :-c])
    if isinstance(term, OfColumns):
        of_columns = _waves(term.nu, term.scale, len(term.at), rng)
        return lambda points: of_columns(points[:, -c:][:, term.at])
    if isinstance(term, LinearOf):
        coefficients = rng.standard_normal(len(term.at))
        return lambda points: term.features(None, points[:, -c:]) @ coefficients
    raise GpumError(
        "functions of products of kernels and of periodic kernels cannot be drawn; sample_y draws at given rows"
    )


def prior_draws(
    candidate_set: CandidateSet, rows: RowsInSpaces, rng: np.random.Generator, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """n functions at rows, [rows, n], and the σ of the noise with each, [n]: labels have mean 0 and variance 1."""
    log_prior = np.array([candidate.log_prior for candidate in candidate_set.candidates])
    f, sd = np.empty((len(rows), n)), np.empty(n)
    chosen = rng.choice(len(log_prior), n, p=np.exp(log_prior - logsumexp(log_prior)))
    for k in np.unique(chosen):
        candidate, of_candidate = candidate_set.candidates[k], np.flatnonzero(chosen == k)
        a = rows.at[candidate.space]
        assert a is not None
        w, V = eigh(candidate.covariance.gram(a, a))
        root = V * np.sqrt(np.maximum(w, 0.0))
        r = rng.choice(RATIOS, len(of_candidate), p=np.exp(candidate_set.priors.log_ratio(candidate.expects_noise)))
        signal = candidate_set.priors.signal_rate(r) / rng.gamma(candidate_set.priors.signal[0], size=len(of_candidate))
        f[:, of_candidate] = np.sqrt(signal) * (root @ (V.T @ rng.standard_normal((len(rows), len(of_candidate)))))
        sd[of_candidate] = np.sqrt(signal * r)
    return f, sd
