"""Units of columns and rough atlases: which geometries should be weighed? Simulated targets on simulated clouds.

    python benchmarks/spreads.py [--clouds outlines_2,walk] [--rows 200] [--seeds 2] [--out spreads.json]

The clouds have columns of unlike spreads, or rows that are too rough for local charts:

    outlines      Fourier coefficients of outlines that bend in one to three ways; the noise of all columns is the
                  same, so that those of high frequencies are noise if they are standardised
    limbs         radii of outlines of which some parts move
    physical      smooth functions, each with noise in proportion to it, in units of its own
    nuisance      one column of large spread has nothing to do with the surface
    walk          signal strengths along a walk: a sender is heard near it only
    of weights.py pictures, stages, noisy sheets, curves and solids, tables

Atlases, graphs and flat space are learned once in each of the units that are possible. Random functions of the true
coordinates, with noise of 1, 10 or 30 % of their standard deviation, are learned from 4, 10, 30 and 100 labels. Every
geometry is fitted alone with every smoothness; evidence and predictions are then combined by RULES:

    as come, standard     one of the units
    hard                  those that flat space and graphs prefer, in the other units these two alone
    both                  all geometries in both units
    both, equal           as before without atlases of which more than half of the rows are rough (no smooth local chart
                          fits them), here with them
    both, trust           prior weights of atlases follow the fraction of rough rows
    ..., smoothness       and the evidence of each smoothness has the power that it has between geometries

The table has the NLPD of new observations, in units of the labels' standard deviation, the RMSE over that of the best
geometry in hindsight (geometric mean), and how many observations lie within 1.96 standard deviations. A cloud takes ten
to twenty seconds of one core.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from scipy.special import logsumexp

from gpum import Atlas, GPUMRegressor
from gpum.basics.checks import NoSurface
from gpum.estimators.units import LEAST, common_unit
from gpum.fitted.geometries import Geometries
from gpum.fitted.relevance import TITLE, with_lengths
from gpum.geometry.atlas import LEAST_TRUST
from gpum.geometry.priors import POWER_OF_NUMBERS
from gpum.inference import gp
from gpum.inference.posterior import RowsInSpaces
from weights import cloud, embedded, function, wave, without_lengths

LABELS = (4, 10, 30, 100)
NOISE = (0.01, 0.1, 0.3)
TARGETS = 3
ROUGH = 0.5
EXTENT = 2.5  # of coordinates, in lengths of the random functions
CHEAP = ("flat", "graph")
Cloud = tuple[np.ndarray, np.ndarray]  # rows, and the coordinates that targets are functions of


def outlines(rng: np.random.Generator, N: int, dim: int, n: int = 12, decay: float = 1.2, noise: float = 0.02) -> Cloud:
    """Two coefficients for each of n frequencies, whose spreads fall as a power of the frequency."""
    Z = rng.uniform(0, EXTENT, (N, dim))
    X = np.stack([(k // 2 + 1) ** -decay * wave(rng, dim, 1.0)(Z) for k in range(2 * n)], 1)
    return X + noise * rng.standard_normal(X.shape), Z


def limbs(rng: np.random.Generator, N: int, dim: int, noise: float = 0.03) -> Cloud:
    """Radii of closed outlines at 40 angles: some limbs move and grow, the rest hardly."""
    Z = rng.uniform(0, EXTENT, (N, dim))
    angle = np.linspace(0, 2 * np.pi, 40, endpoint=False)
    X = 0.1 * wave(rng, dim, 1.0)(Z)[:, None] * np.cos(angle)
    for _ in range(dim + 1):
        turned, length = wave(rng, dim, 1.0)(Z)[:, None], wave(rng, dim, 1.2)(Z)[:, None]
        away = np.angle(np.exp(1j * (angle - rng.uniform(0, 2 * np.pi) - 0.3 * turned)))
        X = X + (1.5 + length) * np.exp(-0.5 * (away / 0.25) ** 2)
    return 3 * X + noise * rng.standard_normal(X.shape), Z


def physical(rng: np.random.Generator, N: int, dim: int, p: int, noise: float = 0.05) -> Cloud:
    """Columns in units of their own."""
    Z = rng.uniform(0, EXTENT, (N, dim))
    return embedded(rng, Z, p, 1.0, noise) * np.exp(1.5 * rng.standard_normal(p)), Z


def nuisance(rng: np.random.Generator, N: int, dim: int) -> Cloud:
    """The first of 15 columns is noise of large spread."""
    Z = rng.uniform(0, EXTENT, (N, dim))
    X = embedded(rng, Z, 15, 1.0, 0.05)
    X[:, 0] = 8 * rng.standard_normal(N)
    return X, Z


def walk(rng: np.random.Generator, N: int, noise: float) -> Cloud:
    """Strengths of 40 senders along a winding walk; what is too faint is cut off."""
    along = np.sort(rng.uniform(0, 4, N))[:, None]
    at = 2 * np.stack([wave(rng, 1, 1.0)(along), wave(rng, 1, 1.0)(along)], 1)
    at[:, 0] += along[:, 0]
    apart = np.linalg.norm(at[:, None] - rng.uniform(-2, 6, (40, 2)), axis=2)
    return np.maximum(-3 * np.log10(apart + 0.3) + noise * rng.standard_normal(apart.shape), -2.0), at


CLOUDS: dict[str, Callable[[np.random.Generator, int], Cloud]] = {
    **{f"outlines_{q}": partial(outlines, dim=q) for q in (1, 2, 3)},
    "outlines_noisy": partial(outlines, dim=2, noise=0.08),
    "outlines_long": partial(outlines, dim=2, n=25, decay=1.6, noise=0.03),
    "limbs": partial(limbs, dim=1),
    "physical_8": partial(physical, dim=2, p=8),
    "physical_15": partial(physical, dim=3, p=15),
    "physical_30": partial(physical, dim=2, p=30, noise=0.2),
    "nuisance_1": partial(nuisance, dim=1),
    "nuisance_2": partial(nuisance, dim=2),
    "walk": lambda rng, N: walk(rng, N * 3 // 5, 0.3),
    "walk_noisy": lambda rng, N: walk(rng, N * 3 // 5, 1.0),
    "walk_few": lambda rng, N: walk(rng, N // 5, 0.5),
    **{
        name: lambda rng, N, name=name: cloud(name, rng, N)
        for name in (
            "ring_pictures", "stages", "sheet_noisy", "curve", "solid", "clusters", "tree", "table_box_8",
            "table_correlated_15", "table_skew_10", "table_codes_6",
        )
    },
}  # fmt: skip


@dataclass(frozen=True)
class Member:
    """One geometry with one smoothness, alone: what it says of the labels, and of rows without one."""

    units: str
    title: str
    kind: str  # "lengths": flat space with a length per column
    rough: float  # of an atlas
    log_prior: float
    log_evidence: float
    mean: np.ndarray
    variance: np.ndarray


@dataclass(frozen=True)
class Trial:
    """One target and label set: the labels of other rows, and all members. `chance` is that of a common unit."""

    cloud: str
    n: int
    chance: float
    y: np.ndarray
    members: list[Member]

    def log_chance(self, units: str) -> float:
        """The log prior weight of the units."""
        with np.errstate(divide="ignore"):
            return float(np.log(self.chance if units == "none" else 1 - self.chance))

    def geometries(self) -> dict[tuple[str, str], list[Member]]:
        """The members of each geometry."""
        found = defaultdict(list)
        for member in self.members:
            found[member.units, member.title].append(member)
        return found

    def preferred(self) -> dict[str, float]:
        """The weight of each of the units, judging by flat space and graphs."""
        odds = {
            units: self.log_chance(units)
            + logsumexp([m.log_prior + m.log_evidence for m in self.members if m.units == units and m.kind in CHEAP])
            for units in {member.units for member in self.members}
        }
        total = logsumexp(list(odds.values()))
        return {units: float(np.exp(value - total)) for units, value in odds.items()}


def trials(name: str, seed: int, n_rows: int) -> Iterator[Trial]:
    """All targets and label sets on one cloud."""
    rng = np.random.default_rng([seed, *name.encode()])
    X, Z = CLOUDS[name](rng, n_rows)
    chance, nothing = common_unit(X), np.full(len(X), np.nan)
    nothing[:5] = rng.standard_normal(5)
    learned = {}
    for units in ("none", "standard") if chance < 1 else ("none",):
        model = GPUMRegressor(geometry=["atlas", "graph", "flat"], random_state=0, scale=units, n_jobs=1)
        learned[units] = without_lengths(model.fit(X, nothing).model_.geometries)
    rough = {units: roughness(geometries.cloud.learned) for units, geometries in learned.items()}
    for k in range(TARGETS):
        f = function(rng, Z, (k + seed) % 4)
        for n in LABELS:
            if n > 0.6 * len(X):
                continue
            rows = rng.permutation(len(X))
            known, test = np.sort(rows[:n]), rows[n : n + 100]
            y = f + NOISE[rng.integers(len(NOISE))] * rng.standard_normal(len(X))
            mean, scale = gp.units(y[known])
            z = (y[known] - mean) / scale
            members = [m for units in learned for m in alone(units, learned[units], rough[units], known, z, test)]
            yield Trial(name, n, chance, (y[test] - mean) / scale, members)


def roughness(X: np.ndarray) -> dict[str, float]:
    """For each atlas the fraction of rows whose neighbourhood no smooth chart fits."""
    found = {}
    for q in (1, 2, 3):
        with suppress(NoSurface):  # the fit had no such atlas either
            found[f"atlas of dimension {q}"] = Atlas(q).fit(X).rough_
    return found


def alone(
    units: str, learned: Geometries, rough: dict[str, float], known: np.ndarray, z: np.ndarray, test: np.ndarray
) -> Iterator[Member]:  # fmt: skip
    """Each geometry with each smoothness; prior weights of atlases without the trust in them."""
    labelled = with_lengths(learned, known, z[:, None])
    members, every = labelled.geometries.members, labelled.candidate_set
    rows = RowsInSpaces.exactly([r[learned.cloud._learned_at(test)] for r in labelled.geometries.candidate_set.rows])
    kinds = ["lengths" if member.title == TITLE else member.name for member in members]
    for g, member in enumerate(members):
        prior = -np.log(len(set(kinds)) * kinds.count(kinds[g]))
        of_member = [s for s in every.candidates if every.geometry_of[s.space] == g]
        for smoothness in sorted({s.smoothness for s in of_member}):
            some = [s for s in of_member if s.smoothness == smoothness]
            found = gp.average(replace(every, candidates=some), labelled.at, z)
            evidence = found.log_evidence - every.log_priors[g]
            moments = found.moments(rows)
            yield Member(units, member.title, kinds[g], rough.get(member.title, 0.0), prior, evidence, *moments)


Trust = Callable[[float], float]  # prior weight of an atlas, from how rough it is


def weights(trial: Trial, units: str, trust: Trust, by_smoothness: bool = False) -> tuple[list[Member], np.ndarray]:
    """Members with weight and their log weights, with "none", "standard", "hard" or "both" units."""
    preferred = trial.preferred()
    best = max(preferred, key=lambda one: preferred[one])
    members: list[Member] = []
    log_weights: list[float] = []
    for (its, _), of_geometry in trial.geometries().items():
        first = of_geometry[0]
        own = its == (best if units in ("hard", "both") else units)
        beside = first.kind != "lengths" and (units == "both" or (units == "hard" and first.kind in CHEAP))
        trusted = trust(first.rough) if first.kind == "atlas" else 1.0
        if not (own or (beside and preferred[its] > LEAST)) or trusted == 0:
            continue
        of_units = trial.log_chance(its) if units in ("hard", "both") and first.kind != "lengths" else 0.0
        evidence, share = np.array([m.log_evidence for m in of_geometry]), -np.log(len(of_geometry))
        total = 0.0 if by_smoothness else logsumexp(evidence)  # evidence holds the prior weight of the smoothness
        power = POWER_OF_NUMBERS
        inner = share + power * (evidence - share) if by_smoothness else power * total + evidence - total
        members += of_geometry
        log_weights += list(first.log_prior + np.log(trusted) + of_units + inner)
    return members, np.array(log_weights)


def score(y: np.ndarray, members: list[Member], log_weights: np.ndarray) -> tuple[float, float, float]:
    """NLPD of the mixture's mean and variance, log RMSE, and the fraction within 1.96 standard deviations."""
    w = np.exp(log_weights - logsumexp(log_weights))
    means, variances = np.array([m.mean for m in members]), np.array([m.variance for m in members])
    mean = w @ means
    variance = w @ (np.maximum(variances, 1e-12) + means**2) - mean**2
    away = (y - mean) ** 2
    nlpd = np.mean(0.5 * away / variance + 0.5 * np.log(2 * np.pi * variance))
    return float(nlpd), float(0.5 * np.log(np.mean(away))), float(np.mean(away < 1.96**2 * variance))


