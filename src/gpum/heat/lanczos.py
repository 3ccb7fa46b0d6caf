"""The one solver of spectra: the lowest eigenpairs of K u = λ M u.

Both matrices are sparse and symmetric, K is positive semi-definite, M positive definite.

    A = K + sM           s > 0, the shift; A⁻¹M has eigenvalues ν = 1/(λ + s), the largest for the lowest λ
    Z [n, 1]             the constant, known beforehand; connected components are solved one by one
    Q = [Q_1 Q_2 ...]    QᵀMQ = I, QᵀMZ = 0; blocks of BLOCK columns, each A⁻¹M times the last one, made orthogonal
    T = QᵀM A⁻¹M Q       its eigenpairs (ν, y) are those of A⁻¹M as the blocks grow; the residual is |R y_last|

A shift far above the requested eigenvalues makes all their ν equal to 1/s, and no iteration can distinguish them; one
far below does no harm, since the zero mode is removed exactly. How low the eigenvalues are depends on the shape of
the domain (in a long and thin one, 1e-10 of the mean eigenvalue), so the shift is searched for: Ritz values bound
eigenvalues from above, and the shift is lowered to them until it is no longer above.

SciPy's `eigsh` with such a shift took eleven to fifteen times the processor time (100 and 200 pairs of an atlas of
7 400 nodes): it multiplies one vector after the other, and until SciPy 1.17 one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, eigh
from scipy.sparse import csc_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import SuperLU, splu

from ..basics.checks import NoSurface
from ..basics.workers import one_blas_thread

BLOCK = 8  # columns: matrices are multiplied instead of vectors, with few more columns in all
RESIDUAL = 1e-6  # |A⁻¹Mu - νu| / ν: eigenvalues are then exact to its square over their relative gap
REACHED = 1e-3  # a pair with a larger residual is not returned: its λ + s may be wrong by as much
MOST = (4, 10)  # the most columns: so many for each requested pair, plus so many blocks
FIRST = 1e-4  # the first shift, over the mean eigenvalue
LOOK = 8 * BLOCK  # columns after which the shift is checked
CHECK = 2 * BLOCK  # and after which the residual is
SHIFTS = 20  # checks of the shift, at most
ABOVE = 4.0  # a shift is low enough if it is at most so many times the requested eigenvalues (the first BLOCK of them)
ROUNDING = 1e-14  # least shift, over the mean eigenvalue: below it A would be singular in float64
LOW = 1e-8  # a λ below so many times the shift has lost half of its digits
HIGHER = 10.0  # factor by which a shift is raised that was too low for the factorisation
ADVICE = "leave out rows far from all others, or name other geometries"
DENSE = 200  # unknowns, up to which a dense solver is faster


@dataclass(frozen=True)
class Lowest:
    """λ [k], ascending, u [n, k] with uᵀMu = I, the largest residual, and how many components K's graph has.

    `missing` requested pairs were not reached; neither they nor any higher pair are returned.
    """

    values: np.ndarray
    vectors: np.ndarray
    residual: float
    n_connected_components: int
    missing: int = 0


def lowest(K: csr_matrix, M: csr_matrix, k: int) -> Lowest:
    """The k lowest eigenpairs, each 0 but on one connected component of K's graph.

    Where the solver does not reach all pairs of a component, higher pairs of all components are left out.
    """
    n_components, component = connected_components(K, directed=False)
    nodes = np.split(np.argsort(component, kind="stable"), np.cumsum(np.bincount(component))[:-1])
    most = max(k - n_components + 1, 1)  # of one component: the others have a constant each
    solved = [_of_component(K[rows][:, rows], M[rows][:, rows], most) for rows in nodes]
    values = np.concatenate([pairs.values for pairs in solved])
    owner = np.repeat(np.arange(n_components), [len(pairs.values) for pairs in solved])
    last = min((pairs.values[-1] for pairs in solved if pairs.missing), default=np.inf)
    order = np.argsort(values, kind="stable")[: min(k, K.shape[0])]
    order = order[values[order] <= last]
    missing = min(k, K.shape[0]) - len(order)
    vectors = np.zeros((K.shape[0], len(order)))
    first = 0
    for number, (rows, pairs) in enumerate(zip(nodes, solved, strict=True)):
        columns = np.flatnonzero(owner[order] == number)
        vectors[np.ix_(rows, columns)] = pairs.vectors[:, order[columns] - first]
        first += len(pairs.values)
    return Lowest(values[order], vectors, max(pairs.residual for pairs in solved), n_components, missing)


def _of_component(K: csr_matrix, M: csr_matrix, k: int) -> Lowest:
    """The k lowest eigenpairs on a connected graph; the iteration ends after as many columns as MOST allows."""
    n = K.shape[0]
    k = min(k, n)
    constant = np.full((n, 1), M.sum() ** -0.5)
    if k == 1:
        return Lowest(np.zeros(1), constant, 0.0, 1)
    if n < DENSE or k + 2 * BLOCK > 0.4 * n:
        values, vectors = _dense(K.toarray(), M.toarray(), k)
        return Lowest(np.append(0.0, values), np.concatenate([constant, vectors], 1), 0.0, 1)
    with one_blas_thread:  # its products are small, and lose by threads on a busy machine
        values, vectors, residual = _iterate(K.tocsc(), M.tocsc(), constant, k - 1)
    there = int(np.argmax(residual > REACHED)) if np.any(residual > REACHED) else len(values)
    if not there:
        raise NoSurface(
            f"none of the {k} eigenfunctions of the surface was found (residual {residual[0]:.2g}): its lengths differ "
            f"by too many orders of magnitude; {ADVICE}"
        )
    values, vectors = np.append(0.0, values[:there]), np.concatenate([constant, vectors[:, :there]], 1)
    return Lowest(values, vectors, float(residual[:there].max()), 1, k - len(values))


def _dense(K: np.ndarray, M: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k lowest eigenpairs without the constant one, without iteration.

    Solvers are exact to rounding of the largest eigenvalue, which may be 1e18 times the requested ones where two nodes
    are close. So ν of M u = ν (K + sM) u is solved for, with a shift not far above the requested λ.
    """
    mean = float(np.trace(K) / np.trace(M))
    shift, best = FIRST * mean, None
    for _ in range(SHIFTS):
        try:
            nu, u = eigh(M, K + shift * M, subset_by_index=(len(K) - k, len(K) - 1))
        except LinAlgError:  # to rounding, K + sM is not positive definite
            if best is not None:
                break
            shift *= HIGHER
            continue
        values = np.maximum(1 / nu[::-1] - shift, 0.0)[1:]
        best = values, u[:, ::-1][:, 1:]
        if values[0] >= LOW * shift or shift <= ROUNDING * mean:
            break
        shift = max(float(values[0]), ROUNDING * mean)
    if best is None:
        raise NoSurface(f"the eigenfunctions of the surface were not found: its matrices are singular; {ADVICE}")
    values, u = best
    return values, u / np.sqrt(np.sum(u * (M @ u), 0))


