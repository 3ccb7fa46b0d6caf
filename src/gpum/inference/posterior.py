"""The posterior of a GP as a mixture over candidates and noise ratios, at rows that were projected for every space.

Given a component (a candidate with K = U S Uᵀ on the labels, and noise ratios r),

    mean(x) = k(x)U (z/(S + r)),   var(x) = σ_h² (K(x, x) - Σ (k(x)U)²/(S + r))          (errata 4)

A row whose coordinates are uncertain has several points (`RowsInSpaces.sigma_points`): a component's mean is the mean
over them; its variance is the mean of their variances plus the variance of their means. A row far from the geometry has
the prior. With probability `gross` a new observation has a further error of variance `gross_variance` (`left_out`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from scipy.linalg import eigh
from scipy.special import logsumexp

from ..geometry.candidate_set import Candidate
from ..heat.covariances import KernelSum, Weighted
from . import stacked
from .exact import Decomposed, LowRank
from .nearest import Nearest, NearestStack, near
from .quantiles import mixture_quantiles
from .stacked import InSpace, Stack, known
from .tempered import Considered, TemperedWeights

S = TypeVar("S", bound="WeightedCandidate")
P = TypeVar("P", bound="Posterior")

NEGLIGIBLE = 1e-13  # weight of a noise ratio that changes no moment
AT_ONCE = 2**17  # numbers of the arrays of a stack of components


@dataclass(frozen=True)
class RowsInSpaces:
    """The n rows that predictions are asked for, in every space (None in spaces that are not needed).

    at : representation [n, k] of each row's point.
    around : the same of further points where coordinates are uncertain; else an empty list.
    far : which rows are far from the geometry that the space belongs to, [n].
    computed : what posteriors computed for these rows, by their id; None: nothing is held in memory.
    """

    at: list[np.ndarray | None]
    sigma_points: list[list[np.ndarray]]
    far: list[np.ndarray]
    computed: dict[int, tuple[Posterior, list[Stacked]]] | None = None

    @classmethod
    def exactly(cls, rows: Sequence[np.ndarray | None]) -> RowsInSpaces:
        """Rows whose coordinates are known exactly."""
        n = len(next(r for r in rows if r is not None))
        return cls(list(rows), [[] for _ in rows], [np.zeros(n, bool) for _ in rows])

    def __len__(self) -> int:
        return len(self.far[0])

    def remembering(self) -> RowsInSpaces:
        """The same rows for several questions in turn: what a posterior computes for them is computed once."""
        return replace(self, computed={})

    def once(self, posterior: Posterior) -> Iterable[Stacked]:
        """What `posterior` computes for these rows: see `Posterior.conditionals`."""
        if self.computed is None:
            return posterior._conditionals(self)
        if id(posterior) not in self.computed:
            self.computed[id(posterior)] = posterior, list(posterior._conditionals(self))
        return self.computed[id(posterior)][1]


class WeightedCandidate:
    """A candidate with its weights in a posterior, one for each noise ratio."""

    candidate: Candidate
    weights: np.ndarray

    @property
    def weight(self) -> float:
        """The candidate's weight, whatever the ratio."""
        return float(self.weights.sum())


class Mixture(Generic[S]):
    """A posterior that is a mixture over candidates, whatever the likelihood."""

    components: list[S]
    tempered: TemperedWeights | None = None  # None: weights are evidence times prior

    @property
    def best(self) -> S:
        """The component with the largest weight."""
        return max(self.components, key=lambda component: component.weight)

    @property
    def spaces(self) -> set[int]:
        """The spaces for which rows must be projected."""
        return {component.candidate.space for component in self.components}

    def heaviest(self, n: int) -> Any:
        """The mixture of its n heaviest components."""
        mixture: Any = self  # a dataclass, as its components are
        order = sorted(range(len(mixture.components)), key=lambda k: -mixture.components[k].weight)[:n]
        components = [mixture.components[k] for k in order]
        total = sum(component.weight for component in components)
        components = [replace(component, weights=component.weights / total) for component in components]
        tempered = {} if self.tempered is None else {"tempered": self.tempered.only(order)}
        return replace(mixture, components=components, **tempered)

    def log_masses(self) -> list[np.ndarray]:
        """Log of evidence times prior of each component, [ratios] each, up to a constant."""
        log_w = [np.log(np.maximum(component.weights, 1e-300)) for component in self.components]
        if self.tempered is None:
            return log_w
        total = np.array([logsumexp(one) for one in log_w])
        return [one + s for one, s in zip(log_w, self.tempered.log_masses(total) - total, strict=True)]


