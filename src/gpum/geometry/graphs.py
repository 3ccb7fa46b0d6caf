"""Eigenpairs of graphs on a point cloud: the numerics of the graph comparison methods.

    x_i       the cloud, [N, p]
    w_ij      affinities, q_i = Σ_j w_ij
    W_ij      w_ij / (q_i q_j): the sampling density is divided out
    D_i       Σ_j W_ij
    A         D^{-1/2} W D^{-1/2} = U diag(α) Uᵀ; I - A is the symmetric normalised Laplacian
    φ_i       D^{-1/2} U_i, eigenfunctions of the random walk D⁻¹W: φ_0 is constant. Features of the points.
    μ_i       (1 - α_i)/τ, τ the time of one step of the walk: eigenvalues of the (negative) Laplacian

Graph Matérn (Borovitskiy et al. 2021) has edges to the k nearest neighbours only, symmetrised and connected:

    w_ij = exp(-|x_i - x_j|² / 2(width h)²),   τ = ½ mean squared step,   h the largest distance to a nearest neighbour

so that μ are eigenvalues of Δ/q on a q-dimensional surface. GL (Dunson et al. 2021; the paper's appendix G with
errata 5) has all pairs, each point with itself too:

    w_ij = exp(-|x_i - x_j|² / 4ε²),   τ = ε²,   heat kernel Σ_{i<K} e^{-μ_i t} φ_i φ_iᵀ for ∂K/∂t = ΔK

normalisation="authors": φ_i has mean square 1; their code calls ε² the bandwidth. normalisation="paper": the mean is
weighted by 1/(number of points within ε), which estimates ∫φ_i² = 1 up to a constant. `covariances.Spectral` has
∂K/∂t = ½ΔK: its scale² is twice the t of GL.

Rows never seen (`geometry.features`): GL extends by Nyström, φ_i(x) = α_i⁻¹ Σ_j P(x, x_j) φ_i(x_j), P ∝ w(x, x_j)/q_j,
which is exact on the cloud. The kNN graph takes φ(x) = Σ_j a_j φ(x_j) over the k nearest (`manifold.surface.between`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from math import log
from typing import Any

import numpy as np
from scipy.linalg import eigh
from scipy.sparse import csr_matrix, diags_array, identity
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from scipy.spatial.distance import cdist

from ..basics import large_neighbours
from ..basics.checks import GpumError, NoSurface
from ..basics.neighbours import connected, nearest, spanning_tree, symmetric_graph
from ..basics.workers import results
from ..heat import chebyshev
from ..heat.lanczos import factors, lowest
from ..persistence.store import Store, digest
from .base import InDataSpace
from .candidate_set import CandidateSet, spectral_candidates, unreached
from .features import LARGE, DiffusionSpace, GraphSpace
from .options import KernelTask

OF_SURFACES, OF_CLUSTERS = "surface", "clusters"  # kinds of graphs: `graph_spaces`, `cluster_spaces`
FIRST_GRAPH: dict[str, Any] = {"n_neighbors": (10,), "widths": (1.0,)}  # where there is one: options of `graph_spaces`
NEIGHBOURS = (4, 6, 10, 15)
WIDTHS = (0.5, 1.0, 2.0, np.inf)
MODES = 256  # of a kNN graph with more than ALL rows
ALL = 1000
LARGE_NEIGHBOURS = (10,)  # of such a graph: rows are dense, and each further graph costs as much as the first
LARGE_WIDTHS = (0.5, 1.0)
PAIRS = (3, 5, 7, 10, 15, 20, 30, 50, 100)  # K of GL
BANDWIDTHS = 10
BANDWIDTH_RANGE = (0.3, 1.0)  # of the widest gap: the affinity across it is 6 % (less: nearly disconnected) to 78 %
CONNECTED = 1e-6  # of the last eigenvalue: a graph or a domain whose second eigenvalue is below is nearly disconnected
SPARE = 20  # least number of additional vectors of a solver; half as many as eigenpairs is faster than its default
FAINT = 1e-12  # least affinity along an edge
BRIDGE = 1e-4  # the same for classes: with less, distant clusters are disconnected, and no mode distinguishes them
EXTENDS = 0.05  # least α of a GL eigenpair: Nyström divides by it
LEAST = 1e-6  # least α of the second pair, which is always used
FEW = 64  # edges per row above which products with A are cheaper than solving with it; so is
FILL = 300  # numbers per row in the factors
DENSE = 2000  # rows up to which eigenpairs are found without iteration, except those of a thin graph
THIN = 80  # numbers per row in its factors
RESIDUAL = 0.01  # of an eigenvalue, asked of the eigenfunctions of a large graph
ALL_MODES = 0.9  # of the last mode at the smallest scale: how many modes a graph has is part of the model

Made = tuple[GraphSpace, np.ndarray | None]  # a graph, and the block of vectors with which a similar one begins


@dataclass(eq=False)
class GraphGeometry(InDataSpace):
    """Graphs of neighbours as a geometry: one space for each graph, of its eigenvectors."""

    spaces: Sequence[Any]
    name: str = "graph"
    title: str = "graph of neighbours"

    def __gpum_state__(self) -> dict[str, Any]:
        """What a model file holds."""
        return {"spaces": [], "name": self.name, "title": self.title}  # those of weight are stored by themselves

    def built(self, task: KernelTask) -> tuple[GraphGeometry, CandidateSet]:
        """Itself, and one space a graph."""
        members, notes = [], []
        for space in self.spaces:
            about = ", ".join(f"{name}={value}" for name, value in space.info.items())
            notes += unreached(f"{self.title} ({about})", space)
            notes += _about_large(f"{self.title} ({about})", space)
            candidates = spectral_candidates(
                space.values, space.vectors, 0.0, task.smoothness, -log(len(self.spaces)),
                task.options.max_time, ALL_MODES, np.inf, about=space.info,
            )  # fmt: skip
            members.append((space, space.vectors, candidates))
        return self, CandidateSet.of(members, notes)


def _about_large(title: str, space: Any) -> list[str]:
    """Notes about a graph of many rows."""
    notes = []
    if getattr(space, "residual", 0.0) > RESIDUAL:
        notes.append(
            f"{title}: its eigenfunctions have residuals of up to {space.residual:.2g} of their eigenvalues, where "
            f"{RESIDUAL:g} was asked for; the least smooth of them are inexact"
        )
    if len(space.vectors) > LARGE and space.n_connected_components > 1:
        notes.append(
            f"{title}: it had {space.n_connected_components:,} connected components, which were joined by the shortest "
            "edges between them"
        )
    return notes


def graph_space(
    X: np.ndarray, joined: tuple[csr_matrix, int], k: int, width: float, n_modes: int | None,
    n_jobs: int | None = 1, first: np.ndarray | None = None,
) -> Made:  # fmt: skip
    """One graph with k neighbours: its first n_modes eigenpairs, None: all.

    `joined` is the connected graph, and how many connected components it had.
    """
    graph, n_components = joined
    edges = graph.tocoo()
    real = edges.data > np.finfo(float).tiny  # the others join duplicates
    h = 1.0
    if real.any():
        nearest = np.full(len(X), np.inf)
        np.minimum.at(nearest, edges.row[real], edges.data[real])
        h = float(nearest[np.isfinite(nearest)].max())
    w = np.maximum(np.exp(-0.5 * (edges.data / (width * h)) ** 2), FAINT)
    affinity = csr_matrix((w, (edges.row, edges.col)), shape=graph.shape)
    pairs = _eigenfunctions(affinity, n_modes, n_jobs=n_jobs, first=first)
    alpha, phi, W = pairs.alpha, pairs.phi, pairs.W
    squares = csr_matrix((edges.data**2, (edges.row, edges.col)), shape=graph.shape)
    time = 0.5 * float(W.multiply(squares).sum() / W.sum()) or 1.0
    phi *= (1 / np.sqrt(np.mean(phi**2, 0, dtype=float))).astype(phi.dtype)
    info = {"n_neighbors": k, "width": width}
    values, missing = np.maximum(1 - alpha, 0.0) / time, _asked(X, n_modes) - len(alpha)
    return GraphSpace(X, values, phi.astype(np.float32), info, missing, pairs.residual, n_components), pairs.block


def graph_spaces(
    X: np.ndarray, n_neighbors: Sequence[int] | None = None, widths: Sequence[float] | None = None,
    n_jobs: int | None = -1, store: Store | None = None,
) -> list[GraphSpace]:  # fmt: skip
    """Candidates for graph Matérn: every number of neighbours with every width, without nearly disconnected graphs.

    By default NEIGHBOURS and WIDTHS (LARGE_NEIGHBOURS and LARGE_WIDTHS above LARGE rows), and all eigenpairs for up to
    ALL rows, else MODES.
    """
    widths = tuple(widths or (LARGE_WIDTHS if len(X) > LARGE else WIDTHS))
    spaces = _made(X, n_neighbors, "graph", widths, n_jobs, store or Store())
    gaps = np.array([space.values[1] / space.values[-1] for space in spaces])
    return [space for space, gap in zip(spaces, gaps, strict=True) if gap >= min(CONNECTED, gaps.max())]


def cluster_spaces(
    X: np.ndarray, n_neighbors: Sequence[int] | None = None, n_jobs: int | None = -1, store: Store | None = None
) -> list[GraphSpace]:  # fmt: skip
    """Graphs for classes, one for each number of neighbours: borders between classes run where rows are few.

    So the density is not divided out, and each row has its own width: w_ij = exp(-4 |x_i - x_j|²/(d_i d_j)), d_i the
    distance to its farthest neighbour (Zelnik-Manor and Perona 2004).
    """
    return _made(X, n_neighbors, "cluster graph", (), n_jobs, store or Store())


def _made(
    X: np.ndarray, n_neighbors: Sequence[int] | None, kind: str, widths: tuple[float, ...], n_jobs: int | None,
    store: Store,
) -> list[GraphSpace]:  # fmt: skip
    """The graphs with these numbers of neighbours, ascending; those that are not in the store are made in parallel.

    Large graphs are made one after another: each uses all cores, and begins with the eigenvectors of the one before.
    """
    usual, cloud, n_modes = LARGE_NEIGHBOURS if len(X) > LARGE else NEIGHBOURS, digest(X), _modes(X)
    asked = sorted({min(k, len(X) - 1) for k in n_neighbors or usual})
    keys = {k: (f"{kind} {k}", cloud, k, widths, n_modes) for k in asked}
    missing = [k for k in asked if store.get(keys[k], list) is None]
    tasks: list[Callable[..., Made]] = []
    for k, graph, farthest in _neighbour_graphs(X, missing, n_jobs) if missing else ():
        if widths:
            tasks += [partial(graph_space, X, graph, k, width, n_modes) for width in widths]
        else:
            tasks.append(partial(_cluster_space, X, k, graph, farthest))
    made = _one_by_one(tasks, n_jobs) if len(X) > LARGE else (space for space, _ in results(tasks, n_jobs))
    without_rows = (replace(space, cloud=X[:0]) for space in made)
    for k in missing:
        store.once(keys[k], lambda: list(islice(without_rows, len(widths) or 1)), list)
    return [replace(space, cloud=X) for k in asked for space in store.get(keys[k], list) or ()]


def _one_by_one(tasks: Iterable[Callable[..., Made]], n_jobs: int | None) -> Iterator[GraphSpace]:
    block = None
    for task in tasks:
        space, block = task(n_jobs=n_jobs, first=block)
        yield space


def _neighbour_graphs(
    X: np.ndarray, n_neighbors: Sequence[int], n_jobs: int | None
) -> Iterator[tuple[int, tuple[csr_matrix, int], np.ndarray]]:
    """Each number of neighbours, its connected graph with how many components it had, and the farthest distances [N].

    The neighbours of a large cloud are searched for once, for the largest number.
    """
    asked = sorted(n_neighbors)
    nearest_rows = large_neighbours.nearest(X, asked[-1], n_jobs=n_jobs) if len(X) > LARGE else None
    for k in asked:
        length, index = nearest(X, k) if nearest_rows is None else (nearest_rows[0][:, :k], nearest_rows[1][:, :k])
        yield k, connected(X, symmetric_graph(length, index)), length[:, -1]


def _cluster_space(
    X: np.ndarray, k: int, joined: tuple[csr_matrix, int], farthest: np.ndarray, n_jobs: int | None = 1,
    first: np.ndarray | None = None,
) -> Made:  # fmt: skip
    edges = joined[0].tocoo()
    least = max(1e-100 * float(edges.data.max()), np.finfo(float).tiny)  # among duplicates; ratios must not overflow
    width = np.maximum(farthest, least)
    w = np.maximum(np.exp(-4 * (edges.data / width[edges.row]) * (edges.data / width[edges.col])), BRIDGE)
    affinity = csr_matrix((w, (edges.row, edges.col)), shape=(len(X), len(X)))
    n_modes = _modes(X)
    pairs = _eigenfunctions(affinity, n_modes, even=False, n_jobs=n_jobs, first=first)
    alpha, phi = pairs.alpha, pairs.phi
    phi *= (1 / np.sqrt(np.mean(phi**2, 0, dtype=float))).astype(phi.dtype)
    info, missing = {"n_neighbors": k, "width": "local"}, _asked(X, n_modes) - len(alpha)
    vectors = phi.astype(np.float32)
    return GraphSpace(X, np.maximum(1 - alpha, 0.0), vectors, info, missing, pairs.residual, joined[1]), pairs.block


def diffusion_space(
    X: np.ndarray, bandwidth: float, n_pairs: int | None = None, normalisation: str = "paper",
    squares: np.ndarray | None = None,
) -> DiffusionSpace:  # fmt: skip
    """GL of a cloud [N, p], N ≥ 2, at bandwidth ε; all its eigenpairs with α ≥ EXTENDS, or the first n_pairs of them.

    `squares` are the squared distances [N, N], if known; beyond DENSE rows affinities below FAINT count as none.
    """
    if normalisation not in ("paper", "authors"):
        raise GpumError(f'normalisation is {normalisation!r}; use "paper" or "authors".')
    if squares is None and len(X) > DENSE:
        reach = 2 * bandwidth * float(np.sqrt(-np.log(FAINT)))
        from sklearn.neighbors import NearestNeighbors

        w = NearestNeighbors(radius=reach).fit(X).radius_neighbors_graph(mode="distance")
        near = np.bincount(w.nonzero()[0][w.data <= bandwidth], minlength=len(X)) + 1
        w.data = np.exp(-((w.data / (2 * bandwidth)) ** 2))
        w.setdiag(1.0)
    else:
        squares = cdist(X, X, "sqeuclidean") if squares is None else squares
        near = np.sum(squares <= bandwidth**2, 1)
        w = np.exp(-squares / (4 * bandwidth**2))
    pairs = _eigenfunctions(w, n_pairs)
    alpha, phi, degree = pairs.alpha, pairs.phi, pairs.q
    missing = _asked(X, n_pairs) - len(alpha)
    n_pairs = max(int(np.sum(alpha >= EXTENDS)), min(2, len(alpha)))
    alpha, phi = np.maximum(alpha[:n_pairs], LEAST), phi[:, :n_pairs]
    weight = np.ones(len(X)) if normalisation == "authors" else 1 / near
    phi *= 1 / np.sqrt(weight @ phi**2 / weight.sum())
    info = {"bandwidth": float(bandwidth), "n_pairs": len(alpha), "normalisation": normalisation}
    values = np.maximum(1 - alpha, 0.0) / bandwidth**2
    return DiffusionSpace(X, values, phi, degree, near, float(bandwidth), info, missing)


def diffusion_spaces(X: np.ndarray, normalisation: str = "paper") -> list[DiffusionSpace]:
    """Candidates for GL: every bandwidth with every number of eigenpairs."""
    squares = cdist(X, X, "sqeuclidean")
    spaces = []
    for bandwidth in bandwidth_grid(X):
        full = diffusion_space(X, bandwidth, min(max(PAIRS), len(X)), normalisation, squares)
        spaces += [full.first(k) for k in sorted({min(k, len(full.values)) for k in PAIRS})]
    return spaces


def bandwidth_grid(X: np.ndarray, n: int = BANDWIDTHS) -> np.ndarray:
    """Bandwidths ε relative to the widest gap: the longest edge of the cloud's minimum spanning tree."""
    gap = float(spanning_tree(X, 10)[1].max())
    gap = gap if gap > np.finfo(float).tiny else 1.0
    return gap * np.geomspace(*BANDWIDTH_RANGE, n)


