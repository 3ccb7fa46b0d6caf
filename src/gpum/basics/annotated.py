"""Single cells as scanpy has them (an AnnData, or a file of one): the columns of the cells, and labels by name.

Cells are rows. Their columns are the principal components (`X_pca` of `obsm`) where there are some, else the genes
(`X`), or the matrix that is named: `X`, or one of `obsm` or of `layers`. Works on anything with these attributes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .checks import GpumError, counted, shown
from .encoding import Columns

COMPONENTS = "X_pca"
MOST = 1 << 27  # numbers of a sparse matrix that are written out: a gigabyte
MANY = 200  # genes, above which components are the better columns
ADVICE = (
    "normalise the counts of each cell, take their logarithm, then principal components (scanpy.pp.normalize_total, "
    "scanpy.pp.log1p, scanpy.pp.pca)"
)


def is_annotated(X: Any) -> bool:
    """Whether X is an AnnData."""
    return hasattr(X, "obsm") and hasattr(X, "obs")


def cell_columns(cells: Any, matrix: str | None = None) -> Columns:
    """The columns of the cells: `X_pca_1`, ... of a matrix of `obsm`, else the genes by their names."""
    name = matrix or (COMPONENTS if COMPONENTS in cells.obsm else "X")
    numbers = _dense(_matrix(cells, name), name)
    if numbers.ndim != 2:
        raise GpumError(f"the matrix {name} has shape {numbers.shape}; name one with a row for each cell")
    genes = name not in cells.obsm
    names = map(str, cells.var_names) if genes else (f"{name}_{k + 1}" for k in range(numbers.shape[1]))
    return Columns(list(names), list(numbers.T))


def like(cells: Any, names: list[str]) -> Columns:
    """The columns of the cells that have these names: of the matrix in which a fit found them."""
    stem = names[0].rpartition("_")[0]
    return cell_columns(cells, stem if stem in cells.obsm else "X")


def labels(X: Any, y: Any) -> Any:
    """y; where X is an AnnData and y the name of one of the columns of its `obs`, that column."""
    if not isinstance(y, str) or not is_annotated(X):
        return y
    if y not in X.obs:
        raise GpumError(f"y is {shown(y)}, but obs has no such column; it has {', '.join(map(str, X.obs)) or 'none'}")
    return np.asarray(X.obs[y])


def cell_advice(columns: Columns, matrix: str = "X") -> str | None:
    """What to do first with columns that are genes, if they hold counts or are many; None: nothing."""
    values = np.stack([cells[:1000] for cells in columns.cells[:MANY]])
    counts = values.max(initial=0) > 1 and values.min(initial=0) >= 0 and bool(np.all(values == np.round(values)))
    if counts:
        return f"{matrix} holds counts, whose noise grows with their size: {ADVICE}; this matters more than any setting"
    if len(columns.names) > MANY:
        what = f"{matrix} has {counted(len(columns.names), 'gene')}"
        return f"{what}: a few dozen principal components (scanpy.pp.pca) are quicker, and usually more accurate"
    return None


def _matrix(cells: Any, name: str) -> Any:
    if name == "X":
        return cells.X
    for group in (cells.obsm, cells.layers):
        if name in group:
            return group[name]
    known = ["X", *cells.obsm, *cells.layers]
    raise GpumError(f"there is no matrix {shown(name)} of the cells; there are {', '.join(map(str, known))}")


def _dense(matrix: Any, name: str) -> np.ndarray:
    """The numbers [cells, columns] of a matrix, of a sparse one if they fit into the memory."""
    from scipy.sparse import issparse

    if matrix is None:
        raise GpumError(f"the matrix {name} of the cells is empty; name one of obsm or layers")
    if not issparse(matrix):
        return np.asarray(matrix, float)
    if np.prod(matrix.shape, dtype=float) > MOST:
        shape = " × ".join(f"{size:,}" for size in matrix.shape)
        raise GpumError(f"the matrix {name} is sparse, {shape}, and would fill the memory; {ADVICE}")
    return matrix.toarray().astype(float)
