"""The classes that a model file may hold, and the tag of each.

A tag never changes, even if the class is renamed or moved: files of every 1.x identify classes by it. A class that is
not listed here is neither written nor built.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

# For a dataclass its fields are stored, for another class its attributes; if a class has `__gpum_state__()`, what that
# returns (see `tree`). Modules are relative to gpum, unless they begin with a dot.
TAGS: dict[str, str] = {
    "table-and-model": "persistence.model_io:Fitted",
    # estimators
    "GPUMRegressor": "estimators.regressor:GPUMRegressor",
    "GPUMClassifier": "estimators.classifier:GPUMClassifier",
    "EuclideanGPRegressor": "estimators.comparison:EuclideanGPRegressor",
    "LatentGPRegressor": "estimators.comparison:LatentGPRegressor",
    "GraphLaplacianGPRegressor": "estimators.comparison:GraphLaplacianGPRegressor",
    "GraphMaternGPRegressor": "estimators.comparison:GraphMaternGPRegressor",
    "BayesianGPLVM": "estimators.latent_models:BayesianGPLVM",
    "GPLVM": "estimators.latent_models:GPLVM",
    "frozen-estimator": ".sklearn.frozen._frozen:FrozenEstimator",
    # the fitted model
    "model": "fitted.model:FittedModel",
    "cloud": "fitted.cloud:Cloud",
    "encoding": "basics.encoding:Encoding",
    "encoding-column": "basics.encoding:Column",
    "geometries": "fitted.geometries:Geometries",
    "geometries-of-table": "estimators.learned:LearnedGeometries",
    # posteriors
    "output": "inference.outputs:Output",
    "target": "inference.target:Target",
    "output-log-normal": "inference.log_normal:LogNormal",
    "output-known-noise": "inference.outputs:KnownNoise",
    "output-observed": "inference.outputs:CountOutput",
    "output-angle": "inference.outputs:Angle",
    "output-classes": "inference.outputs:ClassOutput",
    "posterior": "inference.posterior:Posterior",
    "posterior-student": "inference.likelihoods:StudentPosterior",
    "posterior-classes": "inference.class_posterior:ClassPosterior",
    "component": "inference.posterior:Component",
    "component-classes": "inference.class_posterior:ClassComponent",
    "considered": "inference.tempered:Considered",
    "doubt": "inference.tempered:TemperedWeights",
    "decomposition": "inference.exact:Decomposed",
    "decomposition-of-low-rank": "inference.exact:LowRank",
    "nearest-labels": "inference.nearest:Nearest",
    "sites": "inference.likelihoods:Sites",
    "counts": "inference.observations:PoissonCounts",
    "successes": "inference.observations:BinomialCounts",
    # geometries, their spaces and settings
    "kernel-options": "geometry.options:KernelOptions",
    "kernel-task": "geometry.options:KernelTask",
    "scaled-geometry": "geometry.base:ScaledGeometry",
    "surface-geometry": "geometry.base:SurfaceGeometry",
    "surface": "manifold.surface:Surface",
    "user-mesh": "heat.meshes:Mesh",
    "node-features": "geometry.features:NodeFeatures",
    "sealed": "persistence.model_io:Sealed",
    "graph-geometry": "geometry.graphs:GraphGeometry",
    "flat-geometry": "geometry.flat:FlatGeometry",
    "incomplete-geometry": "geometry.base:IncompleteGeometry",
    "unweighted-geometry": "geometry.base:UnweightedGeometry",
    "priors": "geometry.priors:Priors",
    "family": "geometry.candidate_set:CandidateSet",
    "setting": "geometry.candidate_set:Candidate",
    "graph-space": "geometry.features:GraphSpace",
    "diffusion-space": "geometry.features:DiffusionSpace",
    "scaled-space": "geometry.features:ScaledSpace",
    "induced-space": "geometry.features:InducedSpace",
    "separate-space": "geometry.features:SeparateSpace",
    "connected-components": "geometry.features:Components",
    # kernels
    "covariance-features": "heat.covariances:Features",
    "covariance-spectral": "heat.covariances:Spectral",
    "covariance-stationary": "heat.covariances:Stationary",
    "covariance-combined": "heat.terms:Combined",
    "term-surface": "heat.terms:OfSurface",
    "term-columns": "heat.terms:OfColumns",
    "term-periodic": "heat.terms:PeriodicOf",
    "term-linear": "heat.terms:LinearOf",
    "term-sum": "heat.terms:SumOf",
    "term-product": "heat.terms:ProductOf",
    "kernel-surface": "geometry.kernels:Surface",
    "kernel-heat": "geometry.kernels:Heat",
    "kernel-matern": "geometry.kernels:Matern",
    "kernel-periodic": "geometry.kernels:Periodic",
    "kernel-linear": "geometry.kernels:Linear",
    "kernel-sum": "geometry.kernels:Sum",
    "kernel-product": "geometry.kernels:Product",
    # what the folder of a store holds beside
    "finished-start": "gplvm.multistart:Finished",
    "chart-domain": "geometry.chart:Domain",
    "complex": "manifold.complex:Complex",
    "mesh-eigenpairs": "heat.spectral:Eigenpairs",
    "mesh": "heat.domain_mesh:DomainMesh",
    "paths-at-nodes": "geometry.path_spaces:PathFeatures",
    "atlas-geometry": "geometry.atlas:AtlasGeometry",
    "atlas": "heat.atlas:Atlas",
    "atlas-eigenpairs": "heat.spectra:Spectrum",
    "simplicial-surface": "manifold.atlas:SimplicialSurface",
    "stars": "manifold.stars:Stars",
    # charts
    "SwissRoll": "manifold.analytic:SwissRoll",
    "learned-chart": "manifold.learned:LearnedChart",
    "boundary-corridors": "manifold.boundary:CorridorBoundary",
    "boundary-variance": "manifold.boundary:VarianceBoundary",
    # latent models
    "mapping": "gplvm.mapping:Mapping",
    "fit-of-start": "gplvm.multistart:Fit",
    "optimiser-progress": "gplvm.optimise:Progress",
    "scaling": "basics.scaling:Scaling",
    "filled-rows": "basics.missing:Filled",
}

# Fields that were renamed, by tag: the name in older files and the present one.
RENAMED: dict[str, dict[str, str]] = {
    "family": {"settings": "candidates"},
    "geometries": {"family": "candidate_set"},
    "component": {"setting": "candidate"},
    "component-classes": {"setting": "candidate"},
    "posterior": {"doubt": "tempered"},
    "posterior-student": {"doubt": "tempered"},
}


def tag_of(cls: type) -> str | None:
    """The tag of a class; None for one that is not known."""
    module = cls.__module__.removeprefix("gpum.") if cls.__module__.startswith("gpum.") else f".{cls.__module__}"
    return _tags().get(f"{module}:{cls.__qualname__}")


def class_of(tag: str) -> type | None:
    """The class of a tag; None for a tag that is not known."""
    if tag not in TAGS:
        return None
    module, _, name = TAGS[tag].partition(":")
    return getattr(import_module(module[1:] if module.startswith(".") else f"gpum.{module}"), name)


@cache
def _tags() -> dict[str, str]:
    return {where: tag for tag, where in TAGS.items()}
