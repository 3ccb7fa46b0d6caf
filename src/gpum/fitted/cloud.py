"""The cloud of a fit: its checked rows, scaled, and the rows among them that geometries are learned from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b

import numpy as np

from ..basics import neighbours
from ..basics.checks import GpumError

SUBSET = 3000  # rows from which geometries are learned: two dimensions of charts, three of atlases in a few minutes
COVERING = 20  # one of so many rows of a random subset is chosen to cover the cloud: no small group is overlooked
REPEATED = 100  # a table with one copy in so many rows, or more, is one in which rows were observed repeatedly
LARGEST_ENTRY = 1e100  # of a row never seen, in units of the cloud: what is farther is as far


@dataclass(frozen=True, eq=False)
class Cloud:
    """The rows of a fit, [N, p].

    Attributes
    ----------
    X : as they came, NaN where a reading is missing.
    unit : what they are divided by: a number, or one for each column [p].
    rows : the rows in these units.
    subset : indices of the rows that geometries are learned from, ascending; None: all.
    offset : what is subtracted before, 0 or one number for each column [p]: see `scaling.far_offsets`.
    """

    X: np.ndarray
    unit: np.ndarray | float
    subset: np.ndarray | None = None
    offset: np.ndarray | float = 0.0

    def __len__(self) -> int:
        return len(self.X)

    @cached_property
    def rows(self) -> np.ndarray:
        """The rows in units of the fit, [N, p]."""
        return self.centred if np.all(self.unit == 1) else self.centred / self.unit

    @property
    def centred(self) -> np.ndarray:
        """The rows less the offset, [N, p]."""
        return self.X if np.all(self.offset == 0) else self.X - self.offset

    @cached_property
    def original(self) -> np.ndarray:
        """The first row that is the same as each, [N]: its own number, unless it is a copy."""
        return self.index(self.rows)

    @cached_property
    def repeated(self) -> bool:
        """Whether more than a few rows, one in REPEATED, are copies of others."""
        return bool(np.mean(self.original != np.arange(len(self))) > 1 / REPEATED)

    def learned_at(self, index: np.ndarray) -> np.ndarray:
        """Where rows of the cloud stand among those that geometries are learned from, -1 for nowhere; -1 stays."""
        if self.subset is None:
            return index
        position = np.full(len(self), -1)
        position[self.subset] = np.arange(len(self.subset))
        return np.where(index < 0, -1, position[self.original[index]])

    @property
    def learned(self) -> np.ndarray:
        """The rows that geometries are learned from."""
        return self.rows if self.subset is None else self.rows[self.subset]

    @property
    def units(self) -> str:
        """What the columns were divided by, in words."""
        if np.ndim(self.unit) == 0:
            return "as they come"
        return f"each divided by its spread, {np.min(self.unit):.3g} to {np.max(self.unit):.3g}"

    def scaled(self, X: np.ndarray) -> np.ndarray:
        """Rows X [n, p], seen or not, in the units of `rows`."""
        with np.errstate(over="ignore"):
            return np.clip((X - self.offset) / self.unit, -LARGEST_ENTRY, LARGEST_ENTRY)

    def unscaled(self, rows: np.ndarray) -> np.ndarray:
        """Rows [n, p] in the units of `rows`, in those in which X came."""
        return rows * self.unit + self.offset

    def index(self, rows: np.ndarray) -> np.ndarray:
        """Where scaled rows stand in the cloud, -1 for those that do not, [n]."""
        return np.array([self._first.get(_digest(row), -1) for row in rows], int)

    @cached_property
    def _first(self) -> dict[bytes, int]:
        """Where each row first stands."""
        found: dict[bytes, int] = {}
        for i, row in enumerate(self.rows):
            found.setdefault(_digest(row), i)
        return found

    def __gpum_restored__(self) -> None:
        """Refuse what does not fit together."""
        unit = np.asarray(self.unit)
        if self.X.ndim != 2 or self.X.dtype != float or unit.shape not in ((), self.X.shape[1:]):
            raise GpumError(f"its cloud has shape {self.X.shape} and units of shape {unit.shape}")
        if unit.dtype.kind not in "fi" or not np.all(np.isfinite(unit) & (unit > 0)):
            raise GpumError("the units of its columns are not positive numbers")
        offset = np.asarray(self.offset)
        if offset.shape not in ((), self.X.shape[1:]) or offset.dtype.kind not in "fi" or not np.isfinite(offset).all():
            raise GpumError("the offsets of its columns are not numbers")
        subset = self.subset
        if subset is not None and not (subset.ndim == 1 and _are_rows(subset, len(self.X))):
            raise GpumError("its geometries were learned from rows that are not there")


def with_subset(cloud: Cloud, seed: int, random: bool = False) -> tuple[Cloud, list[str]]:
    """The cloud with the rows that geometries are learned from, and what to say of them.

    Copies of a row count once; each keeps its own label. Of more than SUBSET rows some are chosen that cover the cloud;
    with `random` most of them are drawn instead, so that they show where rows are few.
    """
    notes, n = [], len(cloud)
    distinct = np.flatnonzero(cloud.original == np.arange(n))
    subset = distinct if 1 < len(distinct) < n else None
    if subset is not None:
        notes.append(
            f"{n - len(distinct):,} rows are copies of others: the surfaces were learned from the {len(distinct):,} "
            "distinct rows"
        )
    if len(distinct) > SUBSET:
        subset = distinct[_chosen(cloud.rows[distinct], seed, random)]
        drawn = "most of them drawn at random, so that they show where rows are few, the rest " if random else ""
        notes.append(
            f"the surfaces were learned from {SUBSET:,} of {len(distinct):,} rows, {drawn}chosen to cover the cloud; "
            "the others were placed on them"
        )
    return replace(cloud, subset=subset), notes


def _chosen(rows: np.ndarray, seed: int, random: bool) -> np.ndarray:
    """Indices of SUBSET rows, ascending."""
    rng = np.random.default_rng(seed)
    drawn = rng.choice(len(rows), SUBSET - SUBSET // COVERING, replace=False) if random else None
    missing = np.isnan(rows)
    whole = np.where(missing, np.nanmean(rows, 0), rows) if missing.any() else rows
    return neighbours.cover(whole, SUBSET, np.random.default_rng(seed), drawn)


def _are_rows(index: np.ndarray, n: int) -> bool:
    return index.dtype == int and bool(np.all((index >= 0) & (index < n)))


def _digest(row: np.ndarray) -> bytes:
    """A row in 16 bytes: no two different rows have the same."""
    return blake2b(row.tobytes(), digest_size=16).digest()
