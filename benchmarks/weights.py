"""How geometries should be weighted: simulated targets on simulated clouds.

    python benchmarks/weights.py [--shapes roll,table_box_8] [--rows 400] [--seed 0] [--out weights.json]

For each cloud the default geometries are learned once. Eight random functions of the true coordinates (smooth, rough,
additive, saturating), with noise of 1, 10, 30 or 100 % of their standard deviation, are learned from 4, 10, 30 and 100
labels. Every geometry is fitted alone; its evidence and predictions are then combined in several ways:

    power    w_g ∝ π_g E_g^η for several η (`gpum.inference.tempered` uses one of them)
    kinds    prior weights: flat space with lengths as a part of flat space, or as a kind of its own

The table has the NLPD of new observations, in units of the labels' standard deviation, over that of the best geometry
in hindsight, and the RMSE over the best one's (geometric mean). One cloud takes one to two minutes on one core.

A second table is the bound by which charts and atlases are not learned (`gpum.estimators.contest.AHEAD`): for the label
sets on which flat space leads its witnesses by more than so many nats, how many these are, how many of them of tables,
the best chart or atlas, in nats more than flat space, and by how much the NLPD of the average of all geometries is
lower with charts and atlases than without (mean and largest). A third has the same sets by the lead over the graph.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.special import logsumexp

from gpum import GPUMRegressor
from gpum.fitted.geometries import Geometries
from gpum.fitted.relevance import BY_LENGTHS, TITLE, with_lengths
from gpum.geometry.priors import POWER_OF_NUMBERS
from gpum.inference import gp
from gpum.inference.posterior import RowsInSpaces

LABELS = (4, 10, 30, 100)
NOISE = (0.01, 0.1, 0.3, 1.0)
POWERS = (1.0, 0.7, 0.5, 0.3, 0.0)
GAPS = (0.0, 2.0, 5.0, 8.0, 10.0, 15.0, 20.0)  # nats
CHEAP = ("flat", "lengths", "graph")
SHAPES = (
    "roll", "sphere", "torus", "ring_pictures", "curve", "stages", "sheet", "sheet_noisy", "solid", "tree", "sheets",
    "clusters", "table_box_3", "table_box_8", "table_box_20", "table_correlated_6", "table_correlated_15",
    "table_skew_5", "table_skew_10", "table_codes_6", "table_codes_12",
)  # fmt: skip


def wave(rng: np.random.Generator, dim: int, length: float, rough: bool = False) -> Callable[..., np.ndarray]:
    """A random function of `dim` variables: a draw of a Gaussian process by random Fourier features."""
    W = rng.standard_normal((dim, 300)) / length
    if rough:
        W = W / np.sqrt(rng.gamma(0.75, 1 / 0.75, 300))
    phase, height = rng.uniform(0, 2 * np.pi, 300), rng.standard_normal(300) * np.sqrt(2 / 300)
    return lambda Z: np.cos(Z @ W + phase) @ height


def embedded(rng: np.random.Generator, Z: np.ndarray, p: int, length: float, noise: float) -> np.ndarray:
    """Rows that are random smooth functions of coordinates Z, with noise."""
    X = np.stack([wave(rng, Z.shape[1], length)(Z) for _ in range(p)], 1)
    return X + noise * rng.standard_normal(X.shape)


def cloud(name: str, rng: np.random.Generator, N: int) -> tuple[np.ndarray, np.ndarray]:
    """N rows X, and the coordinates Z that targets are functions of."""
    if name == "roll":
        t, h = 1.5 * np.pi * (1 + 2 * rng.uniform(size=N)), 21 * rng.uniform(size=N)
        X = np.stack([t * np.cos(t), h, t * np.sin(t)], 1)
        return X + 0.3 * rng.standard_normal(X.shape), np.stack([t**2 / 60, h / 7], 1)
    if name == "sphere":
        Z = rng.standard_normal((N, 3))
        Z /= np.linalg.norm(Z, axis=1, keepdims=True)
        turn = np.linalg.qr(rng.standard_normal((6, 3)))[0]
        return Z @ turn.T + 0.02 * rng.standard_normal((N, 6)), 2 * Z
    if name == "torus":
        a, b = rng.uniform(0, 2 * np.pi, (2, N))
        Z = np.stack([np.cos(a), np.sin(a), np.cos(b), np.sin(b)], 1)
        return Z + 0.03 * rng.standard_normal(Z.shape), Z
    if name == "ring_pictures":  # four blobs that turn together
        a, grid = rng.uniform(0, 2 * np.pi, (N // 2, 1)), np.mgrid[-1:1:16j, -1:1:16j].reshape(2, -1)
        X = np.zeros((len(a), grid.shape[1]))
        for _ in range(4):
            radius, width, phase = rng.uniform([0.2, 0.1, 0], [0.8, 0.3, 2 * np.pi])
            apart = (grid[0] - radius * np.cos(a + phase)) ** 2 + (grid[1] - radius * np.sin(a + phase)) ** 2
            X += rng.uniform(0.3, 1) * np.exp(-0.5 * apart / width**2)
        return X + 0.05 * rng.standard_normal(X.shape), np.concatenate([np.cos(a), np.sin(a)], 1)
    smooth = {  # dimension, extent, columns, length, noise
        "curve": (1, 4, 20, 0.7, 0.05), "sheet": (2, 3, 20, 1.0, 0.05), "sheet_noisy": (2, 2, 8, 1.0, 0.25),
        "solid": (3, 2, 20, 1.0, 0.05),
    }  # fmt: skip
    if name in smooth:
        dim, extent, p, length, noise = smooth[name]
        Z = rng.uniform(0, extent, (N, dim))
        return embedded(rng, Z, p, length, noise), Z
    if name == "stages":  # groups along a curve
        Z = 0.6 * (rng.integers(0, 6, N // 2) + 0.15 * rng.standard_normal(N // 2))[:, None]
        return embedded(rng, Z, 15, 0.8, 0.2), Z
    if name == "tree":
        Z = np.zeros((N, 4))
        Z[np.arange(N), rng.integers(0, 4, N)] = 2 * rng.uniform(size=N)
        return Z @ np.linalg.qr(rng.standard_normal((8, 4)))[0].T + 0.05 * rng.standard_normal((N, 8)), Z
    if name == "sheets":
        Z, which = rng.uniform(0, 2, (N, 2)), rng.integers(0, 2, N)
        X = np.stack([Z[:, 0], Z[:, 1], 0.3 * np.sin(3 * Z[:, 0]) + which], 1)
        return X + 0.02 * rng.standard_normal(X.shape), np.column_stack([Z, 3 * which])
    if name == "clusters":
        middle = 3 * rng.standard_normal((6, 10))[rng.integers(0, 6, N)]
        own = rng.standard_normal((N, 10))
        return middle + own, np.concatenate([middle[:, :3] / 2, 0.3 * own[:, :2]], 1)
    _, kind, p = name.split("_")
    return table(rng, kind, N, int(p))


def table(rng: np.random.Generator, kind: str, N: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """A table of standardised columns, of which one to four matter."""
    if kind == "box":
        X = rng.uniform(-1, 1, (N, p))
    elif kind == "correlated":
        X = rng.standard_normal((N, p)) @ (rng.standard_normal((p, p)) * np.exp(-3 * np.arange(p) / p)).T
    elif kind == "skew":
        X = np.exp(0.7 * rng.standard_normal((N, p)))
    else:
        X = np.column_stack([rng.integers(0, rng.integers(2, 7), N) for _ in range(p)]).astype(float)
    X = X / X.std(0)
    matter = rng.permutation(p)[: rng.integers(1, 5)]
    return X, X[:, matter] * rng.uniform(0.3, 1.5, len(matter))


def function(rng: np.random.Generator, Z: np.ndarray, kind: int) -> np.ndarray:
    """A random function of coordinates, of variance 1."""
    Z, dim, length = Z - Z.mean(0), Z.shape[1], np.exp(rng.uniform(np.log(0.5), np.log(3)))
    if kind == 2:
        f = np.sum([rng.standard_normal() * wave(rng, 1, length)(Z[:, [j]]) for j in range(dim)], axis=0)
    elif kind == 3:
        f = np.tanh(3 * wave(rng, dim, 1.5 * length)(Z)) + 0.3 * wave(rng, dim, length)(Z)
    else:
        f = wave(rng, dim, length, rough=kind == 1)(Z)
    return (f - f.mean()) / f.std()


def without_lengths(geometries: Geometries) -> Geometries:
    """The geometries that do not depend on labels."""
    candidate_set = geometries.candidate_set
    some = [k for k, g in enumerate(candidate_set.geometry_of) if geometries.members[g].title not in BY_LENGTHS]
    new = {k: j for j, k in enumerate(some)}
    candidate_set = replace(
        candidate_set,
        spaces=[candidate_set.spaces[k] for k in some],
        rows=[candidate_set.rows[k] for k in some],
        geometry_of=[candidate_set.geometry_of[k] for k in some],
        candidates=[replace(s, space=new[s.space]) for s in candidate_set.candidates if s.space in new],
    )
    return replace(geometries, candidate_set=candidate_set)


def trials(name: str, seed: int, n_rows: int) -> list[dict]:
    """For each target and label set, what each geometry says alone."""
    rng, found = np.random.default_rng([seed, *name.encode()]), []
    X, Z = cloud(name, rng, n_rows)
    nothing = np.full(len(X), np.nan)
    nothing[:5] = rng.standard_normal(5)
    every = ["chart", "atlas", "graph", "flat"]  # named, so that all of them are learned
    model = GPUMRegressor(geometry=every, random_state=0, scale="none").fit(X, nothing)
    learned = without_lengths(model.model_.geometries)
    for k in range(8):
        f = function(rng, Z, k % 4)
        for n in LABELS:
            rows = rng.permutation(len(X))
            known, test = np.sort(rows[:n]), rows[n : n + 100]
            y = f + NOISE[rng.integers(len(NOISE))] * rng.standard_normal(len(X))
            mean, scale = gp.units(y[known])
            z = (y[known] - mean) / scale
            labelled = with_lengths(learned, known, z[:, None])
            found.append({"n": n, "y": (y[test] - mean) / scale, "geometries": alone(labelled, z, test)})
    return found


def alone(labelled, z: np.ndarray, test: np.ndarray) -> list[tuple]:
    """(kind, log prior weight, log evidence, means, variances) of each geometry."""
    geometries, candidate_set, found = labelled.geometries, labelled.candidate_set, []
    rows = RowsInSpaces.exactly([r[geometries.cloud._learned_at(test)] for r in geometries.candidate_set.rows])
    for g, member in enumerate(geometries.members):
        some = [s for s in candidate_set.candidates if candidate_set.geometry_of[s.space] == g]
        if some:
            prior = candidate_set.log_priors[g]
            posterior = gp.average(replace(candidate_set, candidates=some), labelled.at, z)
            kind = "lengths" if member.title == TITLE else member.name
            found.append((kind, prior, posterior.log_evidence - prior, *posterior.moments(rows)))
    return found


def scored(trial: dict, power: float, own_kind: bool, only: tuple[str, ...] | None = None) -> tuple[float, float]:
    """NLPD less the best geometry's, and log RMSE less the best one's; of all geometries, or `only` of some kinds."""
    some = [one for one in trial["geometries"] if only is None or one[0] in only]
    kinds, prior, evidence, means, variances = zip(*some, strict=True)
    kinds, prior, means, y = np.array(kinds), np.array(prior), np.array(means), trial["y"]
    variances = np.maximum(variances, 1e-12)
    if "lengths" in kinds and not own_kind:
        n = len(set(kinds))
        prior = np.where(np.isin(kinds, ("flat", "lengths")), np.log(0.5 / (n - 1)), prior + np.log(n / (n - 1)))
    log_w = prior + power * np.array(evidence)
    w = np.exp(log_w - logsumexp(log_w))
    mean = w @ means
    nlpd = lambda m, v: float(np.mean(0.5 * (y - m) ** 2 / v + 0.5 * np.log(2 * np.pi * v)))
    rmse = lambda m: float(np.sqrt(np.mean((y - m) ** 2)))
    best = min(nlpd(m, v) for _, _, _, m, v in trial["geometries"]), min(rmse(m) for *_, m, _ in trial["geometries"])
    return nlpd(mean, w @ (variances + means**2) - mean**2) - best[0], np.log(rmse(mean) / best[1])


def witness(trial: dict) -> dict:
    """By how many nats flat space leads the graph, and all witnesses of a surface; and what charts and atlases add."""
    of = lambda *kinds: [evidence for kind, _, evidence, *_ in trial["geometries"] if kind in kinds]
    surfaces = max(of("chart", "atlas"))
    flat = logsumexp(of("flat", "lengths")) - np.log(len(of("flat", "lengths")))
    witnesses = of("graph", "flat") if of("atlas") else of("graph")
    gain = scored(trial, POWER_OF_NUMBERS, True, CHEAP)[0] - scored(trial, POWER_OF_NUMBERS, True)[0]
    leads = {"graph": flat - max(of("graph")), "all": flat - max(witnesses)}
    return {"n": trial["n"], "leads": leads, "surface": surfaces - flat, "gain": gain}


def main() -> None:
    """Print the tables, and write them to a file."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", default="weights.json")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[str, list[dict]] = {}
    sets: list[dict] = []
    for name in given.shapes.split(","):
        found[name] = trials(name, given.seed, given.rows)
        sets += [{"cloud": name, **witness(t)} for t in found[name] if {k for k, *_ in t["geometries"]} - set(CHEAP)]
        print(name, flush=True)
        Path(given.out).write_text(json.dumps({"witness": sets}))
    Path(given.out).write_text(json.dumps({"weights": print_weights(found), "witness": sets}))
    print_witness(sets)


