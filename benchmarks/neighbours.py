"""Searches for the ten nearest rows of each row of a large cloud: seconds, recall, megabytes of the installation.

    exact              blocks of float32 products and a second look in float64: what the library uses
    64 directions      the same on the first 64 principal directions, for 50 candidates, which are compared exactly
    pynndescent, hnswlib, faiss   if they are installed (faiss: all distances in float32, and inverted lists)

Recall is the fraction of the true ten neighbours that were found; the truth is that of `exact`. Searches use one thread
unless --threads says otherwise, and compiled programs are warmed up on a few rows.

    python benchmarks/neighbours.py FILE.npz                all rows of X [N, p] in a file
    python benchmarks/neighbours.py FILE.npz --rows 10000   some of them, drawn at random
    python benchmarks/neighbours.py --rows 1000000          a generated cloud of 50 columns: eight curved dimensions
    python benchmarks/neighbours.py FILE.npz --device       the library's search and 256 eigenpairs of the graph, on the
                                                            device that JAX uses and on the processor's cores
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from gpum.basics import large_neighbours, neighbours
from gpum.heat import chebyshev

K, COLUMNS, DIRECTIONS, CANDIDATES, MODES = 10, 50, 64, 50, 256
MANY = 200_000
ADDS = {  # packages that a search needs beside those of the library
    "pynndescent": ("pynndescent", "numba", "llvmlite"),
    "hnswlib": ("hnswlib",),
    "faiss": ("faiss-cpu",),
}
Way = Callable[[np.ndarray, int], np.ndarray]


def generated(n: int) -> np.ndarray:
    """Rows [n, COLUMNS] of eight curved dimensions, with noise."""
    rng = np.random.default_rng(0)
    frame, phase = rng.standard_normal((8, COLUMNS)), rng.uniform(0, 2 * np.pi, COLUMNS)
    return np.sin(rng.uniform(-1, 1, (n, 8)) @ frame + phase) + 0.02 * rng.standard_normal((n, COLUMNS))


def exact(X: np.ndarray, threads: int) -> np.ndarray:
    """The library's search."""
    return large_neighbours.nearest(X, K, n_jobs=threads, device=False)[1]


def projected(X: np.ndarray, threads: int) -> np.ndarray:
    """The library's search on principal directions, and exact distances to the candidates."""
    some = X[np.random.default_rng(0).choice(len(X), min(len(X), 10_000), replace=False)]
    middle = some.mean(0)
    directions = np.linalg.svd(some - middle, full_matrices=False)[2][:DIRECTIONS]
    near = large_neighbours.nearest((X - middle) @ directions.T, CANDIDATES, n_jobs=threads, device=False)[1]
    found = np.empty((len(X), K), int)
    for begin in range(0, len(X), 256):
        block = slice(begin, begin + 256)
        away = np.linalg.norm(X[near[block]] - X[block, None], axis=2)
        found[block] = np.take_along_axis(near[block], np.argsort(away, axis=1)[:, :K], 1)
    return found


def by_pynndescent(X: np.ndarray, threads: int, n: int = K) -> np.ndarray:
    """Descent on a graph of n neighbours, with its default settings."""
    import pynndescent

    found = pynndescent.NNDescent(X.astype(np.float32), n_neighbors=n + 1, n_jobs=threads, random_state=0)
    return found.neighbor_graph[0][:, 1 : K + 1]


def by_hnswlib(X: np.ndarray, threads: int, ef: int = 100) -> np.ndarray:
    """A hierarchical graph with 16 edges a row."""
    import hnswlib

    index = hnswlib.Index(space="l2", dim=X.shape[1])
    index.init_index(max_elements=len(X), ef_construction=ef, M=16, random_seed=0)
    index.set_num_threads(threads)
    index.add_items(X.astype(np.float32))
    index.set_ef(ef)
    return index.knn_query(X.astype(np.float32), K + 1)[0][:, 1:].astype(int)