def _iterate(K: csc_matrix, M: csc_matrix, Z: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The k lowest eigenpairs orthogonal to Z, and the residual of each."""
    mean = float(K.diagonal().sum() / M.diagonal().sum())
    most = min(MOST[0] * k + MOST[1] * BLOCK, len(Z) - Z.shape[1] - BLOCK)
    shift, block = FIRST * mean, np.random.default_rng(0).standard_normal((len(Z), BLOCK))
    for _ in range(SHIFTS):
        space = _Krylov(K, M, Z, shift, block, most)
        space.grow(min(LOOK, most))
        values, turn, _ = space.ritz(BLOCK)
        lower = float(values[min(k, BLOCK) - 1])
        if lower >= shift / ABOVE or shift <= ROUNDING * mean or space.shift > shift:
            break
        shift, block = max(lower, ROUNDING * mean), space.Q @ turn
    width = 2 * k + 4 * BLOCK
    while True:
        space.grow(min(width, most))
        values, turn, residual = space.ritz(k)
        if residual.max() < RESIDUAL or width >= most:
            return values, space.Q @ turn, residual
        width += CHECK


def factors(A: csc_matrix) -> SuperLU:
    """LU of a sparse symmetric positive definite matrix."""
    return splu(A.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})


def _solver(K: csc_matrix, M: csc_matrix, shift: float) -> tuple[Callable[[np.ndarray], np.ndarray], float]:
    """A solver for K + sM, and s: the shift, or the least of HIGHER, HIGHER² … times it that is not too low.

    Where a very narrow link connects a domain, rounding makes A singular above ROUNDING of its mean eigenvalue.
    """
    while True:
        try:
            return factors(K + shift * M).solve, shift
        except RuntimeError:  # SuperLU: "Factor is exactly singular"
            if shift > K.diagonal().sum() / M.diagonal().sum():
                raise
            shift *= HIGHER


class _Krylov:
    """The Krylov space of one shift: Q and T as the module defines them."""

    def __init__(
        self, K: csc_matrix, M: csc_matrix, Z: np.ndarray, shift: float, block: np.ndarray, most: int
    ) -> None:  # fmt: skip
        self._solve, self.shift = _solver(K, M, shift)
        self._M, self._Z = M, Z
        self._room, self._width = np.empty((len(Z), most + BLOCK), order="F"), 0
        self._T = np.zeros((most + BLOCK,) * 2)
        self._next = self._normal(self._apart(self._normal(block)))

    @property
    def Q(self) -> np.ndarray:
        return self._room[:, : self._width]

    def _apart(self, W: np.ndarray) -> np.ndarray:
        """W without its component in the span of Z and Q."""
        W = W - self._Z @ (self._Z.T @ (self._M @ W))
        return W - self.Q @ (self.Q.T @ (self._M @ W))

    def _normal(self, W: np.ndarray) -> np.ndarray:
        w, V = eigh(W.T @ (self._M @ W))
        return W @ (V / np.sqrt(np.maximum(w, 1e-28 * w[-1])))

    def grow(self, width: int) -> None:
        """Add blocks until Q has `width` columns or more."""
        while self._width < width:
            last = slice(self._width, self._width + BLOCK)
            self._room[:, last] = self._next
            self._width += BLOCK
            near = slice(
                max(self._width - 2 * BLOCK, 0), self._width
            )  # in exact arithmetic W is orthogonal to the others
            W = self._solve(self._M @ self._next)
            inner = self.Q[:, near].T @ (self._M @ W)
            self._T[near, last] = inner
            self._T[last, near] = inner.T
            W = self._apart(W - self.Q[:, near] @ inner)
            self._over = W.T @ (self._M @ W)  # RᵀR of W = Q_next R
            self._next = self._normal(self._normal(W))

    def ritz(self, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The k lowest λ, their vectors' coordinates in Q [width, k], and the residual of each, relative to ν."""
        w = self._width
        nu, y = eigh(self._T[:w, :w], subset_by_index=(w - k, w - 1))
        nu, y = nu[::-1], y[:, ::-1]
        over = np.sqrt(np.maximum(np.sum(y[-BLOCK:] * (self._over @ y[-BLOCK:]), 0), 0.0))
        return np.maximum(1 / nu - self.shift, 0.0), y, over / nu
