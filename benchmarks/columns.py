"""Graphs in the relevant columns (`gpum.fitted.relevant_graphs`): what a fit gains by them, and loses.

    python benchmarks/columns.py [--clouds sheet_beside,design] [--seeds 0,1,2] [--out columns.json]

Clouds have 150 to 450 rows of standardised columns:

    ..._beside    a curve, sheet, roll or spiral in some columns; 3 to 10 others are noise
    ..._aside     the others are a sheet that the function does not depend on
    design        a few settings of four columns, and two columns with a few values each
    ..._copies    each row is there three times
    ..._heavy     labels whose noise has heavy tails (Student t, two degrees of freedom)
    nothing_...   labels that are noise alone
    of weights.py roll, solid, tree, clusters, tables

Of each there are three random functions of the true coordinates, with noise of 3, 10 or 30 % of their standard
deviation, and 40 or 100 labels. A fit of a graph and flat space is compared with the same fit without graphs in the
relevant columns: by the NLPD of new observations (mean difference in nats, its standard error, the worst label set), by
the RMSE (ratio, geometric mean), and by the weight that these graphs have. "free" is what they would be if they did not
pay for lengths that were fitted to the same labels. A cloud takes ten to thirty seconds of one core.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import log
from pathlib import Path

import numpy as np

from gpum import GPUMRegressor
from gpum.basics.independence import independent
from gpum.fitted.relevance import Labelled, with_lengths
from gpum.fitted.relevant_graphs import TITLE
from gpum.geometry.candidate_set import CandidateSet
from gpum.inference import gp
from gpum.inference.left_out import with_gross_errors
from gpum.inference.posterior import RowsInSpaces
from gpum.persistence.store import Store
from weights import cloud, embedded, function, without_lengths

ROWS, LABELS, NOISE, TARGETS = (150, 300, 450), (40, 100), (0.03, 0.1, 0.3), 3
CLOUDS = (
    "curve_beside", "sheet_beside", "roll_beside", "spiral_beside", "stages_beside", "design_beside", "curve_aside",
    "sheet_aside", "roll_aside", "spiral_aside", "design", "curve", "sheet", "roll", "solid", "tree", "clusters",
    "table_correlated_6", "table_correlated_12", "table_box_4", "table_skew_4", "sheet_beside_heavy",
    "table_correlated_6_heavy", "roll_heavy", "sheet_beside_copies", "table_correlated_6_copies", "design_copies",
    "nothing_beside",
)  # fmt: skip


def made(name: str, rng: np.random.Generator, N: int) -> tuple[np.ndarray, np.ndarray]:
    """N rows X and their coordinates Z."""
    name = name.removesuffix("_heavy")
    if name.endswith("_copies"):
        X, Z = made(name.removesuffix("_copies"), rng, N // 3)
        return np.repeat(X, 3, 0), np.repeat(Z, 3, 0)
    base, _, beside = name.rpartition("_")
    if beside == "beside":
        X, Z = surface("sheet" if base == "nothing" else base, rng, N)
        p = rng.integers(3, 11)
        return np.column_stack([X, rng.standard_normal((N, p)) @ mixing(rng, p)]), Z
    if beside == "aside":
        X, Z = surface(base, rng, N)
        return np.column_stack([X, surface("sheet", rng, N)[0]]), Z
    return surface(name, rng, N)


def mixing(rng: np.random.Generator, p: int) -> np.ndarray:
    """Of columns that are noise: independent, or correlated."""
    return np.eye(p) if rng.random() < 0.5 else np.eye(p) + 0.5 * rng.standard_normal((p, p))


def surface(name: str, rng: np.random.Generator, N: int) -> tuple[np.ndarray, np.ndarray]:
    """A cloud of few columns, or one of weights.py."""
    if name == "spiral":
        t = rng.uniform(1, 3 * np.pi, (N, 1))
        X = np.column_stack([t * np.cos(t), t * np.sin(t), 3 * np.sin(0.5 * t)])
        return X + 0.3 * rng.standard_normal(X.shape), t**2 / 12
    if name == "design":  # of experiments: few settings of some columns, and others vary
        settings = rng.uniform(-1, 1, (rng.integers(8, 25), 4))[rng.integers(0, 8, N)]
        X = np.column_stack([settings, *(rng.integers(0, k, N) / k for k in rng.integers(3, 9, 2))])
        matter = rng.permutation(6)[: rng.integers(2, 5)]
        return X, standardised(X)[:, matter] * rng.uniform(0.3, 1.5, len(matter))
    if name == "curve":
        Z = rng.uniform(0, 4, (N, 1))
        return embedded(rng, Z, int(rng.integers(3, 6)), 0.6, 0.03), Z
    if name == "sheet":
        Z = rng.uniform(0, 3, (N, 2))
        return embedded(rng, Z, int(rng.integers(3, 7)), 1.0, 0.03), Z
    X, Z = cloud(name, rng, 2 * N if name == "stages" else N)
    return X[:, :5] if name == "stages" else X, Z


def standardised(X: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and deviation 1."""
    return (X - X.mean(0)) / np.maximum(X.std(0), 1e-12)


def without(labelled: Labelled) -> CandidateSet:
    """The candidates without graphs in the relevant columns, whose prior weight the graph has again."""
    candidate_set, titles = labelled.candidate_set, labelled.geometries.titles
    if TITLE not in titles:
        return candidate_set
    own, graph = titles.index(TITLE), labelled.geometries.names.index("graph")
    shift, log_priors = {graph: log(2)}, list(candidate_set.log_priors)
    log_priors[graph] += log(2)
    owner_of = [candidate_set.geometry_of[s.space] for s in candidate_set.candidates]
    candidates = [
        replace(s, log_prior=s.log_prior + shift.get(owner, 0.0))
        for s, owner in zip(candidate_set.candidates, owner_of, strict=True)
        if owner != own
    ]
    return replace(candidate_set, candidates=candidates, log_priors=log_priors)