def by_faiss(X: np.ndarray, threads: int, lists: bool = False) -> np.ndarray:
    """All distances in float32; or inverted lists, of which one in sixteen is searched."""
    import faiss

    faiss.omp_set_num_threads(threads)
    rows = np.ascontiguousarray(X, np.float32)
    index = faiss.IndexFlatL2(rows.shape[1])
    if lists:
        n = int(4 * np.sqrt(len(X)))
        index = faiss.IndexIVFFlat(index, rows.shape[1], n)
        index.train(rows[np.random.default_rng(0).choice(len(X), min(len(X), 64 * n), replace=False)])
        index.nprobe = max(n // 16, 1)
    index.add(rows)
    return index.search(rows, K + 1)[1][:, 1:]


WAYS: dict[str, tuple[str | None, Way]] = {
    "exact": (None, exact),
    "64 directions": (None, projected),
    "pynndescent": ("pynndescent", by_pynndescent),
    "pynndescent, the first 10 of 20": ("pynndescent", lambda X, threads: by_pynndescent(X, threads, 2 * K)),
    "hnswlib": ("hnswlib", by_hnswlib),
    "faiss, exact in float32": ("faiss", by_faiss),
    "faiss, inverted lists": ("faiss", lambda X, threads: by_faiss(X, threads, lists=True)),
}


def megabytes(package: str | None) -> str:
    """What a package and those that it needs take on the disk; "-" where it is not installed."""
    if package is None:
        return "0"
    total = 0
    for name in ADDS[package]:
        try:
            files = metadata.files(name) or []
        except metadata.PackageNotFoundError:
            return "-"
        total += sum(path.stat().st_size for file in files if (path := Path(str(file.locate()))).is_file())
    return f"{total / 1e6:.0f}"


def recall(found: np.ndarray, truth: np.ndarray) -> float:
    """The fraction of true neighbours that were found."""
    return float(np.mean([len(np.intersect1d(a, b)) for a, b in zip(found, truth, strict=True)]) / truth.shape[1])


def compare(X: np.ndarray, threads: int, names: list[str]) -> None:
    """The table."""
    table = Table("search", "s", "processor s", "recall", "MB", title=f"{len(X):,} × {X.shape[1]}, {threads} thread(s)")
    truth = None
    for name in names:
        package, way = WAYS[name]
        if megabytes(package) == "-":
            table.add_row(name, "not installed", "", "", "")
            continue
        way(X[:3000], threads)  # compiles, imports
        begin = time.perf_counter(), time.process_time()
        found = way(X, threads)
        seconds = time.perf_counter() - begin[0], time.process_time() - begin[1]
        truth = found if name == "exact" else truth
        right = "" if truth is None else f"{recall(found, truth):.4f}"
        table.add_row(name, *(f"{s:.1f}" for s in seconds), right, megabytes(package))
    Console(width=120).print(table)


def on_device(X: np.ndarray) -> None:
    """Neighbours and eigenpairs on JAX's device, twice (the first time programs are compiled), and on the processor.

    Of more than MANY rows the neighbours on the device alone.
    """
    import jax

    table = Table("on", "neighbours s", f"{MODES} eigenpairs s", "residual", title=f"{len(X):,} × {X.shape[1]}")
    found: list[Any] = []
    if len(X) > MANY:
        for _ in range(2):
            begin = time.perf_counter()
            large_neighbours.nearest(X, K, device=True)
            print(f"{len(X):,} × {X.shape[1]} on {jax.devices()[0]}: neighbours in {time.perf_counter() - begin:.2f} s")
        return
    for title, device in ((str(jax.devices()[0]), True), ("the same again", True), ("processor", False)):
        begin = time.perf_counter()
        length, index = large_neighbours.nearest(X, K, device=device)
        searched = time.perf_counter()
        graph = neighbours.connected(X, neighbours.symmetric_graph(length, index))[0].tocoo()
        far = length[:, -1]
        graph.data = np.exp(-4 * graph.data / far[graph.row] * graph.data / far[graph.col])
        root = 1 / np.sqrt(np.asarray(graph.sum(1)).ravel())
        graph.data *= root[graph.row] * root[graph.col]
        A = graph.tocsr()
        joined = time.perf_counter()
        pairs = chebyshev.largest(A, MODES, device=device)
        seconds = searched - begin, time.perf_counter() - joined
        table.add_row(title, *(f"{s:.2f}" for s in seconds), f"{pairs.residual:.2g}")
        found.append((index, pairs.values))
    Console(width=120).print(table)
    same = np.mean(found[1][0] == found[2][0])
    print(
        f"same neighbours {same:.6f}, largest difference of eigenvalues {np.abs(found[1][1] - found[2][1]).max():.1e}"
    )


def main() -> None:
    """Reads the arguments."""
    parser = argparse.ArgumentParser(description="Searches for nearest rows.")
    parser.add_argument("file", nargs="?")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", action="store_true")
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    asked = parser.parse_args()
    if asked.file is None:
        X = generated(asked.rows or 1_000_000)
    else:
        with np.load(asked.file) as data:
            X = data["X"]
        if asked.rows is not None and asked.rows < len(X):
            X = X[np.sort(np.random.default_rng(0).choice(len(X), asked.rows, replace=False))]
        X = X / float(np.abs(X).max())
    if asked.device:
        on_device(X)
    else:
        compare(X, asked.threads, asked.ways)


if __name__ == "__main__":
    main()