def print_weights(found: dict[str, list[dict]]) -> list[list]:
    """Print the table of weights, and return its rows."""
    told = []
    print(f"{'clouds':8}{'n':>5}{'power':>7}  lengths          NLPD - best, worst   RMSE/best")
    for what in ("tables", "shapes"):
        some = [t for name, every in found.items() if name.startswith("table") == (what == "tables") for t in every]
        for n in LABELS:
            for own_kind in (False, True):
                for power in POWERS if some else ():
                    nlpd, rmse = np.array([scored(t, power, own_kind) for t in some if t["n"] == n]).T
                    row = [float(nlpd.mean()), float(nlpd.max()), float(np.exp(rmse.mean()))]
                    told.append([what, n, power, own_kind, *row])
                    kind = "own kind" if own_kind else "part of flat"
                    print(f"{what:8}{n:5d}{power:7.1f}  {kind:14}{row[0]:8.3f}{row[1]:9.2f}{row[2]:12.3f}")
    return told


def print_witness(sets: list[dict]) -> None:
    """Print what is lost where charts and atlases are not learned since flat space leads by so many nats."""
    for witnesses in ("all", "graph"):
        print(
            f"{'lead: ' + witnesses:>12}{'sets':>6}{'tables':>8}{'best surface':>14}{'gain of NLPD':>14}{'largest':>9}"
        )
        for gap in GAPS:
            led = [one for one in sets if one["leads"][witnesses] > gap]
            if led:
                surface, gain = (np.array([one[what] for one in led]) for what in ("surface", "gain"))
                tables = sum(one["cloud"].startswith("table") for one in led)
                print(f"{gap:12.0f}{len(led):6d}{tables:8d}{surface.max():14.1f}{gain.mean():14.3f}{gain.max():9.2f}")


if __name__ == "__main__":
    main()