def free(labelled: Labelled) -> CandidateSet:
    """The candidates, where graphs in the relevant columns do not pay for lengths that were fitted to the labels."""
    candidate_set, titles = labelled.candidate_set, labelled.geometries.titles
    if TITLE not in titles:
        return candidate_set
    own, mass = titles.index(TITLE), defaultdict(lambda: -np.inf)
    for s in candidate_set.candidates:
        mass[s.space] = np.logaddexp(mass[s.space], s.log_prior)
    graphs = [k for k, owner in enumerate(candidate_set.geometry_of) if owner == own and k in mass]
    each = candidate_set.log_priors[own] - log(len(graphs))
    candidates = [
        replace(s, log_prior=s.log_prior + each - mass[s.space]) if s.space in graphs else s
        for s in candidate_set.candidates
    ]
    return replace(candidate_set, candidates=candidates)


RULES: dict[str, Callable[[Labelled], CandidateSet]] = {
    "none": without,
    "graphs": lambda labelled: labelled.candidate_set,
    "free": free,
}


def trials(name: str, seed: int) -> Iterator[dict[str, tuple[float, float, float]]]:
    """NLPD, log RMSE and the weight of the graph in relevant columns, for each rule, of each target and label set."""
    rng = np.random.default_rng([seed, *name.encode()])
    N = ROWS[seed % len(ROWS)]
    X, Z = made(name, rng, N)
    X, N = standardised(X), len(X)
    if independent(X, 0):  # a fit uses flat space alone
        print(f"{name} {seed}: the columns are independent", flush=True)
        return
    nothing = np.full(N, np.nan)
    nothing[:5] = rng.standard_normal(5)
    model = GPUMRegressor(geometry=["graph", "flat"], random_state=0, scale="none", n_jobs=1).fit(X, nothing)
    learned = without_lengths(model.model_.geometries)
    for k in range(TARGETS):
        f = function(rng, Z, k % 4)
        if name.startswith("nothing"):
            f = 0 * f
        for n in LABELS:
            rows = rng.permutation(N)
            known, test = np.sort(rows[:n]), rows[n:]
            size = NOISE[rng.integers(len(NOISE))] if np.any(f) else 1.0
            noise = rng.standard_t(2, N) if name.endswith("_heavy") else rng.standard_normal(N)
            y = f + size * noise
            yield scored(learned, y, known, test)


def scored(learned, y: np.ndarray, known: np.ndarray, test: np.ndarray) -> dict[str, tuple[float, float, float]]:
    """Of one label set."""
    mean, scale = gp.units(y[known])
    z, store = (y[known] - mean) / scale, Store()
    labelled = with_lengths(learned, known, z[:, None], store)
    own = labelled.geometries.titles.index(TITLE) if TITLE in labelled.geometries.titles else -1
    target, found = (y[test] - mean) / scale, {}
    new = learned.cloud._learned_at(test)
    for rule, of in RULES.items():
        candidate_set = of(labelled)
        posterior = with_gross_errors(gp.average(candidate_set, labelled.at, z, store=store), z, scale)
        m, v = posterior.moments(RowsInSpaces.exactly([r[new] for r in candidate_set.rows]))
        v = v + posterior.gross * posterior.gross_variance
        weight = sum(c.weight for c in posterior.components if candidate_set.geometry_of[c.candidate.space] == own)
        nlpd = np.mean(0.5 * (target - m) ** 2 / v + 0.5 * np.log(2 * np.pi * v))
        found[rule] = float(nlpd), float(0.5 * np.log(np.mean((target - m) ** 2))), float(weight)
    return found


def main() -> None:
    """Print the table, and write it to a file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--clouds", default=",".join(CLOUDS))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--out", default="columns.json")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    cells: dict[str, list[dict[str, tuple[float, float, float]]]] = defaultdict(list)
    for seed in map(int, given.seeds.split(",")):
        for name in given.clouds.split(","):
            cells[name] += trials(name, seed)
            Path(given.out).write_text(json.dumps(cells))
            if cells[name]:
                print(told(f"{name} {seed}", cells[name]), flush=True)
    print_table(cells)


def told(title: str, rows: list[dict[str, tuple[float, float, float]]]) -> str:
    """One line of the table."""
    line = f"{title:28}{len(rows):5d}"
    for rule in list(RULES)[1:]:
        d = np.array([[row[rule][k] - row["none"][k] for k in range(3)] for row in rows])
        error = d[:, 0].std() / np.sqrt(len(d))
        line += f" |{d[:, 0].mean():8.3f} ±{error:6.3f}{d[:, 0].max():7.2f}"
        line += f"{np.exp(d[:, 1].mean()):7.3f}{d[:, 2].mean():6.2f}"
    return line


def print_table(cells: dict[str, list[dict[str, tuple[float, float, float]]]]) -> None:
    """For each rule NLPD less that without (mean, its standard error, worst), RMSE over that without, weight."""
    print(f"{'':33}" + "".join(f" | {rule:36}" for rule in list(RULES)[1:]))
    for name, rows in cells.items():
        if rows:
            print(told(name, rows))
    print(told("all", [row for rows in cells.values() for row in rows]))


if __name__ == "__main__":
    main()
