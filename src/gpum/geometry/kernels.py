"""Kernel objects, for `kernel=` of the estimators: terms on the surface and on named columns, their sums and products.

    Surface() * Heat("time")                 positions on a surface that change with time
    Surface() + Periodic("hour", 24)         the same daily course everywhere, beside what differs along the surface
    Matern(0.8)                              a kernel of another smoothness on the surface
    Surface() + Linear()                     a linear trend in all columns: `mean="linear"`

Columns that a term names are no part of the surface: geometries are learned from the other columns. A term without
columns is on the surface. What is not given (length scales, the shares of a sum in the variance) is weighed by the
labels, as scales on the surface are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..basics import checks, neighbours
from ..basics.checks import GpumError
from ..heat.spectra import name_of
from ..heat.terms import LinearOf, OfColumns, OfSurface, PeriodicOf, ProductOf, SumOf, Term

SHORTEST = 0.02  # length scales of columns are at least so much of their extent
LONGEST = 2.0
OF_PERIOD = (0.3, 3.0)  # length scales of periodic kernels
LARGEST_SHARE = 100.0  # of the variance of one term of a sum over that of another, and one over it
SMOOTHEST = 30.0  # ν from which Bessel functions are no numbers

Name = str | int
# From numbers between 0 and 1, one for each parameter that is not given, to a term and what it is in words.
Maker = Callable[[Iterator[float]], tuple[Term, str]]


@dataclass(frozen=True, eq=False)
class ColumnValues:
    """The values [N, c] of columns in the rows of a cloud, and which of them each name means."""

    values: np.ndarray
    at: Mapping[Name | None, tuple[int, ...]]  # None: all


class Kernel(ABC):
    """A term, or several: `*` and `+` make products and sums."""

    def __mul__(self, other: Any) -> Product:
        return Product((*_terms(Product, self), *_terms(Product, _kernel(other, "multiplied"))))

    def __add__(self, other: Any) -> Sum:
        return Sum((*_terms(Sum, self), *_terms(Sum, _kernel(other, "added"))))

    def __repr__(self) -> str:
        given = [(getattr(self, f.name), f.default) for f in fields(self)]  # type: ignore[arg-type]
        while given and given[-1][0] == given[-1][1]:
            given.pop()
        return f"{type(self).__name__}({', '.join(repr(value) for value, _ in given)})"

    @property
    def leaves(self) -> list[Kernel]:
        """The single terms of which it is made."""
        return [self]

    @property
    def names(self) -> list[Name]:
        """The columns that its terms name, each once."""
        return list(dict.fromkeys(name for leaf in self.leaves for name in getattr(leaf, "_named", ())))

    @property
    def on_surface(self) -> bool:
        """Whether it is a single term on the surface."""
        return False

    @property
    def n_free(self) -> int:
        """How many parameters the labels weigh."""
        return 0

    @abstractmethod
    def maker(self, columns: ColumnValues) -> Maker:
        """What makes its terms, given the columns of a cloud."""


@dataclass(frozen=True, repr=False)
class Surface(Kernel):
    """The kernel on the surface, of the smoothness that the estimator's `smoothness` says."""

    @property
    def on_surface(self) -> bool:
        """It is."""
        return True

    def maker(self, columns: ColumnValues) -> Maker:
        """See `Kernel`."""
        return lambda _: (OfSurface(), "surface")


class WithColumns(Kernel):
    """A kernel that may name columns: one, or a tuple of several; None: it names none."""

    columns: Name | Sequence[Name] | None

    def __post_init__(self) -> None:
        names = self._named
        object.__setattr__(self, "columns", None if not names else names[0] if len(names) == 1 else names)

    @property
    def _named(self) -> tuple[Name, ...]:
        return () if self.columns is None else _names(self.columns)


class OnColumns(WithColumns):
    """A stationary kernel on the surface or, where columns are named, of these."""

    length_scale: float | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length_scale is not None:
            checks.positive(self.length_scale, "length_scale", "None lets the labels weigh it")
            if self.columns is None:
                raise GpumError(
                    f"length_scale is {self.length_scale:g}, but no column is named: length scales on surfaces are "
                    "weighed by the labels; name columns, or leave it out"
                )

    @property
    def nu(self) -> float:
        """The smoothness."""
        raise NotImplementedError

    @property
    def on_surface(self) -> bool:
        """Whether no column is named."""
        return self.columns is None

    @property
    def n_free(self) -> int:
        """The length scale, where columns are named and it is not given."""
        return int(self.columns is not None and self.length_scale is None)

    def maker(self, columns: ColumnValues) -> Maker:
        """See `Kernel`."""
        if self.columns is None:
            return lambda _: (OfSurface(), "surface")
        at = tuple(k for name in self._named for k in columns.at[name])
        rows = np.unique(columns.values[:, at], axis=0)
        extent = max(float(neighbours.extent(rows)), 1e-300) if len(rows) > 1 else 1.0
        spacing = float(neighbours.spacing(rows).mean()) if len(rows) > 1 else 1.0
        ends = (min(max(spacing, SHORTEST * extent), extent), LONGEST * extent)
        words = f"{name_of(self.nu)} of {', '.join(map(str, self._named))}"

        def made(draws: Iterator[float]) -> tuple[Term, str]:
            scale = _between(ends, draws) if self.length_scale is None else float(self.length_scale)
            return OfColumns(at, self.nu, scale), f"{words} at {scale:.3g}"

        return made


