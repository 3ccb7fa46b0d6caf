"""Candidates whose kernels have terms besides the one on the surface (`geometry.kernels`).

Geometries, their spaces and the candidates on these know nothing of other columns. Where labels are weighed, each
candidate gets the other terms with TRIED values of their parameters, and each labelled row its columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import qmc

from ..geometry.candidate_set import Candidate, CandidateSet
from ..geometry.kernels import ColumnValues, Kernel
from ..heat.terms import Combined
from .geometries import Geometries
from .relevance import Labelled

TRIED = 6  # values of the parameters of other terms, beside each kernel on the surface
MOST = 500  # candidates until such values are repeated


@dataclass(frozen=True, eq=False)
class WithColumns:
    """Labelled rows of a space, `at` these of its rows, with their columns `values` [n, c] behind."""

    rows: Any
    at: np.ndarray
    values: np.ndarray

    def __len__(self) -> int:
        return len(self.at)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, and numbers of each."""
        return len(self), self.rows.shape[1] + self.values.shape[1]

    def __getitem__(self, index: np.ndarray) -> np.ndarray:
        """Some of the rows, [n, k + c]."""
        return np.concatenate([self.rows[self.at[index]], self.values[index]], 1)


def with_terms(labelled: Labelled, known: np.ndarray) -> Labelled:
    """The candidates with all terms, of labels of the cloud's rows `known`."""
    values, candidate_set = labelled.geometries.cloud.term_values, labelled.candidate_set
    if values is None:
        return labelled
    rows: list[Any] = [None if r is None else WithColumns(r, labelled.at, values[known]) for r in candidate_set.rows]
    candidate_set = replace(with_all(labelled.geometries, candidate_set), rows=rows)
    return replace(labelled, candidate_set=candidate_set, at=np.arange(len(known)))


def with_all(geometries: Geometries, candidate_set: CandidateSet) -> CandidateSet:
    """The candidates with all terms of the kernel that the geometries' task names."""
    cloud, kernels = geometries.cloud, geometries.kernels
    kernel = kernels.options.covariance
    if cloud.of_terms is None or cloud.term_values is None or kernel is None:
        return candidate_set
    at: dict[Any, tuple[int, ...]] = {
        name: tuple(np.searchsorted(cloud.of_terms, columns).tolist()) for name, columns in kernels.columns.items()
    }
    at[None] = tuple(range(len(cloud.of_terms)))
    columns = ColumnValues(cloud.term_values, at)
    return replace(candidate_set, candidates=combined(candidate_set.candidates, kernel, columns))


def combined(candidates: Sequence[Candidate], kernel: Kernel, columns: ColumnValues) -> list[Candidate]:
    """Candidates on surfaces, each with the other terms of a kernel TRIED times; those that have them are unchanged.

    The values are consecutive points of a Halton sequence, so that neighbouring candidates together cover all ranges,
    however many parameters there are.
    """
    make, free, with_terms = kernel.maker(columns), kernel.n_free, []
    each = TRIED if free else 1
    points = np.zeros((each, 0))
    if free:
        halton = qmc.Halton(free, scramble=False)
        halton.fast_forward(1)  # its first point is 0
        points = halton.random(each * min(len(candidates), MOST))
    made = [make(iter(point.tolist())) for point in points]
    for k, candidate in enumerate(candidates):
        if isinstance(candidate.covariance, Combined):
            with_terms.append(candidate)
            continue
        begin = k * each % len(made)
        for term, words in made[begin : begin + each]:
            covariance = Combined(candidate.covariance, term, columns.values.shape[1])
            about, log_prior = {**candidate.about, "terms": words}, candidate.log_prior - float(np.log(each))
            with_terms.append(replace(candidate, covariance=covariance, about=about, log_prior=log_prior))
    return with_terms