@dataclass(frozen=True)
class Component(WeightedCandidate):
    """A component of the posterior: a candidate with one weight, and one E[σ_h²], for each noise ratio.

    `alpha` is Σ_j w_j C_j⁻¹ y [n] over noise ratios, where it is known: the component's weighted mean is k(x) alpha.
    """

    candidate: Candidate
    d: Decomposed | LowRank | Nearest
    ratios: np.ndarray
    weights: np.ndarray
    signal: np.ndarray
    alpha: np.ndarray | None = None

    @property
    def mean_weights(self) -> np.ndarray:
        """`alpha`, computed where it is not known."""
        if self.alpha is not None:
            return self.alpha
        assert isinstance(self.d, Decomposed)
        return self.d.U @ self._along

    @property
    def function(self) -> tuple[Weighted, np.ndarray]:
        """Where the kernel has low rank, this and β [1 + k]: the weighted mean is F(x) β."""
        assert isinstance(self.d, LowRank)
        assert isinstance(self.candidate.covariance, Weighted)
        return self.candidate.covariance, self.d.along @ self._along

    @property
    def _along(self) -> np.ndarray:
        assert not isinstance(self.d, Nearest)
        return self.d.z * ((1 / (self.d.S[:, None] + self.ratios)) @ self.weights)

    def only(self, j: int) -> Component:
        """The component with its noise ratio j alone, which has all the weight."""
        return self.with_ratios([j], np.ones(1))

    def with_ratios(self, index: Any, weights: np.ndarray) -> Component:
        """The component with the noise ratios of this index alone, which have these weights."""
        d = replace(self.d, sharing=self.d.sharing[index]) if isinstance(self.d, Nearest) else self.d
        return replace(self, d=d, ratios=self.ratios[index], weights=weights, signal=self.signal[index], alpha=None)


