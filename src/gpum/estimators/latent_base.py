"""How a latent model is fitted: scale the data, race several starts, keep the best, hand out its chart.

The numbers are made in `gplvm` and `geometry`; here are the schedule, the checks and scikit-learn's
conventions. The two models themselves are in `latent_models`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits

from .. import checks
from ..geometry import LearnedChart, corridor_boundary, evaluate, variance_boundary
from ..geometry.metric import expected_metric
from ..gplvm import bound, starts
from ..gplvm.mapping import Mapping
from ..gplvm.optimise import Stage, climb
from ..gplvm.placement import CHUNK, decoder, place
from ..progress import Reporter
from ..regression.surfaces import ChartSurface, Placement

FAR = 2.0
AUTO_START = 6  # latent dimensions that latent_dim="auto" starts from
AUTO_SHARE = 0.01  # and the share of the largest extent² below which one is dropped
ISOMAP_NEIGHBOURS = (5, 7, 10)
THIN = 0.1  # a coordinate of Isomap that much smaller than another may be noise: also start with one scale for all
COLLAPSED = 1e-3  # a standard deviation of latent means (the prior's is 1) below which a dimension is not used
HELD_NOISE = 0.01  # noise variance while it is held, as a share of the data's
ROUNDS = (4, 2)  # how many starts reach the semifinal and the final
BOUNDARIES: dict[str, Any] = {"corridors": corridor_boundary, "variance": variance_boundary}


class LatentModel(TransformerMixin, BaseEstimator):
    """What the two models share; a subclass says how to start, score and read off a fit."""

    _hold_latent: tuple[str, ...]
    _as_points: bool
    _negative: Any
    _typical_steps: Any
    _start: Any
    _read: Any
    _reorder: Any
    latent_dim: Any
    starts: Any
    scale_columns: bool
    boundary: str
    boundary_level: float
    max_iter: int
    tol: float
    n_jobs: int | None
    random_state: Any
    verbose: int

    def fit(self, S: Any, y: Any = None) -> Any:
        """Learn the chart of a cloud S [N, p]; y is ignored."""
        S = self._check(S)
        rng = np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))
        self.n_features_in_ = S.shape[1]
        self.offset_ = S.mean(0)
        self.scale_ = _scales(S - self.offset_, self.scale_columns)
        rows = (S - self.offset_) / self.scale_
        q = self._initial_dim(*S.shape)
        self.history_: list[dict[str, Any]] = []
        with jax.enable_x64(True), Reporter(self.verbose, self.max_iter, "learning the surface") as report:
            try:
                theta = self._race(rows, q, rng, report, collapse=self.latent_dim == "auto")
                if self.latent_dim == "auto":
                    self.relevance_ = _relevance(self._mapping(theta, rows), self._read(theta)[0])
                    keep = int(np.sum(self.relevance_ >= AUTO_SHARE))
                    report.say(f"latent_dim='auto': {keep} of {q} latent dimensions are relevant")
                    if keep < q:
                        theta = self._race(rows, keep, rng, report)
            except KeyboardInterrupt:
                # Keep what was reached, usable but marked as not converged, and stop all the same.
                if self._best is not None:
                    self.bound_, theta = self._best
                    self.converged_, self.start_ = False, "interrupted"
                    self._finish(theta, rows, rng)
                raise
            self._finish(theta, rows, rng)
        return self

    def fit_transform(self, S: Any, y: Any = None) -> np.ndarray:
        """Fit, and return the latent means of the rows of S."""
        return self.fit(S).latent_

    def transform(self, S: Any, return_std: bool = False) -> Any:
        """Latent coordinates of rows S [n, p], seen or not: posterior means [n, q] (and sds [n, q]).

        The mapping stays as fitted; each row is placed by itself, from the nearest fitted rows.
        """
        check_is_fitted(self, "chart_")
        S = checks.cloud(S, columns=self.n_features_in_)
        rows = (S - self.offset_) / self.scale_
        near = NearestNeighbors(n_neighbors=min(3, len(self._rows))).fit(self._rows)
        index = near.kneighbors(rows, return_distance=False)
        with jax.enable_x64(True):
            dec, W = decoder(self.chart_.mapping)
            # Whole chunks only: a row's place must not depend on its batch.
            fill = ((0, -len(rows) % CHUNK), (0, 0))
            projection = np.pad(rows @ np.asarray(W).T, fill)
            mu, s = place(projection, self.latent_[np.pad(index, fill)], dec, self._as_points)
            mu, s = np.asarray(mu)[: len(rows)], np.asarray(s)[: len(rows)]
        return (mu, np.sqrt(s)) if return_std else mu

    def coordinates(self, S: np.ndarray) -> np.ndarray:
        """Latent means of rows S [n, p]: as fitted if S is the fitted cloud, else by `transform`."""
        if S.shape == self._rows.shape and np.array_equal((S - self.offset_) / self.scale_, self._rows):
            return self.latent_
        return self.transform(S)

    def place(self, S: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Latent means and sds of rows S [n, p], and which are far from the surface.

        That is, more than FAR times as far from it as any fitted row is from its nearest neighbour.
        """
        points, sd = self.transform(S, return_std=True)
        away = np.linalg.norm(S - evaluate(self.chart_, "mean", points), axis=1)
        rows = self._rows * self.scale_
        spacing = float(NearestNeighbors(n_neighbors=1).fit(rows).kneighbors()[0].max())
        return points, sd, away > FAR * spacing

    def placement(self, S: np.ndarray) -> Placement:
        """`place`, as regression wants it."""
        return Placement(*self.place(S))

    def surface(self, rows: np.ndarray) -> ChartSurface:
        """The learned chart with a cloud's coordinates [N, q] in it; kept, with what is computed on it, for refits."""
        kept: dict[bytes, ChartSurface] = self.__dict__.setdefault("_surfaces", {})
        return kept.setdefault(rows.tobytes(), ChartSurface(self.chart_, rows, self.placement))

    def _check(self, S: Any) -> np.ndarray:
        if self.latent_dim != "auto":
            checks.integer(self.latent_dim, "latent_dim", 1, None, "give the surface's dimension, or 'auto'")
        q = 1 if self.latent_dim == "auto" else int(self.latent_dim)
        S = checks.cloud(S, min_rows=q + 2)
        N, p = S.shape
        if q >= p:
            raise ValueError(
                f"latent_dim is {self.latent_dim!r} but S has only {p} column(s) (n_features = {p}); a surface has "
                f"fewer dimensions than the data space: use latent_dim < {p}"
            )
        if not np.any(np.ptp(S, axis=0) > 0):
            raise ValueError(f"S has {N} identical rows; there is no surface to learn: add rows that differ")
        for start in self._start_list():
            if not isinstance(start, str):
                shape = np.shape(start)
                if shape != (N, q) or self.latent_dim == "auto":
                    raise ValueError(
                        f"an array in starts must have shape ({N}, latent_dim), got {shape}; "
                        "pass one row for each row of S"
                    )
                checks.cloud(start, "starts")
            else:
                checks.option(start, "starts", ("pca", "isomap"))
        checks.option(self.boundary, "boundary", BOUNDARIES)
        checks.positive(self.boundary_level, "boundary_level", "0 is the tightest", zero=True)
        checks.positive(self.tol, "tol", "0.01 nats per row is the default")
        checks.integer(self.max_iter, "max_iter", 1, None, "10000 is the default")
        return S

    def _start_list(self) -> list[Any]:
        if isinstance(self.starts, str):
            return [self.starts]
        several = any(isinstance(start, str) for start in self.starts) or np.ndim(self.starts) != 2
        return list(self.starts) if several else [self.starts]

    def _initial_dim(self, N: int, p: int) -> int:
        return min(AUTO_START, p - 1, N - 2) if self.latent_dim == "auto" else int(self.latent_dim)

    def _latent_starts(self, rows: np.ndarray, q: int, rng: np.random.Generator) -> Iterator[tuple[str, Any]]:
        """Name and parameters of every start, each with random numbers of its own."""
        kinds: list[tuple[str, Any]] = []
        for start in self._start_list():
            if not isinstance(start, str):
                kinds.append(("given", np.asarray(start, float)))
            elif start == "pca":
                kinds.append(("pca", None))
            else:
                kinds += [(f"isomap({k})", k) for k in sorted({min(k, len(rows) - 1) for k in ISOMAP_NEIGHBOURS})]
        for (name, kind), own in zip(kinds, rng.spawn(len(kinds)), strict=True):
            if name == "given":
                yield name, self._start(kind, own)
                continue
            X = starts.pca(rows, q) if name == "pca" else starts.isomap(rows, q, kind, own)
            yield name, self._start(starts.standardise(X), own)
            if name != "pca" and X.std(0).min() < THIN * X.std(0).max():
                yield f"{name}, one scale", self._start(starts.standardise(X, by_column=False), own)

    def _race(
        self, rows: np.ndarray, q: int, rng: np.random.Generator, report: Reporter, collapse: bool = False
    ) -> Any:
        """Every start runs with the noise held small, the best few with it freed, the best of these to the end.

        Noise that is free from the first iteration explains a thin direction away before the chart has
        found it. With `collapse`, a first look at many dimensions, unused ones may collapse.
        """
        self._best: tuple[float, Any] | None = None
        data = bound.compress(rows)
        early = (
            Stage("hyperparameters", (*self._hold_latent, "log_beta"), 50),
            Stage("noise held", ("log_beta",), 200, 10 * self.tol),
        )
        semifinal = Stage("all free", (), min(300, self.max_iter), 10 * self.tol)
        final = Stage("all free", (), self.max_iter, self.tol)
        runs = self._run_all(self._latent_starts(rows, q, rng), early, data, report)
        held = max(runs, key=lambda run: run[1]["bound"])
        for n, stage in zip(ROUNDS, (semifinal, final), strict=True):
            runs.sort(key=lambda run: -run[1]["bound"])
            runs = self._run_all([(end["start"], theta) for theta, end in runs[:n]], (stage,), data, report)
        theta, end = max(runs, key=lambda run: run[1]["bound"])
        if not collapse and np.min(np.std(self._read(theta)[0], axis=0)) < COLLAPSED:
            warnings.warn(
                f"with the noise free, a latent dimension of {q} collapses: the data show no such surface; "
                "the chart fitted with small noise is kept. Use a smaller latent_dim, or 'auto'",
                ConvergenceWarning,
                stacklevel=4,
            )
            theta, end = held
            self._best = end["bound"], theta
        self.bound_, self.start_, self.converged_ = end["bound"], end["start"], end["converged"]
        if not self.converged_ and not collapse:
            warnings.warn(
                f"the latent model did not converge in max_iter={self.max_iter} iterations (it still gained "
                f"more than tol={self.tol} nats per row in the last round); raise max_iter",
                ConvergenceWarning,
                stacklevel=4,
            )
        return theta

    def _run_all(
        self, begin: Iterable[tuple[str, Any]], stages: tuple[Stage, ...], data: Any, report: Reporter
    ) -> list[tuple[Any, dict[str, Any]]]:
        """Parameters and last round of each run, in order; through joblib when it has more than one worker.

        Alone, every round is seen as it ends; with workers, a run is seen when all of it has ended. LAPACK has one
        thread in either case: rounding must not depend on the cores of a worker, and small matrices run faster so.
        """
        with threadpool_limits(1, "blas"):
            if effective_n_jobs(self.n_jobs) == 1:
                return [self._note(_rounds(type(self), name, theta, data, stages), report) for name, theta in begin]
            tasks = (delayed(_whole_run)(type(self), name, theta, data, stages) for name, theta in begin)
            results = Parallel(n_jobs=self.n_jobs, return_as="generator")(tasks)
            return [self._note(run, report) for run in results]

    def _note(self, run: Iterable[tuple[Any, dict[str, Any]]], report: Reporter) -> tuple[Any, dict[str, Any]]:
        """Write the rounds of a run down as they come; the last one."""
        for theta, now in run:
            self.history_.append(now)
            if theta is not None and (self._best is None or now["bound"] > self._best[0]):
                self._best = now["bound"], theta
            report.advance(f"{now['start']}, {now['stage']}: bound {now['bound']:.1f}", now["iterations"])
        return theta, now

    def _mapping(self, theta: Any, rows: np.ndarray) -> Mapping:
        """The posterior of φ in the units of the data, latent dimensions as in theta."""
        Z, beta, (P, Lam, R) = self._read(theta)[2:]
        scale = np.broadcast_to(self.scale_, rows.shape[1:])
        mapping = Mapping.from_weights(
            Z=Z,
            ell=np.exp(theta.log_ell),
            gamma=np.exp(theta.log_gamma),
            beta=beta,
            W=(np.asarray(P) @ rows) * scale,
            Lam=Lam,
            R=R,
            offset=self.offset_,
            scale=scale,
        )
        mapping = jax.tree.map(np.asarray, mapping)
        if not all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(mapping)):
            raise FloatingPointError(
                "the fitted mapping has non-finite weights; use fewer inducing points (n_inducing) or rescale S"
            )
        return mapping

    def _finish(self, theta: Any, rows: np.ndarray, rng: np.random.Generator) -> None:
        order = np.argsort(theta.log_ell, kind="stable")  # most relevant dimension first
        theta = self._reorder(theta, order)
        mapping = self._mapping(theta, rows)
        self.latent_, self.latent_variance_ = self._read(theta)[:2]
        self.latent_dim_ = self.latent_.shape[1]
        self.ard_ = 1 / mapping.ell**2
        self.noise_std_ = mapping.beta**-0.5 * self.scale_
        self._rows = rows
        self._surfaces: dict[bytes, ChartSurface] = {}
        self.chart_ = LearnedChart(mapping, BOUNDARIES[self.boundary](rng, mapping, self.latent_))
        if self.boundary == "corridors":
            self.chart_ = self.chart_.with_level(self.boundary_level)


