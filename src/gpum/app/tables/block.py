"""What a file gives: named columns of some of its rows, before names are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from gpum.tools import could_be_number


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


def named_block(header: Sequence[str], columns: Sequence[np.ndarray | None], lines: list[int] | None = None) -> Block:
    """A block of the columns that are not None, under the names of a header, as far as it has names."""
    names, used = names_of(header), [k for k, column in enumerate(columns) if column is not None]
    advice = _renamed([header[k] for k in used], [names[k] for k in used])
    return Block([names[k] for k in used], [column for column in columns if column is not None], lines, advice=advice)


def names_of(header: Sequence[str]) -> list[str]:
    """Names of columns: one without a name is called by its place, the second of two equal names has a (2) behind it.

    Where all names are numbers, the header is missing, and they remain as they are.
    """
    names = [name.strip() for name in header]
    if not any(names) or all(could_be_number(name) for name in names if name):
        return names
    found: list[str] = []
    for place, name in enumerate(names, 1):
        others = (f"{name} ({k})" if name else f"column {k}" for k in count(2 if name else place))
        new = not name or name in found
        found.append(next(other for other in others if other not in (*found, *names)) if new else name)
    return found


def _renamed(header: Sequence[str], names: Sequence[str]) -> str | None:
    """A sentence about columns whose names are not those of the header; None if there is none."""
    pairs = [(old.strip(), name) for old, name in zip(header, names, strict=True) if old.strip() != name]
    said = [f"a second {old!r} is {name!r}" if old else f"one without a name is {name!r}" for old, name in pairs]
    if not said:
        return None
    return f"columns were named by their place ({'; '.join(said)}): other tables need them at the same place, or names"


def parts(whole: Block, most: Callable[[int], int]) -> Iterator[Block]:
    """The rows of a file that was read whole, at most so many at a time as `most` says for its columns."""
    size = min(most(len(whole.columns)), max(len(whole), 1))
    for first in range(0, len(whole), size):
        yield replace(whole, columns=[column[first : first + size] for column in whole.columns])
