"""The cloud of a fit: its checked rows, scaled, and the rows among them that geometries are learned from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np

from ..basics import neighbours
from ..basics.checks import GpumError

SUBSET = 3000  # rows from which geometries are learned where these show the shape of the cloud, in about a minute
GRAPH_ROWS = 100_000  # rows on which graphs are built, at most
SMOOTH_ROWS = 10_000  # the same on a smooth surface, which fewer rows resolve
COPIES = 10  # rows from which geometries are learned if more than SUBSET rows are all equal
COVERING = 20  # one in so many rows of a random subset is chosen to cover the cloud, so that small groups are included
REPEATED = 100  # rows count as observed repeatedly where more than one row in so many is a copy
LARGEST_ENTRY = 1e100  # entries of new rows, in units of the cloud, are limited to this size
OF_ROWS = ("rows", "distinct", "repeated", "_copies")  # what is computed of the rows, once


@dataclass(frozen=True, eq=False)
class Cloud:
    """The rows of a fit, [N, p].

    Attributes
    ----------
    X : the rows as given, NaN where a reading is missing.
    unit : the number that the rows are divided by, or one number for each column [p].
    rows : the rows in these units.
    subset : indices of the rows that geometries are learned from, ascending; None: all.
    many : indices of the rows of a large cloud that graphs are built on, ascending; None: as for other geometries.
    offset : what is subtracted before, 0 or one number for each column [p]: see `scaling.far_offsets`.
    surface : the columns of X that geometries see; None: all. `rows`, `unit` and `offset` are of these.
    of_terms : the columns of X that further terms of the kernel see, ascending; None: there are no such terms.
    """

    X: np.ndarray
    unit: np.ndarray | float
    subset: np.ndarray | None = None
    offset: np.ndarray | float = 0.0
    many: np.ndarray | None = None
    surface: np.ndarray | None = None
    of_terms: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.X)

    @cached_property
    def rows(self) -> np.ndarray:
        """The rows in units of the fit, [N, p]."""
        return self.centred if np.all(self.unit == 1) else self.centred / self.unit

    @property
    def centred(self) -> np.ndarray:
        """The rows less the offset, [N, p]."""
        X = self._of_surface(self.X)
        return X if np.all(self.offset == 0) else X - self.offset

    def _of_surface(self, X: np.ndarray) -> np.ndarray:
        return X if self.surface is None else X[:, self.surface]

    @property
    def term_values(self) -> np.ndarray | None:
        """The columns that further terms of the kernel see, [N, c]; None where there are none."""
        return None if self.of_terms is None else self.X[:, self.of_terms]

    def _values_of_terms(self, X: np.ndarray) -> np.ndarray | None:
        """The same of rows X [n, p], which must be complete there."""
        if self.of_terms is None:
            return None
        values = X[:, self.of_terms]
        if np.isnan(values).any():
            row, column = map(int, np.argwhere(np.isnan(values))[0])
            raise GpumError(
                f"X has no reading at row {row} in column {self.of_terms[column]}, which a term of the kernel (or the "
                "linear mean) needs; fill it in, or leave the row out"
            )
        return np.clip(values, -LARGEST_ENTRY, LARGEST_ENTRY)

    def changed(self, **fields: Any) -> Cloud:
        """A cloud with other `fields`; what was computed of its rows is not computed again unless the rows change."""
        changed = replace(self, **fields)
        if np.array_equal(changed.unit, self.unit) and np.array_equal(changed.offset, self.offset):
            vars(changed).update({name: vars(self)[name] for name in OF_ROWS if name in vars(self)})
        return changed

    @property
    def original(self) -> np.ndarray:
        """The index of the first row equal to each row, [N]: its own index, unless it is a copy."""
        return self._copies[1]

    def _whole_index(self, X: np.ndarray, index: np.ndarray) -> np.ndarray:
        """As `index` [n], the indices of rows X on the surface, of rows that are equal in all columns, [n]."""
        if self.of_terms is None:
            return index
        first, values = self._whole_copies[0], X[:, self.of_terms]
        return np.array([first.get((i, _key(v)), -1) for i, v in zip(index.tolist(), values, strict=True)], int)

    @property
    def whole_original(self) -> np.ndarray:
        """As `original`, of rows that are equal in all columns, also those that only terms of the kernel see."""
        return self.original if self.of_terms is None else self._whole_copies[1]

    @cached_property
    def _whole_copies(self) -> tuple[dict[tuple[int, bytes], int], np.ndarray]:
        """As `_copies`, by the index of the row's first occurrence on the surface, and its other columns."""
        assert self.of_terms is not None
        first: dict[tuple[int, bytes], int] = {}
        keys = zip(self.original.tolist(), map(_key, self.X[:, self.of_terms]), strict=True)
        return first, np.array([first.setdefault(key, i) for i, key in enumerate(keys)], int)

    @cached_property
    def distinct(self) -> np.ndarray:
        """Indices of the rows that are no copies of earlier ones, ascending."""
        return np.flatnonzero(self.original == np.arange(len(self)))

    @property
    def large(self) -> bool:
        """Whether there are more than SUBSET distinct rows."""
        return len(self.distinct) > SUBSET

    @cached_property
    def repeated(self) -> bool:
        """Whether more than a few rows, one in REPEATED, are copies of others."""
        return bool(np.mean(self.whole_original != np.arange(len(self))) > 1 / REPEATED)

    def with_rows(self, X: np.ndarray) -> Cloud:
        """The cloud with further rows X [n, p] at its end, from which no geometry is learned."""
        subset = np.arange(len(self)) if self.subset is None else self.subset
        return replace(self, X=np.concatenate([self.X, X]), subset=subset)

    def _learned_at(self, index: np.ndarray, n_rows: int | None = None) -> np.ndarray:
        """Positions of rows `index` among those that a geometry is learned from; -1 for all other rows.

        A geometry of `n_rows` rows, other than the subset has, is a graph of the rows `many`.
        """
        if self.subset is None:
            return index
        rows = self.subset if self.many is None or n_rows in (None, len(self.subset)) else self.many
        position = np.full(len(self), -1)
        position[rows] = np.arange(len(rows))
        return np.where(index < 0, -1, position[self.original[index]])

    @property
    def learned(self) -> np.ndarray:
        """The rows that geometries are learned from."""
        return self.rows if self.subset is None else self.rows[self.subset]

    @property
    def of_graphs(self) -> np.ndarray:
        """The rows that graphs are built on."""
        if self.many is None:
            return self.learned
        return self.rows if len(self.many) == len(self) else self.rows[self.many]

    @property
    def units(self) -> str:
        """A description of the units of the columns."""
        if np.ndim(self.unit) == 0:
            return "as they come"
        return f"each divided by its spread, {np.min(self.unit):.3g} to {np.max(self.unit):.3g}"

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        """Rows X [n, p], of the cloud or new, in the units of `rows`."""
        with np.errstate(over="ignore"):
            return np.clip((self._of_surface(X) - self.offset) / self.unit, -LARGEST_ENTRY, LARGEST_ENTRY)

    def unscaled(self, rows: np.ndarray) -> np.ndarray:
        """Rows [n, p] in the units of `rows`, in those in which X came (of the columns that geometries see)."""
        return rows * self.unit + self.offset

    def _index(self, rows: np.ndarray) -> np.ndarray:
        """Indices in the cloud of scaled rows, -1 for new rows, [n]."""
        first = self._copies[0]
        return np.array([first.get(_key(row), -1) for row in rows], int)

    @cached_property
    def _copies(self) -> tuple[dict[bytes, int], np.ndarray]:
        """The index of the first occurrence of each row: by the key of the row, and for each row, [N]."""
        first: dict[bytes, int] = {}
        return first, np.array([first.setdefault(_key(row), i) for i, row in enumerate(self.rows)], int)

    def __gpum_restored__(self) -> None:
        """Refuse a stored cloud that is not consistent."""
        unit = np.asarray(self.unit)
        for columns in (self.surface, self.of_terms):
            if columns is not None and not (columns.ndim == 1 and len(columns) and _are_rows(columns, self.X.shape[1])):
                raise GpumError("its kernel has columns that are not there")
        p = self.X.shape[1:] if self.surface is None else self.surface.shape
        if self.X.ndim != 2 or self.X.dtype != float or unit.shape not in ((), p):
            raise GpumError(f"its cloud has shape {self.X.shape} and units of shape {unit.shape}")
        if unit.dtype.kind not in "fi" or not np.all(np.isfinite(unit) & (unit > 0)):
            raise GpumError("the units of its columns are not positive numbers")
        offset = np.asarray(self.offset)
        if offset.shape not in ((), p) or offset.dtype.kind not in "fi" or not np.isfinite(offset).all():
            raise GpumError("the offsets of its columns are not numbers")
        for rows in (self.subset, self.many):
            if rows is not None and not (rows.ndim == 1 and _are_rows(rows, len(self.X))):
                raise GpumError("its geometries were learned from rows that are not there")
        if self.many is not None and (self.subset is None or len(self.many) <= len(self.subset)):
            raise GpumError("its graphs were built on more rows than other geometries, but these are missing")


