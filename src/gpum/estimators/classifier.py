"""`GPUMClassifier`: classes of the rows of a cloud, from the labels of a few."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from threadpoolctl import threadpool_limits

from ..checks import GpumError
from ..geometry import Chart
from ..regression import classes, design, graphs
from .geometries import Built, geometry_names
from .places import Placed
from .suggesting import Suggests
from .surfaces import Surfaces

COVERING = 20  # one of so many rows of a part is chosen to cover a large cloud: no small group is overlooked
UNLABELLED = -1  # among integers, as in sklearn.semi_supervised


@dataclass(frozen=True)
class ClassOutput:
    """The posterior, the labelled rows and their classes (as places in `classes_`)."""

    posterior: classes.ClassPosterior
    rows: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class PlacedClasses:
    """Of n rows: probabilities [n, classes], latent coordinates [n, q] (None without a chart), which are far [n]."""

    probabilities: np.ndarray
    latent: np.ndarray | None
    far: np.ndarray


class GPUMClassifier(ClassifierMixin, Surfaces, Suggests):
    """Gaussian process classification on an unknown surface.

    The cloud X [N, p] has clusters, or lies near a surface of few dimensions; y is known for some rows. Rows without a
    label are -1 (integers; but a y of nothing but -1 and 1 has two classes), NaN, None or "" (others). Every class has
    a Gaussian process on the same geometries, and the labels weigh geometries and settings (see
    `gpum.regression.classes`).

    Parameters
    ----------
    geometry : a name or a list of names of "graph", "flat", "chart" and "atlas", or "average" (all of them). Default:
        graph and flat. For classes the graph keeps the density of the rows, since borders run where rows are few.
        Charts and atlases pay where classes are regions of a smooth surface; with thousands of rows in many dimensions
        they take minutes.
    latent_dim, latent_model, n_inducing, boundary, kernel, smoothness, n_paths, step_size, max_time,
        n_kernel_inducing, metric_draws, warm_start, checkpoint, n_jobs, random_state, verbose : as for `GPUMRegressor`.

    Attributes
    ----------
    classes_ : the classes, sorted.
    transduction_, label_distributions_ : class of every row of the cloud, and its probabilities [N, classes].
    geometry_weights_ : posterior weight of each geometry by name.
    latent_model_, chart_, latent_, notes_, best_setting_ : as for `GPUMRegressor`.
    log_evidence_ : of the average.
    """

    _graphs = staticmethod(graphs.cluster_spaces)
    _pieces: np.ndarray | None

    def __init__(
        self,
        latent_dim: Any = "average",
        *,
        geometry: Any = ("graph", "flat"),
        latent_model: Any = "bgplvm",
        n_inducing: int | None = None,
        boundary: Any = "average",
        kernel: str = "auto",
        smoothness: str = "average",
        n_paths: int = 1000,
        step_size: float | None = None,
        max_time: float | None = None,
        n_kernel_inducing: int | None = None,
        metric_draws: int = 0,
        warm_start: bool = False,
        checkpoint: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.latent_dim = latent_dim
        self.geometry = geometry
        self.latent_model = latent_model
        self.n_inducing = n_inducing
        self.boundary = boundary
        self.kernel = kernel
        self.smoothness = smoothness
        self.n_paths = n_paths
        self.step_size = step_size
        self.max_time = max_time
        self.n_kernel_inducing = n_kernel_inducing
        self.metric_draws = metric_draws
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> Any:
        """Fit a cloud X [N, p] with classes y [N]; -1 (integers), NaN, None or "" where a row has no label."""
        X = self._enter(X)
        y, labelled = _labels(y, len(X))
        if not labelled.any():
            raise GpumError("y has no labelled row; give the class of at least one row of each class")
        known = np.flatnonzero(labelled)
        check_classification_targets(y[known])
        found, codes = np.unique(y[known], return_inverse=True)
        if len(found) < 2:
            raise GpumError(f"y has one class only, {found[0]!r}; a classifier needs labels of at least two classes")
        self.classes_ = found
        self._build(X, y)
        if self._pieces is None:  # new surfaces
            self._pieces = classes.pieces(self._family)
        with threadpool_limits(1, "blas"):  # many small problems
            posterior = classes.classify(*self._labelled(known), codes, len(found), self._pieces)
        self._outputs = [ClassOutput(posterior, known, codes)]
        self.geometry_weights_ = self._weigh()[0]
        self.log_evidence_ = posterior.log_evidence
        self.best_setting_ = posterior.best.setting.described()
        self.notes_ = self._gather_notes()
        return self

    _chosen = "most of them drawn at random, so that they show where rows are few, the rest chosen to cover the cloud"

    def _drawn(self, n: int, size: int, seed: int) -> np.ndarray | None:
        return np.random.default_rng(seed).choice(n, size - size // COVERING, replace=False)

    def _learn(self, X: np.ndarray) -> Built:
        self._pieces = None
        return super()._learn(X)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class for rows X, seen or not, [rows, classes]."""
        return self._outputs_at(self._locate(X))

    def place(self, X: Any) -> PlacedClasses:
        """Probabilities of rows X, their coordinates on the chart and which are far from the surface, placed once."""
        placed = self._locate(X)
        return PlacedClasses(self._outputs_at(placed), self._latent_of(placed.X, placed.index), placed.far)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of rows X, seen or not."""
        p = self.predict_proba(X)
        return self.classes_[np.argmax(p, 1)]

    def decision_function(self, X: Any) -> np.ndarray:
        """Log probabilities [rows, classes]; with two classes the log odds of the second, [rows]."""
        log_p = np.log(np.maximum(self.predict_proba(X), 1e-300))  # some are exactly zero
        return log_p[:, 1] - log_p[:, 0] if len(self.classes_) == 2 else log_p

    @available_if(lambda self: isinstance(self.latent_model, Chart) or "chart" in geometry_names(self.geometry))
    def transform(self, X: Any, return_std: bool = False) -> Any:
        """Latent coordinates of rows X (and their sds), where a geometry is a chart: on that of largest weight."""
        return super().transform(X, return_std)

    @property
    def label_distributions_(self) -> np.ndarray:
        """Probability of each class for every row of the fitted cloud, [N, classes]."""
        return self._outputs_at(self._locate_cloud())

    @property
    def transduction_(self) -> np.ndarray:
        """The most probable class of every row of the fitted cloud."""
        p = self.label_distributions_
        return self.classes_[np.argmax(p, 1)]

    def _beliefs(self, output: ClassOutput, rows: list[np.ndarray], asked: design.Asked) -> list[design.Belief]:
        return design.of_classes(output.posterior, rows, asked)

    def _floor(self, criterion: str, beliefs: list[list[design.Belief]]) -> float:
        """A label that tells of one row, its own, is no more use than asking for that row's class."""
        return design.SURE if criterion == "information" else 1 / len(self._cloud)

    def _outputs_at(self, placed: Placed) -> np.ndarray:
        return np.concatenate([self._outputs[0].posterior.probabilities(block) for block in placed.blocks()])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the rows of X that have a label."""
        guess = self.predict(X)
        y, labelled = _labels(y, len(guess))
        if not labelled.any():
            raise GpumError("y has no labelled row to score; give the class of at least one row")
        weight = None if sample_weight is None else np.asarray(sample_weight)[labelled]
        return float(accuracy_score(y[labelled], guess[labelled], sample_weight=weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.classifier_tags.poor_score = True  # on data without a surface, such as white noise
        return tags


def _labels(y: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """y as an array [n], and which rows have a label."""
    if y is None:
        raise GpumError("requires y to be passed, but the target y is None; give -1 or NaN for rows without a label")
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = column_or_1d(y, warn=True)
    if y.shape != (n,):
        raise GpumError(f"y has shape {y.shape}, but X has {n} rows; y must be [{n}]")
    if y.dtype.kind in "iu":
        signs = set(np.unique(y).tolist()) == {-1, 1}  # two classes, or one and rows without: only two make sense
        return y, np.full(n, True) if signs else y != UNLABELLED
    if y.dtype.kind == "f":
        if np.isinf(y).any():
            row = int(np.flatnonzero(np.isinf(y))[0])
            raise GpumError(f"Input y contains infinity, the first at row {row}; mark rows without a label by NaN")
        return y, ~np.isnan(y)
    if y.dtype.kind == "O":
        labelled = np.array([not (v is None or v != v or (isinstance(v, str) and v == "")) for v in y.tolist()], bool)
        kinds = sorted({type(v).__name__ for v in y[labelled].tolist()})
        if len(kinds) > 1 and "str" in kinds:
            raise GpumError(f"y holds classes of several types ({', '.join(kinds)}); give them as text, or as numbers")
        values = np.array(y[labelled].tolist()) if labelled.any() else y[labelled]
        whole = np.full(n, values[0] if len(values) else "", values.dtype)
        whole[labelled] = values
        return whole, labelled
    return y, y != "" if y.dtype.kind in "US" else np.ones(n, bool)
