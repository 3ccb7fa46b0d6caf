"""Pictures of charts, atlases and fits: each function takes `ax=` (of several panels `axes=`) and returns its Axes."""

from .charts import plot_atlas, plot_boundary, plot_cloud, plot_magnification, plot_paths, plot_surface, plot_variance
from .fits import (
    plot_ard,
    plot_bound,
    plot_calibration,
    plot_diagnostics,
    plot_evidence,
    plot_geometries,
    plot_latent,
    plot_leave_one_out,
    plot_prediction,
    plot_relevance,
    plot_residuals,
)
from .panels import overview

__all__ = [
    "overview",
    "plot_ard",
    "plot_atlas",
    "plot_bound",
    "plot_boundary",
    "plot_calibration",
    "plot_cloud",
    "plot_diagnostics",
    "plot_evidence",
    "plot_geometries",
    "plot_latent",
    "plot_leave_one_out",
    "plot_magnification",
    "plot_paths",
    "plot_prediction",
    "plot_relevance",
    "plot_residuals",
    "plot_surface",
    "plot_variance",
]