@dataclass(frozen=True, repr=False)
class Heat(OnColumns):
    """The heat kernel, that of infinitely smooth functions: on the surface or, where columns are named, of these.

    Parameters
    ----------
    columns : a name or a number of a column, counted from 0, or several in one unit; None: the surface.
    length_scale : of columns, in their unit; None: the labels weigh several.
    """

    columns: Name | Sequence[Name] | None = None
    length_scale: float | None = None

    @property
    def nu(self) -> float:
        """Infinite."""
        return float("inf")


@dataclass(frozen=True, repr=False)
class Matern(OnColumns):
    """A Matérn kernel: on the surface or, where columns are named, of these.

    Parameters
    ----------
    smoothness : ν, above 0 and at most 30: 0.5 is rough, 2.5 smooth; `Heat` is the limit of large ones.
    columns : a name or a number of a column, counted from 0, or several in one unit; None: the surface.
    length_scale : of columns, in their unit; None: the labels weigh several.
    """

    smoothness: float
    columns: Name | Sequence[Name] | None = None
    length_scale: float | None = None

    def __post_init__(self) -> None:
        checks.positive(self.smoothness, "smoothness", "0.5, 1.5 and 2.5 are usual")
        if self.smoothness > SMOOTHEST:
            raise GpumError(f"smoothness is {self.smoothness:g}, and at most {SMOOTHEST:g}; use Heat(), its limit")
        super().__post_init__()

    @property
    def nu(self) -> float:
        """The smoothness."""
        return float(self.smoothness)


@dataclass(frozen=True, repr=False)
class Periodic(Kernel):
    """The periodic kernel of a column, exp(-2 sin²(π(t - t')/period)/length_scale²).

    Parameters
    ----------
    column : its name or number, counted from 0.
    period : in its unit, such as 24 for hours; or several, which the labels weigh.
    length_scale : relative to period/2π where it is short; None: the labels weigh several.
    """

    column: Name
    period: float | Sequence[float]
    length_scale: float | None = None

    def __post_init__(self) -> None:
        if len(named := _names(self.column)) != 1:
            raise GpumError(f"column must be one column, got {self.column!r}; add or multiply a term for each")
        object.__setattr__(self, "column", named[0])
        periods = tuple(self.period) if np.iterable(self.period) else (self.period,)
        if not periods:
            raise GpumError("period is an empty sequence; give a number such as 24")
        for period in periods:
            checks.positive(period, "period", "it is in the unit of the column")
        object.__setattr__(self, "period", tuple(map(float, periods)) if len(periods) > 1 else float(periods[0]))
        if self.length_scale is not None:
            checks.positive(self.length_scale, "length_scale", "None lets the labels weigh it")

    @property
    def _named(self) -> tuple[Name, ...]:
        return (self.column,)

    @property
    def n_free(self) -> int:
        """The length scale, and the period, where they are not given."""
        return int(self.length_scale is None) + int(isinstance(self.period, tuple))

    def maker(self, columns: ColumnValues) -> Maker:
        """See `Kernel`."""
        at = columns.at[self.column]
        if len(at) != 1:
            raise GpumError(f"column {self.column!r} is a category, and has no period; name a column of numbers")
        periods = self.period if isinstance(self.period, tuple) else (float(self.period),)  # type: ignore[arg-type]

        def made(draws: Iterator[float]) -> tuple[Term, str]:
            scale = _between(OF_PERIOD, draws) if self.length_scale is None else float(self.length_scale)
            period = periods[int(next(draws) * len(periods))] if len(periods) > 1 else periods[0]
            return PeriodicOf(at[0], period, scale), f"period {period:.3g} of {self.column} at {scale:.3g}"

        return made


