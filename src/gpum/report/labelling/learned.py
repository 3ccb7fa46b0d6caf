"""The geometries of a table, learned once and kept beside it: `data.csv.geometry`.

The file holds every geometry and kernel that was built, which a model file does not, in the same format: numbers and
words, no code (`persistence.container`). It is used for the same numbers, settings and version only; else geometries
are learned anew.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from ... import __version__
from ...basics.checks import GpumError
from ...estimators.learning import reuse
from ...estimators.stored import NOT_RESULTS
from ...fitted import Cloud, Geometries
from ...geometry.family import Family, Setting
from ...persistence import container, model_io

ENDING = ".geometry"
OURS = (container.MAGIC, b"GPUM geometry, sealed ")  # how files begin that may be replaced; the second is an older form
DUMMY = (0, -1)  # rows that get made-up labels while geometries are learned, which do not depend on them


@dataclass(frozen=True)
class LearnedGeometries:
    """Geometries, and for which rows, estimator, settings and version they were learned (`about_fit`)."""

    about: dict[str, Any]
    geometries: Geometries

    def file_summary(self) -> dict[str, Any]:
        """What `gpum info` says of it."""
        charts = [title for title in self.geometries.titles if title.startswith("chart")]
        return {
            "kind": "geometries of a table, for `gpum label`", "version": __version__, "rows": self.about["rows"],
            "n_features": self.about["columns"], "settings": self.about["settings"], "map": next(iter(charts), None),
        }  # fmt: skip

    def check_restored(self) -> None:
        """Every part is of its kind, indices are in their ranges, and all rows are there."""
        found = self.geometries
        if not (isinstance(found, Geometries) and isinstance(found.cloud, Cloud) and isinstance(found.family, Family)):
            raise GpumError("its geometries are not there")
        family, n, N = found.family, len(found.family.spaces), len(found.cloud.learned)
        known = all(isinstance(setting, Setting) and 0 <= setting.space < n for setting in family.settings)
        if not (family.settings and known):
            raise GpumError("its settings do not belong to its spaces")
        if not len(family.rows) == len(family.geometry_of) == n or not all(
            0 <= o < len(found.members) for o in family.geometry_of
        ):
            raise GpumError("its spaces do not belong to its geometries")
        if not all(isinstance(rows, np.ndarray) and rows.ndim == 2 and len(rows) == N for rows in family.rows):
            raise GpumError(f"a space has not the {N} rows that its geometry was learned from")
        if not all(isinstance(at, np.ndarray) and len(at) == len(found.cloud) for at in found.coordinates.values()):
            raise GpumError(f"a geometry has not the {len(found.cloud)} rows of the cloud")


def beside(table: Path) -> Path:
    """Where the geometries of a table are kept."""
    return table.with_name(table.name + ENDING)


def kept(model: Any, X: np.ndarray, path: Path) -> Geometries | None:
    """The geometries at `path`, if whole and of this model and these rows; a foreign file there is an error."""
    if not path.exists():
        return None
    with path.open("rb") as file:
        if not file.read(max(map(len, OURS))).startswith(OURS):
            raise GpumError(
                f"{path} is no file of gpum, and the geometry would be written in its place; move it away, or give "
                "the table another name"
            )
    try:
        found = model_io.read(path)
    except GpumError:  # damaged, or of another format: learned anew
        return None
    ours = isinstance(found, LearnedGeometries) and found.about == about_fit(model, X)
    return found.geometries if ours and found.geometries.cloud.rows.shape == X.shape else None


def learn(model: Any, X: np.ndarray, path: Path, found: Geometries | None = None, like: Any = None) -> Any:
    """`model` (with warm_start), fitted with the geometries that were `found`, or learned and kept at `path`.

    A new file has the permissions of the file `like`: it holds the numbers of the table.
    """
    if found is not None:
        reuse(model, X, found)
    y = np.full(len(X), np.nan)
    y[list(DUMMY)] = 0.0, 1.0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the scale of largest evidence", UserWarning)  # of the made-up labels
        model.fit(X, y)
    if found is None:
        learned = model.model_.geometries
        plain = replace(learned, kernels=replace(learned.kernels, n_jobs=None, verbose=0))
        model_io.write(path, LearnedGeometries(about_fit(model, X), plain), force=True, like=like)
    return model


def about_fit(model: Any, X: np.ndarray) -> dict[str, Any]:
    """What must be the same for geometries to be used again, as plain words."""
    settings = {k: repr(v) for k, v in model.get_params(deep=False).items() if k not in NOT_RESULTS}
    numbers = sha256(np.ascontiguousarray(X).tobytes()).hexdigest()
    return {
        "version": __version__, "kind": type(model).__name__, "rows": len(X), "columns": X.shape[1],
        "sha256": numbers, "settings": settings,
    }  # fmt: skip
