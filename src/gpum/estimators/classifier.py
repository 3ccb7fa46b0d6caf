"""`GPUMClassifier`: classes of the rows of a cloud, from the labels of a few."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from ..basics import annotated, renamed
from ..basics.checks import GpumError, GpumTypeError
from ..basics.workers import blas_threads, with_jobs
from ..fitted import Cloud, FittedModel, Geometries, more_labels
from ..fitted.relevance import Labelled, with_lengths
from ..geometry.graphs import OF_CLUSTERS
from ..geometry.options import KernelOptions
from ..geometry.priors import Priors, checked, of_classes
from ..inference.classes import ASKED, ATYPICAL, as_numbers, classify, effective_dimensions
from ..inference.outputs import ClassOutput
from . import blocks, learning, shell, units
from .targets import FOLDS, no_score
from .unlabelled import AUTO, is_auto, split_labels


@renamed.parameters(**learning.RENAMED)
class GPUMClassifier(ClassifierMixin, learning.SurfaceEstimator):
    """Gaussian process classification on an unknown surface.

    The cloud X [N, p] has clusters, or lies near a surface of few dimensions; y is known for some rows, and -1, NaN,
    None or "" for the others. Every class has a Gaussian process on the same geometries, and the labels weigh
    geometries and candidates on them (see `gpum.inference.classes`).

    Parameters
    ----------
    geometry : a name or a list of names of "graph", "flat", "chart" and "atlas", or "average" (all of them). Default:
        graph and flat. For classes the graph keeps the density of the rows, since borders run where rows are few.
        Charts and atlases help where classes are regions of a smooth surface; with thousands of rows in many dimensions
        they take minutes.
    unlabelled : the value of y that marks a row without a label. "auto" (default): -1, as a number or as text, whatever
        else y holds. Where -1 is a class: None (no value does), or another value. NaN, None, pandas' NA and empty text
        always mark such rows.
    priors : None (default), or a `gpum.Priors` with other weights of geometries, or another power of the evidence.
    latent_dim, latent_model, scale, kernel, smoothness, warm_start, checkpoint, n_jobs, random_state, verbose : as for
        `GPUMRegressor`.

    Attributes
    ----------
    classes_ : the classes, sorted.
    transduction_, label_distributions_ : class of every row of the cloud, and its probabilities [N, classes].
    geometry_weights_ : posterior weight of each geometry by name.
    surfaces_, latent_model_, chart_, latent_, notes_, best_setting_, candidates_ : as for `GPUMRegressor`.
    log_evidence_ : of the average.
    """

    def __init__(
        self,
        latent_dim: Any = "average",
        *,
        geometry: Any = ("graph", "flat"),
        latent_model: Any = "bgplvm",
        scale: str = "auto",
        kernel: str | KernelOptions = "auto",
        smoothness: str = "average",
        unlabelled: Any = AUTO,
        priors: Priors | None = None,
        warm_start: bool = False,
        checkpoint: Any = None,
        n_jobs: int | None = -1,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.latent_dim = latent_dim
        self.geometry = geometry
        self.latent_model = latent_model
        self.scale = scale
        self.kernel = kernel
        self.smoothness = smoothness
        self.unlabelled = unlabelled
        self.priors = priors
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, **refused: Any) -> Any:
        """Fit a cloud X [N, p] with classes y [N]; -1, NaN, None or "" where a row has no label (see `unlabelled`).

        Other arguments, such as `sample_weight`, are refused: a class that is known has no noise to weigh.
        """
        if refused:
            raise GpumTypeError(
                f"GPUMClassifier.fit was given {', '.join(refused)}; it takes X and y only, since a known class "
                "has no noise to weigh: leave it out, or leave the cells of y empty that are not to be believed"
            )
        with shell.fitting(self):
            cloud = self._read_cloud(X)
            y = annotated.labels(X, y)
            labels = ClassLabels.of(y, len(cloud), self.unlabelled, of_classes(checked(self.priors)))
            geometries = self._geometries(cloud, labels)
            labelled, output = infer(geometries, labels.known, labels.codes, len(labels.classes), self.priors)
            self.classes_ = labels.classes
            model = FittedModel(labelled.geometries, [output], classes=labels.classes, settings=shell.settings_of(self))
            self._store_model(model)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Any:
        """Add labels y of rows X to a fitted model; without one, as `fit`.

        The geometries stay as they were learned: rows that are not in the cloud are projected onto them. The posterior
        is that of all labels together, on the same candidates (of a loaded model: on those that had weight). A row of
        the cloud that has a label gets another observation; a row without a label adds nothing. y may hold classes that
        no label had before. `classes`: if given, y is checked to hold no others; it changes nothing else.
        """
        y = annotated.labels(X, y)
        if not self.__sklearn_is_fitted__():
            _check_among(split_labels(np.ravel(y), self.unlabelled)[1], classes)
            return self.fit(X, y)
        with shell.fitting(self):
            model, X = self.model_, shell.check_rows(self, X)
            labelled, labels = split_labels(_column(y, len(X)), model.settings["unlabelled"])
            _check_among(labels, classes)
            if not labelled.any():
                return self
            (output,) = model.outputs
            geometries, index = more_labels.with_rows(model.geometries, X, labelled[:, None], [output.rows])
            rows = np.concatenate([output.rows, index[labelled]])
            order = np.argsort(rows)
            everything = np.concatenate([model.classes[output.labels], _like(labels, model.classes)])
            self.classes_, codes = np.unique(everything, return_inverse=True)
            complete = geometries.candidate_set.complete
            at = geometries if complete else more_labels.with_candidates_of(geometries, output)
            priors = model.settings.get("priors")
            learned, refitted = infer(at, rows[order], codes[order], len(self.classes_), priors)
            geometries = learned.geometries if complete else geometries
            self._store_model(replace(model, geometries=geometries, outputs=[refitted], classes=self.classes_))
        return self

    def _geometries(self, cloud: Cloud, labels: ClassLabels) -> Geometries:
        from .plan import learn  # which needs JAX

        return learn(self, cloud, labels, OF_CLUSTERS, random=True)

    @blocks.lazy(lambda self: blocks.Answer((len(self.classes_),)))
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability of each class for rows X, of the cloud or new, [rows, classes]; lazy for a Dask collection."""
        return self.predictive(X).probabilities

    @blocks.lazy(lambda self: blocks.Answer(dtype=self.classes_.dtype))
    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of rows X, of the cloud or new."""
        p = self.predict_proba(X)
        return self.classes_[np.argmax(p, 1)]

    def decision_function(self, X: Any) -> np.ndarray:
        """Log probabilities [rows, classes]; with two classes the log odds of the second, [rows]."""
        log_p = np.log(np.maximum(self.predict_proba(X), 1e-300))  # some are exactly zero
        return log_p[:, 1] - log_p[:, 0] if len(self.classes_) == 2 else log_p

    @property
    def label_distributions_(self) -> np.ndarray:
        """Probability of each class for every row of the fitted cloud, [N, classes]."""
        return self.model_.of_cloud.probabilities.copy()

    @property
    def transduction_(self) -> np.ndarray:
        """The most probable class of every row of the fitted cloud."""
        return self.classes_[np.argmax(self.model_.of_cloud.probabilities, 1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the rows of X that have a label; NaN, with a warning, where there is none."""
        from sklearn.metrics import accuracy_score  # its module takes a twentieth of a second

        guess = self.predict(X)
        labelled, labels = split_labels(
            _column(annotated.labels(X, y), len(guess)), self.model_.settings.get("unlabelled", AUTO)
        )
        if not labelled.any():
            return no_score("y has no labelled row to score")
        weight = None if sample_weight is None else np.asarray(sample_weight)[labelled]
        return float(accuracy_score(labels, guess[labelled], sample_weight=weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.classifier_tags.poor_score = True  # on data without a surface, such as white noise
        return tags


@dataclass(frozen=True)
class ClassLabels:
    """The rows that have a label, their classes as positions in `classes`, and the sorted classes."""

    known: np.ndarray
    codes: np.ndarray
    classes: np.ndarray
    priors: Priors | None = None

    @classmethod
    def of(cls, y: Any, n: int, unlabelled: Any, priors: Priors | None = None) -> ClassLabels:
        """Labels y of n rows, checked; `unlabelled` is the estimator's parameter."""
        y = _column(y, n)
        labelled, labels = split_labels(y, unlabelled)
        if not labelled.any():
            raise GpumError(f"y has no labelled row; give the class of at least one row of each class; {FOLDS}")
        check_classification_targets(labels)
        classes, codes = np.unique(labels, return_inverse=True)
        _check_classes(classes, y, labelled, unlabelled)
        return cls(np.flatnonzero(labelled), codes, classes, priors)

    def evidence(self, geometries: Geometries) -> float:
        """The log evidence of some of them, of geometries; see `plan.LabelScores`."""
        scored = units.scored(len(self.known))
        _, output = infer(geometries, self.known[scored], self.codes[scored], len(self.classes), self.priors)
        return output.posterior.log_evidence

    def alone(self, geometries: Geometries) -> list[dict[str, float]]:
        """Nothing: how far a chart may be ahead of the graph was not studied for classes."""
        return []

    def left_out(self, geometries: Geometries) -> str:
        """How many labels the others predict, in words."""
        scored = units.scored(len(self.known))
        _, output = infer(geometries, self.known[scored], self.codes[scored], len(self.classes), self.priors)
        right = int(np.sum(output.posterior.left_out.argmax(1) == output.labels))
        return f"{right} of {len(output.labels)} left-out labels are predicted rightly"


def infer(
    geometries: Geometries, known: np.ndarray, codes: np.ndarray, n_classes: int, priors: Priors | None = None
) -> tuple[Labelled, ClassOutput]:
    """The posterior of classes, of which the rows `known` of the cloud have the `codes`; flat space has lengths."""
    with blas_threads(len(known)), with_jobs(geometries.kernels.n_jobs):
        if geometries.candidate_set.complete:
            numbers = as_numbers(codes, n_classes)
            labelled = with_lengths(geometries, known, numbers, normal_noise=False, classes=True, beside=ASKED)
        else:
            labelled = Labelled(geometries, *geometries.labelled(known, ASKED))
        candidate_set = labelled.candidate_set.under(of_classes(checked(priors)), labelled.geometries.names)
        atypical = 0.0 if geometries.cloud.many is None else ATYPICAL
        dimensions = effective_dimensions(candidate_set)
        posterior = classify(candidate_set, labelled.at, codes, n_classes, dimensions, atypical)
    return replace(labelled, candidate_set=candidate_set), ClassOutput(posterior, known, codes)


def _column(y: Any, n: int) -> np.ndarray:
    """y as an array [n]."""
    if y is None:
        raise GpumError("requires y to be passed, but the target y is None; give -1 or NaN for rows without a label")
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = column_or_1d(y, warn=True)
    if y.shape != (n,):
        raise GpumError(f"y has shape {y.shape}, but X has {n} rows; y must be [{n}]")
    if y.dtype.kind == "f" and np.isinf(y).any():
        row = int(np.flatnonzero(np.isinf(y))[0])
        raise GpumError(f"Input y contains infinity, the first at row {row}; mark rows without a label by NaN")
    return y


def _check_among(labels: np.ndarray, classes: Any) -> None:
    """Refuse labels that are not among `classes`; None: any may be."""
    other = [] if classes is None else np.setdiff1d(labels, np.asarray(classes)).tolist()
    if other:
        raise GpumError(f"y has the class {other[0]!r}, which is not among `classes`; add it there, or leave it out")


def _like(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Labels as the type of the classes of a fitted model; numbers are not taken for words, or words for numbers."""
    if (labels.dtype.kind in "US") != (classes.dtype.kind in "US"):
        kinds = ["words" if one.dtype.kind in "US" else "no words" for one in (labels, classes)]
        raise GpumError(
            f"y holds {kinds[0]}, but the classes of the model are {kinds[1]}; give classes of the same kind"
        )
    with np.errstate(invalid="ignore"):
        same = labels.astype(classes.dtype) if classes.dtype.kind in "iuf" else labels
    return same if np.array_equal(same, labels) else labels


def _check_classes(classes: np.ndarray, y: np.ndarray, known: np.ndarray, unlabelled: Any) -> None:
    """Refuse labels of a single class; where -1 may have been meant as another one, say so."""
    if len(classes) > 1:
        return
    problem = f"y has one class only, {classes[0].item()!r}"
    if is_auto(unlabelled) and split_labels(y, None)[0].sum() > known.sum():
        raise GpumError(
            f"{problem}, since -1 marks rows without a label; if -1 is a class, pass unlabelled=None (then only NaN, "
            "None and empty text mark such rows) or the value that marks them"
        )
    raise GpumError(f"{problem}; a classifier needs labels of at least two classes")
