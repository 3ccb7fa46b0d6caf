"""The one place where tests reach into what is private: names here follow the source, tests do not."""

from copy import copy
from dataclasses import replace

import numpy as np

from gpum.app.report import document
from gpum.basics import workers
from gpum.estimators import subset
from gpum.fitted import Geometries, cloud, rows
from gpum.geometry import candidate_set, graphs
from gpum.geometry.chart import ChartGeometry, levels_of
from gpum.gplvm import optimise, projection
from gpum.heat import brownian, spectral
from gpum.inference import classes, gp

# Sizes at which the library changes its ways, lowered so that small problems go the ways of large ones.
SIZES = {
    "rows_learned_from": (cloud, "SUBSET"),
    "seconds_of_learning": (subset, "WORK"),
    "rows_of_smooth_graphs": (cloud, "SMOOTH_ROWS"),
    "rows_at_once": (rows, "BLOCK"),
    "rows_projected_at_once": (rows, "PROJECTED"),
    "scales": (candidate_set, "SCALES"),
    "labels_unscreened": (gp, "SCREEN"),
    "labels_for_screening": (gp, "SCREENED"),
    "labels_decomposed": (gp, "LARGEST"),
    "modes_of_a_mesh": (spectral, "MAX_MODES"),
    "modes_of_a_graph": (graphs, "MODES"),
    "rows_of_a_graph_with_all_modes": (graphs, "ALL"),
    "rows_of_a_dense_graph": (graphs, "DENSE"),
    "labels_of_classes_unscreened": (classes, "CLASS_CANDIDATES"),
    "labels_of_classes_with_low_rank": (classes, "EXACT"),
    "labels_of_classes_with_full_rank": (classes, "FULL_RANK"),
    "rows_of_a_report": (document, "SHOWN_ROWS"),
    "paths_of_a_task": (brownian, "AT_ONCE"),
}


def lower(monkeypatch, **sizes):
    """Set some of SIZES."""
    for name, value in sizes.items():
        monkeypatch.setattr(*SIZES[name], value)


def learned(model):
    """The first geometry of a fitted estimator: the same object where geometries were not learned again."""
    return members(model)[0]


def members(model):
    """The chart, atlas, graph and so on of a fitted estimator."""
    return model.model_.geometries.members


def features(model):
    """What stands for the rows in each space of a fitted estimator, such as values of eigenfunctions, [N, k] each."""
    return model.model_.geometries.candidate_set.rows


def weighed(model, geometries, weights):
    """A copy of a fitted estimator as if it had these geometries, with these weights."""
    true = model.model_.geometries
    found, held = copy(model), _Weighed(true.cloud, list(geometries), true.candidate_set, true.kernels)
    object.__setattr__(held, "given", np.array(weights))
    found._fitted = replace(model.model_, geometries=held)
    return found


class _Weighed(Geometries):
    """Geometries with given weights."""

    def weights(self, posterior):
        return self.given


def each_round(monkeypatch, change):
    """Every round of an optimisation is `change(number, run, args)`, where run(*args) is the round itself."""
    true_round, numbers = optimise._round, []

    def run(*args):
        numbers.append(0)
        return change(len(numbers), true_round, args)

    monkeypatch.setattr(optimise, "_round", run)


def handed_out(monkeypatch):
    """A list that grows by each task that joblib's workers get."""
    tasks, true_delayed = [], workers.delayed

    def delayed(run):
        def with_task(task):
            tasks.append(task)
            return true_delayed(run)(task)

        return with_task

    monkeypatch.setattr(workers, "delayed", delayed)
    return tasks


def compiled():
    """How many programs there are of each kind that a latent model compiles."""
    projections = (projection._ascend, projection.decoder)
    programs = (optimise._value_and_gradient, *projections)
    return [program._cache_size() for program in programs]


def finalists(model):
    """The fits of a latent model that reached the end, best first."""
    return model._finalists


def located(model, X):
    """Rows on the surface of a fitted latent model."""
    return model._mesh.surface.project(X)


def chart_geometry(model, rows):
    """The chart of a fitted estimator as it was before its kernels were made, with nothing cached."""
    latent = model.latent_model_
    return ChartGeometry(model.chart_, rows, latent._mesh, latent)


def geometry_of(latent):
    """The chart of a fitted latent model with its own rows, and nothing cached."""
    return ChartGeometry(latent.chart_, latent.latent_, latent._mesh, latent)


def first_domain(geometry, task):
    """The key of the eigenfunctions of a chart's first boundary level in its store, and these."""
    level = levels_of(geometry.chart, task.options.boundary)[0][0]
    return geometry._key(task, level), geometry._domain(task, level)


def computed(store):
    """How many results a store has."""
    return sum(entry.made for entry in store._entries.values())
