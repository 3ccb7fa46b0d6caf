"""How a latent model is fitted: scale the data, run several starts, and make a chart of the best one.

The computations are in `gplvm` and `manifold`; this module has the checks and scikit-learn's conventions. The two
models themselves are in `latent_models`.
"""

from __future__ import annotations

import copy
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .. import __version__
from ..basics import checks, neighbours
from ..basics.checks import NoSurface
from ..basics.missing import Filled, fill_in
from ..basics.progress import Reporter
from ..basics.scaling import Scaling
from ..basics.workers import one_blas_thread
from ..geometry.chart import ChartGeometry
from ..geometry.chart_mesh import ChartMesh, chart_mesh
from ..gplvm import starts
from ..gplvm.incomplete import project_incomplete
from ..gplvm.mapping import Mapping
from ..gplvm.models import N_INDUCING, LatentPosterior, Model, Variational, data
from ..gplvm.multistart import Fit, MultistartResult, RowSubset, collapsed, differ, multistart
from ..gplvm.optimise import BROKEN
from ..gplvm.projection import Decoder, decoder, project_rows
from ..manifold.boundary import corridor_boundary
from ..manifold.chart import evaluate
from ..manifold.learned import LearnedChart
from ..manifold.metric import expected_metric
from ..persistence.programs import cached_programs
from ..persistence.store import Held, Store
from . import blocks, features, units
from .latent_checks import BOUNDARIES, check, start_list
from .shell import NOT_RESULTS, FileEstimator, fitting, open_store

NEAR = 3  # nearest fitted rows, from whose coordinates the projection of a new row starts
COMPARED = 10  # rows per inducing point on which starts are compared, if the cloud has twice as many
AUTO_START = 6  # latent dimensions that latent_dim="auto" starts from
AUTO_RELEVANT = 0.01  # it drops dimensions whose extent², relative to the largest, is below this fraction
DIM = 2  # of latent_dim=None


class LatentModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FileEstimator, ABC):
    """The common code of the two latent models; a subclass defines the model."""

    _takes_missing = True
    _as_points: bool
    _store: Store  # the decoder of the mapping, the mesh of the chart and what is computed on it, made on first use
    latent_dim: Any
    starts: Any
    scale: str
    boundary: float | str
    max_iter: int
    tol: float
    n_jobs: int | None
    checkpoint: Any
    random_state: Any
    verbose: int

    @abstractmethod
    def _model(self) -> Model:
        """The model as pure functions."""

    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn the chart of a cloud X [N, p]; y is ignored."""
        store = open_store(self)
        self._fit(X, store)
        self.notes_ += store.notes
        return self

    def _fit(self, X: Any, store: Store, needs_surface: bool = False) -> None:
        """As `fit`, with a store of finished runs; with `needs_surface` it fails where a latent dimension collapses."""
        with fitting(self):
            interruption = self._learn(X, store, needs_surface)
        if interruption is not None:
            raise interruption

    def _learn(self, X: Any, store: Store, needs_surface: bool) -> KeyboardInterrupt | None:
        """Learn the chart; an interruption is returned if there is a fit that can be used."""
        X = self._check(features.read(self, X))
        rng = np.random.default_rng(checks.random_state(self.random_state).randint(2**31 - 1))
        self.n_features_in_ = features.count(self, X)
        indicators = features.indicators(self)
        chosen = units.candidates(X, self.scale, indicators)[0]
        self._scaling = Scaling.of(X, chosen.scale, indicators)
        self.unit_, self.offset_, self.scale_ = self._scaling.unit, self._scaling.offset, self._scaling.scale
        self._rows = self._scaling.rows(X)  # NaN where a reading is missing
        self._whole = fill_in(self._rows) if np.isnan(X).any() else Filled.complete(self._rows)
        self.history_: list[dict[str, Any]] = []
        self.notes_ = list(features.notes(self))
        q = self._initial_dim(*X.shape)
        with (
            jax.enable_x64(True),
            cached_programs(),
            one_blas_thread,  # rounding must not depend on the number of cores
            Reporter(self.verbose, self.max_iter, "learning the surface") as report,
        ):
            try:
                outcome = self._compare(q, rng, report, store, needs_surface)
                if self._dim == "auto":
                    self.relevance_ = self._relevance(outcome.finalists[0])
                    relevant = int(np.sum(self.relevance_ >= AUTO_RELEVANT))
                    report.say(f"latent_dim='auto': {relevant} of {q} latent dimensions are relevant")
                    if relevant < q:
                        outcome = self._compare(relevant, rng, report, store, needs_surface)
            except KeyboardInterrupt as interruption:
                # The best fit so far can be used, and is marked as not converged.
                if self._best is None:
                    raise
                self._finish([replace(self._best, theta=self._grown(self._best.theta))], rng)
                self.converged_, self.start_ = False, "interrupted"
                return interruption
            self._finish(self._settled(outcome, needs_surface), rng)
        return None

    def fit_transform(self, X: Any, y: Any = None) -> np.ndarray:
        """Fit, and return the latent means of the rows of X."""
        return self.fit(X).latent_

    @blocks.lazy(blocks.of_chart)
    def transform(self, X: Any, return_std: bool = False) -> Any:
        """Latent coordinates of rows X [n, p], fitted or new: posterior means [n, q] (and sds [n, q]).

        The fitted mapping does not change; each row is projected independently, starting from the nearest fitted rows.
        Of a row whose distance is a million times the width of the cloud only the direction is used. Lazy for a Dask
        array or data frame.
        """
        check_is_fitted(self, "chart_")
        coordinates = self._means(features.like_fitted(self, X))
        return coordinates if return_std else coordinates[0]

    def inverse_transform(self, Z: Any, return_std: bool = False) -> Any:
        """Rows [n, p] of the surface at latent coordinates Z [n, q] (and their standard deviations, [n, p]).

        The deviation is that of the surface, how well it is known there, without the noise of a row.
        """
        check_is_fitted(self, "chart_")
        Z = checks.cloud(Z, "Z", columns=self.latent_.shape[1])
        mapping = self.chart_.mapping
        rows = evaluate(mapping, "mean", Z) * self.unit_
        if not checks.flag(return_std, "return_std"):
            return rows
        spread = np.sqrt(np.maximum(evaluate(mapping, "variance", Z), 0.0))
        return rows, spread[:, None] * np.broadcast_to(np.asarray(self.scale_) * self.unit_, rows.shape)

    def _means(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`transform` for an array [n, p] that has been checked: means and sds, [n, q] each."""
        rows = self._scaling.near_rows(X)
        return self._projected(rows, self._whole.nearest(rows, NEAR))

    def _projected(self, rows: np.ndarray, near: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and sds of scaled rows [n, p], from the fitted rows near each [n, c]."""
        begin = self.latent_[near]
        incomplete = np.isnan(rows).any(1)  # such rows have a posterior of their readings alone
        mu, s = np.empty((2, len(rows), self.latent_.shape[1]))
        with jax.enable_x64(True), cached_programs():
            if not incomplete.all():
                dec, W = self._decoder()
                mu[~incomplete], s[~incomplete] = project_rows(
                    rows[~incomplete] @ W.T, begin[~incomplete], dec, self._as_points
                )
            if incomplete.any():
                mu[incomplete], s[incomplete] = project_incomplete(
                    rows[incomplete], begin[incomplete], self.chart_.mapping, self._as_points
                )
        return mu, np.sqrt(s)

    def _decoder(self) -> tuple[Decoder, np.ndarray]:
        """The decoder of the mapping and its weights [m, p], computed once and left on the device."""
        mapping = self.chart_.mapping

        def make() -> tuple[Decoder, np.ndarray]:
            dec, W = decoder(mapping)
            return dec, np.asarray(W)

        return self._store.once(("decoder", Held(mapping)), make)

    def _coordinates(self, X: np.ndarray) -> np.ndarray:
        """Latent means of rows X [n, p]: those of fitted rows are known, other rows are projected."""
        known = {row.tobytes(): i for i, row in reversed(list(enumerate(self._rows)))}
        index = np.array([known.get(row.tobytes(), -1) for row in self._scaling.rows(X)], int)
        coordinates, new = self.latent_[index], index < 0
        if new.any():
            coordinates[new] = self._means(X[new])[0]
        return coordinates

    @property
    def _mesh(self) -> ChartMesh:
        """The chart as a surface in the data space, made once for each fit."""
        sd, (unit, scale) = np.sqrt(self.latent_variance_), (self.unit_, self.scale_)
        make = partial(chart_mesh, self.chart_, self.latent_, sd, self._whole.rows, self.offset_, scale, unit)
        return self._store.once(("mesh", Held(self.chart_)), make)

    def _geometry(self, X: np.ndarray, store: Store | None = None) -> ChartGeometry:
        """The learned chart with the coordinates of a cloud X [N, p], and a store (None: that of this model)."""
        return ChartGeometry(self.chart_, self._coordinates(X), self._mesh, self, store=store or self._store)

    def __gpum_state__(self) -> dict[str, Any]:
        """What a model file holds."""
        state = {k: v for k, v in vars(self).items() if k not in ("_best", "_subset", "_store")}
        if "_finalists" in state:  # fitted: other attributes hold the rows' coordinates and inducing points
            state["_finalists"] = [replace(fit, theta=None) for fit in self._finalists]
        return state

    def __gpum_key__(self) -> Any:
        """What results that depend on it depend on: its settings and, where it is fitted, its chart and coordinates."""
        settings = {name: value for name, value in self.get_params(deep=False).items() if name not in NOT_RESULTS}
        return settings, getattr(self, "chart_", None), getattr(self, "latent_", None)

    def __gpum_restored__(self) -> None:
        """Nothing has been computed on the chart yet."""
        self._store = Store()

    def __gpum_ready__(self) -> None:
        """Compile what the first projection of a row needs."""
        self._projected(self._rows[:1], self._whole.nearest(self._rows[:1], NEAR))

    def __gpum_summary__(self) -> dict[str, Any]:
        """What `gpum info` says of it."""
        return {"kind": type(self).__name__, "version": __version__, "rows": len(self.latent_)}

    def _different_fits(self) -> list[LatentModel]:
        """This fit, and the other finalists among the starts whose charts are not the same up to a linear change."""
        different: list[LatentModel] = [self]
        for k, fit in enumerate(self._finalists[1:]):
            other = copy.copy(self)
            with jax.enable_x64(True), cached_programs():
                other._finish([fit], np.random.default_rng([len(self._rows), k]))
            if all(differ(other.latent_, one.latent_) for one in different):
                different.append(other)
        return different

    def _check(self, X: Any) -> np.ndarray:
        return check(self, self._dim, X)

    @property
    def _dim(self) -> Any:
        return DIM if self.latent_dim is None else self.latent_dim

    def _initial_dim(self, N: int, p: int) -> int:
        return min(AUTO_START, p - 1, N - 2) if self._dim == "auto" else int(self._dim)

    def _compare(
        self, q: int, rng: np.random.Generator, report: Reporter, store: Store, needs_surface: bool
    ) -> MultistartResult:
        """Run all starts in q dimensions; `history_` records every round."""
        self._best: Fit | None = None
        model = self._model()

        def see(fit: Fit) -> None:
            now = fit.last
            self.history_.append({
                "start": fit.start, "stage": now.stage, "iterations": now.iterations, "evaluations": now.evaluations,
                "bound": now.value, "rows": now.rows, "converged": now.converged, "status": now.status,
            })  # fmt: skip
            if fit.theta is not None:
                self._best = max(filter(None, (self._best, fit)), key=lambda one: (one.last.rows, one.bound))
            report.advance(f"{fit.start}, {now.stage}: bound {now.value:.1f}", now.iterations)

        subset = self._subset = self._choose(model, rng)
        few = None if subset is None else RowSubset(data(self._rows[subset]), self._grown)
        among = slice(None) if subset is None else subset
        begin = [(name, model.start(X[among], generator)) for name, X, generator in self._begin(q, rng)]
        names, before = [name for name, _ in begin], len(self.history_)
        options: dict[str, Any] = {"max_iter": self.max_iter, "tol": self.tol, "n_jobs": self.n_jobs}
        options |= {"see": see, "store": store, "few": few, "needs_surface": needs_surface}
        result = multistart(model, begin, data(self._rows), **options)
        # Rounds of starts that run side by side come in any order.
        self.history_[before:] = sorted(self.history_[before:], key=lambda entry: names.index(entry["start"]))
        if collapsed(model, result.finalists[0]) and (self._dim == "auto" or not needs_surface):
            whole = lambda fit: replace(fit, theta=self._grown(fit.theta))
            result = MultistartResult(tuple(map(whole, result.finalists)), whole(result.held))
        return result

    def _choose(self, model: Model, rng: np.random.Generator) -> np.ndarray | None:
        """The subset of a large cloud on which the starts are compared: rows that cover it; None: all rows."""
        m = getattr(model, "n_inducing", 0) or N_INDUCING
        if not isinstance(model, Variational) or len(self._rows) < 2 * COMPARED * m or np.isnan(self._rows).any():
            return None
        return neighbours.cover(self._rows, COMPARED * m, rng.spawn(1)[0])

    def _grown(self, theta: Any) -> Any:
        """Parameters of a subset of rows extended to all rows: the others are projected onto the surface."""
        subset = self._subset
        if subset is None or len(theta.mu) == len(self._rows):
            return theta
        rest = np.setdiff1d(np.arange(len(self._rows)), subset)
        dec, W = decoder(self._mapping(self._model().posterior(theta, self._rows[subset])))
        begin = theta.mu[neighbours.nearest(self._rows[subset], NEAR, self._rows[rest])[1]]
        mu, s = np.empty((2, len(self._rows), theta.mu.shape[1]))
        mu[subset], s[subset] = theta.mu, np.exp(theta.log_s)
        mu[rest], s[rest] = project_rows(self._rows[rest] @ np.asarray(W).T, begin, dec, self._as_points)
        return replace(theta, mu=mu, log_s=np.log(s))

    def _begin(self, q: int, rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, np.random.Generator]]:
        """The starts; a row that cannot be filled in well has the start of the nearest sound row."""
        sound = self._whole.sound
        if sound.sum() < q + 2:
            sound = np.ones(len(sound), bool)
        near = np.cumsum(sound) - 1
        if not sound.all():
            near[~sound] = near[self._whole.donors(self._rows[~sound], 1, among=sound)[:, 0]]
        for name, X, generator in starts.named(self._whole.rows[sound], q, start_list(self.starts), rng):
            yield name, X if name == "given" or sound.all() else X[near], generator

    def _settled(self, outcome: MultistartResult, needs_surface: bool) -> list[Fit]:
        """The fits to use, best first; warns where the best one did not converge or has a collapsed dimension."""
        best = outcome.finalists[0]
        q = len(best.theta.log_ell)

        def inside(name: str, times: int) -> str:
            """How a setting of the latent model is changed in estimators that learn one themselves."""
            value = times * getattr(self, name)
            text = f"{name}={value}" if isinstance(value, int) else f"{name}={value:g}"
            return f" (in GPUMRegressor and GPUMClassifier: latent_model={type(self).__name__}({q}, {text}))"

        trouble = ""
        self.collapsed_ = collapsed(self._model(), best)
        if self.collapsed_ and needs_surface:
            raise NoSurface(f"with the noise free, a latent dimension of {q} collapses: the data show no such surface")
        if self.collapsed_:
            trouble = (
                f"with the noise free, a latent dimension of {q} collapses: the data show no "
                "such surface; the chart fitted with small noise is used. Use a smaller latent_dim, or 'auto'"
            )
        elif best.last.status == BROKEN:
            trouble = (
                f"the latent model did not converge: the optimiser's {best.last.status} (rounding in the bound is "
                f"larger than its gain); use fewer inducing points (n_inducing), or a larger tol{inside('tol', 10)}"
            )
        elif not best.converged:
            trouble = (
                f"the latent model did not converge in max_iter={self.max_iter} iterations ({best.last.status}: the "
                f"last round was not a whole one, or gained more than tol={self.tol} per row); raise max_iter"
                f"{inside('max_iter', 2)}"
            )
        if trouble:
            warnings.warn(trouble, ConvergenceWarning, stacklevel=4)
        return [outcome.held] if self.collapsed_ else list(outcome.finalists)

    def _mapping(self, posterior: LatentPosterior) -> Mapping:
        """The posterior of φ in the units of the chart."""
        scale = np.broadcast_to(self.scale_, self._rows.shape[1:])
        mapping = Mapping.from_weights(
            Z=posterior.Z, ell=posterior.ell, gamma=posterior.gamma, beta=posterior.beta, W=posterior.W * scale,
            Lam=posterior.Lam, R=posterior.R, offset=self.offset_ / self.unit_, scale=scale,
        )  # fmt: skip
        mapping = jax.tree.map(np.asarray, mapping)
        if not all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(mapping)):
            raise NoSurface(
                "the fitted mapping has non-finite weights; use fewer inducing points (n_inducing) or rescale X"
            )
        return mapping.filled()

    def _relevance(self, fit: Fit) -> np.ndarray:
        """Squared extent of the surface along each latent dimension, relative to the largest.

        mean_n G_dd(x_n) · var_n(x_nd): see docs/latent_dimension.md.
        """
        posterior = self._model().posterior(fit.theta, self._rows)
        G = evaluate(self._mapping(posterior), expected_metric, posterior.latent)
        extent = np.einsum("ndd->nd", G).mean(0) * posterior.latent.var(0)
        return extent / extent.max()

    def _finish(self, fits: list[Fit], rng: np.random.Generator) -> None:
        """Set the fitted attributes from the best fit; the other fits are stored beside it."""
        self._finalists, best, model = fits, fits[0], self._model()
        order = np.argsort(best.theta.log_ell, kind="stable")  # most relevant dimension first
        posterior = model.posterior(model.reorder(best.theta, order), self._rows)
        mapping = self._mapping(posterior)
        self.bound_, self.start_, self.converged_ = best.bound, best.start, best.converged
        self.latent_, self.latent_variance_ = posterior.latent, posterior.variance
        self.latent_dim_ = self._n_features_out = self.latent_.shape[1]
        self.n_iter_ = max(1, sum(h["iterations"] for h in self.history_ if h["start"] == best.start))
        self.ard_ = 1 / mapping.ell**2
        self.noise_std_ = mapping.beta**-0.5 * self.scale_
        self._store = Store()
        make = BOUNDARIES[self.boundary] if isinstance(self.boundary, str) else corridor_boundary
        self.chart_ = LearnedChart(mapping, make(rng, mapping, self.latent_))
        if not isinstance(self.boundary, str):
            self.chart_ = self.chart_.with_level(self.boundary)
