"""The cloud of a fit: its checked rows, scaled, and the rows among them that geometries are learned from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np

from .. import neighbours
from ..checks import GpumError

SUBSET = 3000  # rows from which geometries are learned: two dimensions of charts, three of atlases in a few minutes
COVERING = 20  # one of so many rows of a random subset is chosen to cover the cloud: no small group is overlooked
LARGEST_ENTRY = 1e100  # of a row never seen, in units of the cloud: what is farther is as far


@dataclass(frozen=True, eq=False)
class Cloud:
    """The rows of a fit, [N, p].

    Attributes
    ----------
    rows : divided by `unit`, NaN where a reading is missing.
    unit : 1 but for extreme numbers, whose squares would not be numbers.
    subset : indices of the rows that geometries are learned from, ascending; None: all.
    """

    rows: np.ndarray
    unit: float
    subset: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def learned(self) -> np.ndarray:
        """The rows that geometries are learned from."""
        return self.rows if self.subset is None else self.rows[self.subset]

    @property
    def X(self) -> np.ndarray:
        """The rows in the units they came in."""
        return self.rows * self.unit

    def scaled(self, X: np.ndarray) -> np.ndarray:
        """Rows X [n, p], seen or not, in the units of `rows`."""
        with np.errstate(over="ignore"):
            return np.clip(X / self.unit, -LARGEST_ENTRY, LARGEST_ENTRY)

    def index(self, rows: np.ndarray) -> np.ndarray:
        """Where scaled rows stand in the cloud, -1 for those that do not, [n]."""
        return np.array([self._first.get(_digest(row), -1) for row in rows], int)

    @cached_property
    def _first(self) -> dict[bytes, int]:
        """Where each row first stands."""
        return {_digest(row): i for i, row in reversed(list(enumerate(self.rows)))}

    def _restored(self) -> None:
        if self.rows.ndim != 2 or self.rows.dtype != float or not self.unit > 0:
            raise GpumError(f"its cloud has shape {self.rows.shape} and the unit {self.unit}")
        subset = self.subset
        if subset is not None and not (subset.ndim == 1 and _are_rows(subset, len(self.rows))):
            raise GpumError("its geometries were learned from rows that are not there")


def choose_subset(rows: np.ndarray, seed: int, random: bool) -> np.ndarray | None:
    """Indices of the rows of a large cloud that geometries are learned from, ascending; None: all of them.

    They cover the cloud. With `random` most of them are drawn instead, so that they show where rows are few.
    """
    if len(rows) <= SUBSET:
        return None
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
