"""Classification: the multinomial probit likelihood on the same candidates.

    f_c ~ GP(0, k),  c = 1..C      one function a class, k(x, x) = 1: the kernel of a candidate without its constant,
                                   as a correlation (a row's class should not depend on how well connected it is)
    y(x) = argmax_c f_c(x) + ε_c   ε ~ N(0, r), r on a grid: the multinomial probit

Only differences of the f_c matter, so that all computations are in the C - 1 dimensions in which they sum to zero. No
class has a constant of its own: the mean of each f_c over the cloud is about zero, which prevents one class from taking
all rows when labels are few.

Inference is expectation propagation (`probit`).

With one label a class the evidence says little about the kernel, and the prior decides. The effective dimension of a
kernel on the cloud,

    d = (tr K)² / tr K²,

is about the number of regions on which f is independent. Its prior is log(d/C) ~ N(0, DIMENSION_SD²): about as many
regions as there are classes.

Classes in data are purer than those of a Gaussian process: borders between them run where there are few rows.
Probabilities are therefore sharpened, p_c ∝ p_c^γ, and averaged over γ. The prior is log γ ~ N(0, SHARP_SD²), centred
at no sharpening. Two log scores log p(class) inform about γ:

    labels         the leave-one-out prediction of each label whose class has other labels. On a graph of a large cloud
                   predictions are sure of nearly all rows, and a single label of an unusual row would rule out any
                   sharpening: there a fraction ε of the labels is taken to say nothing, (1 - ε) p + ε/C.
    the cloud      predicted classes are taken as true, as many labels are put on other rows, and the remaining rows
                   are predicted from these. Where clusters are clear, it does not matter which rows have labels. All
                   rows together count as ELSEWHERE times the number of labels. Predicted classes are simpler than true
                   ones, so that this alone is too sure of itself. With its γ the same predictions of the remaining
                   rows are therefore compared a second time, now with the probabilities of the classes in place of
                   the likeliest class: an error of the first predictions then counts beside that of the second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log

import numpy as np
from scipy.special import logsumexp, softmax

from ..basics.checks import GpumError
from ..geometry.candidate_set import CandidateSet, LabelRows
from ..heat.covariances import Weighted
from .class_posterior import (
    AS_THEY_ARE,
    ClassComponent,
    ClassPosterior,
    correlation,
    modes,
    sharpened,
)
from .decisions import (
    ASKED,
    CLASS_CANDIDATES,
    CLASS_RATIOS,
    CLASS_SCREEN,
    CLASS_SCREENED,
    CLASS_SWEEPS,
    DIMENSION_ROWS,
    DIMENSION_SD,
    DRAWN,
    ELSEWHERE,
    FIRST_LABELS,
    FIRST_SWEEPS,
    FULL_RANK,
    GROWTH,
    KEEP,
    NATS,
    PROMISING,
    SHARP_SD,
    SHARPNESS,
    TURNS,
)
from .nearest import EXACT
from .posterior import RowsInSpaces
from .probit import NODES, ClassSites, expectation_propagation, in_modes
from .tempered import Considered, TemperedWeights

BLOCK = 4_000_000  # numbers in the largest array of a batch


def effective_dimensions(candidate_set: CandidateSet) -> np.ndarray:
    """The effective dimension d of each candidate on the cloud, [candidates], computed from DIMENSION_ROWS rows."""
    rows: dict[int, np.ndarray] = {}
    dimensions = []
    for candidate in candidate_set.candidates:
        if candidate.space not in rows:
            every = candidate_set.rows[candidate.space]
            rows[candidate.space] = every[np.random.default_rng(0).permutation(len(every))[:DIMENSION_ROWS]]
        K = correlation(candidate.covariance, rows[candidate.space], rows[candidate.space])
        dimensions.append(len(K) ** 2 / np.sum(K**2))
    return np.array(dimensions)


def as_numbers(y: np.ndarray, n_classes: int) -> np.ndarray:
    """Classes y [n] as columns [n, C] of variance 1 on average, from which lengths of columns are learned."""
    codes = np.eye(n_classes)[y]
    return (codes - codes.mean(0)) / max(float(np.sqrt(codes.var(0).mean())), 1e-12)


def classify(
    candidate_set: CandidateSet,
    known: np.ndarray,
    y: np.ndarray,
    n_classes: int,
    dimensions: np.ndarray,
    atypical: float = 0.0,
) -> ClassPosterior:
    """The posterior given classes y [n] (0 to C - 1) of rows `known`; see `effective_dimensions` for `dimensions`.

    `atypical` is ε, the fraction of labels that say nothing about the sharpness.
    """
    notes, n = list[str](), len(known)
    prior = (
        np.array([s.log_prior for s in candidate_set.candidates])
        - 0.5 * (np.log(dimensions / n_classes) / DIMENSION_SD) ** 2
    )
    chosen = np.arange(len(prior))
    if n > EXACT:
        chosen, left = _few_modes(candidate_set, chosen, n)
        notes += left
    problem = Problem(candidate_set, known, y, n_classes)
    pairs = Pairs.of(chosen)
    pairs, left = _promising(problem, pairs, prior)
    notes += left
    if n <= CLASS_SCREEN and len(np.unique(pairs.candidate)) > CLASS_CANDIDATES:
        mass = problem.evidence(pairs, FIRST_SWEEPS).log_evidence + prior[pairs.candidate]
        pairs = pairs.of_candidates(mass, lambda total: total > total.max() + log(KEEP))
    sites = problem.evidence(pairs, CLASS_SWEEPS)
    usable = np.isfinite(sites.log_evidence) & (sites.settled | ~sites.settled.any())
    if not usable.any():
        raise GpumError("expectation propagation has no finite evidence for any candidate; check X for outliers")
    log_p = np.where(usable, sites.log_evidence, -np.inf) + prior[pairs.candidate] - log(len(CLASS_RATIOS))
    total = logsumexp(log_p) - logsumexp(prior)
    chosen, mass = pairs.by_candidate(log_p)
    candidates = [candidate_set.candidates[i] for i in chosen]
    tempered = replace(TemperedWeights.of(candidate_set, candidates), power=candidate_set.priors.power_of_classes)
    shift = np.where(np.isfinite(mass), tempered.log_weights(mass) - mass, 0.0)
    log_w = log_p + shift[np.searchsorted(chosen, pairs.candidate)]
    weights = np.exp(log_w - logsumexp(log_w))
    if not sites.settled.all():
        lost = int(np.sum(~sites.settled))
        end = "these are left out" if sites.settled.any() else "what it found so far is used"
        notes.append(f"the computation did not settle for {lost} of {len(sites.settled)} settings: {end}")
    of_candidate = np.array([weights[pairs.candidate == i].sum() for i in chosen])
    used = of_candidate > KEEP * of_candidate.max()
    scale = of_candidate[used].sum()
    components = []
    for i in chosen[used]:
        which = np.flatnonzero((pairs.candidate == i) & usable)
        alpha, R = (np.array([of_all[b] for b in which]) for of_all in (sites.alpha, sites.R))
        one = candidate_set.candidates[i], pairs.ratio[which], weights[which] / scale, alpha, R
        components.append(ClassComponent(*one))
    left_out = _left_out(sites.without[usable], weights[usable], y)
    spaces = {p.candidate.space for p in components if p.alpha.shape[1] == n}  # others are in modes
    labels = LabelRows(candidate_set, known).of(spaces)
    considered = Considered.of(candidate_set, candidates, mass, np.where(used, of_candidate / scale, 0.0))
    posterior = ClassPosterior(
        components, labels, n_classes, AS_THEY_ARE, float(total), left_out, tuple(notes), considered
    )
    score = -0.5 * (np.log(SHARPNESS) / SHARP_SD) ** 2
    several = np.flatnonzero(np.bincount(y, minlength=n_classes)[y] > 1)
    of_labels = _scores(left_out[several], np.eye(n_classes)[y[several]])
    score += of_labels.sum(1) if not atypical else _or_atypical(of_labels, atypical, n_classes).sum(1)
    # with many labels the leave-one-out scores are enough
    sharpness = softmax(score) if n > CLASS_SCREEN else _sharpness(score, posterior, candidate_set, known, y)
    return replace(posterior, sharpness=sharpness, left_out=sharpened(left_out, sharpness))


@dataclass(frozen=True)
class Pairs:
    """Candidates (as positions in their set, ascending) and the ratio r of each: what has evidence, [B] each."""

    candidate: np.ndarray
    ratio: np.ndarray

    @classmethod
    def of(cls, candidates: np.ndarray) -> Pairs:
        """These candidates with all ratios."""
        candidates = np.sort(candidates)
        return cls(np.repeat(candidates, len(CLASS_RATIOS)), np.tile(CLASS_RATIOS, len(candidates)))

    def only(self, index: np.ndarray) -> Pairs:
        """Some of them."""
        return Pairs(self.candidate[index], self.ratio[index])

    def by_candidate(self, log_mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The candidates, and the log of the mass of all ratios of each."""
        candidates = np.unique(self.candidate)
        return candidates, np.array([logsumexp(log_mass[self.candidate == i]) for i in candidates])

    def of_candidates(self, log_mass: np.ndarray, which: Callable[[np.ndarray], np.ndarray]) -> Pairs:
        """Those of some candidates, with all their ratios; of no finite mass all of them."""
        candidates, total = self.by_candidate(log_mass)
        return self.only(np.isin(self.candidate, candidates[which(total)])) if np.isfinite(total).any() else self