def with_subset(
    cloud: Cloud, seed: int, random: bool = False, size: int | None = None
) -> tuple[Cloud, list[str]]:  # fmt: skip
    """The cloud with the subset of rows that geometries are learned from, and notes about it.

    Copies of a row count once; each copy keeps its own label. Of more than SUBSET distinct rows a subset of `size` rows
    (default: SUBSET) is chosen that covers the cloud; with `random` most of it is drawn at random instead, so that it
    shows where rows are few.
    """
    notes, n, distinct = [], len(cloud), cloud.distinct
    size = min(size or SUBSET, len(distinct))
    subset = distinct if 1 < len(distinct) < n else None
    if subset is not None:
        copies = n - len(distinct)
        copied = "1 row is a copy of another" if copies == 1 else f"{copies:,} rows are copies of others"
        notes.append(f"{copied}: the geometries were learned from the {len(distinct):,} distinct rows")
    if len(distinct) == 1 and n > SUBSET:
        subset = np.arange(COPIES)
        notes.append(f"all {n:,} rows are equal: the geometries were learned from {COPIES} of them")
    if cloud.large and size < len(distinct):
        subset = distinct[_chosen(cloud.rows[distinct], size, seed, random)]
        drawn = "most of them drawn at random, so that they show where rows are few, the rest " if random else ""
        notes.append(
            f"the geometries were learned from {size:,} of {len(distinct):,} rows, {drawn}chosen to cover the cloud; "
            "all other rows were placed on these"
        )
    return cloud.changed(subset=subset), notes