def _modes(X: np.ndarray) -> int:
    """How many eigenpairs of the graphs on a cloud are used."""
    return len(X) if len(X) <= ALL else MODES


def _asked(X: np.ndarray, n_modes: int | None) -> int:
    """The number of requested eigenpairs of a graph on a cloud."""
    return len(X) if n_modes is None else min(n_modes, len(X))


@dataclass(frozen=True)
class _Eigenfunctions:
    """Largest eigenvalues α [k], descending, eigenfunctions φ [N, k], W and q of affinities w [N, N].

    There are fewer pairs than requested where a solver did not reach them all. Above LARGE rows all are there, in
    float32, with their largest residual and the block of vectors with which a similar graph begins.
    """

    alpha: np.ndarray
    phi: np.ndarray
    W: Any
    q: np.ndarray
    residual: float
    block: np.ndarray | None


def _eigenfunctions(
    w: Any, n_modes: int | None, even: bool = True, n_jobs: int | None = 1, first: np.ndarray | None = None
) -> _Eigenfunctions:  # fmt: skip
    """The eigenfunctions of affinities w [N, N]; even=False leaves the density of the rows in W."""
    N = w.shape[0]
    k = N if n_modes is None else min(n_modes, N)
    q = np.asarray(w.sum(1)).ravel()
    W = _scaled(w, 1 / q) if even else w
    degree = np.asarray(W.sum(1)).ravel()
    root = 1 / np.sqrt(degree)
    residual, block = 0.0, None
    sparse = not isinstance(w, np.ndarray)
    thin = sparse and ALL < N <= LARGE and _thin(W, THIN if N <= DENSE else FILL)
    if (N <= DENSE and not thin) or k > N // 2:
        A = _scaled(W, root)
        A = A if isinstance(A, np.ndarray) else A.toarray()
        # NumPy's lets other threads run, SciPy's need not compute all pairs
        alpha, U = np.linalg.eigh(A) if k == N else eigh(A, subset_by_index=(N - k, N - 1))
        alpha, U = alpha[::-1], U[:, ::-1] * root[:, None]
    elif N > LARGE and sparse:
        pairs = chebyshev.largest(_scaled(W, root), k, n_jobs, first)
        alpha, U = pairs.values.copy(), pairs.vectors * root.astype(np.float32)[:, None]
        residual, block = pairs.residual, pairs.block
    elif thin:
        D = csr_matrix(diags_array(degree))
        lowest_pairs = lowest(D - W, D, k)
        alpha, U = 1 - lowest_pairs.values, lowest_pairs.vectors
    else:
        try:
            alpha, U = eigsh(_scaled(W, root), k, which="LA", v0=np.ones(N), ncv=min(k + max(k // 2, SPARE), N))
        except ArpackNoConvergence as error:
            alpha, U = error.eigenvalues, error.eigenvectors
            if len(alpha) < 2:
                raise NoSurface(f"the eigenvectors of a graph of {N} rows were not found: {error}") from error
        order = np.argsort(alpha)[::-1]
        alpha, U = alpha[order], U[:, order] * root[:, None]
    signs = np.where(U[np.abs(U).argmax(0), np.arange(U.shape[1])] < 0, -1.0, 1.0)
    U *= signs.astype(U.dtype)  # signs do not depend on the solver
    alpha = np.minimum(alpha, 1.0)
    alpha[0] = 1.0
    return _Eigenfunctions(alpha, U, W, q, residual, block)


def _thin(W: csr_matrix, fill: int) -> bool:
    """Whether factors of the graph's Laplacian are small: the graph of a surface is, that of a solid is not."""
    N = W.shape[0]
    return W.nnz <= FEW * N and factors(identity(N, format="csc") - 0.5 * W / W.sum(1).max()).nnz <= fill * N


def _scaled(w: Any, s: np.ndarray) -> Any:
    """diag(s) w diag(s)."""
    if isinstance(w, np.ndarray):
        return s[:, None] * w * s
    S = diags_array(s)
    return (S @ w @ S).tocsr()