def _promising(problem: Problem, pairs: Pairs, prior: np.ndarray) -> tuple[Pairs, list[str]]:
    """The pairs that are worth all labels, and what to say of it.

    A few labels leave PROMISING pairs, CLASS_SCREENED labels CLASS_CANDIDATES candidates, and of many labels GROWTH
    times as many each time those within NATS of the best. Evidence grows with the labels and the prior does not: it
    counts in proportion.
    """
    n, numbers = len(problem.y), []
    if len(pairs.candidate) > PROMISING and n > 2 * FIRST_LABELS:
        numbers.append(FIRST_LABELS)
    if n > CLASS_SCREEN:
        numbers.append(CLASS_SCREENED)
    while n > CLASS_SCREEN and 2 * GROWTH * numbers[-1] <= n:
        numbers.append(numbers[-1] * GROWTH)
    for number in numbers:
        index = _spread(problem.y, problem.n_classes, number)
        mass = problem.of(index).evidence(pairs, FIRST_SWEEPS).log_evidence
        mass = mass + len(index) / n * prior[pairs.candidate]
        if not np.isfinite(mass).any():
            continue
        if number == FIRST_LABELS:
            pairs = pairs.only(np.sort(np.argsort(-mass, kind="stable")[:PROMISING]))
        elif number == CLASS_SCREENED:
            pairs = pairs.of_candidates(mass, lambda total: np.argsort(-total, kind="stable")[:CLASS_CANDIDATES])
        else:
            pairs = pairs.only(mass > mass.max() - NATS)
    fitted = len(np.unique(pairs.candidate))
    if n <= CLASS_SCREEN:
        return pairs, []
    words = " and ".join(f"{number:,}" for number in numbers)
    return pairs, [f"of {n:,} labels {words} compared all candidates first, and the best {fitted} saw all labels"]


