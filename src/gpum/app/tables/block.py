"""What a file gives: named columns of some of its rows, before names are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Block:
    """Rows of a file: names and columns; for text the line at which each row ends.

    index : the column that names the rows; features : those of the data space; advice : what to do about them first;
    all None where the format does not say.
    """

    names: list[str]
    columns: list[np.ndarray]
    lines: list[int] | None = None
    index: str | None = None
    features: list[str] | None = None
    advice: str | None = None

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0


def parts(whole: Block, most: Callable[[int], int]) -> Iterator[Block]:
    """The rows of a file that was read whole, at most so many at a time as `most` says for its columns."""
    size = min(most(len(whole.columns)), max(len(whole), 1))
    for first in range(0, len(whole), size):
        yield replace(whole, columns=[column[first : first + size] for column in whole.columns])