@dataclass(frozen=True, repr=False)
class Linear(WithColumns):
    """A linear trend; its coefficients are integrated out, with a normal prior.

    Parameters
    ----------
    columns : names or numbers of columns, counted from 0; None: all columns, which stay those of the surface.
    """

    columns: Name | Sequence[Name] | None = None

    def maker(self, columns: ColumnValues) -> Maker:
        """See `Kernel`."""
        names = self._named or (None,)
        at = tuple(k for name in names for k in columns.at[name])
        values = columns.values[:, at]
        spread = values.std(0)
        used = spread > 1e-12 * np.abs(values).max(0)
        if not used.any():
            raise GpumError("all columns of Linear() are constant, so that there is no trend; leave it out")
        at, spread = tuple(np.array(at)[used].tolist()), spread[used] * np.sqrt(used.sum())
        term = LinearOf(at, values[:, used].mean(0), spread)
        words = f"linear in {'all columns' if self.columns is None else ', '.join(map(str, self._named))}"
        return lambda _: (term, words)


@dataclass(frozen=True, repr=False)
class Several(Kernel):
    """Terms together."""

    terms: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        for term in self.terms:
            _kernel(term, "together")

    @property
    def leaves(self) -> list[Kernel]:
        """The single terms of which it is made."""
        return [leaf for term in self.terms for leaf in term.leaves]

    @property
    def n_free(self) -> int:
        """How many parameters the labels weigh."""
        return sum(term.n_free for term in self.terms)


@dataclass(frozen=True, repr=False)
class Product(Several):
    """A product of terms: what is similar is so in each of them."""

    def __repr__(self) -> str:
        return " * ".join(f"({term!r})" if isinstance(term, Sum) else repr(term) for term in self.terms)

    def maker(self, columns: ColumnValues) -> Maker:
        """See `Kernel`."""
        makers = [term.maker(columns) for term in self.terms]

        def made(draws: Iterator[float]) -> tuple[Term, str]:
            terms, words = zip(*(make(draws) for make in makers), strict=True)
            bracketed = [f"({w})" if isinstance(t, SumOf) else w for t, w in zip(terms, words, strict=True)]
            return ProductOf(terms), " * ".join(bracketed)

        return made


@dataclass(frozen=True, repr=False)
class Sum(Several):
    """A sum of terms: functions that are added. The labels weigh the share of each in the variance."""

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.terms))

    @property
    def n_free(self) -> int:
        """Those of the terms, and all shares but one."""
        return super().n_free + len(self.terms) - 1

    def maker(self, columns: ColumnValues) -> Maker:
        """See `Kernel`."""
        makers = [term.maker(columns) for term in self.terms]

        def made(draws: Iterator[float]) -> tuple[Term, str]:
            terms, words = zip(*(make(draws) for make in makers), strict=True)
            ratios = [1.0, *(_between((1 / LARGEST_SHARE, LARGEST_SHARE), draws) for _ in terms[1:])]
            shares = tuple(ratio / sum(ratios) for ratio in ratios)
            return SumOf(terms, shares), " + ".join(f"{v:.0%} {w}" for v, w in zip(shares, words, strict=True))

        return made


def of_surface(kernel: Kernel) -> str | None:
    """The smoothness of a kernel on the surface, by name; None: that of the estimator's `smoothness`."""
    terms = list(dict.fromkeys(leaf for leaf in kernel.leaves if leaf.on_surface))
    if not terms:
        raise GpumError(f"kernel is {kernel!r}, which has no term on the surface; add or multiply Surface()")
    if len(terms) > 1:
        raise GpumError(
            f"kernel has {' and '.join(map(repr, terms))}, which are all on the surface, and it can have one of them; "
            "name the columns of the others"
        )
    return name_of(terms[0].nu) if isinstance(terms[0], OnColumns) else None


def _between(ends: tuple[float, float], draws: Iterator[float]) -> float:
    """A number between two ends, in equal ratios."""
    return float(ends[0] * (ends[1] / ends[0]) ** next(draws))


def _terms(kind: type, kernel: Kernel) -> tuple[Kernel, ...]:
    """Terms of a sum of sums, or of a product of products, are those of one."""
    return kernel.terms if isinstance(kernel, kind) and isinstance(kernel, Several) else (kernel,)


def _kernel(other: Any, what: str) -> Kernel:
    if not isinstance(other, Kernel):
        raise GpumError(f"a kernel was {what} with {other!r}; use kernels of gpum.kernels, such as Heat('time')")
    return other


def _names(given: Any) -> tuple[Name, ...]:
    """Names or numbers of columns as a tuple."""
    names = (given,) if isinstance(given, str) or not np.iterable(given) else tuple(given)
    integer = lambda name: isinstance(name, int | np.integer) and not isinstance(name, bool)
    if not names or not all(isinstance(name, str) or (integer(name) and name >= 0) for name in names):
        raise GpumError(f"columns must be names, or numbers from 0, of columns of X, got {given!r}; give these")
    return tuple(dict.fromkeys(name if isinstance(name, str) else int(name) for name in names))