def smooth_only(rough: float) -> float:
    """An atlas is in or out."""
    return float(rough <= ROUGH)


RULES: dict[str, Callable[[Trial], tuple[list[Member], np.ndarray]]] = {
    "as come": lambda trial: weights(trial, "none", smooth_only),
    "standard": lambda trial: weights(trial, "standard", smooth_only),
    "hard": lambda trial: weights(trial, "hard", smooth_only),
    "both": lambda trial: weights(trial, "both", smooth_only),
    "both, equal": lambda trial: weights(trial, "both", lambda rough: 1.0),
    "both, trust": lambda trial: weights(trial, "both", trust_of),
    "..., smoothness": lambda trial: weights(trial, "both", trust_of, True),
}


def trust_of(rough: float) -> float:
    """The rule of `gpum.geometry.atlas`."""
    return LEAST_TRUST + (1 - LEAST_TRUST) * (1 - rough)


def main() -> None:
    """Print the table, and write it to a file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--clouds", default=",".join(CLOUDS))
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", default="spreads.json")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    cells: dict[str, list[dict[str, tuple[float, float, float]]]] = defaultdict(list)
    for seed in range(given.seeds):
        for name in given.clouds.split(","):
            for trial in trials(name, seed, given.rows):
                alone_each = [(m, np.array([s.log_evidence for s in m])) for m in trial.geometries().values()]
                least = min(score(trial.y, *one)[1] for one in alone_each)
                row = {}
                for rule, of in RULES.items():
                    if rule != "standard" or trial.chance < 1:
                        nlpd, rmse, covered = score(trial.y, *of(trial))
                        row[rule] = nlpd, rmse - least, covered
                for cell in (name, f"{trial.n} labels", "all"):
                    cells[cell].append(row)
            print(name, seed, flush=True)
    table = {
        cell: {
            rule: [float(np.mean(column)) for column in zip(*(row[rule] for row in rows if rule in row), strict=True)]
            for rule in RULES
            if any(rule in row for row in rows)
        }
        for cell, rows in cells.items()
    }
    Path(given.out).write_text(json.dumps(table))
    print(f"{'NLPD, RMSE/best, covered':25}" + "".join(f"{rule:>21}" for rule in RULES))
    for cell, of_rule in table.items():
        figures = [of_rule.get(rule) for rule in RULES]
        told = ["" if f is None else f"{f[0]:.3f} {np.exp(f[1]):.3f} {f[2]:.2f}" for f in figures]
        print(f"{cell:25}" + "".join(f"{one:>21}" for one in told))


if __name__ == "__main__":
    main()
