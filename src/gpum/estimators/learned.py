"""The geometries of a table, learned once and stored beside it: `data.csv.geometry`.

Unlike a model file, this file holds every geometry and kernel that was built, in the same format: numbers and words, no
code (`persistence.container`). It is used only for the same numbers, settings and version; otherwise geometries are
learned again.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..basics.checks import GpumError
from ..fitted import Geometries
from ..persistence import container, model_io
from .plan import INTERRUPTED, reuse
from .shell import NOT_RESULTS

ENDING = ".geometry"
# First bytes of files that may be replaced; the second is an older format.
OURS = (container.MAGIC, b"GPUM geometry, sealed ")
DUMMY = (0, -1)  # rows with artificial labels while geometries are learned, which do not depend on labels


@dataclass(frozen=True)
class LearnedGeometries:
    """Geometries, with the rows, estimator, settings and version for which they were learned (`about_fit`)."""

    about: dict[str, Any]
    geometries: Geometries

    def __gpum_summary__(self) -> dict[str, Any]:
        """The summary that `gpum info` prints."""
        charts = [title for title in self.geometries.titles if title.startswith("chart")]
        return {
            "kind": "geometries of a table, for `gpum label`", "version": __version__, "rows": self.about["rows"],
            "n_features": self.about["columns"], "settings": self.about["settings"], "map": next(iter(charts), None),
        }  # fmt: skip

    def __gpum_restored__(self) -> None:
        """Check the type and the number of rows."""
        geometries = self.geometries
        if not isinstance(geometries, Geometries):
            raise GpumError("its geometries are missing")
        candidate_set, N = geometries.candidate_set, len(geometries.cloud.learned)
        graphs = N if geometries.cloud.many is None else len(geometries.cloud.many)
        if not candidate_set.candidates:
            raise GpumError("its settings are missing")
        if not all(
            isinstance(rows, np.ndarray) and rows.ndim == 2 and len(rows) in (N, graphs) for rows in candidate_set.rows
        ):
            raise GpumError(f"a space does not have the {N} rows from which its geometry was learned")
        if not all(
            isinstance(at, np.ndarray) and len(at) == len(geometries.cloud) for at in geometries.places.values()
        ):
            raise GpumError(f"a geometry does not have the {len(geometries.cloud)} rows of the cloud")


def beside(table: Path) -> Path:
    """The file of the geometries of a table."""
    return table.with_name(table.name + ENDING)


def stored(model: Any, X: np.ndarray, path: Path) -> Geometries | None:
    """The geometries at `path`, if they are of this model and these rows, else None; a foreign file is an error."""
    if not path.exists():
        return None
    with path.open("rb") as file:
        if not file.read(max(map(len, OURS))).startswith(OURS):
            raise GpumError(
                f"{path} is not a file of gpum, and the geometry would replace it; move it away, or give "
                "the table another name"
            )
    try:
        content = model_io.read(path)
    except GpumError:  # damaged, or of another format: geometries are learned again
        return None
    ours = isinstance(content, LearnedGeometries) and content.about == about_fit(model, X)
    return content.geometries if ours and content.geometries.cloud.X.shape == X.shape else None


def learn(
    model: Any, X: np.ndarray, path: Path, geometries: Geometries | None = None, like: Any = None, given: Any = None
) -> Any:  # fmt: skip
    """`model` (with warm_start), fitted with these geometries, or with new ones that are stored at `path`.

    A new file has the permissions of the file `like`: it holds the numbers of the table. `given` are the columns of
    which X are the encoded numbers, if some of them are not numbers.
    """
    columns = X if given is None else given
    if geometries is not None:
        reuse(model, columns, geometries)
    y = np.full(len(X), np.nan)
    y[list(DUMMY)] = 0.0, 1.0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the scale of largest evidence", UserWarning)  # of the artificial labels
        model.fit(columns, y)
    if INTERRUPTED in model.notes_:  # a file of some of the geometries would be used as if they were all
        raise KeyboardInterrupt
    if geometries is None:
        learned = model.model_.geometries
        plain = replace(learned, kernels=replace(learned.kernels, n_jobs=None, verbose=0))
        model_io.write(path, LearnedGeometries(about_fit(model, X), plain), force=True, like=like)
    return model


def about_fit(model: Any, X: np.ndarray) -> dict[str, Any]:
    """The values that must be equal so that stored geometries can be used."""
    settings = {k: repr(v) for k, v in model.get_params(deep=False).items() if k not in NOT_RESULTS}
    numbers = sha256(np.ascontiguousarray(X).tobytes()).hexdigest()
    return {
        "version": __version__, "kind": type(model).__name__, "rows": len(X), "columns": X.shape[1],
        "sha256": numbers, "settings": settings,
    }  # fmt: skip