# A component with its means and variances of f, and variances of noise, [n, J] each.
Conditional = tuple[Component, np.ndarray, np.ndarray, np.ndarray]
# Components of a stack with theirs at a block of the rows, [C, n, J] each.
Stacked = tuple[Stack | NearestStack, slice, np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Posterior(Mixture[Component]):
    """What labels say of the function: a mixture of GPs.

    `dof` is that of each component's Student t (infinite for "evidence").
    `gross` is the probability of a gross error of a new observation, `gross_variance` the error's variance.
    """

    components: list[Component]
    labels: list[np.ndarray | None]  # representation of the labelled points in each space that a component uses
    dof: float
    log_evidence: float
    notes: tuple[str, ...] = ()
    tempered: TemperedWeights | None = None
    considered: Considered | None = None  # None: a single candidate was chosen
    gross: float = 0.0
    gross_variance: float = 0.0
    spread: ClassVar[float] = 1.0  # variance of the noise over σ²

    @staticmethod
    def noise(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Draws of the noise over σ."""
        return rng.standard_normal(shape)

    def weights_from(self, log_p: Sequence[np.ndarray]) -> np.ndarray:
        """Weights [components and ratios, n] from evidence times prior, [n, ratios] of each component."""
        if self.tempered is not None:
            mass = np.array([logsumexp(one, axis=1) for one in log_p])
            log_p = [p + s[:, None] for p, s in zip(log_p, self.tempered.log_weights(mass) - mass, strict=True)]
        flat = np.concatenate(log_p, 1).T
        return np.exp(flat - logsumexp(flat, axis=0))

    @cached_property
    def _heavy(self: P) -> P:
        """The same mixture without the noise ratios whose weight is below rounding in every component.

        All components have the same ratios then, so that many of them form one stack.
        """
        if len({len(component.weights) for component in self.components}) > 1:
            return self
        heavy = np.flatnonzero(np.max([component.weights for component in self.components], 0) > NEGLIGIBLE)
        return replace(self, components=[c.with_ratios(heavy, c.weights[heavy]) for c in self.components])

    def single(self: P) -> P:
        """The posterior of the heaviest candidate alone, with the heaviest of its noise ratios."""
        component = self.best.only(int(np.argmax(self.best.weights)))
        return replace(self, components=[component], tempered=None, considered=None)

    def conditionals(self, rows: RowsInSpaces, noise: bool) -> Iterator[Conditional]:
        """Each component with its means and variances, with `noise` those of new observations, and those of noise."""
        blocks: list[list[Any]] = [[] for _ in self.components]
        for stack, _, *of_stack in rows.once(self):
            for number, *of_component in zip(stack.numbers, *of_stack, strict=True):
                blocks[number].append(of_component)
        for component, of_component in zip(self.components, blocks, strict=True):
            mean, variance, of_noise = map(np.concatenate, zip(*of_component, strict=True))
            yield component, mean, variance + noise * self.spread * of_noise, of_noise

    def _conditionals(self, rows: RowsInSpaces) -> Iterator[Stacked]:
        """Stacks of components with means and variances of f, a block of rows after the other."""
        points = {k: rows.sigma_points[k] or [known(rows.at[k])] for k in sorted(self.spaces)}
        for count in sorted({len(of_space) for of_space in points.values()}):
            stacks = self._stacks_on(tuple(k for k, of_space in points.items() if len(of_space) == count))
            spaces = sorted({k for stack in stacks for k in stack.spaces})
            step = max(1, AT_ONCE // (count * max(stack.size for stack in stacks)))
            for block in (slice(i, i + step) for i in range(0, max(len(rows), 1), step)):
                at = {k: InSpace.of(points[k], block, known(self.labels[k])) for k in spaces}
                for stack in stacks:
                    means, variances, noise = stack.at([at[k] for k in stack.spaces], count)
                    for k, part in zip(stack.spaces, stack.parts, strict=True):
                        if (far := rows.far[k][block]).any():
                            means[part, far], variances[part, far] = 0.0, (stack.signal * stack.prior)[part]
                    yield stack, block, means, variances, noise

    def _stacks_on(self, spaces: tuple[int, ...]) -> list[Stack | NearestStack]:
        """The components on some of the spaces as stacks: on those in which rows have equally many points."""
        if spaces not in self._stacks:
            on = [component.candidate.space for component in self.components]
            numbers = sorted((number for number, k in enumerate(on) if k in spaces), key=lambda number: on[number])
            self._stacks[spaces] = stacked.stacks(self.components, numbers, self.labels)
        return self._stacks[spaces]

    @cached_property
    def _stacks(self) -> dict[tuple[int, ...], list[Stack | NearestStack]]:
        """The stacks that rows have needed so far."""
        return {}

    def mean(self, rows: RowsInSpaces) -> np.ndarray:
        """Mean of the mixture, [n]: that of `moments`, without the cost of variances where these are not needed."""
        if any(isinstance(component.d, Nearest) for component in self.components):
            return self.moments(rows)[0]
        mean = np.zeros(len(rows))
        for k, function in self._mean_functions.items():
            points = rows.sigma_points[k] or [known(rows.at[k])]
            of_space = function(np.concatenate(points)).reshape(len(points), -1).mean(0)
            mean += np.where(rows.far[k], 0.0, of_space)
        return mean

    @cached_property
    def _mean_functions(self) -> dict[int, KernelSum]:
        """The mean as a function of the representation in each space: Σ k(x) alpha over the components there."""
        functions = {}
        for k in sorted(self.spaces):
            components = [p for p in self.components if p.candidate.space == k]
            dense = [(p.candidate.covariance, p.mean_weights) for p in components if not isinstance(p.d, LowRank)]
            functions[k] = KernelSum.of(
                dense, known(self.labels[k]), [p.function for p in components if isinstance(p.d, LowRank)]
            )
        return functions

    def moments(self, rows: RowsInSpaces, noise: bool = True) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the mixture, [n] each."""
        mean, square, heavy = np.zeros(len(rows)), np.zeros(len(rows)), self._heavy
        for stack, block, means, variances, of_noise in rows.once(heavy):
            mean[block] += np.einsum("cnj,cj->n", means, stack.weights)
            variances = variances + means**2 + noise * self.spread * of_noise
            square[block] += np.einsum("cnj,cj->n", variances, stack.weights)
        square += noise * self.gross * self.gross_variance
        return mean, np.maximum(square - mean**2, 0.0)

    def covariance(self, rows: RowsInSpaces, noise: bool = True) -> np.ndarray:
        """Covariance of the mixture between rows, [n, n]; its diagonal is the variance in `moments`."""
        n = len(rows)
        total, mean = np.zeros((n, n)), np.zeros(n)
        for component, means, variances, of_noise in self.conditionals(rows, False):
            total += self._joint(component, component.weights, rows, variances)
            total += noise * self.spread * np.diag(of_noise @ component.weights)
            total += (means * component.weights) @ means.T
            mean += means @ component.weights
        total += noise * self.gross * self.gross_variance * np.eye(n) - np.outer(mean, mean)
        return 0.5 * (total + total.T)

    def _joint(
        self, component: Component, weights: np.ndarray, rows: RowsInSpaces, variances: np.ndarray
    ) -> np.ndarray:
        """Covariance of f [n, n] given a component, summed over its ratios with weights [J].

        Its diagonal is that of the variances [n, J]. The variance due to uncertain coordinates is independent
        between rows. Far rows are uncorrelated with others.
        """
        space, covariance = component.candidate.space, component.candidate.covariance
        b, far, labels, d = known(rows.at[space]), rows.far[space], known(self.labels[space]), component.d
        local = isinstance(d, Nearest)
        if isinstance(d, Nearest):
            d, labels = near(component, labels, b)
        G = d.times(covariance, b, labels)
        inverse = 1 / (d.S[:, None] + component.ratios)
        scaled = weights * component.signal
        K = scaled.sum() * covariance.gram(b, b) - (G * (inverse @ scaled)) @ G.T
        if far.any():
            K[far] = K[:, far] = 0.0
        variance = variances @ weights
        change = np.sqrt(variance / np.maximum(np.diag(K), 1e-300))
        if not local:  # where the signal's variance differs along the cloud, it may also be larger
            change = np.minimum(change, 1.0)
        K *= change[:, None] * change
        K[np.diag_indices_from(K)] = variance
        return K

    def quantiles(self, rows: RowsInSpaces, levels: np.ndarray, noise: bool = True) -> np.ndarray:
        """Quantiles of the mixture, [n, levels]."""
        weights, means, variances, _ = self.flat(rows, noise)
        weights = weights[:, None]
        if noise:
            weights, means, variances = self.observed(weights, means, variances)
        return mixture_quantiles(weights, means, np.sqrt(variances), self.dof, levels)

    def observed(
        self, weights: np.ndarray, means: np.ndarray, variances: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weights, means and variances [components, n] of new observations, with gross errors where there are any."""
        if not self.gross:
            return weights, means, variances
        weights = np.concatenate([(1 - self.gross) * weights, self.gross * weights])
        return weights, np.concatenate([means, means]), np.concatenate([variances, variances + self.gross_variance])

    def flat(self, rows: RowsInSpaces, noise: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Weights [J], and means, variances and the variances of noise [J, n] of all components."""
        each = [(c.weights, m.T, v.T, of_noise.T) for c, m, v, of_noise in self._heavy.conditionals(rows, noise)]
        weights, means, variances, of_noise = (np.concatenate(parts) for parts in zip(*each, strict=True))
        return weights, means, variances, of_noise

    def choose(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """A candidate and noise ratio for each of n draws, as a number counted over all of them."""
        weights = np.concatenate([component.weights for component in self.components])
        return rng.choice(len(weights), n, p=weights)

    def samples(
        self, rng: np.random.Generator, rows: RowsInSpaces, n: int, noise: bool, chosen: np.ndarray | None = None
    ) -> np.ndarray:
        """n draws of f (or, with noise, of new observations) at rows, [rows, n]; `chosen` are their components."""
        flat = [(i, j) for i, component in enumerate(self.components) for j in range(len(component.weights))]
        chosen = self.choose(rng, n) if chosen is None else chosen
        draws = np.empty((len(rows), n))
        conditionals = list(self.conditionals(rows, False))
        for index in np.unique(chosen):
            i, j = flat[index]
            component, means, variances, of_noise = conditionals[i]
            where = np.flatnonzero(chosen == index)
            w, V = eigh(self._joint(component, np.eye(len(component.weights))[j], rows, variances))
            # the symmetric root: unlike V√w it does not depend on the signs of eigenvectors, which rounding decides
            z = (V * np.sqrt(np.maximum(w, 0.0))) @ (V.T @ rng.standard_normal((len(rows), len(where))))
            z += noise * np.sqrt(of_noise[:, [j]]) * self.noise(rng, z.shape)
            if noise and self.gross:
                z += self.gross_variance**0.5 * rng.standard_normal(z.shape) * (rng.random(z.shape) < self.gross)
            if np.isfinite(self.dof):  # signal is the mean of σ_h², an inverse gamma with shape dof/2
                z *= np.sqrt((0.5 * self.dof - 1) / rng.gamma(0.5 * self.dof, size=len(where)))
            draws[:, where] = means[:, [j]] + z
        return draws
