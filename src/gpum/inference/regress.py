"""From the labels of one column of y to its output, for every kind of number."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import pi

import numpy as np

from ..geometry.candidate_set import CandidateSet
from ..persistence.store import Store
from . import angles, gp, known_noise, likelihoods, observations
from .decisions import CUT, SIGNALS
from .left_out import with_gross_errors
from .log_normal import LogNormal, log_units
from .nearest import EXACT
from .outputs import Angle, CountOutput, KnownNoise, Output
from .target import Target

INFERENCE: dict[str, gp.Inference] = {"average": gp.average, "evidence": gp.best}


def regress(
    candidate_set: CandidateSet,
    known: np.ndarray,
    labels: np.ndarray,
    target: Target,
    rows: np.ndarray,
    store: Store | None = None,
    gross_errors: bool = True,
) -> Output:
    """The output of one column, whose labels [n] are those of the candidate set's rows `known`, the cloud's `rows`.

    `gross_errors` says whether left-out labels are asked for them; the evidence does not depend on it.
    """
    averaged, noise = target.hyperparameters == "average", target.noise
    if target.period is not None:
        scale = target.period / (2 * pi)
        both = angles.average(candidate_set, known, labels / scale, noise)
        both = both if averaged else [posterior.single() for posterior in both]
        return Angle(both[0], 0.0, scale, rows, labels, both[1], target=target)
    if target.likelihood in ("poisson", "binomial"):
        trials = np.ones(len(labels)) if target.trials is None else target.trials
        counts = target.likelihood == "poisson"
        observed: observations.ObservedCounts = (
            observations.PoissonCounts.of(labels) if counts else observations.BinomialCounts.of(labels, trials)
        )
        posterior, sites = likelihoods.expectation_propagation(candidate_set, known, observed)
        if not averaged:
            sites = sites.only(int(np.argmax([component.weight for component in posterior.components])))
            posterior = posterior.single()
        return CountOutput(posterior, 0.0, 1.0, rows, labels, observed, sites, target=target)
    infer = partial(gp.average, store=store) if averaged else gp.best
    mean, scale = gp.units(labels)
    if target.likelihood == "lognormal":
        logs, unit = np.log(labels), scale
        mean, scale = log_units(logs)
        posterior = infer(candidate_set, known, (logs - mean) / scale, noise)
        # of labels of unit variance, as for the other likelihoods: the density of y, not of its logarithm
        evidence = posterior.log_evidence + float(np.sum(np.log(unit / scale) - logs))
        posterior = replace(posterior, log_evidence=evidence)
        return LogNormal(posterior, mean, scale, rows, labels, target=target)
    if target.likelihood == "student":
        mean, scale = robust_units(labels)
        infer = INFERENCE[target.hyperparameters]
        posterior, _ = likelihoods.student(candidate_set, known, (labels - mean) / scale, noise, infer)
        return Output(posterior, mean, scale, rows, labels, target=target)
    if target.noise_std is not None:
        posterior = known_noise.average(
            candidate_set, known, (labels - mean) / scale, (target.noise_std / scale) ** 2, SIGNALS
        )
        posterior = posterior if averaged else posterior.single()
        return KnownNoise(posterior, mean, scale, rows, labels, target=target)
    y = (labels - mean) / scale
    posterior = infer(candidate_set, known, y, noise)
    if averaged and gross_errors:
        posterior = with_gross_errors(posterior, y, scale, target.priors)
    return Output(posterior, mean, scale, rows, labels, target=target)


def as_numbers(labels: np.ndarray, target: Target) -> np.ndarray | None:
    """Labels [n] as columns [n, m] of variance 1 from which length scales are learned; None: none are learned.

    Angles become their cosine and sine, positive numbers their logs, counts logs of rates, successes log odds; gross
    errors are cut. With hyperparameters="evidence" nothing is averaged, and the single best length scales of few labels
    would be overconfident.
    """
    few = len(labels) <= EXACT
    if len(labels) < 2 or (few and target.hyperparameters != "average"):
        return None
    columns = labels[:, None].astype(float)
    if target.period is not None:
        turn = 2 * pi * columns / target.period
        return np.sqrt(2) * np.concatenate([np.cos(turn), np.sin(turn)], 1)  # variance ½ each, wherever 0 is
    if target.likelihood == "lognormal":
        columns = np.log(columns)
    elif target.likelihood == "poisson":
        columns = np.log(columns + 0.5)
    elif target.likelihood == "binomial":
        trials = 1.0 if target.trials is None else target.trials[:, None]
        columns = np.log((columns + 0.5) / (trials - columns + 0.5))
    elif target.likelihood == "student":
        middle, scale = robust_units(labels)
        columns = np.clip(columns, middle - CUT * scale, middle + CUT * scale)
    mean, scale = gp.units(columns[:, 0])
    return (columns - mean) / scale if np.ptp(columns) > 0 or not few else None


def robust_units(y: np.ndarray) -> tuple[float, float]:
    """Median and scale of labels with outliers: 1.48 times the median distance from it, as for a Gaussian."""
    middle = float(np.median(y))
    scale = 1.4826 * float(np.median(np.abs(y - middle)))
    return (middle, scale) if scale > 0 else gp.units(y)
