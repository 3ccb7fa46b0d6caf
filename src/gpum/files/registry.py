"""Which classes a model file may hold. A class that is not listed here is neither written nor built."""

from __future__ import annotations

from importlib import import_module

# Module (of gpum, unless it has a dot in front), and the classes of it. Of a dataclass its fields are stored, of
# another class its attributes; what `_stored()` returns instead, where a class has it. See `tree`.
KNOWN: dict[str, str] = {
    "files.model_io": "Fitted",
    "gplvm.mapping": "Mapping",
    "gplvm.missing": "Filled",
    "gplvm.optimise": "Progress",
    "gplvm.race": "Fit",
    "gplvm.scaling": "Scaling",
    "geometry.analytic": "SwissRoll",
    "geometry.atlas": "Surface",
    "geometry.boundary": "CorridorBoundary VarianceBoundary",
    "geometry.complex": "Complex",
    "geometry.learned": "LearnedChart",
    "geometry.stars": "Stars",
    "geometry.straight": "StraightChart",
    "heat.atlas": "Atlas AtlasEigenpairs",
    "heat.elements": "ComplexEigenpairs Curves",
    "heat.histograms": "Accuracy CleanFeatures InducedFeatures PathFeatures",
    "heat.mesh": "Mesh",
    "heat.paths": "Cells",
    "heat.spectral": "Eigenpairs",
    "heat.walks": "Nodes Walk WalkFeatures",
    "regression.again": "Diffusion Domain LocalCharts Neighbours Walks",
    "regression.classes": "ClassPosterior Part",
    "regression.covariances": "Features Spectral Stationary",
    "regression.family": "Family Setting",
    "regression.graphs": "DiffusionSpace GraphSpace",
    "regression.likelihoods": "StudentPosterior",
    "regression.observations": "Counts Shares",
    "regression.incomplete": "IncompleteSurface",
    "regression.posterior": "Decomposed Part Posterior",
    "regression.outputs": "Angle ClassOutput KnownNoise Observed Output",
    "regression.path_spaces": "PathRows PathSpace",
    "regression.spaces": "PlaneSpace ScaledSpace SpectralSpace",
    "regression.surfaces": "AtlasSurface ChartSurface FlatSurface GraphSurface NamedSurface Wanted",
    "estimators.classifier": "GPUMClassifier",
    "estimators.comparison": (
        "EuclideanGPRegressor GraphLaplacianGPRegressor GraphMaternGPRegressor LatentGPRegressor"
    ),
    "estimators.latent_models": "BayesianGPLVM GPLVM",
    "estimators.regressor": "GPUMRegressor",
    "fitted.cloud": "Cloud",
    "fitted.geometries": "Geometries",
    "fitted.stored": "StoredModel",
    "report.labelling.learned": "LearnedGeometries",
    ".sklearn.frozen._frozen": "FrozenEstimator",
}
METHODS = {"placement"}  # of known classes, that an object may hold


def name_of(cls: type) -> str | None:
    """The name under which a class is stored; None for one that is not known."""
    module = cls.__module__.removeprefix("gpum.") if cls.__module__.startswith("gpum.") else f".{cls.__module__}"
    return f"{module}.{cls.__qualname__}" if cls.__qualname__ in KNOWN.get(module, "").split() else None


def class_of(name: str) -> type | None:
    """The class that is stored under a name; None for a name that is not known."""
    module, _, cls = name.rpartition(".")
    if cls not in KNOWN.get(module, "").split():
        return None
    return getattr(import_module(module[1:] if module.startswith(".") else f"gpum.{module}"), cls)