def with_many(cloud: Cloud, seed: int, smooth: bool) -> tuple[Cloud, list[str]]:
    """The cloud with the rows that graphs are built on, and a note about it.

    In a large cloud these are all distinct rows, or GRAPH_ROWS of them drawn at random;
    SMOOTH_ROWS if the cloud is a smooth surface, which they resolve. Never fewer than other geometries have.
    """
    distinct = cloud.distinct
    most = SMOOTH_ROWS if smooth else GRAPH_ROWS
    if not cloud.large or len(cloud.learned) >= min(most, len(distinct)):
        return cloud, []
    if len(distinct) <= most:
        return cloud.changed(many=distinct), [f"graphs were built on all {len(distinct):,} distinct rows"]
    drawn = np.sort(np.random.default_rng(seed).choice(distinct, most, replace=False))
    return cloud.changed(many=drawn), [
        f"graphs were built on {most:,} of {len(distinct):,} rows, drawn at random; all others were placed on these"
    ]


def _chosen(rows: np.ndarray, size: int, seed: int, random: bool) -> np.ndarray:
    """Indices of `size` rows, ascending."""
    rng = np.random.default_rng(seed)
    drawn = rng.choice(len(rows), size - size // COVERING, replace=False) if random else None
    missing = np.isnan(rows)
    whole = np.where(missing, np.nanmean(rows, 0), rows) if missing.any() else rows
    return neighbours.cover(whole, size, np.random.default_rng(seed), drawn)


def _key(row: np.ndarray) -> bytes:
    """A short name of a row by its content."""
    return blake2b(row.tobytes(), digest_size=16).digest()


def _are_rows(index: np.ndarray, n: int) -> bool:
    return index.dtype == int and bool(np.all((index >= 0) & (index < n)))