def _few_modes(candidate_set: CandidateSet, chosen: np.ndarray, n: int) -> tuple[np.ndarray, list[str]]:
    """Pairs with fewer modes than n labels, and a note about the others, whose cost is n³."""
    few = np.array([_low_rank(candidate_set, i, n) for i in chosen])
    if few.any():
        note = (
            f"with {n:,} labels {np.sum(~few):,} candidates would take too long and were left out; up to {EXACT:,} "
            "labels they are used"
        )
        return chosen[few], [note] * int(not few.all())
    if n > FULL_RANK:
        raise GpumError(
            f"y has {n:,} labels, and with this geometry the time grows with the cube of that; give at most "
            f"{FULL_RANK:,} labels, or add another geometry (graph, atlas)"
        )
    return chosen, []


def _low_rank(candidate_set: CandidateSet, i: int, n: int) -> bool:
    candidate = candidate_set.candidates[i]
    return isinstance(candidate.covariance, Weighted) and candidate_set.rows[candidate.space].shape[1] < n


@dataclass(frozen=True)
class Problem:
    """Classes y [n] of rows `known`, to be explained by pairs."""

    candidate_set: CandidateSet
    known: np.ndarray
    y: np.ndarray
    n_classes: int

    def of(self, index: np.ndarray) -> Problem:
        """That of some of the labels."""
        return replace(self, known=self.known[index], y=self.y[index])

    def evidence(self, pairs: Pairs, sweeps: int) -> ClassSites:
        """EP for each of the pairs: in modes where these are fewer than many labels, else in labels."""
        y, n, C = self.y, len(self.y), self.n_classes
        labels = LabelRows(self.candidate_set, self.known)
        size, batches, begin = max(1, BLOCK // (n * max(n, C * len(NODES)))), [], 0
        while begin < len(pairs.candidate):
            i = int(pairs.candidate[begin])
            if n > EXACT and _low_rank(self.candidate_set, i, n):
                candidate = self.candidate_set.candidates[i]
                F = modes(candidate.covariance, labels[candidate.space])
                while begin < len(pairs.candidate) and pairs.candidate[begin] == i:
                    one = pairs.ratio[begin : begin + 1]
                    batches.append(expectation_propagation(F[None], one, y, C, sweeps, in_modes))
                    begin += 1
                continue
            these = pairs.only(np.arange(begin, min(begin + size, len(pairs.candidate))))
            which, of_pair = np.unique(these.candidate, return_inverse=True)
            candidates = [self.candidate_set.candidates[k] for k in which]
            K = np.array([correlation(s.covariance, labels[s.space], labels[s.space]) for s in candidates])
            batches.append(expectation_propagation(K[of_pair], these.ratio, y, C, sweeps))
            begin += len(these.candidate)
        log_evidence, without, settled = (
            np.concatenate([getattr(one, name) for one in batches]) for name in ("log_evidence", "without", "settled")
        )
        alpha, R = [a for one in batches for a in one.alpha], [R for one in batches for R in one.R]
        return ClassSites(log_evidence, alpha, R, without, settled)


def _left_out(without: np.ndarray, weights: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Class probabilities of each label as the others predict it, [n, C], from those of each component [B, n, C]."""
    of_label = without[:, np.arange(len(y)), y]
    weight = weights[:, None] / np.maximum(of_label, 1e-300)  # of each component without the label
    return np.einsum("bi,bic->ic", weight / weight.sum(0), without)


def _sharpness(
    score: np.ndarray, posterior: ClassPosterior, candidate_set: CandidateSet, known: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """Weights of SHARPNESS given their score so far and the cloud: likeliest classes as truth, then probabilities."""
    first, second = _elsewhere(posterior, candidate_set, known, y)
    truth = np.eye(posterior.n_classes)[first.argmax(1)]
    for _ in range(2):
        agreement = [_scores(p, truth[rows]).mean(1) for rows, p in second]
        weights = softmax(score + ELSEWHERE * len(y) * np.mean(agreement or [np.zeros(len(SHARPNESS))], 0))
        truth = sharpened(first, weights)
    return weights


def _elsewhere(
    posterior: ClassPosterior, candidate_set: CandidateSet, known: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, list[tuple[np.ndarray, np.ndarray]]]:
    """Class probabilities of labelled and other rows [n, C], and those of the rest with labels on other rows.

    For each of TURNS sets of labels, which have the likeliest classes: the indices of the rows that have none, and
    their class probabilities.
    """
    rng, C = np.random.default_rng(0), posterior.n_classes
    used = {component.candidate.space for component in posterior.components}
    others = np.setdiff1d(np.arange(len(candidate_set.rows[min(used)])), known)
    rows = np.concatenate([known, rng.permutation(others)[:ASKED]])
    cloud = RowsInSpaces.exactly([r[rows] if k in used else None for k, r in enumerate(candidate_set.rows)])
    first = posterior.probabilities(cloud)
    first[: len(known)] = np.eye(C)[y]
    truth = first.argmax(1)
    ratios = np.concatenate([component.ratios for component in posterior.components])
    order = np.argsort(ratios, kind="stable")  # so that each ratio, which decides how sure they are, has its part
    candidates = [component.candidate for component in posterior.components for _ in component.ratios]
    candidates, ratios = [candidates[i] for i in order], ratios[order]
    cumulative = np.cumsum(np.concatenate([component.weights for component in posterior.components])[order])
    steps = (np.arange(DRAWN) + 0.5) / DRAWN * cumulative[-1]  # components in proportion to their weights
    drawn, times = np.unique(np.searchsorted(cumulative, steps), return_counts=True)
    second = []
    for _ in range(TURNS if len(others) else 0):
        turn = rng.permutation(len(rows))
        chosen = np.concatenate([turn[truth[turn] == c][: np.sum(y == c)] for c in range(C)])
        labels = [None if r is None else r[chosen] for r in cloud.at]
        K = np.array([correlation(candidates[i].covariance, *[labels[candidates[i].space]] * 2) for i in drawn])
        sites = expectation_propagation(K, ratios[drawn], truth[chosen], C, FIRST_SWEEPS)
        components = [
            ClassComponent(candidates[i], ratios[[i]], times[[j]] / DRAWN, sites.alpha[j][None], sites.R[j][None])
            for j, i in enumerate(drawn)
            if np.isfinite(sites.log_evidence[j])
        ]
        rest = np.setdiff1d(np.arange(len(rows)), chosen)
        if components:
            p = replace(posterior, components=components, labels=labels).probabilities(cloud)[rest]
            second.append((rest, p))
    return first, second


def _scores(p: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Mean log p(class) under sharpened probabilities p [n, C] of a class with probabilities truth [n, C]; [γ, n]."""
    z = SHARPNESS[:, None, None] * np.log(np.maximum(p, 1e-300))
    return np.sum(z * truth, 2) - logsumexp(z, axis=2)


def _or_atypical(log_p: np.ndarray, atypical: float, n_classes: int) -> np.ndarray:
    """log((1 - ε) p + ε/C) of log p."""
    return np.logaddexp(log_p + log(1 - atypical), log(atypical / n_classes))


def _spread(y: np.ndarray, n_classes: int, size: int) -> np.ndarray:
    """Indices of about `size` labels, as even over the classes as they allow."""
    rng = np.random.default_rng(0)
    order = [rng.permutation(np.flatnonzero(y == c)) for c in range(n_classes)]
    turns = [(turn, c) for c, members in enumerate(order) for turn in range(len(members))]
    return np.array(sorted(order[c][turn] for turn, c in sorted(turns)[: max(size, n_classes)]))