def _rounds(
    model: type[LatentModel], name: str, theta: Any, data: Any, stages: tuple[Stage, ...]
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """One start through its stages: parameters and what is said of them, after every round."""
    for stage in stages:
        rounds = climb(model._negative, model._typical_steps, theta, data, stage, len(data.factor))
        for theta, now in rounds:
            record = {
                "start": name,
                "stage": stage.name,
                "iterations": now.iterations,
                "evaluations": now.evaluations,
                "bound": now.value,
                "converged": now.converged,
            }
            yield theta, record


def _whole_run(*args: Any) -> list[tuple[Any, dict[str, Any]]]:
    """The rounds of a run, made by a worker; of the parameters only the last come back."""
    with jax.enable_x64(True), threadpool_limits(1, "blas"):
        rounds = list(_rounds(*args))
    return [(theta if k == len(rounds) - 1 else None, now) for k, (theta, now) in enumerate(rounds)]


def _scales(S: np.ndarray, by_column: bool) -> Any:
    """One factor for the whole centred cloud (root mean variance), or one for each column."""
    if not by_column:
        return float(np.sqrt(np.mean(S**2)))
    sd = S.std(0)
    return np.where(sd > 0, sd, 1.0)


def _relevance(mapping: Mapping, X: np.ndarray) -> np.ndarray:
    """Squared extent of the surface along each latent dimension, as a share of the largest.

    mean_n G_dd(x_n) · var_n(x_nd): see docs/latent_dimension.md.
    """
    G = jax.vmap(lambda x: jnp.diag(expected_metric(mapping, x)))(jnp.asarray(X))
    extent = np.asarray(G).mean(0) * X.var(0)
    return extent / extent.max()
